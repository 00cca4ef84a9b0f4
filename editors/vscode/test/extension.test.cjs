"use strict";
/**
 * The built extension with the real language client and the real devfix, and a `vscode` module that only keeps what
 * it is told (vscode.cjs). DEVFIX names the command, as JSON: '["python", "-m", "devfix"]'; otherwise it is `devfix`.
 */

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const Module = require("node:module");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { after, before, test } = require("node:test");

const found = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) =>
  name === "vscode" ? join(__dirname, "vscode.cjs") : found.call(Module, name, ...rest);
const vscode = require("./vscode.cjs");
const extension = require("../dist/extension.js");

const { shown, settings, workspace } = vscode;
const BUG = `\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def run(x: torch.Tensor) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model.to(device)
    model.head = nn.Linear(4, 2)
    model(x.to(device))
`;
const folder = mkdtempSync(join(tmpdir(), "devfix-extension-"));
const path = join(folder, "train.py");
const document = {
  uri: vscode.Uri.file(path),
  languageId: "python",
  version: 1,
  isDirty: false,
  getText: () => BUG,
  save: async () => true,
};
const token = new vscode.CancellationTokenSource().token;
const cursor = (line) => ({ document, selection: { active: new vscode.Position(line, 0) } });

before(async () => {
  writeFileSync(path, BUG);
  settings.command = JSON.parse(process.env.DEVFIX ?? '["devfix"]');
  const [program, ...rest] = settings.command;
  const tried = spawnSync(program, [...rest, "lsp"], { input: "", encoding: "utf8" });
  if (tried.status !== 0) {
    const why = tried.error ? tried.error.message : tried.stderr;
    throw new Error(
      `the tests need devfix with its extras lsp and html, on the PATH or named by DEVFIX: ${why}`,
    );
  }
  workspace.textDocuments.push(document);
  workspace.workspaceFolders.push({ uri: vscode.Uri.file(folder), name: "project" });
  await extension.activate({ subscriptions: [] });
  for (let tries = 0; !shown.diagnostics.size && tries < 600; tries += 1)
    await new Promise((go) => setTimeout(go, 100));
});

after(async () => {
  await extension.deactivate();
  rmSync(folder, { recursive: true });
});

test("a finding is shown, and its name leads to the codemod", () => {
  const [one, ...more] = shown.diagnostics.get(String(document.uri));
  assert.deepStrictEqual(
    [one.source, one.code.value, one.range.start.line, more.length],
    ["devfix", "reorder-to", 9, 0],
  );
  assert.match(one.code.target.path, /^https:.*\/rules\/reorder_to\.py$/);
  assert.deepStrictEqual(shown.errors, []);
});

test("hover says where a value lives", async () => {
  const hover = await shown.hovers[0].provideHover(document, new vscode.Position(8, 5), token);
  assert.match(hover.contents.value, /^`model`: a module /);
});

test("a quick fix is offered at the finding", async () => {
  const diagnostics = shown.diagnostics.get(String(document.uri));
  const context = { diagnostics, triggerKind: 1 };
  const offered = await shown.actions[0].provideCodeActions(document, diagnostics[0].range, context, token);
  const fix = offered.find((one) => one.kind.value === "quickfix");
  assert.match(fix.title, /move `model` after its last change/);
  const texts = fix.edit.edits.get(String(document.uri)).map((one) => one.newText);
  assert.ok(texts.join("").includes("model.to(device)"), texts.join("\n"));
});

test("explain describes the codemod of the finding at the cursor", async () => {
  await shown.commands.get("devfix.explain")(cursor(9));
  assert.match(shown.documents.at(-1), /^reorder-to \(on by default\)/);
  const count = shown.documents.length;
  await shown.commands.get("devfix.explain")(cursor(0));
  assert.match(shown.messages.at(-1), /no finding on this line/);
  assert.strictEqual(shown.documents.length, count);
});

test("why says what is known of a line, and wants it saved", async () => {
  await shown.commands.get("devfix.why")(cursor(9));
  assert.match(shown.documents.at(-1), /`nn\.Linear\(4, 2\)` is a module, on the CPU/);
  const count = shown.documents.length;
  document.isDirty = true;
  await shown.commands.get("devfix.why")(cursor(9));
  document.isDirty = false;
  assert.match(shown.messages.at(-1), /not saved/);
  assert.strictEqual(shown.documents.length, count);
});

test("what is accepted on the review page is applied", async () => {
  await shown.commands.get("devfix.review")();
  const panel = shown.panels.at(-1);
  let closed = false;
  panel.dispose = () => {
    closed = true;
  };
  const index = JSON.parse(
    /<script type="application\/json" id="index">(.*?)<\/script>/.exec(panel.webview.html)[1],
  );
  const accepted = index.findings.map((one) => one.id);
  const decisions = { "devfix-decisions": 1, files: index.digests, accepted, rejected: [] };
  await panel.send({ decisions: JSON.stringify({ ...decisions, accepted: [] }) });
  assert.strictEqual(readFileSync(path, "utf8"), BUG);
  await panel.send({ decisions: JSON.stringify(decisions) });
  assert.match(readFileSync(path, "utf8"), /model\.head = nn\.Linear\(4, 2\)\n {4}model\.to\(device\)\n/);
  assert.ok(closed);
  assert.deepStrictEqual(shown.errors, []);
});

test("a devfix that is not there is said, and what to do", async () => {
  const [command, ...rest] = settings.command;
  settings.command = ["$" + "{workspaceFolder}/no-such-devfix", ...rest];
  assert.strictEqual(extension.commandLine()[0], `${folder}/no-such-devfix`);
  await shown.commands.get("devfix.why")(cursor(9));
  settings.command = [command, ...rest];
  assert.match(shown.errors.pop(), /no-such-devfix.*`devfix\.command`/);
});
