/**
 * What stands around every view: the heading with its switches, the menu, the help text, and the downloads.
 * It is built once; another language or view only changes its texts, so that the keyboard's place is not lost.
 */

import { Downloads } from "./parts/downloads.js";
import { CodeFold } from "./parts/code_fold.js";
import { fill, make } from "./parts/dom.js";
import { ProgressBar } from "./parts/working.js";
import { hasAddress } from "./link.js";
import { currentLanguage, t } from "./words.js";
import { saved } from "./ask.js";

const NARROW = 736; // pixels: below, a help text would fill the screen, and waits to be opened
const THEMES = ["system", "light", "dark"];

export class PageLayout {
  /** `navigate` is called with what is to change in the address, `openState` with all that it is to say. */
  constructor(body, { navigate, openState }) {
    this.navigate = navigate;
    this.openState = openState;
    this.skip-link = make("a", { class: "skip-link", href: "#", on: { click: (event) => this.skipTo(event) } });
    this.runs = this.runSelect("run");
    this.second = this.runSelect("second");
    this.language = make("button", { type: "button", class: "quiet", on: { click: () => this.switchLanguage() } });
    this.theme = make("select", { name: "theme", on: { change: () => this.navigate({ theme: this.selectedTheme() }) } });
    this.saved = make("span", { class: "note", hidden: !saved });
    this.menu = make("nav", {});
    this.main = make("main", { id: "content", tabindex: "-1" });
    this.codes = new CodeFold();
    this.progress = new ProgressBar(this.main);
    this.downloadList = make("footer", { class: "downloadList", hidden: true });
    this.live = make("p", { class: "live", role: "status" });
    const header-controls = make("div", { class: "header-controls" }, this.runs.label, this.second.label, this.theme, this.language);
    const head = make("header", {}, make("strong", { class: "brand" }, "seq2see"), this.saved, header-controls);
    const column = make("div", { class: "column" }, this.main, this.codes.element, this.downloadList);
    column.addEventListener("keydown", (event) => event.key === "Escape" && close(event.target.closest("details[open]")));
    const middle = make("div", { class: "body" }, this.menu, column);
    body.replaceChildren(this.progress.element, this.skip-link, head, middle, this.live);
  }

  /** Say everything in the language of now, for this view and these runs. */
  update({ views, view, runs, run, link }) {
    this.skip-link.textContent = t("skip-link");
    this.saved.textContent = t("saved_page");
    this.progress.element.setAttribute("aria-label", t("loading"));
    this.menu.setAttribute("aria-label", t("views"));
    fill(this.language, t("language"));
    this.language.setAttribute("aria-label", t("language_name"));
    this.language.lang = currentLanguage() === "en" ? "zh" : "en";
    this.theme.setAttribute("aria-label", t("look_name"));
    fill(this.theme, ...THEMES.map((name) => make("option", { value: name }, t(`look_${name}`))));
    this.theme.value = THEMES.includes(link.theme) ? link.theme : "system";
    this.updateRuns(this.runs, runs, run?.id, runs.length > 0);
    const others = [{ id: "", name: "–" }, ...runs.filter((each) => each.id !== run?.id)];
    this.updateRuns(this.second, others, link.second ?? "", Boolean(view?.second) && runs.length > 1);
    this.updateMenu(views, view, link);
    document.title = view ? `${titleOf(view)} – seq2see` : "seq2see";
  }

  /** An empty place for a view to draw in, under its title, what to look for, and help; what was drawn before is gone. */
  mount(view) {
    const active = document.activeElement;
    this.focused = this.main.contains(active) ? active.name || active.id : "";
    const mount = make("section", { class: `view view-${view.name}`, "aria-label": titleOf(view), "aria-busy": "true",
      "data-loading": t("loading") });
    const help = t("help_text", {}, view.strings);
    const about = make("details", { class: "help" }, make("summary", {}, t("help")), make("p", {}, help));
    about.open = this.helpOpen ?? (innerWidth > NARROW && hasAddress()); // a frame in a notebook has little room
    about.addEventListener("toggle", () => (this.helpOpen = about.open));
    const lead = make("p", { class: "lead" }, t("hint", {}, view.strings));
    this.main.replaceChildren(make("h1", {}, titleOf(view)), lead, about, mount); // the keyboard finds its place when all is drawn
    fill(this.downloadList, make("h2", {}, t("downloads")));
    this.downloadList.hidden = true;
    this.codes.clear();
    this.offers = new Map();
    this.live.textContent = t("loading");
    this.view = mount;
    return mount;
  }

  /** A view has drawn itself: the keyboard goes back to where it was. */
  finish() {
    this.live.textContent = "";
    this.view.removeAttribute("aria-busy");
    if (!this.focused) return;
    const again = [...this.main.querySelectorAll("[name], [id]")];
    again.find((each) => each.name === this.focused || each.id === this.focused)?.focus();
  }

  /**
   * Something that can be taken home: `{name, figure, table}`; the same name again replaces it. What changes its name with
   * what is shown has a `key` that does not; without a table nothing is offered under it any more.
   */
  addDownload({ key, ...message }) {
    const known = this.offers.get(key ?? message.name);
    if (message.table && known) known.replace(message);
    else if (message.table) {
      const fresh = new Downloads(message);
      this.offers.set(key ?? message.name, fresh);
      this.downloadList.append(fresh.element);
    } else if (known) {
      known.element.remove();
      this.offers.delete(key ?? message.name);
    }
    this.downloadList.hidden = !this.offers.size;
  }

  /** Say what went wrong where the view would stand, and aloud. */
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

  /** Take back what was complained of: a later attempt went well. */
  clearError() {
    for (const box of this.main.querySelectorAll(".error")) box.remove();
  }

  runSelect(key) {
    const select = make("select", { name: key, on: { change: () => this.navigate({ [key]: select.value }) } });
    const text = make("span", {});
    return { key, select, text, label: make("label", { class: "runSelect" }, text, select) };
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

  /** The address has changed: the menu takes along what was typed meanwhile. */
  updateMenuLinks(link) {
    for (const each of this.menu.children)
      each.setAttribute("href", `#${new URLSearchParams({ ...shared(link), view: each.dataset.view })}`);
  }

  /** A link of the menu; with a key held down it is the browser's business, such as opening it in another window. */
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

/** What was opened is closed, and the keyboard stands where it can be opened again. */
function close(opened) {
  if (!opened) return;
  opened.open = false;
  opened.querySelector("summary").focus();
}

/** What goes along from view to view; the rest of the address belongs to the view that is left. */
function shared(link) {
  const kept = ["run", "second", "text", "target", "number", "pixels", "lang", "theme"];
  return Object.fromEntries(kept.filter((key) => link[key]).map((key) => [key, link[key]]));
}

function titleOf(view) {
  return t("title", {}, view.strings);
}
