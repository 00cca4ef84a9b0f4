// What the scripts of the review page may take for granted.
interface Window {
  acquireVsCodeApi?: () => { postMessage(what: unknown): void };
}
interface Element extends ElementCSSInlineStyle {
  readonly dataset: DOMStringMap;
  readonly cellIndex: number;
}
