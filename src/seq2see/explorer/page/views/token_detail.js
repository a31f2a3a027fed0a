/** One query of the view "Attention": its weights in every head, as a heat map, and on the image if there is one. */

import { fill, make } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { imageRequest } from "../parts/input_box.js";
import { patchImage } from "../parts/patch_image.js";

const MAX_KEYS = 40; // keys that are shown
const IMAGE_SIZE = 260; // pixels

export class TokenDetail {
  constructor(container, app) {
    Object.assign(this, { container, app, map: null, image: null, shownBody: "" });
    this.patches = make("div", { class: "attention-patches" });
  }

  /** weights: for each head the weights of all keys; keys and columns: the indices of the shown keys, and their tokens. */
  show({ layer, query, token, weights, keys, columns, keyCount, grid }) {
    const { app } = this;
    const label = (head) => app.t("head_number", { number: head + 1 });
    const name = app.t("token_weights", { token, title: layer.title });
    const cells = weights.flatMap((row) => keys.map((key) => row[key]));
    const max = app.state.absolute ? 1 : null;
    const options = { name, rows: weights.map((_, head) => label(head)), columns, values: Float32Array.from(cells), max };
    this.map ??= heatMap(options);
    this.map.show(options);
    const hasDistance = !layer.is_cross_attention && !(grid && layer.rows === "source"); // patches are not in a sequence
    const notes = weights.map((row, head) => {
      const { bits, away: distance } = entropyAndDistance(row, query);
      const measures = [app.t("note_bits", { value: formatNumber(bits, 2) })];
      if (hasDistance) measures.push(app.t("note_distance", { value: formatNumber(distance, 2) }));
      return make("li", {}, `${label(head)}: ${measures.join(", ")}`);
    });
    const shownNote = app.t("top_keys", { shown: keys.length, of: keyCount });
    const omittedNote = keys.length < keyCount ? make("p", { class: "note" }, shownNote) : null;
    fill(this.container, make("h2", {}, name), this.patches, this.map.element, omittedNote, make("ul", { class: "note" }, ...notes));
    app.addDownload({ name: app.t("one_token"), figure: this.map.figure, table: this.map.table });
  }

  /** Show the weights of the selected head on the image; weights on the class token are not shown. */
  async showImage(params, weights, grid) {
    const { app } = this;
    const body = imageRequest(params);
    const displaySize = grid[0] > 1 ? IMAGE_SIZE : IMAGE_SIZE * 2; // the frames of a video form one row
    this.image ??= patchImage({ name: app.t("on_image"), displaySize });
    const changes = { grid, heat: weights.slice(-grid[0] * grid[1]) };
    if (this.shownBody !== JSON.stringify(body)) {
      changes.pixels = await app.fetchArray("vit/image", body);
      this.shownBody = JSON.stringify(body);
    }
    this.image.show(changes);
    fill(this.patches, this.image.element);
    app.addDownload({ name: app.t("on_image"), figure: this.image.figure, table: this.image.table });
  }
}

/** The selected query: of the link, or else a default. */
export function selectedQuery({ query }, defaultQuery, count) {
  return query < 0 ? defaultQuery : Math.min(query, count - 1);
}

/** The entropy of attention weights in bits, and the mean distance of the keys from the query. */
export function entropyAndDistance(weights, query) {
  let [bits, distance] = [0, 0];
  weights.forEach((weight, key) => {
    if (weight > 0) bits -= weight * Math.log2(weight);
    distance += weight * Math.abs(query - key);
  });
  return { bits: Math.abs(bits), away: distance };
}

/** The keys that are shown: all, or the `MAX_KEYS` with the largest weight in any head, in their order. */
export function topKeys(weights, keys) {
  if (keys.length <= MAX_KEYS) return keys;
  const max = new Map(keys.map((key) => [key, Math.max(...weights.map((row_) => row_[key]))]));
  return [...keys].sort((one, other) => max.get(other) - max.get(one)).slice(0, MAX_KEYS).sort((one, other) => one - other);
}
