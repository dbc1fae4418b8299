// The runtime of the generated client. It has no dependency and is the same for every operation.

/** A JSON value as `JSON.parse` gives it. */
type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Reads a value strictly, or throws `Mismatch`. */
export type Decoder<T> = (value: Json) => T;

class Mismatch extends Error {}

const mismatch = (): never => {
  throw new Mismatch();
};

export const text: Decoder<string> = (value) => (typeof value === "string" ? value : mismatch());
export const flag: Decoder<boolean> = (value) => (typeof value === "boolean" ? value : mismatch());
export const number: Decoder<number> = (value) => (typeof value === "number" ? value : mismatch());
/** Refuses what a double can't hold exactly, rather than showing another number. */
export const integer: Decoder<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value) ? value : mismatch();
export const nothing: Decoder<null> = (value) => (value === null ? null : mismatch());
export const anything: Decoder<unknown> = (value) => value;

export const literal =
  <const T extends string | number | boolean>(expected: T): Decoder<T> =>
  (value) =>
    value === expected ? expected : mismatch();

export const list =
  <T>(item: Decoder<T>): Decoder<readonly T[]> =>
  (value) =>
    Array.isArray(value) ? value.map((entry: Json) => item(entry)) : mismatch();

export const tuple =
  <T extends readonly unknown[]>(...items: { readonly [K in keyof T]: Decoder<T[K]> }): Decoder<T> =>
  (value) =>
    Array.isArray(value) && value.length === items.length
      ? (items.map((item, at) => item(value[at] as Json)) as unknown as T)
      : mismatch();

const isObject = (value: Json): value is { readonly [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const record =
  <T>(item: Decoder<T>): Decoder<{ readonly [key: string]: T }> =>
  (value) =>
    isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, item(entry)]))
      : mismatch();

/** A field that may be absent. */
export interface Optional<T> {
  readonly optional: Decoder<T>;
}
export const optional = <T>(decoder: Decoder<T>): Optional<T> => ({ optional: decoder });

type Fields = { readonly [key: string]: Decoder<unknown> | Optional<unknown> };

/** An object with exactly these keys. */
export const object =
  <T>(fields: Fields): Decoder<T> =>
  (value) => {
    if (!isObject(value)) return mismatch();
    for (const key of Object.keys(value)) if (!Object.hasOwn(fields, key)) return mismatch();
    const read: { [key: string]: unknown } = {};
    for (const [key, field] of Object.entries(fields)) {
      const present = Object.hasOwn(value, key);
      if (typeof field === "function") read[key] = present ? field(value[key] as Json) : mismatch();
      else if (present) read[key] = field.optional(value[key] as Json);
    }
    return read as T;
  };

/** The first alternative that reads the value. */
export const oneOf =
  <T>(...alternatives: readonly Decoder<T>[]): Decoder<T> =>
  (value) => {
    for (const alternative of alternatives) {
      try {
        return alternative(value);
      } catch (error) {
        if (!(error instanceof Mismatch)) throw error;
      }
    }
    return mismatch();
  };

/** A type that names itself. */
export const lazy =
  <T>(decoder: () => Decoder<T>): Decoder<T> =>
  (value) =>
    decoder()(value);

const freeze = <T>(value: T): T => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) freeze(part);
  }
  return value;
};

export interface Pending {
  readonly schemaVersion: 1;
  readonly operationId: string;
  readonly operationType: string;
}
export interface Accepted extends Pending {
  readonly state: "accepted";
}
export interface Running extends Pending {
  readonly state: "running";
  readonly attempt: number;
  readonly reviewRequired: boolean;
}
export interface RetryScheduled extends Pending {
  readonly state: "retry_scheduled";
  readonly attempt: number;
  /** RFC 3339; null where the platform named no time. */
  readonly retryAt: string | null;
}
export interface Completed<Outcome> extends Pending {
  readonly state: "completed";
  readonly outcome: Outcome;
}
export interface Rejected extends Pending {
  readonly state: "rejected";
  readonly error: { readonly category: string; readonly code: string };
}
export interface Failed extends Pending {
  readonly state: "failed";
  readonly error: { readonly code: "operation_failed" };
}
export interface DeadLettered extends Pending {
  readonly state: "dead_lettered";
  readonly error: { readonly code: "operation_dead_lettered" };
}

