// The files and their hunks. A page may have thousands: each is made when it comes near the window.

const sections = [];
const bodies = new Map(); // file -> its data, once it was needed
const opened = new Set(); // files that are made
const KEEP = 12; // files that stay made when they are far away

function bodyOf(file) {
  if (!bodies.has(file)) bodies.set(file, JSON.parse(byId(`body-${file}`).textContent));
  return bodies.get(file);
}

const nearFile = new IntersectionObserver(
  (seen) => {
    for (const entry of seen) {
      const file = Number(entry.target.dataset.file);
      if (entry.isIntersecting) openFile(file);
      else if (opened.size > KEEP) closeFile(file);
    }
  },
  { rootMargin: '1500px 0px' },
);
const nearHunk = new IntersectionObserver(
  (seen) => {
    for (const entry of seen) if (entry.isIntersecting) fill(entry.target);
  },
  { rootMargin: '1000px 0px' },
);

function buildList() {
  const parts = [];
  files.forEach((file, number) => {
    const slash = file.name.lastIndexOf('/') + 1;
    const title = make('h2', { id: `name-${number}` }, make('span', { class: 'folder' }, file.name.slice(0, slash)), file.name.slice(slash));
    const section = make('section', { class: 'file', id: `file-${number}`, tabindex: '-1', 'data-file': number, 'aria-labelledby': `name-${number}` }, make('header', {}, title, make('p', { class: 'count' })), make('div', { class: 'hunks' }));
    section.style.setProperty('--rows', file.rows);
    sections.push(section);
    parts.push(section);
    nearFile.observe(section);
  });
  byId('list').append(...parts);
}

function openFile(file) {
  if (opened.has(file)) return;
  opened.add(file);
  const { hunks, notes } = bodyOf(file);
  const section = sections[file];
  const box = section.querySelector('.hunks');
  box.style.minHeight = '';
  const shells = hunks.map((hunk, at) => {
    const shell = make('article', { class: 'hunk', 'data-file': file, 'data-hunk': at, 'aria-label': hunkName(hunk) });
    shell.style.setProperty('--rows', isContext(hunk) ? 0 : Math.max(hunk.see[1] - hunk.see[0], hunk.cards.length * 11));
    shell.hidden = !hunkVisible(hunk);
    return shell;
  });
  box.replaceChildren(...notes.map((note) => make('p', { class: 'problem' }, note)), ...shells);
  section.classList.add('open');
  shells.slice(0, 4).forEach(fill);
  for (const shell of shells.slice(4)) nearHunk.observe(shell);
  countFile(file);
}

function closeFile(file) {
  const section = sections[file];
  if (!opened.has(file) || section.contains(document.activeElement) || (current !== null && findings[current].file === file)) return;
  const box = section.querySelector('.hunks');
  box.style.minHeight = `${box.offsetHeight}px`;
  for (const shell of box.children) nearHunk.unobserve(shell);
  box.replaceChildren();
  section.classList.remove('open');
  opened.delete(file);
  bodies.delete(file);
}

function hunkName(hunk) {
  const [from, to] = hunk.open || hunk.see;
  const lines = to - from > 1 ? `lines ${hunk.no + from} to ${hunk.no + to - 1}` : `line ${hunk.no + from}`;
  if (!hunk.lines.length) return hunk.blocks.length ? 'new file' : '';
  return hunk.cell ? `cell ${hunk.cell}, ${lines}` : lines;
}

// Make the inside of a hunk, if it is not there.
function fill(shell) {
  if (shell.childElementCount) return;
  nearHunk.unobserve(shell);
  const hunk = bodyOf(Number(shell.dataset.file)).hunks[Number(shell.dataset.hunk)];
  if (isContext(hunk)) {
    foldContext(shell, hunk);
    return;
  }
  const head = make('h3', {}, make('span', { class: 'lines' }, hunkName(hunk)), hunk.scope && make('code', {}, hunk.scope));
  const notes = make('div', { class: 'notes' }, ...hunk.cards.map(card), ...hunk.parts.map((number) => part(number, hunk)));
  shell.append(head, make('div', { class: 'code-side' }), notes);
  if (!hunk.lines.length && !hunk.blocks.length) shell.classList.add('bare');
  draw(shell, hunk);
  showCards(shell, hunk);
}

