// What the page is about, and what has been decided.

/** @type {(id: string) => any} */
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId('index').textContent);
const { files, findings, codemods } = data;

// An element with attributes and children; strings become text, never markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ''));
  return element;
}

// Text with `code` in back quotes.
function prose(text) {
  return text.split('`').map((part, at) => (at % 2 ? make('code', {}, part) : part));
}

const plural = (count, one, many) => `${count} ${count === 1 ? one : many || `${one}s`}`;

// The editor that shows the page, if one does: it makes what was accepted.
const editor = window.acquireVsCodeApi ? window.acquireVsCodeApi() : null;

// A browser may refuse to keep anything, and says so only when it is asked.
const storage = (() => {
  try {
    const found = window.localStorage;
    found.setItem('devfix:probe', '1');
    found.removeItem('devfix:probe');
    return found;
  } catch (error) {
    return null;
  }
})();

function remember(key, value) {
  try {
    if (storage) storage.setItem(key, value);
  } catch (error) {
    byId('unkept').hidden = false; // it is full
  }
}

const recall = (key) => (storage ? storage.getItem(key) : null);

const KEPT = `devfix:${data.id}`;
const numberOf = new Map(findings.map((finding, number) => [finding.id, number]));
const decisions = new Map(); // number -> 'accepted' or 'rejected'
const past = []; // for undo: what each step has changed, as it was before
let exported = true;

const decidable = (number) => !findings[number].why;
const toDecide = findings.map((_, number) => number).filter(decidable);

function keep() {
  const names = (what) => [...decisions].filter(([, decision]) => decision === what).map(([number]) => findings[number].id);
  const found = { accepted: names('accepted').sort(), rejected: names('rejected').sort() };
  remember(KEPT, JSON.stringify(found));
  return found;
}

function take(found) {
  for (const what of ['accepted', 'rejected']) {
    for (const name of Array.isArray(found[what]) ? found[what] : []) {
      const number = numberOf.get(name);
      if (number !== undefined && decidable(number)) decisions.set(number, what);
    }
  }
}

try {
  take(JSON.parse(recall(KEPT) || '{}'));
} catch (error) {
  decisions.clear();
}

// Fixes that say the same of different places, so that they can be decided at once.
const alike = new Map();
const likeness = (number) => {
  const { codemod, safety, message, title, verdict } = findings[number];
  return [codemod, safety, message.replace(/\d+/g, ''), title.replace(/\d+/g, ''), verdict].join('\n');
};
for (const number of toDecide) {
  const key = likeness(number);
  if (!alike.has(key)) alike.set(key, []);
  alike.get(key).push(number);
}
const allLike = (number) => alike.get(likeness(number)) || [number];

// Whether the diffs show a fix as made: unless it was rejected, or waits for another one.
function isShown(number) {
  if (decisions.get(number) === 'rejected') return false;
  return !findings[number].after.some((other) => isShown(other));
}
