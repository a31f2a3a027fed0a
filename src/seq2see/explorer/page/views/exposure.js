/**
 * Teacher forcing against free running, below the search: the same text once with the truth at every step, once with
 * the model's own words; where the two part, and what the truth costs from there on.
 */

import { exposureCode } from "../code/writing.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINES } from "../parts/colours.js";
import { row as beside, textBox } from "../parts/controls.js";
import { fill, latest, make } from "../parts/dom.js";
import { figure } from "../parts/figures.js";

const LOSSES = ["forced_loss", "truth_after_own_loss", "free_loss"];

export class Exposure {
  /** @param given what the model is given now; see `parts/given.js` */
  constructor(bench, given) {
    this.bench = bench;
    this.given = given;
    this.told = make("div", {});
    this.redraw = latest(() => this.ask());
    this.box = textBox(bench, "target", { name: bench.word("truth"), redraw: this.redraw });
    this.element = make("section", { class: "exposure" }, make("h2", {}, bench.word("exposure")),
      make("p", { class: "note" }, bench.word("exposure_help")), beside(this.box), this.told);
  }

  async ask() {
    const { bench } = this;
    const known = await this.given.truth();
    this.box.querySelector("textarea").placeholder = known;
    const target = bench.state.target || known;
    const python = target.trim() ? exposureCode(bench.run, this.given.asked(), target) : null;
    bench.code({ name: bench.word("exposure"), python });
    if (!target.trim()) return fill(this.told, make("p", { class: "note" }, bench.word("no_truth")));
    const found = await bench.ask("decode/exposure", { run: bench.run.id, ...this.given.asked(), target });
    return this.draw(found);
  }

  draw(found) {
    const { bench } = this;
    const lines = LOSSES.map((name, place) => ({
      name: bench.word(name), x: found[name].map((_, step) => step + 1), y: found[name],
      colour: LINES[[0, 1, 7][place]], dashed: name === "free_loss",
    }));
    const chart = lineChart({ name: bench.word("losses"), lines, xName: bench.word("step"), from: 0 });
    const told = bench.word(found.divergence === null ? "agree" : "diverge", { step: (found.divergence ?? 0) + 1 });
    fill(this.told, make("p", {}, make("strong", {}, told)), legend(lines), chart.element, this.table(found));
    this.told.shown = found;
    bench.offer({ name: bench.word("exposure"), picture: chart.svg, table: () => this.csv(found) });
  }

  table(found) {
    const { columns, rows } = this.csv(found);
    const cell = (value, column) => make("td", { class: column > 3 || column === 0 ? "number" : null },
      typeof value === "number" && column > 3 ? figure(value) : value);
    const lines = rows.map((values, step) => make("tr", { class: step === found.divergence ? "divergence" : null },
      ...values.map(cell)));
    return make("div", { class: "scroll" }, make("table", { class: "exposed" },
      make("tr", {}, ...columns.map((name) => make("th", {}, name))), ...lines));
  }

  csv(found) {
    const { bench } = this;
    const columns = ["step", "truth_piece", "guess", "free", ...LOSSES].map((key) => bench.word(key));
    const names = ["truth", "guess", "free", ...LOSSES];
    const count = Math.max(found.truth.length, found.free.length);
    const row = (step) => [step + 1, ...names.map((name) => found[name][step] ?? "")];
    return { columns, rows: Array.from({ length: count }, (_, step) => row(step)) };
  }
}