// Lines that a finding only points at: folded, since the finding quotes them.
const isContext = (hunk) => !hunk.cards.length && !hunk.blocks.length;

function foldContext(shell, hunk) {
  const names = hunk.parts.map((number) => `#${number + 1}`).join(', ');
  const side = make('div', { class: 'code-side' });
  const box = make('details', {}, make('summary', {}, make('span', { class: 'lines' }, hunkName(hunk)), `: what led to ${names}`), side);
  box.addEventListener('toggle', () => box.open && !side.childElementCount && draw(shell, hunk));
  shell.classList.add('context');
  shell.append(box);
}

function draw(shell, hunk) {
  const side = shell.querySelector('.code-side');
  const folded = side.closest('details');
  if (folded && !folded.open) {
    side.replaceChildren(); // drawn when it is opened
    return;
  }
  const file = Number(shell.dataset.file);
  const at = Number(shell.dataset.hunk);
  const [from, to] = hunk.open || hunk.see;
  const more = (count, text, range) => {
    const button = make('button', { type: 'button', class: 'more' }, `${text} ${plural(count, 'line')}`);
    button.addEventListener('click', () => {
      hunk.open = range;
      draw(shell, hunk);
      shell.querySelector('.lines').textContent = hunkName(hunk);
    });
    return button;
  };
  const table = diffOf(file, hunk, shifts(bodyOf(file).hunks)[at]);
  const above = from > 0 && hunk.lines.length ? more(from, '↑', [0, to]) : null;
  const rest = hunk.lines.length - to;
  const below = rest > 0 ? more(rest, '↓', [from, hunk.lines.length]) : null;
  side.replaceChildren(...[above, table, below].filter(Boolean), ...elsewhere(file, hunk));
  if (current !== null) showMine(shell);
}

const owns = (hunk, number) => hunk.blocks.some((block) => block.owners.flat().includes(number));

// What the fixes of this hunk's findings change in other files, and in other hunks where they change nothing here:
// beside each finding stands its diff.
function elsewhere(file, hunk) {
  const shownOf = (number, other) => {
    const { hunks } = bodyOf(other);
    const shift = shifts(hunks);
    return hunks.filter((one) => owns(one, number)).map((one) => {
      const where = [files[other].name, hunkName(one)].filter(Boolean).join(', ');
      const link = one.lines.length ? make('a', { href: `#line-${other}-${one.at + one.see[0]}` }, where) : where;
      return make('div', { class: 'elsewhere' }, make('p', {}, `#${number + 1} changes `, link), diffOf(other, one, shift[hunks.indexOf(one)], false));
    });
  };
  const filesOf = (number) => [...(owns(hunk, number) ? [] : [file]), ...findings[number].also.map(([other]) => other)];
  return hunk.cards.flatMap((number) => filesOf(number).flatMap((other) => shownOf(number, other)));
}

// Draw again what has been drawn of some files (of all, without an argument).
function redraw(wanted = opened) {
  for (const file of wanted) {
    if (!opened.has(file)) continue;
    const { hunks } = bodyOf(file);
    for (const shell of sections[file].querySelectorAll('.hunk')) {
      if (shell.childElementCount) draw(shell, hunks[Number(shell.dataset.hunk)]);
    }
  }
}

const hunkVisible = (hunk) => [...hunk.cards, ...hunk.parts].some((number) => visible[number]);

function showCards(shell, hunk) {
  for (const number of hunk.cards) {
    const box = byId(`fix-${number}`) || shell.querySelector(`#fix-${number}`);
    if (box) box.hidden = !visible[number];
  }
  for (const box of shell.querySelectorAll('[data-part]')) box.hidden = !visible[box.dataset.part];
}

// Hide the files, hunks and cards that the filter does not want.
function showFilter() {
  sections.forEach((section, file) => {
    const { findings: mine, parts } = files[file];
    section.hidden = ![...mine, ...parts].some((number) => visible[number]);
    if (!opened.has(file)) return;
    for (const shell of section.querySelectorAll('.hunk')) {
      const hunk = bodyOf(file).hunks[Number(shell.dataset.hunk)];
      shell.hidden = !hunkVisible(hunk);
      showCards(shell, hunk);
    }
  });
  filterTree();
}

