/**
 * The packaged extension in the real VS Code, in Chromium. Not part of `npm test`: it needs a browser, and a VS Code
 * that serves itself, which npm does not bring along. `DEVFIX_VSCODE_SERVER` is the `server-main.js` of one (any
 * VS Code server has it, code-server under `lib/vscode/out/`), `DEVFIX` the command of devfix as JSON.
 * `--screenshot FILE` keeps a picture.
 */

import assert from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const server = process.env.DEVFIX_VSCODE_SERVER;
if (!server) {
  console.log("SKIPPED: DEVFIX_VSCODE_SERVER names no VS Code server");
  process.exit(0);
}
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const scratch = mkdtempSync(join(tmpdir(), "devfix-editor-"));
const folder = join(scratch, "project");
const path = join(folder, "train.py");
const own = ["--server-data-dir", join(scratch, "data"), "--extensions-dir", join(scratch, "extensions")];
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
mkdirSync(join(folder, ".vscode"), { recursive: true });
const command = JSON.parse(process.env.DEVFIX ?? '["devfix"]');
writeFileSync(join(folder, ".vscode", "settings.json"), JSON.stringify({ "devfix.command": command }));
const example = join(root, "..", "..", "examples", "gpt_classifier", "train.py");
const before = readFileSync(example, "utf8");
writeFileSync(path, before);
execFileSync(process.execPath, [server, ...own, "--install-extension", join(root, `devfix-${version}.vsix`)]);

const options = [
  "--host",
  "127.0.0.1",
  "--port",
  "0",
  "--without-connection-token",
  "--accept-server-license-terms",
];
const serving = spawn(process.execPath, [server, ...own, ...options]);
let browser;
try {
  const port = await new Promise((go, fail) => {
    serving.stdout.on("data", (text) => /listening on (\d+)/.test(text) && go(RegExp.$1));
    serving.on("exit", () => fail(new Error("the server ended")));
  });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  const page = await browser.newPage({ viewport: { width: 1400, height: 800 } });
  page.setDefaultTimeout(60_000);
  const payload = JSON.stringify([["openFile", `vscode-remote://127.0.0.1:${port}${path}`]]);
  await page.goto(`http://127.0.0.1:${port}/?folder=${folder}&payload=${encodeURIComponent(payload)}`);
  await page.click("text=Yes, I trust the authors");
  await page.waitForSelector("[id='status.problems'] [aria-label*='Warnings: 1']");

  const run = async (name) => {
    await page.keyboard.press("F1");
    await page.waitForSelector(".quick-input-widget:visible");
    await page.keyboard.type(name);
    await page.waitForSelector(`.quick-input-list-row:has-text("${name}")`);
    await page.keyboard.press("Enter");
  };
  await page.click(".view-lines");
  await page.keyboard.press("F8"); // the next problem
  await page.waitForSelector(".zone-widget a:has-text('reorder-to')");
  await page.keyboard.press("Escape");
  await run("devfix: Explain This Finding");
  await page.waitForSelector(".view-lines:has-text('(on by default)')");
  await page.keyboard.press("Control+1");
  await run("devfix: Why Nothing Here?");
  await page.waitForSelector(".view-lines:has-text('made')");
  await run("devfix: Open the Review Page");
  await page.waitForSelector("iframe.webview.ready");
  const review = page.frameLocator("iframe.webview.ready").frameLocator("iframe");
  await review.locator("#counter", { hasText: "0 of 1 decided" }).waitFor();
  await review.locator("#fix-0 .relations a").first().click();
  await review.locator("tr[id^=line-]:focus").waitFor(); // a link within the page
  await review.locator("#fix-0 button.accepted").click();
  const shot = process.argv.indexOf("--screenshot");
  if (shot > 0) await page.screenshot({ path: process.argv[shot + 1] });
  await review.locator("#export").click();
  assert.strictEqual(readFileSync(path, "utf8"), before); // it asks first
  await page.click(".monaco-dialog-box >> text=Apply");
  await page.waitForSelector(".notification-toast:has-text('devfix undo')");
  assert.notStrictEqual(readFileSync(path, "utf8"), before);
  assert.strictEqual(await page.locator("iframe.webview.ready").count(), 0);
  console.log("ok: diagnostics, explain, why, the review page, apply");
} finally {
  await browser?.close();
  serving.kill();
  rmSync(scratch, { recursive: true, force: true });
}
