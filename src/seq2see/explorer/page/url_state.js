/**
 * The address holds the whole state of the page, after the `#`: a link can be sent, and the back button works.
 *
 *   #view=attention&run=r1&text=我有一支笔&layer=2
 *
 * The one thing that is never left there is the token of the first link: it is taken out before anything is drawn.
 * Where a page has no address of its own (inside a notebook), the state is kept in memory instead.
 */

const HISTORY_PAUSE = 800; // milliseconds: what is dragged or typed without a longer pause is one entry of the history

let memory = "";
let last = { when: 0, keys: "" };

/** The state that the address holds, as texts. */
export function readLink() {
  return Object.fromEntries(new URLSearchParams(fragment()));
}

/**
 * Write other values into the address; `null` and "" take a key out.
 * Quick changes of one thing become one entry of the history, so that "back" undoes a drag and not a pixel.
 */
export function writeLink(changes) {
  replaceLink({ ...readLink(), ...changes }, Object.keys(changes).sort().join());
}

/** Write a whole state into the address; `keys` names what was changed. */
export function replaceLink(state, keys = "") {
  const kept = Object.entries(state).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const written = `#${new URLSearchParams(kept)}`;
  if (written === `#${fragment()}`) return;
  const now = performance.now();
  const same = keys !== "" && keys === last.keys && now - last.when < HISTORY_PAUSE;
  last = { when: now, keys };
  updateAddress(written, same);
}

/** The token of the link that the terminal shows, taken out of the address for good; "" if there is none. */
export function extractToken() {
  const { token, ...rest } = readLink();
  if (token === undefined) return "";
  updateAddress(`#${new URLSearchParams(rest)}`, true);
  return token;
}

/** Hear of a link that was pasted, and of the back and forward buttons. */
export function onLink(listener) {
  addEventListener("popstate", listener);
}

/** The values of some keys, each of the kind that its default is; what cannot be read is the default. */
export function readState(link, defaults) {
  return Object.fromEntries(Object.entries(defaults).map(([key, fallback]) => [key, parseAs(link[key], fallback)]));
}

/** What the address says for values: nothing for a default. */
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

function updateAddress(written, replace) {
  memory = written.slice(1);
  if (!hasAddress()) return;
  if (replace) history.replaceState(null, "", written);
  else history.pushState(null, "", written);
}

/** Inside a notebook a page is `about:srcdoc`, whose address cannot be changed. */
export function hasAddress() {
  return location.protocol !== "about:";
}
