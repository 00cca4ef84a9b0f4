// A hunk as the decisions leave it, in one column or in two.

const small = window.matchMedia('(max-width: 640px)'); // one column of numbers, and less indentation
const wide = () => window.matchMedia('(min-width: 1500px)').matches;
let split = recall('devfix:view') ? recall('devfix:view') === 'split' : wide();

// Which of a block's edits are made, as bits.
function maskOf(block) {
  return block.owners.reduce((mask, owners, at) => (owners.some(isShown) ? mask | (1 << at) : mask), 0);
}

// The rows of a block: numbers of lines that stay, -1 - number for lines that go, and new lines.
function rowsOf(block) {
  const mask = maskOf(block);
  const same = Array.from({ length: block.n }, (_, at) => block.at + at);
  if (!mask) return same;
  return block.rows[mask] || block.rows[(1 << block.owners.length) - 1] || same;
}

const growth = (block) => rowsOf(block).reduce((sum, row) => sum + (Array.isArray(row) ? 1 : row < 0 ? -1 : 0), 0);

// By how much the lines of each hunk move, through what the hunks above it add.
function shifts(hunks) {
  let shift = 0;
  let cell = 0;
  return hunks.map((hunk) => {
    if (hunk.cell !== cell) [cell, shift] = [hunk.cell, 0];
    const mine = shift;
    shift += hunk.blocks.reduce((sum, block) => sum + growth(block), 0);
    return mine;
  });
}

// All rows of a hunk: {kind, old, now, line, owners}.
function entries(hunk, shift, from, to) {
  const found = [];
  let now = hunk.no + shift;
  let next = 0;
  const stay = (at, owners) => {
    if (at >= from && at < to) found.push({ kind: ' ', old: hunk.no + at, now, at, line: hunk.lines[at], owners });
    now += 1;
  };
  for (const block of hunk.blocks) {
    while (next < block.at) stay(next++, []);
    const owners = [...new Set(block.owners.flat())];
    for (const row of rowsOf(block)) {
      if (Array.isArray(row)) found.push({ kind: '+', now: now++, line: row, owners });
      else if (row >= 0) stay(row, owners);
      else found.push({ kind: '-', old: hunk.no - 1 - row, at: -1 - row, line: hunk.lines[-1 - row], owners });
    }
    next = block.at + block.n;
  }
  while (next < hunk.lines.length) stay(next++, []);
  return found;
}

// Removed and added lines beside each other, with the characters in which they differ.
function pairs(rows) {
  const found = [];
  for (let at = 0; at < rows.length; ) {
    if (rows[at].kind === ' ') {
      found.push([rows[at], rows[at]]);
      at += 1;
      continue;
    }
    const gone = [];
    const come = [];
    while (at < rows.length && rows[at].kind === '-') gone.push(rows[at++]);
    while (at < rows.length && rows[at].kind === '+') come.push(rows[at++]);
    const count = Math.max(gone.length, come.length);
    for (let i = 0; i < count; i += 1) {
      if (gone[i] && come[i]) compare(gone[i], come[i]);
      found.push([gone[i] || null, come[i] || null]);
    }
  }
  return found;
}

const insideWord = (text, at) => /^\w\w$/.test(text.slice(at - 1, at + 1));

// Where two lines differ, in whole words: {gone, come}.strong are ranges of characters.
function compare(gone, come) {
  const [a, b] = [gone.line[0], come.line[0]];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  while (start > 0 && (insideWord(a, start) || insideWord(b, start))) start -= 1;
  while (end > 0 && (insideWord(a, a.length - end) || insideWord(b, b.length - end))) end -= 1;
  if (start + end < Math.max(a.length, b.length) / 4) return; // two different lines
  const [old, now] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const kept = old.trim() ? now.indexOf(old) : -1;
  gone.strong = kept < 0 ? [[start, start + old.length]] : [];
  come.strong = kept < 0 ? [[start, start + now.length]] : [[start, start + kept], [start + kept + old.length, start + now.length]];
}

// A line's text in its colours, with some of its characters set off.
function paint(line, strong, marks, from) {
  const [text, runs] = line;
  const cuts = new Set([...strong, ...marks].flat());
  const out = [];
  let at = 0;
  for (const [, kind, length] of runs.matchAll(/([a-z])(\d+)/g)) {
    const end = Math.min(at + Number(length), text.length);
    if (at < from) at = Math.min(end, from);
    while (at < end) {
      let stop = end;
      for (const cut of cuts) if (cut > at && cut < stop) stop = cut;
      const names = [kind === 'p' ? '' : kind];
      if (strong.some((range) => at >= range[0] && stop <= range[1])) names.push('strong');
      if (marks.some((mark) => at >= mark[0] && stop <= mark[1])) names.push('here');
      const name = names.filter(Boolean).join(' ');
      out.push(name ? make('span', { class: name }, text.slice(at, stop)) : text.slice(at, stop));
      at = stop;
    }
  }
  if (at < text.length) out.push(text.slice(Math.max(at, from)));
  return out;
}

