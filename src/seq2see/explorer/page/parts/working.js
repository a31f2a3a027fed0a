/**
 * A thin bar at the top while something is being worked on: every question of every view is waited for in here.
 *
 *   const working = new Working(main);
 *   await working.during(ask("attention/layers", body));
 *
 * What is answered within a moment shows nothing, so that nothing flickers; several questions one after another are one wait.
 * Meanwhile `main` is `aria-busy`.
 */

import { make } from "./dom.js";

const MOMENT = 300; // milliseconds that nobody calls waiting
const BREATH = 60; // between the questions of one page

export class Working {
  constructor(main) {
    Object.assign(this, { main, waits: 0, soon: 0, rest: 0 });
    this.element = make("div", { class: "working", role: "progressbar", hidden: true });
  }

  async during(answer) {
    this.begin();
    try {
      return await answer;
    } finally {
      this.end();
    }
  }

  begin() {
    this.waits += 1;
    clearTimeout(this.rest);
    this.soon ||= setTimeout(() => this.tell(true), MOMENT);
  }

  end() {
    this.waits -= 1;
    if (this.waits) return;
    this.rest = setTimeout(() => {
      clearTimeout(this.soon);
      this.soon = 0;
      this.tell(false);
    }, BREATH);
  }

  tell(busy) {
    this.element.hidden = !busy;
    if (busy) this.main.setAttribute("aria-busy", "true");
    else this.main.removeAttribute("aria-busy");
  }
}
