// What the page calls beside the generated client.
/** The server refused, in words that a person may read. */
export class Refused extends Error {
}
const call = async (path, body) => {
    const init = { cache: "no-store", redirect: "error" };
    if (body !== undefined) {
        init.method = "POST";
        init.headers = { "content-type": "application/json" };
        init.body = JSON.stringify(body);
    }
    let response;
    try {
        response = await fetch(path, init);
    }
    catch {
        throw new Refused("The server can't be reached.");
    }
    if (response.ok)
        return response;
    const said = (await response.json().catch(() => ({})));
    if (response.status === 401)
        throw new Refused("Sign in first.");
    throw new Refused(typeof said.detail === "string" ? said.detail : `The server answered ${response.status}.`);
};
export const session = async () => (await call("/api/session")).json();
export const signIn = async (person) => {
    await call("/api/session", { person });
};
export const orders = async () => (await (await call("/api/reports")).json()).items;
/** Orders a report and gives the operation's id. */
export const order = async (wanted) => (await (await call("/api/reports", wanted)).json()).operationId;
