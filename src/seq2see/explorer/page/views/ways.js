/** Several ways to search, below the answer of "Decode step by step": what each of them writes from the same beginning. */

import { waysCode } from "../code/writing.js";
import { press } from "../parts/controls.js";
import { fill, make } from "../parts/dom.js";
import { figure } from "../parts/figures.js";

const WIDTHS = [1, 2, 4, 8]; // beams that are compared

export class Ways {
  /** @param turn the page's turns: what is compared is drawn between two of its drawings, never in one */
  constructor(bench, turn) {
    this.bench = bench;
    this.element = make("div", {});
    this.compare = turn(() => this.draw());
  }

  /** Another text or other settings: what was compared belongs to those before, and is offered to be compared again. */
  close(asked, chosen) {
    const { bench } = this;
    Object.assign(this, { asked, chosen });
    const name = bench.word("ways");
    fill(this.element, press(name, () => this.compare().catch(bench.fail)));
    bench.offer({ name });
    bench.code({ name, python: null });
  }

  async draw() {
    const { bench, asked, chosen } = this;
    const { seed, temperature, top_k, top_p } = chosen;
    const named = (count) => (count === 1 ? bench.word("greedy") : bench.word("beams", { count }));
    const drawn = (each) => [bench.word("drawn", { seed: each }), { way: "sample", temperature, top_k, top_p, seed: each }];
    const ways = [...WIDTHS.map((count) => [named(count), searchBy(count)]), drawn(seed), drawn(seed + 1)];
    const rows = [];
    for (const [name, way] of ways) {
      const { answer } = await bench.ask("decode/tree", { ...asked, ...way });
      rows.push([name, answer.text, answer.log_probability, answer.score]);
    }
    const columns = ["way", "answer", "total", "score"].map((key) => bench.word(key));
    const read = ([name, text, total, score]) => [name, text, figure(total), figure(score)];
    const told = tableOf(columns, rows.map(read), [2, 3], "ways");
    fill(this.element, make("div", { class: "scroll" }, told));
    told.shown = rows;
    bench.offer({ name: bench.word("ways"), picture: told, table: { columns, rows } });
    bench.code({ name: bench.word("ways"), python: waysCode(bench.run, asked, chosen, WIDTHS) });
  }
}

/** One beam is greedy. */
export function searchBy(beams) {
  return beams > 1 ? { way: "beam", num_beams: beams } : { way: "greedy" };
}

/** Rows under names; `numbers` says which columns are figures, `looks` how a row looks. */
export function tableOf(names, rows, numbers, look, looks = []) {
  const cell = (value, column) => make("td", { class: numbers.includes(column) ? "number" : null }, value);
  return make("table", { class: look }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
    ...rows.map((row, place) => make("tr", { class: looks[place] }, ...row.map(cell))));
}
