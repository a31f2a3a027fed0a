/** Where the page begins: who may enter, which runs there are, and which view the address asks for. */

import { ask, Complaint, enter, listRuns, numbers, saved } from "./ask.js";
import { asTexts, onLink, readLink, readState, replaceLink, takeToken, writeLink } from "./link.js";
import { Frame } from "./frame.js";
import { VIEWS } from "./views.js";
import { speak, word } from "./words.js";

/** A saved page shows only what it has answers for. */
const SHOWN = saved ? VIEWS.filter((each) => saved.views.includes(each.name)) : VIEWS;

/** What every view's state has, besides its own. */
const SHARED = { run: "", second: "", text: "", target: "", number: 0, pixels: "" };

let runs = [];
let frame;
let shown = new AbortController();

async function boot() {
  frame = new Frame(document.body, {
    go: (changes) => open(writeLink(changes)),
    visit: (state) => open(replaceLink(state)),
  });
  const token = takeToken();
  if (saved && !Object.keys(readLink()).length) writeLink(saved.link);
  dress(readLink());
  try {
    if (token) await enter(token);
    runs = await frame.working.during(listRuns());
  } catch (error) {
    frame.complain(...told(error));
    return;
  }
  onLink(open);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", open); // drawings have colours of their own
  await open();
}

/** Show what the address says: called at the start, on "back", on a pasted link, and for every choice in the frame. */
async function open() {
  shown.abort();
  shown = new AbortController();
  const link = readLink();
  dress(link);
  const run = runs.find((each) => each.id === link.run) ?? runs[0];
  const view = SHOWN.find((each) => each.name === link.view) ?? SHOWN.find((each) => run && suits(each, run));
  frame.dress({ views: SHOWN.filter((each) => run && suits(each, run)), view, runs, run, link });
  if (!run) return frame.complain(word("no_runs"));
  if (link.view && view.name !== link.view) return frame.complain(word("no_view", { name: link.view }));
  if (!suits(view, run)) return frame.complain(word(run.ready ? "nothing_suits" : "not_ready"), whichSuit(view));
  await show(view, run, link);
}

/** Whether a view has something to show of a run: the server's table says. */
function suits(view, run) {
  return run.views.includes(view.name);
}

async function show(view, run, link) {
  const { signal } = shown;
  const bench = benchOf(view, run, link, signal);
  const place = frame.place(view);
  try {
    await view.show(place, bench);
    if (!signal.aborted) frame.ready();
  } catch (error) {
    bench.fail(error);
  }
}

/** What a view works with: the run, its part of the address, and the ways to ask, to say and to offer. */
function benchOf(view, run, link, signal) {
  const defaults = { ...SHARED, ...view.state };
  const state = { ...readState(link, defaults), run: run.id };
  return {
    run,
    runs,
    state,
    second: runs.find((each) => each.id === state.second) ?? null,
    signal,
    ask: (route, body) => well(ask(route, body, signal)),
    numbers: (route, body) => well(numbers(route, body, signal)),
    word: (key, values) => word(key, values, view.words),
    fail: (error) => signal.aborted || frame.complain(...told(error)),
    offer: (what) => signal.aborted || frame.offer(what),
    code: (what) => signal.aborted || frame.codes.show(what),
    set(changes) {
      if (signal.aborted) return;
      Object.assign(state, changes);
      writeLink({ view: view.name, ...asTexts(changes, defaults) });
      frame.follow(readLink());
    },
  };
}

/** An answer is waited for where everybody sees it; one that came well takes back the complaint about the one before. */
async function well(answer) {
  const given = await frame.working.during(answer);
  frame.forgive();
  return given;
}

/** Language and light or dark: as the link says, else as the browser is set. */
function dress(link) {
  speak(link.lang ?? navigator.language);
  document.documentElement.dataset.look = ["light", "dark"].includes(link.look) ? link.look : "";
}

function whichSuit(view) {
  const names = runs.filter((each) => suits(view, each)).map((each) => each.name);
  return names.length ? word("suits_others", { names: names.join(", ") }) : "";
}

/** An error as two texts: what happened, and what to do. A bug is also left in the console, with its place. */
function told(error) {
  if (error instanceof Complaint) return [word(error.what), error.remedy];
  console.error(error);
  return [word("bug"), String(error.message ?? error)];
}

boot();
