// A finding beside its hunk: what, why, where else, and the two buttons.

const SAFETY = { safe: 'safe', unsafe: 'unsafe', manual: 'manual', none: 'no fix' };

function paragraphs(text) {
  return text.split(/\n\s*\n/).map((part) => make('p', {}, ...prose(part.replace(/\s+/g, ' '))));
}

function about(codemod) {
  const found = codemods[codemod];
  if (!found?.title) return '';
  const parts = [['What it does', found.what], ['Why is this bad?', found.bad], ['When its fixes are safe', found.safety]];
  const box = make('details', { class: 'about' }, make('summary', {}, `What is ${codemod}?`));
  box.addEventListener('toggle', () => {
    if (box.childElementCount > 1) return;
    box.append(make('p', {}, ...prose(found.title)));
    for (const [title, text] of parts) if (text) box.append(make('h5', {}, title), ...paragraphs(text));
  });
  return box;
}

function relatedItem(finding, one) {
  const linked = one.file >= 0 && one.line >= 0;
  const elsewhere = one.file >= 0 && one.line < 0 && one.file !== finding.file;
  const where = linked
    ? make('a', { href: `#line-${one.file}-${one.line}` }, one.where)
    : elsewhere
      ? make('a', { href: `#file-${one.file}` }, one.where)
      : one.where;
  return make('li', {}, ...prose(one.message), where ? ' — ' : '', where, one.code && make('code', { class: 'quote' }, one.code));
}

function card(number) {
  const finding = findings[number];
  const title = make(
    'h4',
    { id: `title-${number}` },
    make('span', { class: 'number' }, `#${number + 1}`),
    ' ',
    make('span', { class: 'codemod' }, finding.codemod),
    ' ',
    make('span', { class: `badge ${finding.safety}` }, SAFETY[finding.safety]),
  );
  const box = make('section', { class: 'card', id: `fix-${number}`, tabindex: '-1', 'aria-labelledby': `title-${number}` }, title);
  const place = [finding.where, finding.scope && `in ${finding.scope}`].filter(Boolean).join(' ');
  box.append(make('p', { class: 'place' }, place), make('p', { class: 'message' }, ...prose(finding.message)));
  if (finding.related.length) box.append(make('ul', { class: 'relations' }, ...finding.related.map((one) => relatedItem(finding, one))));
  if (finding.title) box.append(make('p', { class: 'repair' }, make('span', { class: 'label' }, finding.safety === 'manual' ? 'Proposal' : 'Fix'), ' ', ...prose(finding.title)));
  if (finding.also.length) {
    const links = finding.also.flatMap(([file, line], at) => [at ? ', ' : '', make('a', { href: line < 0 ? `#file-${file}` : `#line-${file}-${line}` }, files[file].name)]);
    box.append(make('p', { class: 'also' }, 'Together with ', ...links, ': all of it, or none.'));
  }
  if (finding.after.length) {
    const links = finding.after.flatMap((other, at) => [at ? ', ' : '', make('a', { href: `#fix-${other}` }, `#${other + 1}`)]);
    box.append(make('p', { class: 'also' }, 'Touches the same code as ', ...links, ', and is shown here once that is rejected. If both are accepted, that one is made first, and this one only if devfix still finds it then.'));
  }
  if (finding.verdict) box.append(make('p', { class: 'verdict' }, make('span', { class: 'label' }, 'Smoke test'), ' ', finding.verdict));
  if (finding.bare && finding.code) box.append(make('pre', {}, finding.code));
  if (finding.edits.length) box.append(make('p', { class: 'also' }, 'Its lines cannot be told apart in this file. It writes:'), make('pre', {}, finding.edits.join('\n⋯\n')));
  if (finding.why) box.append(make('p', { class: 'why' }, finding.why));
  else {
    box.append(buttons(number));
    const count = allLike(number).length;
    if (count > 1) {
      const all = [['accepted', 'accept', 'A'], ['rejected', 'reject', 'R']].map(([what, name, key]) => {
        const button = make('button', { type: 'button', class: 'link', 'aria-label': `${name} all ${count} alike`, title: `Shift+${key}` }, `${name} all`);
        button.addEventListener('click', () => decideAlike(number, what));
        return button;
      });
      box.append(make('p', { class: 'alike' }, `One of ${count} that say the same: `, all[0], ' or ', all[1]));
    }
  }
  box.append(about(finding.codemod));
  box.addEventListener('pointerdown', () => setCurrent(number, false));
  box.addEventListener('focusin', () => setCurrent(number, false));
  showDecision(number, box);
  return box;
}

function buttons(number) {
  const both = [['accepted', 'Accept', 'a'], ['rejected', 'Reject', 'r']].map(([what, name, key]) => {
    const button = make('button', { type: 'button', class: what, 'aria-pressed': 'false', 'aria-label': `${name} #${number + 1}`, title: `${name} (${key})` }, name);
    button.addEventListener('click', () => {
      setCurrent(number, false);
      decide([number], decisions.get(number) === what ? null : what);
    });
    return button;
  });
  return make('div', { class: 'buttons' }, ...both);
}

function showDecision(number, box) {
  for (const one of box ? [box] : document.querySelectorAll(`#fix-${number}, [data-part="${number}"]`)) {
    const decision = decisions.get(number) || '';
    one.dataset.decision = decision;
    one.classList.toggle('current', number === current);
    for (const button of one.querySelectorAll('.buttons button')) {
      button.setAttribute('aria-pressed', String(button.classList.contains(decision || 'none')));
    }
  }
}

// What has a part in a hunk, while its own card is beside another one.
function part(number, hunk) {
  const link = make('a', { href: `#fix-${number}` }, `#${number + 1} ${findings[number].codemod}`);
  if (!owns(hunk, number)) return make('p', { class: 'part' }, 'This is what led to ', link, '.');
  const what = findings[number].title ? [': ', ...prose(findings[number].title)] : [];
  const box = make('div', { class: 'part', 'data-part': number }, make('p', {}, 'This is part of ', link, ...what));
  if (decidable(number)) box.append(buttons(number));
  showDecision(number, box);
  return box;
}
