/** One token of the view "Attention": where it looks by every head, in numbers, and on the image if it is one. */

import { fill, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { imageRequest } from "../parts/input_box.js";
import { patchImage } from "../parts/patch_image.js";

const MANY = 40; // keys that are shown, at most
const SMALL = 260; // pixels of the image beside the numbers

export class TokenDetail {
  constructor(place, app) {
    Object.assign(this, { place, app, map: null, image: null, shownOf: "" });
    this.patches = make("div", { class: "attention-patches" });
  }

  /** weights: for each head a number for every key; keys and columns: which of them are shown, and their names. */
  show({ layer, query, token, weights, keys, columns, of, grid }) {
    const { app } = this;
    const label = (head) => app.t("head_number", { number: head + 1 });
    const name = app.t("looks", { token, title: layer.title });
    const cells = weights.flatMap((row) => keys.map((key) => row[key]));
    const max = app.state.absolute ? 1 : null;
    const given = { name, rows: weights.map((_, head) => label(head)), columns, values: Float32Array.from(cells), max };
    this.map ??= heatMap(given);
    this.map.show(given);
    const far = !layer.cross && !(grid && layer.rows === "source"); // patches are not in a line
    const notes = weights.map((row, head) => {
      const { bits, away } = entropyAndDistance(row, query);
      const measures = [app.t("note_bits", { value: formatNumber(bits, 2) })];
      if (far) measures.push(app.t("note_distance", { value: formatNumber(away, 2) }));
      return make("li", {}, `${label(head)}: ${measures.join(", ")}`);
    });
    const fewer = keys.length < of ? make("p", { class: "note" }, app.t("only_strongest", { shown: keys.length, of })) : null;
    fill(this.place, make("h2", {}, name), this.patches, this.map.element, fewer, make("ul", { class: "note" }, ...notes));
    app.addDownload({ name: app.t("one_token"), figure: this.map.figure, table: this.map.table });
  }

  /** The same on the image, by the head that is chosen; what looks at a class token is not on it. */
  async showImage(params, weights, grid) {
    const { app } = this;
    const which = imageRequest(params);
    this.image ??= patchImage({ name: app.t("on_image"), side: grid[0] > 1 ? SMALL : SMALL * 2 }); // frames lie in one line
    const changes = { grid, heat: weights.slice(-grid[0] * grid[1]) };
    if (this.shownOf !== JSON.stringify(which)) {
      changes.pixels = await app.fetchArray("vit/image", which);
      this.shownOf = JSON.stringify(which);
    }
    this.image.show(changes);
    fill(this.patches, this.image.element);
    app.addDownload({ name: app.t("on_image"), figure: this.image.figure, table: this.image.table });
  }
}

/** The token that is shown: as the link says; else the usual one: the last of a text, as it may look at most. */
export function selectedQuery({ query }, usual, count) {
  return query < 0 ? usual : Math.min(query, count - 1);
}

/** Entropy in bits, and how many places away one look is on average. */
export function entropyAndDistance(weights, place) {
  let [bits, away] = [0, 0];
  weights.forEach((weight, key) => {
    if (weight > 0) bits -= weight * Math.log2(weight);
    away += weight * Math.abs(place - key);
  });
  return { bits: Math.abs(bits), away };
}

/** The keys that one token is shown with: all, or of very many those that any head takes most from, in their order. */
export function topKeys(weights, keys) {
  if (keys.length <= MANY) return keys;
  const max = new Map(keys.map((key) => [key, Math.max(...weights.map((row_) => row_[key]))]));
  return [...keys].sort((one, other) => max.get(other) - max.get(one)).slice(0, MANY).sort((one, other) => one - other);
}
