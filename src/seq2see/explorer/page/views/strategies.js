/** The comparison of decoding strategies in the view "Decode step by step": the output of each for the same prefix. */

import { strategiesCode } from "../code/generation_code.js";
import { button } from "../parts/controls.js";
import { fill, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";

const WIDTHS = [1, 2, 4, 8]; // beams that are compared

export class StrategyComparison {
  /** @param serial the queue of the view's actions, so that the comparison is not drawn during another action */
  constructor(app, serial) {
    this.app = app;
    this.element = make("div", {});
    this.compare = serial(() => this.draw());
  }

  /** A new input or new settings: remove the old comparison, and show the button for a new one. */
  reset(params, settings) {
    const { app } = this;
    Object.assign(this, { params, settings });
    const name = app.t("strategies");
    fill(this.element, button(name, () => this.compare().catch(app.showError)));
    app.addDownload({ name });
    app.showCode({ name, python: null });
  }

  async draw() {
    const { app, params, settings } = this;
    const { seed, temperature, top_k, top_p } = settings;
    const nameOf = (count) => (count === 1 ? app.t("greedy") : app.t("beams", { count }));
    const sampled = (each) => [app.t("sampled", { seed: each }), { strategy: "sample", temperature, top_k, top_p, seed: each }];
    const strategies = [...WIDTHS.map((count) => [nameOf(count), strategyOf(count)]), sampled(seed), sampled(seed + 1)];
    const rows = [];
    for (const [name, strategy] of strategies) {
      const { answer } = await app.fetchJson("decode/search-tree", { ...params, ...strategy });
      rows.push([name, answer.text, answer.log_probability, answer.score]);
    }
    const columns = ["strategy", "answer", "total", "score"].map((key) => app.t(key));
    const formatRow = ([name, text, total, score]) => [name, text, formatNumber(total), formatNumber(score)];
    const table = tableOf(columns, rows.map(formatRow), [2, 3], "strategies");
    fill(this.element, make("div", { class: "scroll" }, table));
    table.viewData = rows;
    app.addDownload({ name: app.t("strategies"), figure: table, table: { columns, rows } });
    app.showCode({ name: app.t("strategies"), python: strategiesCode(app.run, params, settings, WIDTHS) });
  }
}

/** The request fields of beam search; one beam is greedy search. */
export function strategyOf(beams) {
  return beams > 1 ? { strategy: "beam", num_beams: beams } : { strategy: "greedy" };
}

/** A table; `numbers` are the indices of numeric columns, `rowClasses` the CSS classes of the rows. */
export function tableOf(names, rows, numbers, className, rowClasses = []) {
  const cell = (value, column) => make("td", { class: numbers.includes(column) ? "number" : null }, value);
  return make("table", { class: className }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
    ...rows.map((row, index) => make("tr", { class: rowClasses[index] }, ...row.map(cell))));
}
