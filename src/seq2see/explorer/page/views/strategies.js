/** Several ways to search, below the answer of "Decode step by step": what each of them writes from the same beginning. */

import { strategiesCode } from "../code/generation_code.js";
import { button } from "../parts/controls.js";
import { fill, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";

const WIDTHS = [1, 2, 4, 8]; // beams that are compared

export class StrategyComparison {
  /** @param turn the page's turns: what is compared is drawn between two of its drawings, never in one */
  constructor(app, serial) {
    this.app = app;
    this.element = make("div", {});
    this.compare = serial(() => this.draw());
  }

  /** Another text or other settings: what was compared belongs to those before, and is offered to be compared again. */
  reset(params, chosen) {
    const { app } = this;
    Object.assign(this, { params, chosen });
    const name = app.t("strategies");
    fill(this.element, button(name, () => this.compare().catch(app.showError)));
    app.addDownload({ name });
    app.showCode({ name, python: null });
  }

  async draw() {
    const { app, params, chosen } = this;
    const { seed, temperature, top_k, top_p } = chosen;
    const nameOf = (count) => (count === 1 ? app.t("greedy") : app.t("beams", { count }));
    const drawn = (each) => [app.t("drawn", { seed: each }), { strategy: "sample", temperature, top_k, top_p, seed: each }];
    const strategies = [...WIDTHS.map((count) => [nameOf(count), strategyOf(count)]), drawn(seed), drawn(seed + 1)];
    const rows = [];
    for (const [name, strategy] of strategies) {
      const { answer } = await app.fetchJson("decode/search-tree", { ...params, ...strategy });
      rows.push([name, answer.text, answer.log_probability, answer.score]);
    }
    const columns = ["strategy", "answer", "total", "score"].map((key) => app.t(key));
    const read = ([name, text, total, score]) => [name, text, formatNumber(total), formatNumber(score)];
    const told = tableOf(columns, rows.map(read), [2, 3], "strategies");
    fill(this.element, make("div", { class: "scroll" }, told));
    told.viewData = rows;
    app.addDownload({ name: app.t("strategies"), figure: told, table: { columns, rows } });
    app.showCode({ name: app.t("strategies"), python: strategiesCode(app.run, params, chosen, WIDTHS) });
  }
}

/** One beam is greedy. */
export function strategyOf(beams) {
  return beams > 1 ? { strategy: "beam", num_beams: beams } : { strategy: "greedy" };
}

/** Rows under names; `numbers` says which columns are figures, `attributes` how a row looks. */
export function tableOf(names, rows, numbers, look, attributes = []) {
  const cell = (value, column) => make("td", { class: numbers.includes(column) ? "number" : null }, value);
  return make("table", { class: look }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
    ...rows.map((row, place) => make("tr", { class: attributes[place] }, ...row.map(cell))));
}
