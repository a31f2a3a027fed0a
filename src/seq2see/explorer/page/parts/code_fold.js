/**
 * The Python that makes what is shown, in a fold under the view: to be read, copied and run. Views call `app.code`.
 *
 *   bench.code({ name: "attention", python: "import seq2see\n..." })
 *
 * The same name again replaces it, and null takes it away: what is not on the page needs no code. Copying needs no
 * permission: the text is marked, and the browser is told to copy what is marked, which it does for whoever has just
 * pressed a button, also in a saved page and inside a notebook.
 */

import { fill, make } from "./dom.js";
import { t } from "../words.js";

const COPIED_PAUSE = 2000; // milliseconds for which a button says that it was done

export class CodeFold {
  constructor() {
    this.summary = make("summary", {});
    this.about = make("p", { class: "note" });
    this.list = make("div", {});
    this.element = make("details", { class: "code", hidden: true }, this.summary, this.about, this.list);
    this.snippets = new Map();
  }

  /** Another view, or another language: nothing is shown until the view says what. */
  clear() {
    this.summary.textContent = t("code");
    this.about.textContent = t("code_help");
    this.snippets.clear();
    fill(this.list);
    this.element.hidden = true;
  }

  /** What stands there already only gets another text: the keyboard's place and what is marked are not lost. */
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

/** Copy the text of an element as plain text; where a browser will not, it is marked and can be copied by hand. */
function copyCode(code, button) {
  const marked = getSelection();
  marked.selectAllChildren(code);
  const plain = (event) => {
    event.clipboardData.setData("text/plain", code.textContent);
    event.preventDefault();
  };
  document.addEventListener("copy", plain);
  const done = document.execCommand("copy");
  document.removeEventListener("copy", plain);
  if (done) marked.removeAllRanges();
  button.textContent = t(done ? "copyCode" : "copy_by_hand");
  setTimeout(() => (button.textContent = t("copy")), COPIED_PAUSE);
}
