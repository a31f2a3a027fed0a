/**
 * The layout around every view: the header with its controls, the menu, the help text, and the downloads.
 * It is built once; another language or view only changes its texts, so that the keyboard focus is not lost.
 */

import { DownloadButtons } from "./parts/downloads.js";
import { CodeFold } from "./parts/code_fold.js";
import { fill, make } from "./parts/dom.js";
import { ProgressBar } from "./parts/progress_bar.js";
import { hasAddress } from "./url_state.js";
import { currentLanguage, t } from "./strings.js";
import { saved } from "./api.js";

const NARROW = 736; // pixels: on a narrower screen a help text would fill the screen, so it starts closed
const THEMES = ["system", "light", "dark"];

export class PageLayout {
  /** `navigate` receives the changes of the address, `openState` the complete state. */
  constructor(body, { navigate, openState }) {
    this.navigate = navigate;
    this.openState = openState;
    this.skipLink = make("a", { class: "skip-link", href: "#", on: { click: (event) => this.skipTo(event) } });
    this.runs = this.runSelect("run");
    this.second = this.runSelect("second");
    this.language = make("button", { type: "button", class: "quiet", on: { click: () => this.switchLanguage() } });
    this.theme = make("select", { name: "theme", on: { change: () => this.navigate({ theme: this.selectedTheme() }) } });
    this.saved = make("span", { class: "note", hidden: !saved });
    this.menu = make("nav", {});
    this.main = make("main", { id: "content", tabindex: "-1" });
    this.codes = new CodeFold();
    this.progress = new ProgressBar(this.main);
    this.downloadList = make("footer", { class: "download-list", hidden: true });
    this.live = make("p", { class: "live", role: "status" });
    const controls = make("div", { class: "header-controls" }, this.runs.label, this.second.label, this.theme, this.language);
    const head = make("header", {}, make("strong", { class: "brand" }, "seq2see"), this.saved, controls);
    const column = make("div", { class: "column" }, this.main, this.codes.element, this.downloadList);
    column.addEventListener("keydown", (event) => event.key === "Escape" && close(event.target.closest("details[open]")));
    const middle = make("div", { class: "body" }, this.menu, column);
    body.replaceChildren(this.progress.element, this.skipLink, head, middle, this.live);
  }

  /** Write all texts in the current language, for this view and these runs. */
  update({ views, view, runs, run, link }) {
    this.skipLink.textContent = t("skip");
    this.saved.textContent = t("saved_page");
    this.progress.element.setAttribute("aria-label", t("loading"));
    this.menu.setAttribute("aria-label", t("views"));
    fill(this.language, t("language"));
    this.language.setAttribute("aria-label", t("language_name"));
    this.language.lang = currentLanguage() === "en" ? "zh" : "en";
    this.theme.setAttribute("aria-label", t("theme_name"));
    fill(this.theme, ...THEMES.map((name) => make("option", { value: name }, t(`theme_${name}`))));
    this.theme.value = THEMES.includes(link.theme) ? link.theme : "system";
    this.updateRuns(this.runs, runs, run?.id, runs.length > 0);
    const others = [{ id: "", name: "–" }, ...runs.filter((each) => each.id !== run?.id)];
    this.updateRuns(this.second, others, link.second ?? "", Boolean(view?.second) && runs.length > 1);
    this.updateMenu(views, view, link);
    document.title = view ? `${titleOf(view)} – seq2see` : "seq2see";
  }

  /** Replace the content by the title, the hint and the help of a view, and return an empty section for it to draw in. */
  mount(view) {
    const active = document.activeElement;
    this.focused = this.main.contains(active) ? active.name || active.id : "";
    const section = make("section", { class: `view view-${view.name}`, "aria-label": titleOf(view), "aria-busy": "true",
      "data-loading": t("loading") });
    const help = t("help_text", {}, view.strings);
    const about = make("details", { class: "help" }, make("summary", {}, t("help")), make("p", {}, help));
    about.open = this.helpOpen ?? (innerWidth > NARROW && hasAddress()); // a frame in a notebook is small
    about.addEventListener("toggle", () => (this.helpOpen = about.open));
    const lead = make("p", { class: "lead" }, t("hint", {}, view.strings));
    this.main.replaceChildren(make("h1", {}, titleOf(view)), lead, about, section); // `finish` restores the focus when all is drawn
    fill(this.downloadList, make("h2", {}, t("downloads")));
    this.downloadList.hidden = true;
    this.codes.clear();
    this.downloads = new Map();
    this.live.textContent = t("loading");
    this.view = section;
    return section;
  }

