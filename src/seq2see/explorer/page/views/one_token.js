/** One token of the view "Attention": where it looks by every head, in numbers, and on the picture if it is one. */

import { fill, make } from "../parts/dom.js";
import { figure } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { pictureAsked } from "../parts/given.js";
import { patchPicture } from "../parts/picture.js";

const MANY = 40; // keys that are shown, at most
const SMALL = 260; // pixels of the picture beside the numbers

export class OneToken {
  constructor(place, bench) {
    Object.assign(this, { place, bench, map: null, picture: null, shownOf: "" });
    this.patches = make("div", { class: "attention-patches" });
  }

  /** weights: for each head a number for every key; keys and columns: which of them are shown, and their names. */
  show({ layer, query, token, weights, keys, columns, of, grid }) {
    const { bench } = this;
    const label = (head) => bench.word("head_number", { number: head + 1 });
    const name = bench.word("looks", { token, title: layer.title });
    const cells = weights.flatMap((row) => keys.map((key) => row[key]));
    const most = bench.state.absolute ? 1 : null;
    const given = { name, rows: weights.map((_, head) => label(head)), columns, values: Float32Array.from(cells), most };
    this.map ??= heatMap(given);
    this.map.show(given);
    const far = !layer.across && !(grid && layer.rows === "source"); // patches are not in a line
    const notes = weights.map((row, head) => {
      const { bits, away } = rowMeasures(row, query);
      const measures = [bench.word("note_bits", { value: figure(bits, 2) })];
      if (far) measures.push(bench.word("note_far", { value: figure(away, 2) }));
      return make("li", {}, `${label(head)}: ${measures.join(", ")}`);
    });
    const fewer = keys.length < of ? make("p", { class: "note" }, bench.word("only_strongest", { shown: keys.length, of })) : null;
    fill(this.place, make("h2", {}, name), this.patches, this.map.element, fewer, make("ul", { class: "note" }, ...notes));
    bench.offer({ name: bench.word("one_token"), picture: this.map.picture, table: this.map.table });
  }

  /** The same on the picture, by the head that is chosen; what looks at a class token is not on it. */
  async showPicture(asked, weights, grid) {
    const { bench } = this;
    const which = pictureAsked(asked);
    this.picture ??= patchPicture({ name: bench.word("on_picture"), side: grid[0] > 1 ? SMALL : SMALL * 2 }); // frames lie in one line
    const changes = { grid, heat: weights.slice(-grid[0] * grid[1]) };
    if (this.shownOf !== JSON.stringify(which)) {
      changes.pixels = await bench.numbers("vit/picture", which);
      this.shownOf = JSON.stringify(which);
    }
    this.picture.show(changes);
    fill(this.patches, this.picture.element);
    bench.offer({ name: bench.word("on_picture"), picture: this.picture.picture, table: this.picture.table });
  }
}

/** The token that is shown: as the link says; else the usual one: the last of a text, as it may look at most. */
export function queryOf({ query }, usual, count) {
  return query < 0 ? usual : Math.min(query, count - 1);
}

/** Entropy in bits, and how many places away one look is on average. */
export function rowMeasures(weights, place) {
  let [bits, away] = [0, 0];
  weights.forEach((weight, key) => {
    if (weight > 0) bits -= weight * Math.log2(weight);
    away += weight * Math.abs(place - key);
  });
  return { bits: Math.abs(bits), away };
}

/** The keys that one token is shown with: all, or of very many those that any head takes most from, in their order. */
export function strongest(weights, keys) {
  if (keys.length <= MANY) return keys;
  const most = new Map(keys.map((key) => [key, Math.max(...weights.map((row_) => row_[key]))]));
  return [...keys].sort((one, other) => most.get(other) - most.get(one)).slice(0, MANY).sort((one, other) => one - other);
}