function countFile(file) {
  const mine = files[file].findings;
  const left = mine.filter((number) => decidable(number) && !decisions.has(number)).length;
  const some = mine.some(decidable);
  const text = left ? `${left} undecided` : some ? 'decided' : mine.length ? 'nothing to decide' : files[file].made ? 'a new file' : 'part of a fix elsewhere';
  sections[file].querySelector('.count').textContent = text;
  const entry = entryOf.get(file);
  if (entry) {
    entry.querySelector('.count').textContent = left || '';
    entry.classList.toggle('done', some && !left);
  }
}

// --- going somewhere ---------------------------------------------------------------------------

let current = null;

// The hunk that a finding's card is beside, made.
function reveal(file, wanted) {
  openFile(file);
  const { hunks } = bodyOf(file);
  const at = hunks.findIndex(wanted);
  if (at < 0) return null;
  const shell = sections[file].querySelector(`.hunk[data-hunk="${at}"]`);
  fill(shell);
  return shell;
}

function showMine(root) {
  for (const row of root.querySelectorAll('tr.mine')) row.classList.remove('mine');
  for (const row of root.querySelectorAll('tr[data-owners]')) {
    if (row.dataset.owners.split(' ').includes(String(current))) row.classList.add('mine');
  }
}

function setCurrent(number, move = true) {
  const before = current;
  current = number;
  if (before !== null && before !== number) showDecision(before);
  if (number === null) return;
  const finding = findings[number];
  const shell = reveal(finding.file, (hunk) => hunk.cards.includes(number));
  showDecision(number);
  if (before !== number) for (const file of new Set([finding.file, ...finding.also.map(([file]) => file), ...(before === null ? [] : [findings[before].file])])) showMine(sections[file]);
  if (!move || !shell) return;
  const box = byId(`fix-${number}`);
  toView(shell, box);
  box.focus({ preventScroll: true });
}

// Scrolls twice: what comes into view on the way may turn out higher than it was thought to be.
function toView(shell, box, again = 2) {
  const target = shell.offsetHeight < window.innerHeight * 0.8 ? shell : box;
  target.scrollIntoView({ block: target.offsetHeight < window.innerHeight * 0.7 ? 'center' : 'start' });
  if (again) requestAnimationFrame(() => toView(shell, box, again - 1));
}

function step(direction, wanted) {
  const length = findings.length;
  for (let at = current === null ? (direction > 0 ? 0 : length - 1) : current + direction; at >= 0 && at < length; at += direction) {
    if (visible[at] && wanted(at)) {
      setCurrent(at);
      return true;
    }
  }
  return false;
}

// `#fix-3`, `#file-3` and `#line-3-120`: a place in the page, made if it is not there.
function go(hash) {
  const found = /^#(fix|file|line)-(\d+)(?:-(\d+))?$/.exec(hash);
  if (!found) return;
  const number = Number(found[2]);
  if (found[1] === 'fix' && number < findings.length) {
    if (!visible[number]) clearFilters();
    setCurrent(number);
    return;
  }
  if (number >= files.length) return;
  if (sections[number].hidden) clearFilters();
  if (found[1] === 'file') {
    openFile(number);
    sections[number].scrollIntoView();
    sections[number].focus({ preventScroll: true });
    requestAnimationFrame(() => sections[number].scrollIntoView());
    return;
  }
  const line = Number(found[3]);
  const shell = reveal(number, (hunk) => line >= hunk.at + hunk.see[0] && line < hunk.at + hunk.see[1]);
  const folded = shell?.querySelector(':scope > details');
  if (folded && !folded.open) {
    folded.open = true;
    draw(shell, bodyOf(number).hunks[Number(shell.dataset.hunk)]);
  }
  const row = byId(`line-${number}-${line}`);
  if (!shell || !row) return;
  shell.hidden = false;
  row.setAttribute('tabindex', '-1');
  toView(row, row);
  row.focus({ preventScroll: true });
}
