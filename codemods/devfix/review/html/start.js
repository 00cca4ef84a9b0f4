// The tree, the switches, the keys; and then everything begins.

const entryOf = new Map();

function buildTree() {
  const root = { folders: new Map(), files: [] };
  files.forEach((file, number) => {
    const parts = file.name.split('/');
    const leaf = parts.pop();
    let at = root;
    for (const part of parts) {
      if (!at.folders.has(part)) at.folders.set(part, { folders: new Map(), files: [] });
      at = at.folders.get(part);
    }
    at.files.push([leaf, number]);
  });
  const roomy = files.length <= 80;
  const listOf = (node, depth) => {
    const list = make('ul', {});
    for (let [name, inner] of node.folders) {
      while (!inner.files.length && inner.folders.size === 1) {
        const [[part, only]] = inner.folders;
        [name, inner] = [`${name}/${part}`, only];
      }
      const box = make('details', { open: roomy || depth < 1 }, make('summary', {}, `${name}/`));
      const fillBox = () => box.childElementCount > 1 || box.append(listOf(inner, depth + 1));
      if (roomy || depth < 1) fillBox();
      else box.addEventListener('toggle', fillBox);
      box.node = inner;
      list.append(make('li', {}, box));
    }
    for (const [leaf, number] of node.files) {
      const entry = make('a', { href: `#file-${number}` }, make('span', {}, leaf), make('span', { class: 'count' }));
      entryOf.set(number, entry);
      list.append(make('li', {}, entry));
      countFile(number);
    }
    return list;
  };
  byId('tree').append(listOf(root, 0));
}

function filterTree() {
  for (const [number, entry] of entryOf) entry.parentElement.hidden = sections[number].hidden;
  const some = (node) => node.files.some(([, number]) => !sections[number].hidden) || [...node.folders.values()].some(some);
  for (const box of byId('tree').querySelectorAll('details')) box.parentElement.hidden = !some(box.node);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId('theme').value = name;
  remember('devfix:theme', name);
}

function nextTheme() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
  const now = byId('theme').value || (dark ? 'dark' : 'light');
  setTheme(now === 'dark' ? 'light' : 'dark');
}

function setView(two) {
  split = two;
  remember('devfix:view', split ? 'split' : 'one');
  byId('view').setAttribute('aria-pressed', String(split));
  redraw();
  if (current !== null) setCurrent(current);
}

const isFix = (number) => decidable(number);
const ends = (direction) => say(direction > 0 ? 'That was the last one.' : 'That was the first one.');
const keys = {
  j: () => step(1, isFix) || ends(1),
  k: () => step(-1, isFix) || ends(-1),
  n: () => step(1, () => true) || ends(1),
  p: () => step(-1, () => true) || ends(-1),
  a: () => decideCurrent('accepted'),
  r: () => decideCurrent('rejected'),
  A: () => decideAlikeCurrent('accepted'),
  R: () => decideAlikeCurrent('rejected'),
  u: undo,
  s: () => setView(!split),
  e: save,
  t: nextTheme,
  '/': () => {
    openSide(true);
    byId('text').focus();
    byId('text').select();
  },
  '?': () => byId('help').showModal(),
};

function openSide(wanted) {
  byId('side').classList.toggle('on', wanted);
  byId('open-side').setAttribute('aria-expanded', String(wanted));
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches('input[type=search], input[type=file], select, textarea');
  if (typing) {
    if (event.key === 'Escape' && target === byId('text')) {
      target.blur();
      openSide(false);
    }
    return;
  }
  const action = keys[event.key];
  if (!action || !byId('keys-on').checked) return;
  event.preventDefault();
  action();
});

let typed;
byId('text').addEventListener('input', (event) => {
  clearTimeout(typed);
  typed = setTimeout(() => search(event.target.value), 120);
});
byId('filters').addEventListener('submit', (event) => {
  event.preventDefault();
  search(byId('text').value);
  openSide(false);
  step(1, () => true);
});
byId('keys-on').checked = recall('devfix:keys') !== 'off';
byId('keys-on').addEventListener('change', (event) => remember('devfix:keys', event.target.checked ? 'on' : 'off'));
byId('clear').addEventListener('click', clearFilters);
byId('undo').addEventListener('click', undo);
byId('view').addEventListener('click', () => setView(!split));
byId('theme').addEventListener('change', (event) => setTheme(event.target.value));
byId('help-button').addEventListener('click', keys['?']);
byId('export').addEventListener('click', save);
byId('export-end').addEventListener('click', save);
byId('import').addEventListener('change', (event) => load(event.target));
byId('open-side').addEventListener('click', () => openSide(!byId('side').classList.contains('on')));
byId('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(byId('command').textContent);
    say('Copied.');
  } catch (error) {
    window.getSelection().selectAllChildren(byId('command'));
    say('Press Ctrl+C to copy.');
  }
});
document.addEventListener('click', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const link = /** @type {HTMLAnchorElement} */ (target.closest('a[href^="#"]'));
  // Where the hash would not change, nothing else happens; an editor keeps it from changing.
  if (link && (editor || link.hash === window.location.hash)) go(link.hash);
  if (link?.closest('nav')) openSide(false);
  const { codemod, folder } = target.dataset;
  if (codemod) only('codemod', codemod);
  if (folder) search(folder);
  if (codemod || folder) say(byId('shown').textContent || 'Everything is shown.');
});
// What is copied from a diff is code: the lines with their indentation, without numbers and signs.
document.addEventListener('copy', (event) => {
  const chosen = window.getSelection();
  const found = [...document.querySelectorAll('.diff td.code')].filter((cell) => chosen.containsNode(cell, true) && !cell.classList.contains('empty'));
  if (new Set(found.map((cell) => cell.parentElement)).size < 2) return;
  const same = found.filter((cell) => cell.cellIndex === found[0].cellIndex);
  const codeOf = (cell) => [...cell.childNodes].filter((node) => !node.matches?.('.sign, .unseen, .owners')).map((node) => node.textContent).join('');
  event.clipboardData.setData('text/plain', same.map((cell) => `${cell.dataset.indent || ''}${codeOf(cell)}`).join('\n'));
  event.preventDefault();
});
small.addEventListener('change', () => redraw());
window.addEventListener('hashchange', () => go(window.location.hash));
window.addEventListener('beforeunload', (event) => {
  if (!storage && !exported && decisions.size) event.preventDefault();
});

if (editor) {
  for (const id of ['export', 'export-end']) byId(id).textContent = 'Apply';
  byId('command').closest('li').hidden = true;
}
const editorTheme = () => (document.body.matches('.vscode-dark, .vscode-high-contrast') ? 'dark' : 'light');
setTheme(recall('devfix:theme') || (editor ? editorTheme() : ''));
byId('unkept').hidden = Boolean(storage);
byId('view').setAttribute('aria-pressed', String(split));
buildList();
buildTree();
buildFacets();
filter();
count();
if (decisions.size) say(`${plural(decisions.size, 'decision')} of an earlier visit ${decisions.size === 1 ? 'is' : 'are'} kept.`);
go(window.location.hash);
document.documentElement.dataset.ready = '';
