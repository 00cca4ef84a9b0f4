"use strict";
/**
 * As much of the `vscode` module as the extension and vscode-languageclient touch, without an editor: it keeps what
 * they register and show. Classes that are only derived from are empty.
 */

const { pathToFileURL, fileURLToPath } = require("node:url");

const none = { dispose() {} };
const event = () => none;
const shown = {
  commands: new Map(),
  diagnostics: new Map(),
  providers: new Map(),
  hovers: [],
  actions: [],
  errors: [],
  messages: [],
  panels: [],
  documents: [],
};

class Uri {
  constructor(parts) {
    Object.assign(this, { authority: "", query: "", fragment: "" }, parts);
  }
  static from = (parts) => new Uri(parts);
  static file = (path) => new Uri({ scheme: "file", path });
  static parse = (text) =>
    text.startsWith("file:") ? Uri.file(fileURLToPath(text)) : new Uri({ scheme: "x", path: text });
  get fsPath() {
    return this.path;
  }
  toString() {
    return this.scheme === "file" ? pathToFileURL(this.path).href : `${this.scheme}:${this.path}`;
  }
}

class Position {
  constructor(line, character) {
    Object.assign(this, { line, character });
  }
}

class Range {
  constructor(a, b, c, d) {
    Object.assign(
      this,
      typeof a === "number" ? { start: new Position(a, b), end: new Position(c, d) } : { start: a, end: b },
    );
  }
}

class Diagnostic {
  constructor(range, message, severity) {
    Object.assign(this, { range, message, severity });
  }
}

class CodeActionKind {
  static Empty = new CodeActionKind("");
  constructor(value) {
    this.value = value;
  }
  append = (part) => new CodeActionKind(this.value ? `${this.value}.${part}` : part);
}
for (const name of ["QuickFix", "Refactor", "Source"])
  CodeActionKind[name] = new CodeActionKind(name.toLowerCase());

class Location {
  constructor(uri, range) {
    Object.assign(this, { uri, range });
  }
}

class DiagnosticRelatedInformation {
  constructor(location, message) {
    Object.assign(this, { location, message });
  }
}

class CodeAction {
  constructor(title) {
    this.title = title;
  }
}

class TextEdit {
  constructor(range, newText) {
    Object.assign(this, { range, newText });
  }
}

class WorkspaceEdit {
  edits = new Map();
  set(uri, edits) {
    this.edits.set(String(uri), edits);
  }
}

class CancellationTokenSource {
  token = { isCancellationRequested: false, onCancellationRequested: event };
  cancel() {}
  dispose() {}
}

class Hover {
  constructor(contents) {
    this.contents = contents;
  }
}

class MarkdownString {
  constructor(value) {
    this.value = value;
  }
}

class EventEmitter {
  heard = [];
  event = (listener) => this.heard.push(listener) && none;
  fire(what) {
    for (const listener of this.heard) listener(what);
  }
  dispose() {}
}

const known = {
  shown,
  Uri,
  Position,
  Range,
  Diagnostic,
  CodeActionKind,
  Location,
  DiagnosticRelatedInformation,
  CodeAction,
  TextEdit,
  WorkspaceEdit,
  CancellationTokenSource,
  Hover,
  MarkdownString,
  EventEmitter,
  version: "1.91.0",
  env: { appName: "no editor", language: "en" },
  ViewColumn: { Active: -1, Beside: -2 },
  ProgressLocation: { Notification: 15 },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  commands: {
    registerCommand: (name, work) => shown.commands.set(name, work) && none,
    registerTextEditorCommand: (name, work) => shown.commands.set(name, work) && none,
  },
  workspace: new Proxy(
    {
      textDocuments: [],
      notebookDocuments: [],
      workspaceFolders: [],
      isTrusted: true,
      getWorkspaceFolder: () => known.workspace.workspaceFolders[0],
      getConfiguration: () => ({ get: (name) => known.settings[name] }),
      registerTextDocumentContentProvider: (scheme, provider) =>
        shown.providers.set(scheme, provider) && none,
      createFileSystemWatcher: () => ({
        ...none,
        onDidCreate: event,
        onDidChange: event,
        onDidDelete: event,
      }),
    },
    { get: (own, name) => own[name] ?? event },
  ),
  languages: new Proxy(
    {
      match: () => 10,
      createDiagnosticCollection: () => ({
        ...none,
        set: (uri, found) => shown.diagnostics.set(String(uri), found),
        delete: (uri) => shown.diagnostics.delete(String(uri)),
        clear: () => shown.diagnostics.clear(),
      }),
      getDiagnostics: (uri) => shown.diagnostics.get(String(uri)) ?? [],
      registerHoverProvider: (_, provider) => shown.hovers.push(provider) && none,
      registerCodeActionsProvider: (_, provider) => shown.actions.push(provider) && none,
    },
    { get: (own, name) => own[name] ?? event },
  ),
  window: new Proxy(
    {
      visibleTextEditors: [],
      tabGroups: { all: [], onDidChangeTabs: event, onDidChangeTabGroups: event },
      createOutputChannel: () => new Proxy({}, { get: () => event }),
      withProgress: (_, work) => work(),
      showErrorMessage: async (text) => void shown.errors.push(text),
      showWarningMessage: async (text) => void shown.messages.push(text),
      showInformationMessage: async (text, ...rest) => shown.messages.push(text) && rest.at(-1),
      showTextDocument: async (uri) =>
        void shown.documents.push(shown.providers.get(uri.scheme).provideTextDocumentContent(uri)),
      createWebviewPanel: (...made) => {
        const panel = {
          made,
          ...none,
          webview: {
            onDidReceiveMessage: (send) => {
              panel.send = send;
            },
          },
        };
        shown.panels.push(panel);
        return panel;
      },
    },
    { get: (own, name) => own[name] ?? event },
  ),
  settings: {},
};

const classes = new Map();
module.exports = new Proxy(known, {
  get(own, name) {
    if (name in own) return own[name];
    if (!classes.has(name)) classes.set(name, class {});
    return classes.get(name);
  },
});