interface Answer<Kind extends string, Data> {
  readonly ok: true;
  readonly kind: Kind;
  readonly data: Data;
}
interface PendingAnswer<Kind extends string, Data> extends Answer<Kind, Data> {
  readonly retryAfterSeconds?: number;
}

export type TerminalResult<Outcome> =
  | Answer<"completed", Completed<Outcome>>
  | Answer<"rejected", Rejected>
  | Answer<"failed", Failed>
  | Answer<"dead_lettered", DeadLettered>;
export type PendingResult =
  | PendingAnswer<"accepted", Accepted>
  | PendingAnswer<"running", Running>
  | PendingAnswer<"retry_scheduled", RetryScheduled>;
export interface ErrorResult {
  readonly ok: false;
  readonly kind: "authentication" | "unavailable" | "expired" | "internal" | "transport";
  readonly error: { readonly code: string };
}
export type StatusResult<Outcome> = PendingResult | TerminalResult<Outcome> | ErrorResult;
export type WaitResult<Outcome> = TerminalResult<Outcome> | ErrorResult;

export interface StatusOptions {
  /** Where the status resource is mounted: `https://shop.example/api` for `/api/operations/{id}`. */
  readonly baseUrl: string;
  /** Sent with each request, a credential for example. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the call early with the code `aborted`. */
  readonly signal?: AbortSignal;
  /** Asks the server to hold its answer until the state changes: 1 to 30 seconds. */
  readonly preferWaitSeconds?: number;
  /** In place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}
export interface WaitOptions extends Omit<StatusOptions, "preferWaitSeconds"> {
  /** Ends the wait with the code `poll_timeout`. Default: 300,000. */
  readonly maxWaitMilliseconds?: number;
}

/** The status resource of one type of operation. */
export interface OperationClient<Outcome> {
  readonly operationType: string;
  /** One request: how the operation stands now. */
  status(id: string, options: StatusOptions): Promise<StatusResult<Outcome>>;
  /** Asks until the operation has ended. Leaves no timer and no listener behind. */
  wait(id: string, options: WaitOptions): Promise<WaitResult<Outcome>>;
}

const HOLD_SECONDS_MAX = 30;
const WAIT_MILLISECONDS_DEFAULT = 300_000;

/** Read through a call, since it changes while a request is under way. */
const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

const failure = (kind: ErrorResult["kind"], code: string): ErrorResult => freeze({ ok: false, kind, error: { code } });

const refusals: { readonly [status: number]: readonly [ErrorResult["kind"], string] } = {
  401: ["authentication", "unauthenticated"],
  404: ["unavailable", "operation_unavailable"],
  410: ["expired", "operation_expired"],
  500: ["internal", "internal_error"],
};

const refusalCode = (body: string, otherwise: string): string => {
  try {
    const value = JSON.parse(body) as Json;
    if (isObject(value) && typeof value["code"] === "string") return value["code"];
  } catch {
    // A body that is no JSON says nothing; the status decides.
  }
  return otherwise;
};

const retryAfter = (response: Response): { retryAfterSeconds?: number } => {
  const header = response.headers.get("retry-after") ?? "";
  return /^[0-9]{1,4}$/.test(header) ? { retryAfterSeconds: Number(header) } : {};
};

const decodeStatus = <Outcome>(
  body: string,
  id: string,
  operationType: string,
  outcome: Decoder<Outcome>,
): PendingResult | TerminalResult<Outcome> => {
  const value = JSON.parse(body) as Json;
  if (!isObject(value)) return mismatch();
  const head = { schemaVersion: literal(1), operationId: literal(id), operationType: literal(operationType) };
  const read = <Data>(state: string, fields: Fields): Data =>
    object<Data>({ ...head, state: literal(state), ...fields })(value);
  switch (value["state"]) {
    case "accepted":
      return { ok: true, kind: "accepted", data: read<Accepted>("accepted", {}) };
    case "running":
      return {
        ok: true,
        kind: "running",
        data: read<Running>("running", { attempt: integer, reviewRequired: flag }),
      };
    case "retry_scheduled":
      return {
        ok: true,
        kind: "retry_scheduled",
        data: read<RetryScheduled>("retry_scheduled", { attempt: integer, retryAt: oneOf<string | null>(text, nothing) }),
      };
    case "completed":
      return { ok: true, kind: "completed", data: read<Completed<Outcome>>("completed", { outcome }) };
    case "rejected":
      return {
        ok: true,
        kind: "rejected",
        data: read<Rejected>("rejected", { error: object({ category: text, code: text }) }),
      };
    case "failed":
      return {
        ok: true,
        kind: "failed",
        data: read<Failed>("failed", { error: object({ code: literal("operation_failed") }) }),
      };
    case "dead_lettered":
      return {
        ok: true,
        kind: "dead_lettered",
        data: read<DeadLettered>("dead_lettered", { error: object({ code: literal("operation_dead_lettered") }) }),
      };
    default:
      return mismatch();
  }
};

