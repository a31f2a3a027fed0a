/** Where the page begins: who may enter, which runs there are, and which view the address asks for. */

import { fetchJson, UserError, login, listRuns, fetchArray, saved } from "./ask.js";
import { toParameters, onLink, readLink, readState, replaceLink, extractToken, writeLink } from "./link.js";
import { PageLayout } from "./frame.js";
import { VIEWS } from "./views.js";
import { setLanguage, t } from "./words.js";

/** A saved page shows only what it has answers for. */
const AVAILABLE_VIEWS = saved ? VIEWS.filter((each) => saved.views.includes(each.name)) : VIEWS;

/** What every view's state has, besides its own. */
const SHARED = { run: "", second: "", text: "", target: "", number: 0, pixels: "" };

let runs = [];
let layout;
let controller = new AbortController();

async function boot() {
  layout = new PageLayout(document.body, {
    navigate: (changes) => open(writeLink(changes)),
    openState: (state) => open(replaceLink(state)),
  });
  const token = extractToken();
  if (saved && !Object.keys(readLink()).length) writeLink(saved.link);
  applySettings(readLink());
  try {
    if (token) await login(token);
    runs = await layout.progress.track(listRuns());
  } catch (error) {
    layout.showError(...errorTexts(error));
    return;
  }
  onLink(open);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", open); // drawings have colors of their own
  await open();
}

/** Show what the address says: called at the start, on "back", on a pasted link, and for every choice in the frame. */
async function open() {
  controller.abort();
  controller = new AbortController();
  const link = readLink();
  applySettings(link);
  const run = runs.find((each) => each.id === link.run) ?? runs[0];
  const view = AVAILABLE_VIEWS.find((each) => each.name === link.view) ?? AVAILABLE_VIEWS.find((each) => run && supports(each, run));
  layout.applySettings({ views: AVAILABLE_VIEWS.filter((each) => run && supports(each, run)), view, runs, run, link });
  if (!run) return layout.showError(t("no_runs"));
  if (link.view && view.name !== link.view) return layout.showError(t("no_view", { name: link.view }));
  if (!supports(view, run)) return layout.showError(t(run.ready ? "view_not_supported" : "not_ready"), supportingRuns(view));
  await show(view, run, link);
}

/** Whether a view has something to show of a run: the server's table says. */
function supports(view, run) {
  return run.views.includes(view.name);
}

async function show(view, run, link) {
  const { signal } = controller;
  const app = benchOf(view, run, link, signal);
  const place = layout.place(view);
  try {
    await view.show(place, app);
    if (!signal.aborted) layout.ready();
  } catch (error) {
    app.fail(error);
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
    fetchJson: (route, body) => tracked(fetchJson(route, body, signal)),
    fetchArray: (route, body) => tracked(fetchArray(route, body, signal)),
    t: (key, values) => t(key, values, view.strings),
    fail: (error) => signal.aborted || layout.showError(...errorTexts(error)),
    offer: (message) => signal.aborted || layout.offer(message),
    code: (message) => signal.aborted || layout.codes.show(message),
    set(changes) {
      if (signal.aborted) return;
      Object.assign(state, changes);
      writeLink({ view: view.name, ...toParameters(changes, defaults) });
      layout.updateMenuLinks(readLink());
    },
  };
}

/** An answer is waited for where everybody sees it; one that came well takes back the complaint about the one before. */
async function tracked(answer) {
  const given = await layout.progress.track(answer);
  layout.clearError();
  return given;
}

/** Language and light or dark: as the link says, else as the browser is set. */
function applySettings(link) {
  setLanguage(link.lang ?? navigator.language);
  document.documentElement.dataset.theme = ["light", "dark"].includes(link.theme) ? link.theme : "";
}

function supportingRuns(view) {
  const names = runs.filter((each) => supports(view, each)).map((each) => each.name);
  return names.length ? t("supported_runs", { names: names.join(", ") }) : "";
}

/** An error as two texts: what happened, and what to do. A bug is also left in the console, with its place. */
function errorTexts(error) {
  if (error instanceof UserError) return [t(error.message), error.hint];
  console.error(error);
  return [t("bug"), String(error.message ?? error)];
}

boot();
