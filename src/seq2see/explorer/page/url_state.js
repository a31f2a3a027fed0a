/**
 * The whole state of the page is stored in the address after the `#`: a link can be shared, and the back button works.
 *
 *   #view=attention&run=r1&text=我有一支笔&layer=2
 *
 * The token of the first link is the only exception: it is removed before anything is drawn.
 * A page without an address (inside a notebook) stores its state in memory.
 */

const HISTORY_PAUSE = 800; // milliseconds: dragging or typing without a longer pause is one entry of the history

let memory = "";
let last = { time: 0, keys: "" };

/** The state in the address, as strings. */
export function readLink() {
  return Object.fromEntries(new URLSearchParams(fragment()));
}

/**
 * Write changes into the address; `null` and "" remove a key.
 * Quick changes of the same keys become one entry of the history, so that "back" undoes a whole drag.
 */
export function writeLink(changes) {
  replaceLink({ ...readLink(), ...changes }, Object.keys(changes).sort().join());
}

/** Write a complete state into the address; `keys` are the changed keys. */
export function replaceLink(state, keys = "") {
  const entries = Object.entries(state).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const hash = `#${new URLSearchParams(entries)}`;
  if (hash === `#${fragment()}`) return;
  const now = performance.now();
  const same = keys !== "" && keys === last.keys && now - last.time < HISTORY_PAUSE;
  last = { time: now, keys };
  updateAddress(hash, same);
}

/** Remove the token of the link that the terminal shows from the address, and return it; "" if there is none. */
export function extractToken() {
  const { token, ...rest } = readLink();
  if (token === undefined) return "";
  updateAddress(`#${new URLSearchParams(rest)}`, true);
  return token;
}

/** Call `listener` when a link is pasted, and on the back and forward buttons. */
export function onLink(listener) {
  addEventListener("popstate", listener);
}

/** The values of some keys, each parsed as the type of its default; an invalid value is replaced by the default. */
export function readState(link, defaults) {
  return Object.fromEntries(Object.entries(defaults).map(([key, fallback]) => [key, parseAs(link[key], fallback)]));
}

/** The parameters of the address for some values: null for a default. */
export function toParameters(changes, defaults) {
  return Object.fromEntries(
    Object.entries(changes).map(([key, value]) => [key, value === defaults[key] ? null : toParameter(value)]),
  );
}

function parseAs(text, fallback) {
  if (text === undefined) return fallback;
  if (typeof fallback === "number") return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : fallback;
  if (typeof fallback === "boolean") return text === "yes";
  return text;
}

function toParameter(value) {
  return typeof value === "boolean" ? (value ? "yes" : "no") : value === null ? null : String(value);
}

function fragment() {
  return hasAddress() ? location.hash.slice(1) : memory;
}

function updateAddress(hash, replace) {
  memory = hash.slice(1);
  if (!hasAddress()) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
}

/** Whether the page has an address that can be changed; inside a notebook it is `about:srcdoc`. */
export function hasAddress() {
  return location.protocol !== "about:";
}
