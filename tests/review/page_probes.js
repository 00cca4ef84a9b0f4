// What the tests of the review page look up in it: functions that run in the page.
({
  // The lines of a file as they are shown, without those that go.
  shown: (file) => [...document.querySelectorAll(`#file-${file} tr[class], #file-${file} tbody tr`)]
    .filter((row) => !row.closest('.elsewhere')).map((row) => [...row.querySelectorAll('td.code')].at(-1))
    .filter((cell) => !cell.matches('.gone, .empty'))
    .map((cell) => (cell.dataset.indent || '') + [...cell.childNodes]
        .filter((node) => !node.matches || !node.matches('.sign, .unseen, .owners'))
        .map((node) => node.textContent).join('')),

  // How many texts there are, and those with too little contrast.
  contrast: () => {
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest('script, style, option, .unseen, button:disabled')) continue;
    count += 1;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${walker.currentNode.data.slice(0, 30)}`);
  }
  return [count, [...new Set(bad)]];
},

  // What axe does not look at: ids, captions, and targets too small to hit.
  problems: () => {
  const bad = [];
  const visible = (one) => one.checkVisibility();
  const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
  if (new Set(ids).size !== ids.length) bad.push('an id is there twice');
  for (const one of document.querySelectorAll('[aria-labelledby], [aria-describedby], [aria-controls]')) {
    for (const key of ['aria-labelledby', 'aria-describedby', 'aria-controls']) {
      const id = one.getAttribute(key);
      if (id && !document.getElementById(id)) bad.push(`${key}=${id}`);
    }
  }
  for (const table of document.querySelectorAll('table')) if (!table.caption) bad.push('a table has no caption');
  for (const one of document.querySelectorAll('button, summary')) {
    const box = one.getBoundingClientRect();
    if (visible(one) && (box.height < 23.5 || box.width < 24)) bad.push(`small: ${one.textContent}`);
  }
  return bad;
},

  // What reaches out of the window on the right.
  outside: () => [...document.querySelectorAll('.diff, .card, .bar, h1, h2')]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => e.className || e.tagName),

  // The element with the focus, and whether that can be seen.
  focus: () => { const e = document.activeElement; const s = getComputedStyle(e); return [e.id || e.className || e.textContent.slice(0, 40), e === document.body || s.outlineStyle !== 'none' || e.matches('.skip')]; },
})
