/**
 * Teacher forcing against free running, below the search: the same text once with the truth at every step, once with
 * the model's own words; where the two part, and what the truth costs from there on.
 */

import { exposureBiasCode } from "../code/generation_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { row as beside, textBox } from "../parts/controls.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";

const LOSSES = ["forced_loss", "truth_after_own_loss", "free_loss"];

export class ExposureBias {
  /** @param given what the model is given now; see `parts/input_form.js` */
  constructor(app, input) {
    this.app = app;
    this.input = input;
    this.panel = make("div", {});
    this.redraw = coalesced(() => this.load());
    this.box = textBox(app, "target", { name: app.t("truth"), redraw: this.redraw });
    this.element = make("section", { class: "exposure-bias" }, make("h2", {}, app.t("exposure-bias")),
      make("p", { class: "note" }, app.t("exposure_help")), beside(this.box), this.panel);
  }

  async load() {
    const { app } = this;
    const known = await this.input.truth();
    this.box.querySelector("textarea").placeholder = known;
    const target = app.state.target || known;
    const python = target.trim() ? exposureBiasCode(app.run, this.input.params(), target) : null;
    app.showCode({ name: app.t("exposure-bias"), python });
    if (!target.trim()) return fill(this.panel, make("p", { class: "note" }, app.t("no_truth")));
    const found = await app.load("decode/exposure-bias", { run: app.run.id, ...this.input.params(), target });
    return this.draw(found);
  }

  draw(found) {
    const { app } = this;
    const lines = LOSSES.map((name, place) => ({
      name: app.t(name), x: found[name].map((_, step) => step + 1), y: found[name],
      color: LINE_COLORS[[0, 1, 7][place]], dashed: name === "free_loss",
    }));
    const chart = lineChart({ name: app.t("losses"), lines, xName: app.t("step"), from: 0 });
    const panel = app.t(found.divergence === null ? "agree" : "diverge", { step: (found.divergence ?? 0) + 1 });
    fill(this.panel, make("p", {}, make("strong", {}, panel)), legend(lines), chart.element, this.table(found));
    this.panel.viewData = found;
    app.addDownload({ name: app.t("exposure-bias"), figure: chart.svg, table: () => this.csv(found) });
  }

  table(found) {
    const { columns, rows } = this.csv(found);
    const cell = (value, column) => make("td", { class: column > 3 || column === 0 ? "number" : null },
      typeof value === "number" && column > 3 ? formatNumber(value) : value);
    const lines = rows.map((values, step) => make("tr", { class: step === found.divergence ? "divergence" : null },
      ...values.map(cell)));
    return make("div", { class: "scroll" }, make("table", { class: "exposure-table" },
      make("tr", {}, ...columns.map((name) => make("th", {}, name))), ...lines));
  }

  csv(found) {
    const { app } = this;
    const columns = ["step", "truth_piece", "guess", "free", ...LOSSES].map((key) => app.t(key));
    const names = ["truth", "guess", "free", ...LOSSES];
    const count = Math.max(found.truth.length, found.free.length);
    const row = (step) => [step + 1, ...names.map((name) => found[name][step] ?? "")];
    return { columns, rows: Array.from({ length: count }, (_, step) => row(step)) };
  }
}
