/**
 * What stands around every view: the heading with its switches, the menu, the help text, and the downloads.
 * It is built once; another language or view only changes its texts, so that the keyboard's place is not lost.
 */

import { Downloads } from "./parts/downloads.js";
import { CodeFold } from "./parts/code_fold.js";
import { fill, make } from "./parts/dom.js";
import { Working } from "./parts/working.js";
import { hasAddress } from "./link.js";
import { spoken, word } from "./words.js";
import { saved } from "./ask.js";

const NARROW = 736; // pixels: below, a help text would fill the screen, and waits to be opened
const LOOKS = ["system", "light", "dark"];

export class Frame {
  /** `go` is called with what is to change in the address, `visit` with all that it is to say. */
  constructor(body, { go, visit }) {
    this.go = go;
    this.visit = visit;
    this.skip = make("a", { class: "skip", href: "#", on: { click: (event) => this.skipTo(event) } });
    this.runs = this.choice("run");
    this.second = this.choice("second");
    this.language = make("button", { type: "button", class: "quiet", on: { click: () => this.switchLanguage() } });
    this.look = make("select", { name: "look", on: { change: () => this.go({ look: this.lookChosen() }) } });
    this.saved = make("span", { class: "note", hidden: !saved });
    this.menu = make("nav", {});
    this.main = make("main", { id: "content", tabindex: "-1" });
    this.codes = new CodeFold();
    this.working = new Working(this.main);
    this.offered = make("footer", { class: "offered", hidden: true });
    this.live = make("p", { class: "live", role: "status" });
    const switches = make("div", { class: "switches" }, this.runs.label, this.second.label, this.look, this.language);
    const head = make("header", {}, make("strong", { class: "brand" }, "seq2see"), this.saved, switches);
    const column = make("div", { class: "column" }, this.main, this.codes.element, this.offered);
    column.addEventListener("keydown", (event) => event.key === "Escape" && close(event.target.closest("details[open]")));
    const middle = make("div", { class: "body" }, this.menu, column);
    body.replaceChildren(this.working.element, this.skip, head, middle, this.live);
  }

  /** Say everything in the language of now, for this view and these runs. */
  dress({ views, view, runs, run, link }) {
    this.skip.textContent = word("skip");
    this.saved.textContent = word("saved_page");
    this.working.element.setAttribute("aria-label", word("loading"));
    this.menu.setAttribute("aria-label", word("views"));
    fill(this.language, word("language"));
    this.language.setAttribute("aria-label", word("language_name"));
    this.language.lang = spoken() === "en" ? "zh" : "en";
    this.look.setAttribute("aria-label", word("look_name"));
    fill(this.look, ...LOOKS.map((name) => make("option", { value: name }, word(`look_${name}`))));
    this.look.value = LOOKS.includes(link.look) ? link.look : "system";
    this.tellRuns(this.runs, runs, run?.id, runs.length > 0);
    const others = [{ id: "", name: "–" }, ...runs.filter((each) => each.id !== run?.id)];
    this.tellRuns(this.second, others, link.second ?? "", Boolean(view?.second) && runs.length > 1);
    this.tellMenu(views, view, link);
    document.title = view ? `${titleOf(view)} – seq2see` : "seq2see";
  }

  /** An empty place for a view to draw in, under its title, what to look for, and help; what was drawn before is gone. */
  place(view) {
    const active = document.activeElement;
    this.focused = this.main.contains(active) ? active.name || active.id : "";
    const place = make("section", { class: `view view-${view.name}`, "aria-label": titleOf(view), "aria-busy": "true",
      "data-waits": word("loading") });
    const help = word("help_text", {}, view.words);
    const about = make("details", { class: "help" }, make("summary", {}, word("help")), make("p", {}, help));
    about.open = this.helpOpen ?? (innerWidth > NARROW && hasAddress()); // a frame in a notebook has little room
    about.addEventListener("toggle", () => (this.helpOpen = about.open));
    const lead = make("p", { class: "lead" }, word("look_for", {}, view.words));
    this.main.replaceChildren(make("h1", {}, titleOf(view)), lead, about, place); // the keyboard finds its place when all is drawn
    fill(this.offered, make("h2", {}, word("downloads")));
    this.offered.hidden = true;
    this.codes.clear();
    this.offers = new Map();
    this.live.textContent = word("loading");
    this.view = place;
    return place;
  }

  /** A view has drawn itself: the keyboard goes back to where it was. */
  ready() {
    this.live.textContent = "";
    this.view.removeAttribute("aria-busy");
    if (!this.focused) return;
    const again = [...this.main.querySelectorAll("[name], [id]")];
    again.find((each) => each.name === this.focused || each.id === this.focused)?.focus();
  }

  /**
   * Something that can be taken home: `{name, picture, table}`; the same name again replaces it. What changes its name with
   * what is shown has a `key` that does not; without a table nothing is offered under it any more.
   */
  offer({ key, ...what }) {
    const known = this.offers.get(key ?? what.name);
    if (what.table && known) known.replace(what);
    else if (what.table) {
      const fresh = new Downloads(what);
      this.offers.set(key ?? what.name, fresh);
      this.offered.append(fresh.element);
    } else if (known) {
      known.element.remove();
      this.offers.delete(key ?? what.name);
    }
    this.offered.hidden = !this.offers.size;
  }

  /** Say what went wrong where the view would stand, and aloud. */
  complain(what, remedy = "") {
    const texts = [what, remedy].filter(Boolean).map((text) => make("p", {}, text));
    const box = make("div", { class: "complaint", role: "alert" }, ...texts);
    if (this.view?.isConnected) {
      this.view.removeAttribute("aria-busy");
      this.forgive();
      this.view.before(box);
    } else fill(this.main, box);
    this.live.textContent = "";
  }

  /** Take back what was complained of: a later attempt went well. */
  forgive() {
    for (const box of this.main.querySelectorAll(".complaint")) box.remove();
  }

  choice(key) {
    const select = make("select", { name: key, on: { change: () => this.go({ [key]: select.value }) } });
    const text = make("span", {});
    return { key, select, text, label: make("label", { class: "choice" }, text, select) };
  }

  tellRuns(choice, runs, chosen, visible) {
    choice.label.hidden = !visible;
    choice.text.textContent = word(choice.key);
    const options = runs.map((run) => make("option", { value: run.id }, run.name));
    fill(choice.select, ...options);
    choice.select.value = chosen ?? "";
  }

  tellMenu(views, view, link) {
    const on = { click: (event) => this.choose(event) };
    const entries = views.map((each) =>
      make("a", { "aria-current": each === view ? "page" : null, "data-view": each.name, on }, titleOf(each)));
    fill(this.menu, ...entries);
    this.follow(link);
    this.menu.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  /** The address has changed: the menu takes along what was typed meanwhile. */
  follow(link) {
    for (const each of this.menu.children)
      each.setAttribute("href", `#${new URLSearchParams({ ...shared(link), view: each.dataset.view })}`);
  }

  /** A link of the menu; with a key held down it is the browser's business, such as opening it in another window. */
  choose(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.visit(Object.fromEntries(new URLSearchParams(event.currentTarget.getAttribute("href").slice(1))));
  }

  switchLanguage() {
    this.go({ lang: spoken() === "en" ? "zh" : "en" });
  }

  lookChosen() {
    return this.look.value === "system" ? null : this.look.value;
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
  const kept = ["run", "second", "text", "target", "number", "pixels", "lang", "look"];
  return Object.fromEntries(kept.filter((key) => link[key]).map((key) => [key, link[key]]));
}

function titleOf(view) {
  return word("title", {}, view.words);
}
