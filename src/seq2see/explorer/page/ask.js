/**
 * Asking the server, or, in a saved page, the answers that were stored with it.
 *
 *   await ask("tokenise", { run: "r1", text: "..." }, signal)              a plain object
 *   await numbers("attention/head", { run: "r1", ... }, signal)            { shape: [3, 4], values: Float32Array }
 *
 * What goes wrong is thrown as a `Complaint`: what happened, and what to do about it, for people to read.
 */

const TRIES = 4;

/** Something that a user can read and do something about. */
export class Complaint extends Error {
  constructor(what, remedy = "", status = 0) {
    super(what);
    this.what = what;
    this.remedy = remedy;
    this.status = status;
  }
}

/**
 * What a saved page carries with it: `{runs, views, link, answers}`, the answers by "route body". It can give no others.
 * null where a server answers.
 */
export const saved = readSaved();

/** Give the token of the first link, and get a cookie for it. */
export async function enter(token) {
  if (!saved) await sent("enter", { token });
}

/** The runs that are open. */
export async function listRuns(signal) {
  if (saved) return saved.runs;
  const answer = await heard(await reached("/api/runs", { signal }));
  return (await answer.json()).runs;
}

export async function ask(route, body, signal) {
  if (saved) return found(route, body).answer;
  return (await sent(route, body, signal)).json();
}

export async function numbers(route, body, signal) {
  if (saved) {
    const { shape, base64 } = found(route, body);
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return { shape, values: new Float32Array(bytes.buffer) };
  }
  const answer = await sent(route, body, signal);
  const shape = answer.headers.get("X-Shape").split(",").filter(Boolean).map(Number);
  return { shape, values: new Float32Array(await answer.arrayBuffer()) };
}

/** The same body always gives the same key, in whatever order it was written; Python makes it in the same way. */
export function keyOf(route, body) {
  return `${route} ${JSON.stringify(sorted(body))}`;
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function found(route, body) {
  const answer = saved.answers[keyOf(route, body)];
  if (!answer) throw new Complaint("not_saved", "", 404);
  if (answer.complaint) throw complaintOf(answer.complaint, 422);
  return structuredClone(answer);
}

/** Ask, and when too many others ask at this moment, ask again when told to. */
async function sent(route, body, signal) {
  for (let turn = 1; ; turn += 1) {
    const answer = await reached(`/api/${route}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    if (answer.status !== 429 || turn === TRIES) return heard(answer);
    await pause(1000 * Number(answer.headers.get("Retry-After") || 1), signal);
  }
}

/** Browsers have no common word for a server that is gone; all of them throw a TypeError. */
async function reached(address, given) {
  try {
    return await fetch(address, given);
  } catch (error) {
    throw error instanceof TypeError ? new Complaint("no_server") : error;
  }
}

async function heard(answer) {
  if (answer.ok) return answer;
  if (answer.status === 401) throw new Complaint("no_entry", "", 401);
  if (answer.status === 429) throw new Complaint("busy", "", 429);
  const told = await answer.json().catch(() => ({}));
  throw complaintOf({ what: `${answer.status} ${answer.statusText}`, ...told }, answer.status);
}

function complaintOf({ where, what, remedy }, status) {
  return new Complaint([where, what].filter(Boolean).join(": "), remedy || "", status);
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
  const element = document.getElementById("answers");
  return element ? JSON.parse(element.textContent) : null;
}
