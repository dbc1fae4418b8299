// The page: who is signed in, the form, one's reports, and the one that the address names.

import { Refused, order, orders, session, signIn, type Order } from "./calls.js";
import { element, find } from "./element.js";
import { titleOf, watchReport } from "./report.js";

const person = find("person", HTMLSelectElement);
const form = find("order", HTMLFormElement);
const fields = find("order-fields", HTMLFieldSetElement);
const problem = find("order-problem", HTMLParagraphElement);
const list = find("orders", HTMLUListElement);
const report = find("report", HTMLElement);

const ENDS: Readonly<Record<string, string>> = {
  succeeded: "ready",
  rejected: "refused",
  failed: "failed",
  dead_lettered: "given up",
};

let watched = new AbortController();

/** The report that the address names. */
const shownId = (): string | undefined => /^\/reports\/([^/]+)$/.exec(location.pathname)?.[1];

const showList = (items: readonly Order[]): void => {
  const shown = shownId();
  const entries = items.map((item) => {
    const link = element("a", { href: `/reports/${item.operationId}` }, titleOf(item));
    if (item.operationId === shown) link.setAttribute("aria-current", "page");
    const end = item.ended === null ? "under way" : (ENDS[item.ended] ?? item.ended);
    return element("li", {}, link, element("span", { class: `mark ${item.ended ?? "pending"}` }, end));
  });
  list.replaceChildren(...(entries.length > 0 ? entries : [element("li", { class: "hint" }, "None yet.")]));
};

const welcome = (signedIn: boolean): void => {
  delete document.body.dataset["state"];
  document.title = "Reports";
  const says = signedIn ? "Order a report, or choose one of yours." : "Choose who you are, above.";
  report.replaceChildren(element("h1", {}, "Nothing chosen"), element("p", { class: "says", role: "status" }, says));
};

/** Shows what the address names, and follows it to its end. */
const render = async (): Promise<void> => {
  watched.abort();
  const here = (watched = new AbortController());
  const { person: who, people } = await session();
  if (here.signal.aborted) return;
  const choice = (id: string, text: string): HTMLOptionElement => element("option", { value: id }, text);
  person.replaceChildren(choice("", "nobody"), ...people.map((one) => choice(one.id, `${one.name}, team ${one.team}`)));
  person.value = who?.id ?? "";
  document.body.dataset["person"] = person.value;
  fields.disabled = who === null;
  const items = who === null ? [] : await orders();
  if (here.signal.aborted) return;
  showList(items);
  const id = shownId();
  if (id === undefined) return welcome(who !== null);
  const own = items.find((item) => item.operationId === id);
  const moved = await watchReport(report, id, own, here.signal);
  if (moved && who !== null) showList(await orders());
};

const refresh = (): void => {
  render().catch((error: unknown) => {
    const text = error instanceof Refused ? error.message : "Something went wrong in this page.";
    report.replaceChildren(element("p", { class: "notice bad", role: "alert" }, text));
    if (!(error instanceof Refused)) throw error;
  });
};

const go = (path: string): void => {
  history.pushState(null, "", path);
  refresh();
  report.focus();
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const given = new FormData(form);
  const wanted = {
    subject: String(given.get("subject")),
    year: Number(given.get("year")),
    quarter: Number(given.get("quarter")),
  };
  problem.hidden = true;
  fields.disabled = true;
  order(wanted)
    .then((id) => go(`/reports/${id}`))
    .catch((error: unknown) => {
      problem.textContent = error instanceof Refused ? error.message : "Something went wrong in this page.";
      problem.hidden = false;
    })
    .finally(() => (fields.disabled = false));
});

person.addEventListener("change", () => {
  signIn(person.value === "" ? null : person.value).then(refresh, refresh);
});

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (link === null || !plain || link.hasAttribute("download") || !link.pathname.match(/^\/(reports\/[^/]+)?$/)) return;
  if (link.hash !== "") return;
  event.preventDefault();
  go(link.pathname);
});

window.addEventListener("popstate", refresh);
refresh();
