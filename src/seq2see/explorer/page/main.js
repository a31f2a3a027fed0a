/** The entry point of the page: login, the list of runs, and the view that the address names. */

import { fetchJson, UserError, login, listRuns, fetchArray, saved } from "./api.js";
import { toParameters, onLink, readLink, readState, replaceLink, extractToken, writeLink } from "./url_state.js";
import { PageLayout } from "./layout.js";
import { VIEWS } from "./views.js";
import { setLanguage, t } from "./strings.js";

/** A saved page has only the views whose responses are stored in it. */
const AVAILABLE_VIEWS = saved ? VIEWS.filter((each) => saved.views.includes(each.name)) : VIEWS;

/** The state that all views share. Each view adds its own. */
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", open); // drawings have their own colors
  await open();
}

/** Show the view of the address: called at the start, on "back", on a pasted link, and on every change in the header. */
async function open() {
  controller.abort();
  controller = new AbortController();
  const link = readLink();
  applySettings(link);
  const run = runs.find((each) => each.id === link.run) ?? runs[0];
  const view = AVAILABLE_VIEWS.find((each) => each.name === link.view) ?? AVAILABLE_VIEWS.find((each) => run && supports(each, run));
  layout.update({ views: AVAILABLE_VIEWS.filter((each) => run && supports(each, run)), view, runs, run, link });
  if (!run) return layout.showError(t("no_runs"));
  if (link.view && view.name !== link.view) return layout.showError(t("no_view", { name: link.view }));
  if (!supports(view, run)) return layout.showError(t(run.ready ? "view_not_supported" : "not_ready"), supportingRuns(view));
  await show(view, run, link);
}

/** Whether a view supports a run, as listed by the server. */
function supports(view, run) {
  return run.views.includes(view.name);
}

async function show(view, run, link) {
  const { signal } = controller;
  const app = appOf(view, run, link, signal);
  const container = layout.mount(view);
  try {
    await view.show(container, app);
    if (!signal.aborted) layout.finish();
  } catch (error) {
    app.showError(error);
  }
}

/** The context of a view: the run, its part of the address, and functions for requests, texts, errors and downloads. */
function appOf(view, run, link, signal) {
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
    showError: (error) => signal.aborted || layout.showError(...errorTexts(error)),
    addDownload: (download) => signal.aborted || layout.addDownload(download),
    showCode: (snippet) => signal.aborted || layout.codes.show(snippet),
    set(changes) {
      if (signal.aborted) return;
      Object.assign(state, changes);
      writeLink({ view: view.name, ...toParameters(changes, defaults) });
      layout.updateMenuLinks(readLink());
    },
  };
}

/** Show the progress bar until the response arrives. A successful response clears the error of an earlier request. */
async function tracked(response) {
  const result = await layout.progress.track(response);
  layout.clearError();
  return result;
}

/** Set language and theme from the link, or else from the browser. */
function applySettings(link) {
  setLanguage(link.lang ?? navigator.language);
  document.documentElement.dataset.theme = ["light", "dark"].includes(link.theme) ? link.theme : "";
}

function supportingRuns(view) {
  const names = runs.filter((each) => supports(view, each)).map((each) => each.name);
  return names.length ? t("supported_runs", { names: names.join(", ") }) : "";
}

/** An error as two texts: message and hint. A bug is also logged to the console, with its stack trace. */
function errorTexts(error) {
  if (error instanceof UserError) return [t(error.message), error.hint];
  console.error(error);
  return [t("bug"), String(error.message ?? error)];
}

boot();