const width = (indent) => indent.replaceAll('\t', '    ').length;
const SIGNS = { ' ': ['', ''], '-': ['−', 'removed'], '+': ['+', 'added'] };

function cells(row, side, hunk, several) {
  if (!row) return [make('td', { class: 'no' }), make('td', { class: 'code empty' })];
  const number = side === 'old' ? row.old : row.now;
  const kind = { '-': ' gone', '+': ' come', ' ': '' }[row.kind];
  const marks = hunk.marks.filter((mark) => mark[0] === row.at && mark[2] > mark[1] && side !== 'new').map((mark) => [mark[1], mark[2]]);
  const [sign, said] = SIGNS[row.kind];
  const owners = several && row.kind !== ' ' ? row.owners.filter(isShown) : [];
  const indent = /^[ \t]*/.exec(row.line[0])[0];
  const code = make(
    'td',
    { class: `code${kind}`, 'data-indent': indent || null },
    owners.length ? make('span', { class: 'owners' }, owners.map((one) => `#${one + 1}`).join(' ')) : '',
    make('span', { class: 'sign', 'aria-hidden': 'true' }, sign || ' '),
    said && make('span', { class: 'unseen' }, `${said}: `),
    ...paint(row.line, row.strong || [], marks, indent.length),
  );
  // Indentation is room, not text, so that what does not fit goes on below its beginning.
  code.style.setProperty('--indent', `${Math.max(0, width(indent) - (hunk.less || 0))}ch`);
  return [make('td', { class: `no${kind}` }, number === undefined ? '' : String(number)), code];
}

// The table of a hunk; only one of them is `named`, so that links lead to its lines.
function diffOf(file, hunk, shift, named = true) {
  const [from, to] = hunk.open || hunk.see;
  const several = hunk.cards.length + hunk.parts.length > 1;
  const rows = entries(hunk, shift, from, to);
  const aligned = pairs(rows);
  const indents = rows.filter((row) => row.line[0].trim()).map((row) => width(/^[ \t]*/.exec(row.line[0])[0]));
  const two = split && hunk.blocks.length > 0;
  hunk.less = small.matches ? Math.max(0, Math.min(...indents)) : two ? Math.max(0, Math.min(...indents) - 4) : 0;
  const related = new Set(hunk.marks.filter((mark) => mark[4]).map((mark) => mark[0]));
  const body = make('tbody', {});
  const add = (row, children) => {
    const at = row && row.at !== undefined ? hunk.at + row.at : null;
    body.append(
      make(
        'tr',
        {
          id: at === null || !named ? null : `line-${file}-${at}`,
          tabindex: at !== null && named && related.has(row.at) ? '-1' : null,
          class: row && related.has(row.at) ? 'related' : null,
          'data-owners': row?.owners.length && row.kind !== ' ' ? row.owners.filter(isShown).join(' ') : null,
        },
        ...children,
      ),
    );
  };
  if (two) {
    for (const [old, now] of aligned) {
      add(old || now, [...cells(old, 'old', hunk, several), ...cells(now, 'new', hunk, several)]);
    }
  } else {
    for (const row of rows) {
      const [no, code] = cells(row, row.kind === '+' ? 'new' : 'old', hunk, several);
      const now = make('td', { class: no.className }, row.now === undefined ? '' : String(row.now));
      if (row.kind === '+') no.textContent = '';
      if (small.matches && row.kind === '+') no.textContent = row.now;
      add(row, small.matches ? [no, code] : [no, now, code]);
    }
  }
  const heads = two ? ['line before', 'before', 'line after', 'after'] : small.matches ? ['line', 'code'] : ['line before', 'line after', 'code'];
  return make(
    'table',
    { class: two ? 'diff split' : 'diff' },
    make('caption', { class: 'unseen' }, `Change in ${files[file].name}${hunk.scope ? `, ${hunk.scope}` : ''}`),
    make('colgroup', {}, ...(two ? ['no', 'half', 'no', 'half'] : small.matches ? ['no', 'all'] : ['no', 'no', 'all']).map((name) => make('col', { class: name }))),
    make('thead', { class: 'unseen' }, make('tr', {}, ...heads.map((head) => make('th', { scope: 'col' }, head)))),
    body,
  );
}
