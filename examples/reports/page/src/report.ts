// One report: its status as it moves, and its typed outcome, by the generated client.

import { element, pause, type Part } from "./element.js";
import type { Order } from "./calls.js";
import { GenerateReport, type StatusResult } from "./operations/index.js";
import type { GenerateReportOutcome } from "./operations/generate-report.js";

type Result = StatusResult<GenerateReportOutcome>;
type State = Extract<Result, { ok: true }>["kind"];

/** How long to wait when the server could not be reached. */
const RECONNECT_MILLISECONDS = 2_000;
/** No two requests are nearer than this, whatever stands between page and server. */
const APART_MILLISECONDS = 200;

const STATES: Readonly<Record<State, string>> = {
  accepted: "Ordered",
  running: "In the works",
  retry_scheduled: "Waiting to try again",
  completed: "Ready",
  rejected: "Refused",
  failed: "Failed",
  dead_lettered: "Given up",
};

const REJECTIONS: Readonly<Record<string, string>> = {
  quarter_not_closed: "That quarter is not closed yet, so there is nothing to report. Choose an earlier one.",
};

const time = (at: Date): string => at.toLocaleTimeString("en", { hour12: false });
const count = (value: number): string => value.toLocaleString("en");
const euros = (cents: number): string => (cents / 100).toLocaleString("en", { style: "currency", currency: "EUR" });

export const titleOf = (order: Order): string => {
  const subject = order.subject.charAt(0).toUpperCase() + order.subject.slice(1);
  return `${subject}, Q${order.quarter} ${order.year}`;
};

/**
 * Shows the report until it has ended or the signal aborts; then says whether it moved while it was watched.
 * The order is known where it is one's own.
 */
export const watchReport = async (
  root: HTMLElement,
  id: string,
  order: Order | undefined,
  signal: AbortSignal,
): Promise<boolean> => {
  const view = new View(root, id, order);
  let hold: number | undefined;
  for (;;) {
    const asked = Date.now();
    const options = { baseUrl: "/api", signal };
    const result = await GenerateReport.status(id, hold === undefined ? options : { ...options, preferWaitSeconds: hold });
    if (signal.aborted) return false;
    view.show(result);
    if (!result.ok && result.kind === "transport") {
      hold = undefined;
      await pause(RECONNECT_MILLISECONDS, signal);
    } else if (isPending(result)) {
      // The server holds its answer until something changes, at most for as long as it would have us wait.
      hold = result.retryAfterSeconds ?? 1;
      await pause(asked + APART_MILLISECONDS - Date.now(), signal);
    } else {
      return view.moved;
    }
  }
};

type Pending = Extract<Result, { ok: true; kind: "accepted" | "running" | "retry_scheduled" }>;
const isPending = (result: Result): result is Pending =>
  result.ok && (result.kind === "accepted" || result.kind === "running" || result.kind === "retry_scheduled");

class View {
  moved = false;
  readonly #id: string;
  readonly #steps = element("ol", { class: "steps" });
  readonly #says = element("p", { class: "says", role: "status" });
  readonly #body = element("div", { class: "outcome" });
  readonly #log = element("ol", { class: "log", "aria-label": "What happened" });
  #last = "";

  constructor(root: HTMLElement, id: string, order: Order | undefined) {
    this.#id = id;
    if (order !== undefined) this.#note("accepted", new Date(order.orderedAt));
    const title = order === undefined ? "Report" : titleOf(order);
    document.title = `${title} – Reports`;
    root.replaceChildren(
      element("h1", {}, title),
      element("p", { class: "id" }, `Operation ${id}`),
      this.#steps,
      this.#says,
      this.#body,
      this.#log,
    );
  }

