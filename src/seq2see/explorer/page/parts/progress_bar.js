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

const SHOW_DELAY = 300; // milliseconds that nobody calls waiting
const HIDE_DELAY = 60; // between the questions of one page

export class ProgressBar {
  constructor(main) {
    Object.assign(this, { main, pending: 0, showTimer: 0, hideTimer: 0 });
    this.element = make("div", { class: "progress-bar", role: "progressbar", hidden: true });
  }

  async track(answer) {
    this.begin();
    try {
      return await answer;
    } finally {
      this.end();
    }
  }

  begin() {
    this.pending += 1;
    clearTimeout(this.hideTimer);
    this.showTimer ||= setTimeout(() => this.setVisible(true), SHOW_DELAY);
  }

  end() {
    this.pending -= 1;
    if (this.pending) return;
    this.hideTimer = setTimeout(() => {
      clearTimeout(this.showTimer);
      this.showTimer = 0;
      this.setVisible(false);
    }, HIDE_DELAY);
  }

  setVisible(busy) {
    this.element.hidden = !busy;
    if (busy) this.main.setAttribute("aria-busy", "true");
    else this.main.removeAttribute("aria-busy");
  }
}