  /** A view is drawn: restore the keyboard focus. */
  finish() {
    this.live.textContent = "";
    this.view.removeAttribute("aria-busy");
    if (!this.focused) return;
    const candidates = [...this.main.querySelectorAll("[name], [id]")];
    candidates.find((each) => each.name === this.focused || each.id === this.focused)?.focus();
  }

  /**
   * Add a download: `{name, figure, table}`; the same name again replaces it. A download whose name changes with the data
   * has a constant `key`; without a table the download of this key is removed.
   */
  addDownload({ key, ...download }) {
    const existing = this.downloads.get(key ?? download.name);
    if (download.table && existing) existing.replace(download);
    else if (download.table) {
      const buttons = new DownloadButtons(download);
      this.downloads.set(key ?? download.name, buttons);
      this.downloadList.append(buttons.element);
    } else if (existing) {
      existing.element.remove();
      this.downloads.delete(key ?? download.name);
    }
    this.downloadList.hidden = !this.downloads.size;
  }

  /** Show an error in place of the view, and announce it to screen readers. */
  showError(message, hint = "") {
    const texts = [message, hint].filter(Boolean).map((text) => make("p", {}, text));
    const box = make("div", { class: "error", role: "alert" }, ...texts);
    if (this.view?.isConnected) {
      this.view.removeAttribute("aria-busy");
      this.clearError();
      this.view.before(box);
    } else fill(this.main, box);
    this.live.textContent = "";
  }

  /** Remove the errors: a later request succeeded. */
  clearError() {
    for (const box of this.main.querySelectorAll(".error")) box.remove();
  }

  runSelect(key) {
    const select = make("select", { name: key, on: { change: () => this.navigate({ [key]: select.value }) } });
    const text = make("span", {});
    return { key, select, text, label: make("label", { class: "run-select" }, text, select) };
  }

  updateRuns(runSelect, runs, chosen, visible) {
    runSelect.label.hidden = !visible;
    runSelect.text.textContent = t(runSelect.key);
    const options = runs.map((run) => make("option", { value: run.id }, run.name));
    fill(runSelect.select, ...options);
    runSelect.select.value = chosen ?? "";
  }

  updateMenu(views, view, link) {
    const on = { click: (event) => this.onMenuClick(event) };
    const entries = views.map((each) =>
      make("a", { "aria-current": each === view ? "page" : null, "data-view": each.name, on }, titleOf(each)));
    fill(this.menu, ...entries);
    this.updateMenuLinks(link);
    this.menu.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  /** The address has changed: the links of the menu carry the shared state along. */
  updateMenuLinks(link) {
    for (const each of this.menu.children)
      each.setAttribute("href", `#${new URLSearchParams({ ...shared(link), view: each.dataset.view })}`);
  }

  /** Open a link of the menu; with a modifier key the browser handles it, for example opens another window. */
  onMenuClick(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.openState(Object.fromEntries(new URLSearchParams(event.currentTarget.getAttribute("href").slice(1))));
  }

  switchLanguage() {
    this.navigate({ lang: currentLanguage() === "en" ? "zh" : "en" });
  }

  selectedTheme() {
    return this.theme.value === "system" ? null : this.theme.value;
  }

  skipTo(event) {
    event.preventDefault();
    this.main.focus();
  }
}

/** Close a fold, and move the focus to its summary. */
function close(details) {
  if (!details) return;
  details.open = false;
  details.querySelector("summary").focus();
}

/** The state that all views share; the rest of the address belongs to one view. */
function shared(link) {
  const keys = ["run", "second", "text", "target", "number", "pixels", "lang", "theme"];
  return Object.fromEntries(keys.filter((key) => link[key]).map((key) => [key, link[key]]));
}

function titleOf(view) {
  return t("title", {}, view.strings);
}
