// What the page calls beside the generated client.

export interface Person {
  readonly id: string;
  readonly name: string;
  readonly team: string;
}
export interface Session {
  readonly person: Person | null;
  readonly people: readonly Person[];
}
export interface Order {
  readonly operationId: string;
  readonly subject: string;
  readonly year: number;
  readonly quarter: number;
  readonly orderedAt: string;
  /** The status that it ended with; null while it is under way. */
  readonly ended: string | null;
}
export interface Wanted {
  readonly subject: string;
  readonly year: number;
  readonly quarter: number;
}

/** The server refused, in words that a person may read. */
export class Refused extends Error {}

const call = async (path: string, body?: unknown): Promise<Response> => {
  const init: RequestInit = { cache: "no-store", redirect: "error" };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { "content-type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Refused("The server can't be reached.");
  }
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { readonly detail?: unknown };
  if (response.status === 401) throw new Refused("Sign in first.");
  throw new Refused(typeof said.detail === "string" ? said.detail : `The server answered ${response.status}.`);
};

export const session = async (): Promise<Session> => (await call("/api/session")).json() as Promise<Session>;

export const signIn = async (person: string | null): Promise<void> => {
  await call("/api/session", { person });
};

export const orders = async (): Promise<readonly Order[]> =>
  ((await (await call("/api/reports")).json()) as { readonly items: readonly Order[] }).items;

/** Orders a report and gives the operation's id. */
export const order = async (wanted: Wanted): Promise<string> =>
  ((await (await call("/api/reports", wanted)).json()) as { readonly operationId: string }).operationId;
