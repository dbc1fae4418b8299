// What an application does with the generated client, against a real HTTP server in this process's loopback.
declare const process: { exitCode: number };
// @ts-ignore: Node's own types are not installed.
import { createServer } from "node:http";
import { CloseAccountV2, GenerateReport, IssueCredential, type StatusResult } from "./client/index.js";
import type { GenerateReportOutcome } from "./client/generate-report.js";

const id = "0123456789abcdef0123456789abcdef";
const outcome: GenerateReportOutcome = {
  downloadUrl: "https://files.example/1",
  pages: 3,
  sizeRatio: 0.5,
  warnings: [{ code: "w" }, { code: "x", line: 2 }],
  note: null,
  format: "pdf",
  labels: { a: "b" },
  corner: [1, "x"],
  delivered: { kind: "by_mail", address: "a" },
  nested: { title: "t", parts: [{ title: "u", parts: [] }] },
};
const head = { schemaVersion: 1, operationId: id, operationType: "GenerateReport" };

let next: { status: number; headers?: Record<string, string>; body: string; hang?: boolean } = { status: 200, body: "" };
let asked: { url: string; prefer: string | undefined }[] = [];
const queue: (typeof next)[] = [];
const server = createServer((request: any, response: any) => {
  asked.push({ url: request.url, prefer: request.headers["prefer"] });
  const answer = queue.shift() ?? next;
  if (answer.hang === true) return;
  response.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
  response.end(answer.body);
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const options = { baseUrl: `http://127.0.0.1:${server.address().port}/api/` };

const check = (what: string, holds: boolean): void => {
  if (!holds) {
    console.error(`does not hold: ${what}`);
    process.exitCode = 1;
  }
};
const answerWith = (body: unknown, status = 200, headers: Record<string, string> = {}): void => {
  next = { status, headers, body: JSON.stringify(body) };
};
const kindOf = (result: StatusResult<unknown>): string => (result.ok ? result.kind : `${result.kind}:${result.error.code}`);

answerWith({ ...head, state: "completed", outcome });
const completed = await GenerateReport.status(id, options);
check("a completed operation has its typed outcome", completed.ok && completed.kind === "completed" && completed.data.outcome.pages === 3);
check("the result is frozen to its depths", completed.ok && completed.kind === "completed" && Object.isFrozen(completed.data.outcome.warnings[0]));
check("the resource is asked at its place", asked[0]?.url === `/api/operations/${id}`);

for (const [what, changed] of Object.entries({
  "a field more": { ...outcome, more: 1 },
  "a field less": { ...outcome, pages: undefined },
  "an unsafe integer": { ...outcome, pages: 2 ** 53 },
  "an unknown format": { ...outcome, format: "doc" },
  "another tag": { ...outcome, delivered: { kind: "kept", address: "a" } },
  "a short tuple": { ...outcome, corner: [1] },
  "a deep mismatch": { ...outcome, nested: { title: "t", parts: [{ title: 1, parts: [] }] } },
})) {
  answerWith({ ...head, state: "completed", outcome: changed });
  check(`${what} is refused`, kindOf(await GenerateReport.status(id, options)) === "transport:invalid_response");
}
answerWith({ ...head, operationId: "f".repeat(32), state: "accepted" });
check("another operation's answer is refused", kindOf(await GenerateReport.status(id, options)) === "transport:invalid_response");
answerWith({ ...head, operationType: "Other", state: "accepted" });
check("another type's answer is refused", kindOf(await GenerateReport.status(id, options)) === "transport:invalid_response");

answerWith({ ...head, state: "running", attempt: 2, reviewRequired: true }, 200, { "retry-after": "7" });
const running = await GenerateReport.status(id, options);
check("running has its figures", running.ok && running.kind === "running" && running.data.attempt === 2 && running.retryAfterSeconds === 7);
answerWith({ ...head, state: "retry_scheduled", attempt: 2, retryAt: null });
check("retry_scheduled may have no time", kindOf(await GenerateReport.status(id, options)) === "retry_scheduled");
answerWith({ ...head, state: "rejected", error: { category: "business", code: "too_large" } });
check("rejected", kindOf(await GenerateReport.status(id, options)) === "rejected");
answerWith({ ...head, operationType: "close.account-v2", state: "completed", outcome: {} });
check("an empty outcome", kindOf(await CloseAccountV2.status(id, options)) === "completed");
check("an ephemeral operation has neither status nor wait", !("status" in IssueCredential) && !("wait" in IssueCredential));

for (const [status, expected] of [
  [401, "authentication:unauthenticated"],
  [404, "unavailable:operation_unavailable"],
  [410, "expired:operation_expired"],
  [500, "internal:internal_error"],
  [503, "transport:http_503"],
] as const) {
  answerWith("no object", status);
  check(`${status}`, kindOf(await GenerateReport.status(id, options)) === expected);
}
check("a malformed id asks nothing", kindOf(await GenerateReport.status("x", options)) === "unavailable:operation_unavailable");

// wait: held answers, then the end.
const pending = { status: 200, headers: { "retry-after": "1" }, body: JSON.stringify({ ...head, state: "accepted" }) };
queue.push(pending);
answerWith({ ...head, state: "failed", error: { code: "operation_failed" } });
asked = [];
const begun = Date.now();
const waited = await GenerateReport.wait(id, options);
check("wait ends with the terminal kind", waited.ok && waited.kind === "failed");
check("wait asks the server to hold its answer", asked.length === 2 && asked[0]?.prefer === "wait=30");
check("wait keeps Retry-After", Date.now() - begun >= 900);

next = pending;
const timedOut = await GenerateReport.wait(id, { ...options, maxWaitMilliseconds: 300 });
check("wait ends at its limit", !timedOut.ok && timedOut.error.code === "poll_timeout");
next = { status: 200, body: "", hang: true };
const held = await GenerateReport.wait(id, { ...options, maxWaitMilliseconds: 300 });
check("wait ends at its limit while a request is held", !held.ok && held.error.code === "poll_timeout");
const controller = new AbortController();
let listeners = 0;
const { signal } = controller;
const add = signal.addEventListener.bind(signal);
const remove = signal.removeEventListener.bind(signal);
signal.addEventListener = ((...all: Parameters<typeof add>) => (listeners++, add(...all))) as typeof add;
signal.removeEventListener = ((...all: Parameters<typeof remove>) => (listeners--, remove(...all))) as typeof remove;
setTimeout(() => controller.abort(), 100);
const aborted = await GenerateReport.wait(id, { ...options, signal });
check("wait ends on abort", !aborted.ok && aborted.error.code === "aborted");
check("wait leaves no listener behind", listeners === 0);
server.closeAllConnections();
server.close();
// A timer left behind would hold the process; the test's caller sees it end.
