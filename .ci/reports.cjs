// People use the page of the example `reports` in headless Chromium. Waits for what must come to hold, never for a time.
"use strict";
const { chromium } = require("playwright-core");
const { execFileSync } = require("node:child_process");
const assert = require("node:assert/strict");

const axe = require("axe-core").source;

const { REPORTS_URL: url, PERILUNE: perilune, CHROMIUM: executablePath, PROFILE: profile, FOLDER: data } = process.env;
/** Longer than any step takes on a busy machine; only a failure waits for it. */
const PATIENCE = 180_000;

const step = (text) => console.log(`reports: ${text}`);

/** Chromium asks nobody on the network but the example. */
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const quiet = ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

const main = async () => {
  const options = { executablePath, headless: true, args: [...args, ...quiet], viewport: { width: 1120, height: 900 } };
  const browser = await chromium.launchPersistentContext(profile, { ...options, colorScheme: "light" });
  browser.setDefaultTimeout(PATIENCE);
  const page = await browser.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // Chromium writes every refused request to the console, the wanted ones too.
    const refused = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !refused) complaints.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) complaints.push(`asked ${request.url()}`);
  });

  const state = (name) => page.waitForSelector(`body[data-state="${name}"]`);
  const says = () => page.innerText(".says");
  const become = async (id) => {
    await page.selectOption("#person", id);
    await page.waitForSelector(`body[data-person="${id}"]`);
  };
  const order = async (subject, year) => {
    const before = page.url();
    await page.selectOption("[name=subject]", subject);
    await page.fill("[name=year]", String(year));
    await page.selectOption("[name=quarter]", "3");
    const answered = page.waitForResponse((answer) => answer.request().method() === "POST");
    await page.click("#order button");
    const answer = await answered;
    assert.equal(answer.status(), 202);
    const { operationId } = await answer.json();
    assert.equal(answer.headers()["location"], `/api/operations/${operationId}`);
    await page.waitForURL(`${url}/reports/${operationId}`);
    assert.notEqual(page.url(), before);
    return operationId;
  };
  /** The states that the page has shown of a report, in their order. */
  const shown = () => page.$$eval(".log li", (entries) => entries.map((entry) => entry.dataset.state));

  /** Fails where axe finds a barrier: contrast, names, roles, order. In light and in dark. */
  const accessible = async (what) => {
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.evaluate(axe);
      const [passed, barriers] = await page.evaluate(async () => {
        const { passes, violations } = await window.axe.run();
        return [passes.length, violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target).join(", ")}`)];
      });
      assert.ok(passed > 10, "axe looked at the page");
      assert.deepEqual(barriers, [], `${what}, ${colorScheme}`);
    }
  };

  const opened = await page.goto(url);
  assert.match(opened.headers()["content-security-policy"], /default-src 'none'.*script-src 'self'/);
  await page.waitForSelector("#person option[value=ada]", { state: "attached" });
  assert.ok(await page.isDisabled("#order button"), "nobody may order");
  await accessible("nobody is signed in");
  step("nobody is signed in, and the form is closed");

  await become("ada");
  const returns = await order("returns", 2025);
  await state("completed");
  const moves = await shown();
  // A state that is left sooner than the page asks again is not seen; the order of those that are is the machine's.
  const life = ["accepted", "running", "retry_scheduled", "running", "completed"];
  let at = -1;
  for (const move of moves) {
    at = life.indexOf(move, at + 1);
    assert.notEqual(at, -1, `${moves} is not in the order of ${life}`);
  }
  assert.ok(moves.length >= 3, `it was not seen to move: ${moves}`);
  step(`a report went ${moves.join(", ")}`);

  assert.equal(await says(), "Your report is ready.");
  assert.equal(await page.title(), "Returns, Q3 2025 – Reports");
  const total = await page.innerText(".figures div:nth-child(2) dd");
  assert.match(total, /^€[0-9,]+\.[0-9]{2}$/);
  assert.equal(await page.locator("tbody tr").count(), 4);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("a[download]")]);
  assert.equal(download.suggestedFilename(), "returns-2025-q3.csv");
  const file = require("node:fs").readFileSync(await download.path(), "utf8").trim().split("\r\n");
  const cents = file.slice(1).reduce((sum, line) => sum + Math.round(Number(line.split(",")[2]) * 100), 0);
  assert.equal((cents / 100).toLocaleString("en", { style: "currency", currency: "EUR" }), total);
  step(`its typed outcome comes to ${total}, and so does its file`);
  await page.waitForSelector("#orders .succeeded");
  await accessible("a report that is ready");
  await page.evaluate(() => document.activeElement?.blur());
  await page.screenshot({ path: process.env.SCREENSHOT, animations: "disabled" });

  for (const other of ["ben", "cleo"]) {
    await become(other);
    await state("unavailable");
    assert.match(await says(), /^There is no such report/);
    assert.equal(await page.locator("#report h1").innerText(), "Report");
    const answer = await page.request.get(`${url}/api/operations/${returns}`);
    const unknown = await page.request.get(`${url}/api/operations/${"0".repeat(32)}`);
    assert.deepEqual([answer.status(), await answer.text()], [404, await unknown.text()]);
    assert.equal((await page.request.get(`${url}/api/reports/${returns}/file`)).status(), 404);
  }
  step("of the same team or another's, to others there is no such report");
  await become("");
  await state("authentication");

  await become("ada");
  await order("stock", 2025);
  await state("failed");
  assert.ok((await shown()).at(-1) === "failed" && (await page.locator(".steps .bad").count()) === 1);
  await accessible("a report that failed");
  await page.route("**/api/operations/*", (route) => route.abort());
  await order("sales", 2025);
  await state("transport");
  await page.unroute("**/api/operations/*");
  await state("completed");
  step("a report was followed over a connection that broke");
  await order("sales", 2030);
  await state("rejected");
  assert.match(await says(), /not closed yet/);
  await order("sales", 1999);
  await state("completed");
  assert.match(await says(), /the books begin in 2020/);
  step("a report failed, one was refused, one had nothing to show");

  const periods = ["--input", "1s", "--journal", "1s", "--outcome", "1s", "--dead-letter", "1s"];
  const ordered = ["--confirm", "--policy-ref", "check", "--actor", "ci", "--json"];
  const database = ["--database", `sqlite:${data}/reports.db`];
  for (let purged = 0; purged < 3; ) {
    const told = execFileSync(perilune, ["retention", "purge", ...database, ...periods, ...ordered], { encoding: "utf8" });
    purged += JSON.parse(told).outcomes_deleted;
  }
  await page.goto(`${url}/reports/${returns}`);
  await state("expired");
  assert.match(await says(), /its time was over/);
  step("a report that was purged is told from one that never was");

  assert.deepEqual(complaints, []);
  await browser.close();
};

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