  show(result: Result): void {
    const now = JSON.stringify(result.ok ? result.data : result.error);
    if (now === this.#last) return;
    this.moved ||= this.#last !== "";
    this.#last = now;
    document.body.dataset["state"] = result.kind;
    if (result.ok) {
      this.#showSteps(result.kind);
      this.#says.textContent = sentence(result);
      this.#body.replaceChildren(...outcome(result, this.#id));
      if (result.kind !== "accepted") this.#note(result.kind, new Date());
    } else {
      this.#showError(result.kind);
    }
  }

  #showSteps(state: State): void {
    const ended = state === "completed" || state === "rejected" || state === "failed" || state === "dead_lettered";
    const at = ended ? 2 : state === "accepted" ? 0 : 1;
    const last = ended ? STATES[state] : STATES.completed;
    const middle = state === "retry_scheduled" ? STATES.retry_scheduled : STATES.running;
    const steps = [STATES.accepted, middle, last].map((label, place) => {
      const good = place < at || (ended && state === "completed");
      const kind = good ? "done" : place > at ? "next" : ended ? "bad" : "now";
      const attributes: Record<string, string> = { class: kind };
      if (place === at) attributes["aria-current"] = "step";
      return element("li", attributes, element("span", { class: "dot", "aria-hidden": "true" }), label);
    });
    this.#steps.replaceChildren(...steps);
  }

  #note(state: State, at: Date): void {
    this.#log.append(element("li", { "data-state": state }, element("time", {}, time(at)), STATES[state]));
  }

  #showError(kind: Extract<Result, { ok: false }>["kind"]): void {
    this.#says.textContent = ERRORS[kind];
    if (kind === "transport") return;
    this.#steps.replaceChildren();
    this.#body.replaceChildren();
    this.#log.replaceChildren();
  }
}

const ERRORS: Readonly<Record<Extract<Result, { ok: false }>["kind"], string>> = {
  authentication: "Sign in to see this report.",
  unavailable: "There is no such report, or it is not yours to see.",
  expired: "This report was deleted, since its time was over. Order it anew if you need it again.",
  internal: "Something went wrong on our side. It has been noted.",
  transport: "The connection was lost. Trying again …",
};

const sentence = (result: Extract<Result, { ok: true }>): string => {
  switch (result.kind) {
    case "accepted":
      return "Your order is in. A worker takes it in a moment.";
    case "running": {
      if (result.data.reviewRequired) return "A person has to look at it first.";
      const attempt = result.data.attempt > 1 ? `, at attempt ${result.data.attempt}` : "";
      return `A worker is making your report${attempt}.`;
    }
    case "retry_scheduled":
      return result.data.retryAt === null
        ? "The source was busy. It will be tried again."
        : `The source was busy. It will be tried again at ${time(new Date(result.data.retryAt))}.`;
    case "completed":
      return result.data.outcome.kind === "ready"
        ? "Your report is ready."
        : `Nothing was booked in that quarter: the books begin in ${result.data.outcome.firstYear}.`;
    case "rejected":
      return REJECTIONS[result.data.error.code] ?? `It was refused: ${result.data.error.code}.`;
    case "failed":
      return "The report failed: its source can't be read. Nothing was made.";
    case "dead_lettered":
      return "The report was given up after several attempts.";
  }
};

const outcome = (result: Extract<Result, { ok: true }>, id: string): readonly Part[] => {
  if (result.kind !== "completed" || result.data.outcome.kind !== "ready") return [];
  const { rows, totalCents, regions, fileName } = result.data.outcome;
  const figure = (label: string, value: string): HTMLElement =>
    element("div", {}, element("dt", {}, label), element("dd", {}, value));
  const lines = regions.map((line) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, line.region),
      element("td", {}, count(line.rows)),
      element("td", {}, euros(line.totalCents)),
    ),
  );
  const head = ["Region", "Bookings", "Total"].map((name) => element("th", { scope: "col" }, name));
  return [
    element("dl", { class: "figures" }, figure("Bookings", count(rows)), figure("Total", euros(totalCents))),
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)),
    element("a", { class: "button", href: `/api/reports/${id}/file`, download: fileName }, `Download ${fileName}`),
  ];
};
