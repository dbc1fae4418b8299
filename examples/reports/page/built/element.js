// Elements from their parts. Texts stay texts: nothing here reads markup.
export const element = (tag, attributes = {}, ...parts) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
        made.setAttribute(name, value);
    made.append(...parts);
    return made;
};
/** An element that stands in the page. */
export const find = (id, kind) => {
    const found = document.getElementById(id);
    if (!(found instanceof kind))
        throw new Error(`the page has no #${id}`);
    return found;
};
/** Waits, at most until the signal aborts. */
export const pause = (milliseconds, signal) => new Promise((resolve) => {
    if (signal.aborted)
        return resolve();
    const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
});
