/**
 * Asking the server, or, in a saved page, the answers that were stored with it.
 *
 *   await ask("tokenize", { run: "r1", text: "..." }, signal)              a plain object
 *   await numbers("attention/head", { run: "r1", ... }, signal)            { shape: [3, 4], values: Float32Array }
 *
 * What goes wrong is thrown as a `UserError`: what happened, and what to do about it, for people to read.
 */

const MAX_TRIES = 4;

/** Something that a user can read and do something about. */
export class UserError extends Error {
  constructor(message, hint = "", status = 0) {
    super(message);
    this.message = message;
    this.hint = hint;
    this.status = status;
  }
}

/**
 * What a saved page carries with it: `{runs, views, link, responses}`, the answers by "route body". It can give no others.
 * null where a server answers.
 */
export const saved = readSaved();

/** Give the token of the first link, and get a cookie for it. */
export async function login(token) {
  if (!saved) await post("login", { token });
}

/** The runs that are open. */
export async function listRuns(signal) {
  if (saved) return saved.runs;
  const response = await checkStatus(await send("/api/runs", { signal }));
  return (await response.json()).runs;
}

export async function fetchJson(route, body, signal) {
  if (saved) return savedResponse(route, body).response;
  return (await post(route, body, signal)).json();
}

export async function fetchArray(route, body, signal) {
  if (saved) {
    const { shape, base64 } = savedResponse(route, body);
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return { shape, values: new Float32Array(bytes.buffer) };
  }
  const response = await post(route, body, signal);
  const shape = response.headers.get("X-Shape").split(",").filter(Boolean).map(Number);
  return { shape, values: new Float32Array(await response.arrayBuffer()) };
}

/** The same body always gives the same key, in whatever order it was written; Python makes it in the same way. */
export function requestKey(route, body) {
  return `${route} ${JSON.stringify(sortKeys(body))}`;
}

function sortKeys(value) {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sortKeys(value[key])]));
}

function savedResponse(route, body) {
  const response = saved.responses[requestKey(route, body)];
  if (!response) throw new UserError("not_saved", "", 404);
  if (response.error) throw errorOf(response.error, 422);
  return structuredClone(response);
}

/** Ask, and when too many others ask at this moment, ask again when told to. */
async function post(route, body, signal) {
  for (let turn = 1; ; turn += 1) {
    const response = await send(`/api/${route}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    if (response.status !== 429 || turn === MAX_TRIES) return checkStatus(response);
    await pause(1000 * Number(response.headers.get("Retry-After") || 1), signal);
  }
}

/** Browsers have no common word for a server that is gone; all of them throw a TypeError. */
async function send(address, given) {
  try {
    return await fetch(address, given);
  } catch (error) {
    throw error instanceof TypeError ? new UserError("no_server") : error;
  }
}

async function checkStatus(response) {
  if (response.ok) return response;
  if (response.status === 401) throw new UserError("unauthorized", "", 401);
  if (response.status === 429) throw new UserError("busy", "", 429);
  const fields = await response.json().catch(() => ({}));
  throw errorOf({ message: `${response.status} ${response.statusText}`, ...fields }, response.status);
}

function errorOf({ location, message, hint }, status) {
  return new UserError([location, message].filter(Boolean).join(": "), hint || "", status);
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const waiting = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(waiting);
      reject(signal.reason);
    });
  });
}

function readSaved() {
  const element = document.getElementById("responses");
  return element ? JSON.parse(element.textContent) : null;
}