const requestStatus = async <Outcome>(
  id: string,
  operationType: string,
  outcome: Decoder<Outcome>,
  options: StatusOptions,
): Promise<StatusResult<Outcome>> => {
  if (!/^[0-9a-f]{32}$/.test(id)) return failure("unavailable", "operation_unavailable");
  if (isAborted(options.signal)) return failure("transport", "aborted");
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  if (options.preferWaitSeconds !== undefined) {
    const seconds = Math.min(HOLD_SECONDS_MAX, Math.max(1, Math.floor(options.preferWaitSeconds)));
    headers["prefer"] = `wait=${seconds}`;
  }
  let response: Response;
  let body: string;
  try {
    const url = `${options.baseUrl.replace(/\/+$/, "")}/operations/${id}`;
    const init: RequestInit = { headers, redirect: "error", cache: "no-store" };
    if (options.signal !== undefined) init.signal = options.signal;
    response = await (options.fetch ?? globalThis.fetch)(url, init);
    body = await response.text();
  } catch {
    return failure("transport", isAborted(options.signal) ? "aborted" : "network");
  }
  if (response.status !== 200) {
    const refusal = refusals[response.status];
    if (refusal === undefined) return failure("transport", `http_${response.status}`);
    return failure(refusal[0], refusalCode(body, refusal[1]));
  }
  try {
    const decoded = decodeStatus(body, id, operationType, outcome);
    const pending = decoded.kind === "accepted" || decoded.kind === "running" || decoded.kind === "retry_scheduled";
    return freeze(pending ? { ...decoded, ...retryAfter(response) } : decoded);
  } catch {
    return failure("transport", "invalid_response");
  }
};

/** Waits, at most until the signal aborts. */
const pause = (milliseconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal.addEventListener("abort", finish);
  });

const waitForEnd = async <Outcome>(
  id: string,
  operationType: string,
  outcome: Decoder<Outcome>,
  options: WaitOptions,
): Promise<WaitResult<Outcome>> => {
  const deadline = Date.now() + (options.maxWaitMilliseconds ?? WAIT_MILLISECONDS_DEFAULT);
  // One signal for the caller's abort and the deadline: whichever comes first ends request and pause alike.
  const ending = new AbortController();
  const end = () => ending.abort();
  options.signal?.addEventListener("abort", end);
  const timer = setTimeout(end, Math.max(0, deadline - Date.now()));
  const ended = () => failure("transport", isAborted(options.signal) ? "aborted" : "poll_timeout");
  try {
    for (;;) {
      if (isAborted(options.signal) || ending.signal.aborted) return ended();
      const asked = Date.now();
      const preferWaitSeconds = Math.ceil((deadline - asked) / 1000);
      const result = await requestStatus(id, operationType, outcome, {
        ...options,
        signal: ending.signal,
        preferWaitSeconds,
      });
      if (!result.ok) return result.error.code === "aborted" ? ended() : result;
      if (result.kind !== "accepted" && result.kind !== "running" && result.kind !== "retry_scheduled") return result;
      // A held answer has waited already.
      const due = asked + (result.retryAfterSeconds ?? 1) * 1000;
      await pause(Math.max(0, due - Date.now()), ending.signal);
    }
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", end);
  }
};

/** Makes the client of one type of operation. */
export const operation = <Outcome>(operationType: string, outcome: Decoder<Outcome>): OperationClient<Outcome> =>
  Object.freeze({
    operationType,
    status: (id: string, options: StatusOptions) => requestStatus(id, operationType, outcome, options),
    wait: (id: string, options: WaitOptions) => waitForEnd(id, operationType, outcome, options),
  });
