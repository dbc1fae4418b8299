// One report: its status as it moves, and its typed outcome, by the generated client.
import { element, pause } from "./element.js";
import { GenerateReport } from "./operations/index.js";
/** How long to wait when the server could not be reached. */
const RECONNECT_MILLISECONDS = 2_000;
/** No two requests are nearer than this, whatever stands between page and server. */
const APART_MILLISECONDS = 200;
const STATES = {
    accepted: "Ordered",
    running: "In the works",
    retry_scheduled: "Waiting to try again",
    completed: "Ready",
    rejected: "Refused",
    failed: "Failed",
    dead_lettered: "Given up",
};
const REJECTIONS = {
    quarter_not_closed: "That quarter is not closed yet, so there is nothing to report. Choose an earlier one.",
};
const time = (at) => at.toLocaleTimeString("en", { hour12: false });
const count = (value) => value.toLocaleString("en");
const euros = (cents) => (cents / 100).toLocaleString("en", { style: "currency", currency: "EUR" });
export const titleOf = (order) => {
    const subject = order.subject.charAt(0).toUpperCase() + order.subject.slice(1);
    return `${subject}, Q${order.quarter} ${order.year}`;
};
/**
 * Shows the report until it has ended or the signal aborts; then says whether it moved while it was watched.
 * The order is known where it is one's own.
 */
export const watchReport = async (root, id, order, signal) => {
    const view = new View(root, id, order);
    let hold;
    for (;;) {
        const asked = Date.now();
        const options = { baseUrl: "/api", signal };
        const result = await GenerateReport.status(id, hold === undefined ? options : { ...options, preferWaitSeconds: hold });
        if (signal.aborted)
            return false;
        view.show(result);
        if (!result.ok && result.kind === "transport") {
            hold = undefined;
            await pause(RECONNECT_MILLISECONDS, signal);
        }
        else if (isPending(result)) {
            // The server holds its answer until something changes, at most for as long as it would have us wait.
            hold = result.retryAfterSeconds ?? 1;
            await pause(asked + APART_MILLISECONDS - Date.now(), signal);
        }
        else {
            return view.moved;
        }
    }
};
const isPending = (result) => result.ok && (result.kind === "accepted" || result.kind === "running" || result.kind === "retry_scheduled");
class View {
    moved = false;
    #id;
    #steps = element("ol", { class: "steps" });
    #says = element("p", { class: "says", role: "status" });
    #body = element("div", { class: "outcome" });
    #log = element("ol", { class: "log", "aria-label": "What happened" });
    #last = "";
    constructor(root, id, order) {
        this.#id = id;
        if (order !== undefined)
            this.#note("accepted", new Date(order.orderedAt));
        const title = order === undefined ? "Report" : titleOf(order);
        document.title = `${title} – Reports`;
        root.replaceChildren(element("h1", {}, title), element("p", { class: "id" }, `Operation ${id}`), this.#steps, this.#says, this.#body, this.#log);
    }
    show(result) {
        const now = JSON.stringify(result.ok ? result.data : result.error);
        if (now === this.#last)
            return;
        this.moved ||= this.#last !== "";
        this.#last = now;
        document.body.dataset["state"] = result.kind;
        if (result.ok) {
            this.#showSteps(result.kind);
            this.#says.textContent = sentence(result);
            this.#body.replaceChildren(...outcome(result, this.#id));
            if (result.kind !== "accepted")
                this.#note(result.kind, new Date());
        }
        else {
            this.#showError(result.kind);
        }
    }
    #showSteps(state) {
        const ended = state === "completed" || state === "rejected" || state === "failed" || state === "dead_lettered";
        const at = ended ? 2 : state === "accepted" ? 0 : 1;
        const last = ended ? STATES[state] : STATES.completed;
        const middle = state === "retry_scheduled" ? STATES.retry_scheduled : STATES.running;
        const steps = [STATES.accepted, middle, last].map((label, place) => {
            const good = place < at || (ended && state === "completed");
            const kind = good ? "done" : place > at ? "next" : ended ? "bad" : "now";
            const attributes = { class: kind };
            if (place === at)
                attributes["aria-current"] = "step";
            return element("li", attributes, element("span", { class: "dot", "aria-hidden": "true" }), label);
        });
        this.#steps.replaceChildren(...steps);
    }
    #note(state, at) {
        this.#log.append(element("li", { "data-state": state }, element("time", {}, time(at)), STATES[state]));
    }
    #showError(kind) {
        this.#says.textContent = ERRORS[kind];
        if (kind === "transport")
            return;
        this.#steps.replaceChildren();
        this.#body.replaceChildren();
        this.#log.replaceChildren();
    }
}
const ERRORS = {
    authentication: "Sign in to see this report.",
    unavailable: "There is no such report, or it is not yours to see.",
    expired: "This report was deleted, since its time was over. Order it anew if you need it again.",
    internal: "Something went wrong on our side. It has been noted.",
    transport: "The connection was lost. Trying again …",
};
const sentence = (result) => {
    switch (result.kind) {
        case "accepted":
            return "Your order is in. A worker takes it in a moment.";
        case "running": {
            if (result.data.reviewRequired)
                return "A person has to look at it first.";
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
const outcome = (result, id) => {
    if (result.kind !== "completed" || result.data.outcome.kind !== "ready")
        return [];
    const { rows, totalCents, regions, fileName } = result.data.outcome;
    const figure = (label, value) => element("div", {}, element("dt", {}, label), element("dd", {}, value));
    const lines = regions.map((line) => element("tr", {}, element("th", { scope: "row" }, line.region), element("td", {}, count(line.rows)), element("td", {}, euros(line.totalCents))));
    const head = ["Region", "Bookings", "Total"].map((name) => element("th", { scope: "col" }, name));
    return [
        element("dl", { class: "figures" }, figure("Bookings", count(rows)), figure("Total", euros(totalCents))),
        element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)),
        element("a", { class: "button", href: `/api/reports/${id}/file`, download: fileName }, `Download ${fileName}`),
    ];
};
