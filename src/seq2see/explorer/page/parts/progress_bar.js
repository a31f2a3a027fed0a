/**
 * A thin bar at the top of the page while requests are in progress.
 *
 *   const progress = new ProgressBar(main);
 *   await progress.track(fetchJson("attention/layers", body));
 *
 * A short request shows no bar, so that it does not flicker; consecutive requests show one bar without gaps.
 * `main` is `aria-busy` while the bar is visible.
 */

import { make } from "./dom.js";

const SHOW_DELAY = 300; // milliseconds; shorter requests show no bar
const HIDE_DELAY = 60; // milliseconds between consecutive requests

export class ProgressBar {
  constructor(main) {
    Object.assign(this, { main, pending: 0, showTimer: 0, hideTimer: 0 });
    this.element = make("div", { class: "progress-bar", role: "progressbar", hidden: true });
  }

  async track(response) {
    this.begin();
    try {
      return await response;
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
