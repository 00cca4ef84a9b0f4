// Accept, reject, undo; all at once; out as a file and in again.

let hiding;
function say(text) {
  byId('say').textContent = text;
  byId('say').classList.add('on');
  clearTimeout(hiding);
  hiding = setTimeout(() => byId('say').classList.remove('on'), 4000);
}

function changed(numbers) {
  exported = false;
  keep();
  const touched = new Set();
  const asked = new Set(numbers);
  for (const box of document.querySelectorAll('.card, [data-part]')) {
    const number = Number(box.dataset.part || box.id.slice('fix-'.length));
    if (asked.has(number)) showDecision(number, box);
  }
  for (const number of numbers) {
    touched.add(findings[number].file);
    for (const [file] of findings[number].also) touched.add(file);
  }
  redraw(touched);
  touched.forEach(countFile);
  count();
}

function decide(numbers, what) {
  const before = new Map(numbers.map((number) => [number, decisions.get(number)]));
  past.push(before);
  for (const number of numbers) {
    if (what) decisions.set(number, what);
    else decisions.delete(number);
  }
  changed(numbers);
}

// A fix and all that say the same, but for those that were decided one by one.
function decideAlike(number, what) {
  setCurrent(number, false);
  const numbers = allLike(number).filter((one) => one === number || !decisions.has(one));
  decide(numbers, what);
  say(`${plural(numbers.length, 'fix', 'fixes')} ${what}. Undo: u`);
}

function decideAlikeCurrent(what) {
  if (current === null || !decidable(current)) say('Go to a fix first: j');
  else {
    decideAlike(current, what);
    step(1, (number) => decidable(number) && !decisions.has(number));
  }
}

// By keyboard: the decision, and on to the next finding that wants one.
function decideCurrent(what) {
  if (current === null || !decidable(current)) {
    say(current === null ? 'Go to a fix first: j' : 'There is nothing to decide here.');
    return;
  }
  if (decisions.get(current) === what) {
    decide([current], null);
    return;
  }
  decide([current], what);
  const open = (number) => decidable(number) && !decisions.has(number);
  if (!step(1, open) && !toDecide.some(open)) say('Everything is decided. Export: e');
}

function undo() {
  const before = past.pop();
  if (!before) {
    say('There is nothing to undo.');
    return;
  }
  for (const [number, decision] of before) {
    if (decision) decisions.set(number, decision);
    else decisions.delete(number);
  }
  changed([...before.keys()]);
  const [first] = before.keys();
  if (visible[first]) setCurrent(first);
  say(before.size === 1 ? `Undone: #${first + 1}` : `Undone: ${before.size} decisions`);
}

function count() {
  const accepted = [...decisions.values()].filter((what) => what === 'accepted').length;
  const all = toDecide.length;
  const left = all - decisions.size;
  byId('counter').textContent = all ? `${decisions.size} of ${all} decided: ${accepted} accepted, ${decisions.size - accepted} rejected` : 'Nothing to decide';
  const meter = document.querySelector('.meter');
  meter.querySelector('.accepted').style.width = `${all ? (100 * accepted) / all : 0}%`;
  meter.querySelector('.rejected').style.width = `${all ? (100 * (decisions.size - accepted)) / all : 0}%`;
  byId('undo').disabled = !past.length;
  byId('left').textContent = left ? `${plural(left, 'fix is', 'fixes are')} still undecided and would not be made.` : 'Everything is decided.';
  byId('command').textContent = `${data.command} --decisions decisions.json ${data.paths}`;
  countFacets();
  showBulk();
}

// What is shown and undecided, for all at once.
const undecided = () => toDecide.filter((number) => visible[number] && !decisions.has(number));

function showBulk() {
  const numbers = undecided();
  byId('bulk').hidden = !numbers.length || toDecide.length < 2;
  const shown = visible.every(Boolean) ? 'undecided' : 'undecided and shown';
  const kinds = ['safe', 'unsafe'].map((kind) => [kind, numbers.filter((number) => findings[number].safety === kind)]);
  byId('bulk').replaceChildren(
    ...kinds
      .filter(([, mine]) => mine.length)
      .map(([kind, mine]) => make('span', {}, `${plural(mine.length, `${kind} fix is`, `${kind} fixes are`)} ${shown}: `, button('Accept', kind, 'accepted'), ' ', button('Reject', kind, 'rejected'))),
  );
  function button(name, kind, what) {
    const made = make('button', { type: 'button', 'aria-label': `${name} all ${kind} fixes that are ${shown}` }, `${name} all`);
    made.addEventListener('click', () => decideAll(kind, what));
    return made;
  }
}

function decideAll(kind, what) {
  const numbers = undecided().filter((number) => findings[number].safety === kind);
  decide(numbers, what);
  say(`${plural(numbers.length, 'fix', 'fixes')} ${what}. Undo: u`);
}

function save() {
  const { accepted, rejected } = keep();
  const text = `${JSON.stringify({ 'devfix-decisions': 1, files: data.digests, accepted, rejected }, null, 1)}\n`;
  exported = true;
  if (editor) {
    editor.postMessage({ decisions: text });
    return;
  }
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = make('a', { href: url, download: 'decisions.json' });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  const left = toDecide.length - decisions.size;
  say(`decisions.json: ${accepted.length} accepted, ${rejected.length} rejected${left ? `, ${left} undecided` : ''}. Next: ${byId('command').textContent}`);
}

async function load(input) {
  const [file] = input.files;
  if (!file) return;
  try {
    const found = JSON.parse(await file.text());
    if (found['devfix-decisions'] !== 1) throw new Error('it has no decisions of version 1');
    const other = Object.entries(found.files || {}).filter(([path, digest]) => (data.digests[path] || digest) !== digest);
    const before = new Map(toDecide.map((number) => [number, decisions.get(number)]));
    take(found);
    const numbers = toDecide.filter((number) => decisions.get(number) !== before.get(number));
    past.push(new Map(numbers.map((number) => [number, before.get(number)])));
    changed(numbers);
    say(`${plural(numbers.length, 'decision')} loaded${other.length ? `; ${plural(other.length, 'file')} changed since they were made` : ''}.`);
  } catch (error) {
    say(`${file.name} could not be loaded: ${/** @type {Error} */ (error).message}`);
  }
  input.value = '';
}
