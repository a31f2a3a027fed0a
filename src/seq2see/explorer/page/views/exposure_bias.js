/**
 * The section "Exposure bias" of the view "Decode step by step": teacher forcing compared with free running, the first
 * different token, and the loss of the reference after it.
 */

import { exposureBiasCode } from "../code/generation_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { row, textBox } from "../parts/controls.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";

const LOSSES = ["forced_loss", "truth_after_free_loss", "free_loss"];

export class ExposureBias {
  /** @param input the input of the model, see `parts/input_box.js` */
  constructor(app, input) {
    this.app = app;
    this.input = input;
    this.panel = make("div", {});
    this.redraw = coalesced(() => this.load());
    this.box = textBox(app, "target", { name: app.t("reference_text"), redraw: this.redraw });
    this.element = make("section", { class: "exposure-bias" }, make("h2", {}, app.t("exposure_bias")),
      make("p", { class: "note" }, app.t("exposure_help")), row(this.box), this.panel);
  }

  async load() {
    const { app } = this;
    const reference = await this.input.truth();
    this.box.querySelector("textarea").placeholder = reference;
    const target = app.state.target || reference;
    const python = target.trim() ? exposureBiasCode(app.run, this.input.params(), target) : null;
    app.showCode({ name: app.t("exposure_bias"), python });
    if (!target.trim()) return fill(this.panel, make("p", { class: "note" }, app.t("no_reference_hint")));
    const response = await app.fetchJson("decode/exposure-bias", { run: app.run.id, ...this.input.params(), target });
    return this.draw(response);
  }

  draw(response) {
    const { app } = this;
    const lines = LOSSES.map((name, index) => ({
      name: app.t(name), x: response[name].map((_, step) => step + 1), y: response[name],
      color: LINE_COLORS[[0, 1, 7][index]], dashed: name === "free_loss",
    }));
    const chart = lineChart({ name: app.t("losses"), lines, xName: app.t("step"), from: 0 });
    const summary = app.t(response.divergence === null ? "agree" : "diverge", { step: (response.divergence ?? 0) + 1 });
    fill(this.panel, make("p", {}, make("strong", {}, summary)), legend(lines), chart.element, this.table(response));
    this.panel.viewData = response;
    app.addDownload({ name: app.t("exposure_bias"), figure: chart.svg, table: () => this.csv(response) });
  }

  table(response) {
    const { columns, rows } = this.csv(response);
    const cell = (value, column) => make("td", { class: column > 3 || column === 0 ? "number" : null },
      typeof value === "number" && column > 3 ? formatNumber(value) : value);
    const lines = rows.map((values, step) => make("tr", { class: step === response.divergence ? "divergence" : null },
      ...values.map(cell)));
    return make("div", { class: "scroll" }, make("table", { class: "exposure-table" },
      make("tr", {}, ...columns.map((name) => make("th", {}, name))), ...lines));
  }

  csv(response) {
    const { app } = this;
    const columns = ["step", "truth_token", "teacher_forced", "free_running", ...LOSSES].map((key) => app.t(key));
    const names = ["truth", "teacher_forced", "free_running", ...LOSSES];
    const count = Math.max(response.truth.length, response.free_running.length);
    const rowAt = (step) => [step + 1, ...names.map((name) => response[name][step] ?? "")];
    return { columns, rows: Array.from({ length: count }, (_, step) => rowAt(step)) };
  }
}
