/**
 * Requests to the server, or, in a saved page, the responses that are stored in it.
 *
 *   await fetchJson("tokenize", { run: "r1", text: "..." }, signal)        a plain object
 *   await fetchArray("attention/head", { run: "r1", ... }, signal)         { shape: [3, 4], values: Float32Array }
 *
 * Failures are thrown as a `UserError` with a message and a hint for the user.
 */

const MAX_TRIES = 4;

/** An error that the user can read and correct. */
export class UserError extends Error {
  constructor(message, hint = "", status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

/**
 * The data of a saved page: `{runs, views, link, responses}`, the responses by "route body". There are no others.
 * null if the page has a server.
 */
export const saved = readSaved();

/** Exchange the token of the first link for a cookie. */
export async function login(token) {
  if (!saved) await post("login", { token });
}

/** All open runs. */
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

/** The key of a request, independent of the order of the fields of its body; Python computes the same key. */
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

/** Send a request; if the server is busy, send it again after the time that it specifies. */
async function post(route, body, signal) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await send(`/api/${route}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    if (response.status !== 429 || attempt === MAX_TRIES) return checkStatus(response);
    await pause(1000 * Number(response.headers.get("Retry-After") || 1), signal);
  }
}

/** All browsers throw a TypeError if the server cannot be reached, with different messages. */
async function send(url, options) {
  try {
    return await fetch(url, options);
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
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

function readSaved() {
  const element = document.getElementById("responses");
  return element ? JSON.parse(element.textContent) : null;
}
