/** devfix in VS Code: its language server, and three commands that show what the command line says. */

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

interface Output {
  code: number;
  stdout: string;
  stderr: string;
}

/** What the review page sends when its decisions are exported. */
interface Decisions {
  decisions: string;
}

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const shown = new Map<string, string>();
  context.subscriptions.push(
    vscode.commands.registerTextEditorCommand("devfix.explain", (editor) => guarded(explain(editor, shown))),
    vscode.commands.registerTextEditorCommand("devfix.why", (editor) => guarded(why(editor, shown))),
    vscode.commands.registerCommand("devfix.review", () => guarded(review())),
    vscode.commands.registerCommand("devfix.restart", () => guarded(restart())),
    vscode.workspace.registerTextDocumentContentProvider("devfix", {
      provideTextDocumentContent: (uri) => shown.get(uri.path),
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("devfix.command")) void guarded(restart());
    }),
  );
  await guarded(start());
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function start(): Promise<void> {
  const [command, ...args] = commandLine();
  const selector = [{ scheme: "file", language: "python" }];
  client = new LanguageClient("devfix", { command, args: [...args, "lsp"] }, { documentSelector: selector });
  await client.start();
}

async function restart(): Promise<void> {
  await client?.dispose();
  await start();
}

/** Show what the codemod of the finding at the cursor is about. */
async function explain(editor: vscode.TextEditor, shown: Map<string, string>): Promise<void> {
  const { line } = editor.selection.active;
  const found = vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((one) => one.source === "devfix" && one.range.start.line <= line && line <= one.range.end.line);
  const ids = [...new Set(found.map(codemodOf))];
  const id = ids.length > 1 ? await vscode.window.showQuickPick(ids) : ids[0];
  if (id !== undefined) await show(await devfix(["explain", id], folderOf(editor.document)), id, shown);
  else if (ids.length === 0)
    void vscode.window.showInformationMessage("devfix has no finding on this line: try “Why Nothing Here?”.");
}

function codemodOf(one: vscode.Diagnostic): string {
  return String(typeof one.code === "object" ? one.code.value : one.code);
}

/** Show what devfix thinks of the values on the line of the cursor. */
async function why(editor: vscode.TextEditor, shown: Map<string, string>): Promise<void> {
  if (!(await saved([editor.document]))) return;
  const place = `${editor.document.uri.fsPath}:${editor.selection.active.line + 1}`;
  const told = await devfix(["explain", place], folderOf(editor.document));
  await show(told, `line ${editor.selection.active.line + 1}`, shown);
}

/** Show the review page of a workspace folder; what is accepted there can be applied. */
async function review(): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder = folders.length > 1 ? await vscode.window.showWorkspaceFolderPick() : folders[0];
  if (folder === undefined) throw new Error("open a folder first: the review page is about all its files");
  if (!(await saved(vscode.workspace.textDocuments))) return;
  const cwd = folder.uri.fsPath;
  const title = `devfix: ${folder.name}`;
  const made = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title },
    () => devfix(["diff", "--format", "html", "."], cwd),
  );
  if (!made.stdout.startsWith("<!doctype html>")) throw new Error(made.stderr);
  if (made.code === 2) void vscode.window.showWarningMessage(made.stderr);
  const options = { enableScripts: true, retainContextWhenHidden: true };
  const panel = vscode.window.createWebviewPanel("devfix.review", title, vscode.ViewColumn.Active, options);
  panel.webview.onDidReceiveMessage((sent: Decisions) => guarded(apply(sent, cwd, panel)));
  panel.webview.html = made.stdout;
}

/** Make the accepted fixes, after asking, and close the page, which is of the files before. */
async function apply(sent: Decisions, cwd: string, panel: vscode.WebviewPanel): Promise<void> {
  const count = JSON.parse(sent.decisions).accepted.length;
  const question = `Make ${count} accepted ${count === 1 ? "fix" : "fixes"}?`;
  if (!count || (await vscode.window.showInformationMessage(question, { modal: true }, "Apply")) !== "Apply")
    return;
  if (!(await saved(vscode.workspace.textDocuments))) return;
  const scratch = await mkdtemp(join(tmpdir(), "devfix-"));
  try {
    const file = join(scratch, "decisions.json");
    await writeFile(file, sent.decisions);
    const done = await devfix(["apply", "--decisions", file, "."], cwd);
    panel.dispose();
    if (done.code === 2) throw new Error(done.stderr);
    void vscode.window.showInformationMessage(`${done.stderr} (\`devfix undo\` takes it back)`);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** Whether these documents are on disk as they are in the editor; asks to save those that are not. */
async function saved(documents: readonly vscode.TextDocument[]): Promise<boolean> {
  const dirty = documents.filter((one) => one.isDirty && one.uri.scheme === "file");
  if (dirty.length === 0) return true;
  const question = "devfix reads files from disk, and some here are not saved.";
  if ((await vscode.window.showWarningMessage(question, "Save")) !== "Save") return false;
  return (await Promise.all(dirty.map((one) => one.save()))).every(Boolean);
}

async function show(told: Output, name: string, shown: Map<string, string>): Promise<void> {
  if (told.code !== 0) throw new Error(told.stderr);
  const uri = vscode.Uri.from({ scheme: "devfix", path: `/${name}`, query: String(Date.now()) });
  shown.set(uri.path, told.stdout);
  await vscode.window.showTextDocument(uri, { preview: true, viewColumn: vscode.ViewColumn.Beside });
}

/** Run devfix in a folder; whatever its exit code, what it printed. */
export function devfix(args: string[], cwd: string | undefined): Promise<Output> {
  const [command, ...first] = commandLine();
  return new Promise((resolve, reject) => {
    execFile(command, [...first, ...args], { cwd, maxBuffer: 1 << 30 }, (error, stdout, stderr) => {
      if (error && typeof error.code !== "number") reject(error);
      else resolve({ code: Number(error?.code ?? 0), stdout, stderr: stderr.trim() });
    });
  });
}

export function commandLine(): [string, ...string[]] {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = vscode.workspace.getConfiguration("devfix").get<string[]>("command") ?? [];
  const [command = "devfix", ...args] = words.map((word) =>
    word.replace(/\$\{workspaceFolder\}/g, () => folder),
  );
  return [command, ...args];
}

function folderOf(document: vscode.TextDocument): string | undefined {
  return vscode.workspace.getWorkspaceFolder(document.uri)?.uri.fsPath;
}

/** Say what went wrong instead of throwing it. */
async function guarded(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const hint = missing ? " Is devfix installed? The setting `devfix.command` says how it is started." : "";
    void vscode.window.showErrorMessage(`devfix: ${(error as Error).message}${hint}`);
  }
}
