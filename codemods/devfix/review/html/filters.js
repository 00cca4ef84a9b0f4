// Which findings are shown.

const chosen = { codemod: new Set(), safety: new Set(), verdict: new Set(), decision: new Set() };
const LABELS = { none: 'no fix', nothing: 'nothing to decide' };
let words = [];
let visible = findings.map(() => true);
const facetCounts = [];

const decisionOf = (number) => (decidable(number) ? decisions.get(number) || 'undecided' : 'nothing');
const verdictOf = (finding) => finding.verdict.split(':')[0] || 'not run';
const facetOf = {
  codemod: (number) => findings[number].codemod,
  safety: (number) => findings[number].safety,
  verdict: (number) => verdictOf(findings[number]),
  decision: decisionOf,
};

const haystacks = new Map();
function haystack(number) {
  if (!haystacks.has(number)) {
    const { message, title, codemod, scope, code, file } = findings[number];
    haystacks.set(number, [files[file].name, codemod, message, title, scope, code].join('\n').toLowerCase());
  }
  return haystacks.get(number);
}

function matches(number) {
  for (const [facet, values] of Object.entries(chosen)) {
    if (values.size && !values.has(facetOf[facet](number))) return false;
  }
  return words.every((word) => haystack(number).includes(word));
}

// What is filtered stays where it is while decisions are made; only a new filter looks again.
function filter() {
  visible = findings.map((_, number) => matches(number));
  const count = visible.filter(Boolean).length;
  const all = count === findings.length;
  byId('shown').textContent = all ? '' : `${count} of ${plural(findings.length, 'finding')} shown.`;
  byId('clear').hidden = all;
  showFilter();
  showBulk();
}

function clearFilters() {
  for (const values of Object.values(chosen)) values.clear();
  words = [];
  byId('text').value = '';
  for (const box of byId('facets').querySelectorAll('input')) box.checked = false;
  filter();
}

function search(text) {
  byId('text').value = text;
  words = text.toLowerCase().split(/\s+/).filter(Boolean);
  filter();
}

function only(facet, value) {
  clearFilters();
  const box = [...byId('facets').querySelectorAll('input')].find((one) => one.name === facet && one.value === value);
  if (box) box.click();
}

function buildFacets() {
  const titles = { codemod: 'Codemod', safety: 'Safety', verdict: 'Smoke test', decision: 'Decision' };
  const order = ['safe', 'unsafe', 'manual', 'none', 'undecided', 'accepted', 'rejected', 'nothing'];
  for (const [facet, title] of Object.entries(titles)) {
    const values = [...new Set(findings.map((_, number) => facetOf[facet](number)))];
    if (facet === 'decision') values.splice(0, values.length, 'undecided', 'accepted', 'rejected', 'nothing');
    if (values.length < 2) continue;
    values.sort((a, b) => order.indexOf(a) - order.indexOf(b) || a.localeCompare(b));
    const set = make('fieldset', { class: 'facet' }, make('legend', {}, title));
    for (const value of values) {
      const count = make('span', { class: 'count' });
      const box = make('input', { type: 'checkbox', name: facet, value });
      box.addEventListener('change', () => {
        if (box.checked) chosen[facet].add(value);
        else chosen[facet].delete(value);
        filter();
      });
      facetCounts.push([facet, value, count]);
      set.append(make('label', { class: value }, box, make('span', {}, LABELS[value] || value), count));
    }
    byId('facets').append(set);
  }
  countFacets();
}

// Of decisions again and again, of all else once.
function countFacets() {
  for (const [facet, value, count] of facetCounts) {
    if (facet !== 'decision' && count.textContent) continue;
    count.textContent = findings.filter((_, number) => facetOf[facet](number) === value).length;
  }
}
