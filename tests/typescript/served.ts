// What the generated client makes of the real status resource. Runs under Node and in a page alike.
import { CloseAccountV2, GenerateReport, type StatusResult } from "./client/index.js";

const id = (n: number): string => n.toString(16).padStart(32, "0");
const kindOf = (result: StatusResult<unknown>): string => (result.ok ? result.kind : `${result.kind}:${result.error.code}`);

/** Asks for every state; what did not hold. `origin` is where the test's server is. */
export const failures = async (origin: string): Promise<string[]> => {
  const failed: string[] = [];
  const check = (what: string, holds: boolean): void => {
    if (!holds) failed.push(what);
  };
  const options = { baseUrl: `${origin}/api`, headers: { authorization: "Bearer ann" } };

  const expected = ["accepted", "running", "retry_scheduled", "completed", "rejected", "failed", "dead_lettered"];
  for (const [at, kind] of expected.entries()) {
    const result = await GenerateReport.status(id(at + 1), options);
    check(`operation ${at + 1} is ${kind}, not ${kindOf(result)}`, kindOf(result) === kind);
    const pending = result.ok && (result.kind === "accepted" || result.kind === "running" || result.kind === "retry_scheduled");
    check(`Retry-After of ${kind}`, pending === (result.ok && "retryAfterSeconds" in result));
  }
  const completed = await GenerateReport.status(id(4), options);
  check("the outcome is typed", completed.ok && completed.kind === "completed" && completed.data.outcome.pages === 3);
  const empty = await CloseAccountV2.status(id(8), options);
  check("an empty outcome", empty.ok && empty.kind === "completed" && Object.keys(empty.data.outcome).length === 0);
  for (const [n, expected] of [
    [9, "expired:operation_expired"],
    [10, "internal:internal_error"],
    [99, "unavailable:operation_unavailable"],
  ] as const) {
    const result = await GenerateReport.status(id(n), options);
    check(`operation ${n} is ${expected}, not ${kindOf(result)}`, kindOf(result) === expected);
  }
  const denied = await GenerateReport.status(id(4), { ...options, headers: { authorization: "Bearer eve" } });
  check("denied", kindOf(denied) === "unavailable:operation_unavailable");
  const nobody = await GenerateReport.status(id(4), { baseUrl: options.baseUrl });
  check("nobody", kindOf(nobody) === "authentication:unauthenticated");

  // The end comes while the server holds its answer.
  const waiting = GenerateReport.wait(id(2), { ...options, maxWaitMilliseconds: 60_000 });
  await fetch(`${origin}/finish`, { method: "POST" });
  const waited = await waiting;
  check("wait ends with the outcome", waited.ok && waited.kind === "completed" && waited.data.outcome.pages === 3);
  const late = await GenerateReport.wait(id(1), { ...options, maxWaitMilliseconds: 200 });
  check("wait ends at its limit", kindOf(late) === "transport:poll_timeout");
  const controller = new AbortController();
  const aborting = GenerateReport.wait(id(1), { ...options, signal: controller.signal });
  controller.abort();
  check("wait ends on abort", kindOf(await aborting) === "transport:aborted");
  return failed;
};
