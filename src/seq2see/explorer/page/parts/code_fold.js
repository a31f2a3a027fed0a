/**
 * The Python code that computes the results of a view, in a fold below it: to read, copy and run. Views call `app.showCode`.
 *
 *   app.showCode({ name: "attention", python: "import seq2see\n..." })
 *
 * The same name again replaces a snippet, and null removes it. Copying needs no permission: the text is selected, and the
 * `copy` command of the browser works after a click, also in a saved page and inside a notebook.
 */

import { fill, make } from "./dom.js";
import { t } from "../strings.js";

const COPIED_PAUSE = 2000; // milliseconds for which the button shows "copied"

export class CodeFold {
  constructor() {
    this.summary = make("summary", {});
    this.about = make("p", { class: "note" });
    this.list = make("div", {});
    this.element = make("details", { class: "code", hidden: true }, this.summary, this.about, this.list);
    this.snippets = new Map();
  }

  /** Remove all snippets and update the texts, for another view or language. */
  clear() {
    this.summary.textContent = t("code");
    this.about.textContent = t("code_help");
    this.snippets.clear();
    fill(this.list);
    this.element.hidden = true;
  }

  /** Show a snippet. An existing one only changes its text, so that focus and selection are not lost. */
  show({ name, python }) {
    if (python === null) return this.remove(name);
    if (!this.snippets.has(name)) {
      const code = make("code", {});
      const title = make("h3", {}, name);
      const copy = make("button", { type: "button", "aria-label": `${t("copy")}: ${name}`, on: { click: () => copyCode(code, copy) } },
        t("copy"));
      this.snippets.set(name, code);
      this.list.append(make("section", {}, make("div", { class: "code-head" }, title, copy),
        make("pre", { class: "source", tabindex: "0", "data-code": name }, code)));
      this.element.hidden = false;
    }
    const code = this.snippets.get(name);
    if (code.textContent !== python) code.textContent = python;
    return undefined;
  }

  remove(name) {
    this.snippets.get(name)?.closest("section").remove();
    this.snippets.delete(name);
    this.element.hidden = this.snippets.size === 0;
  }
}

/** Copy the text of an element as plain text; if the browser refuses, the text stays selected for copying by hand. */
function copyCode(code, button) {
  const selection = getSelection();
  selection.selectAllChildren(code);
  const writeText = (event) => {
    event.clipboardData.setData("text/plain", code.textContent);
    event.preventDefault();
  };
  document.addEventListener("copy", writeText);
  const done = document.execCommand("copy");
  document.removeEventListener("copy", writeText);
  if (done) selection.removeAllRanges();
  button.textContent = t(done ? "copied" : "copy_by_hand");
  setTimeout(() => (button.textContent = t("copy")), COPIED_PAUSE);
}
