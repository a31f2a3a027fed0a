/** Images: patches and where they look, what reached the answer, and what becomes of it when patches change. */

import { heatCode, regionCode, predictImageCode } from "../code/image_code.js";
import { bars } from "../parts/bars.js";
import { dropdown, button, row, slider, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { drawingBoard } from "../parts/drawing_board.js";
import { fileInput, fitsInLink, storePixels } from "../parts/file_input.js";
import { formatPercent } from "../parts/number_format.js";
import { meanRow, rowOf } from "../parts/head_math.js";
import { patchImage } from "../parts/patch_image.js";
import { shuffle } from "../parts/reorder.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./vit_strings.js";

const VIDEO_WIDTH = 900; // pixels of a video, whose frames lie side by side
const NO_PATCH = -1; // no patch is chosen: the class token asks, or all patches on average

export const view = {
  name: "vit",
  strings,
  state: { shows: "attention", layer: -1, head: -1, query: NO_PATCH, fusion: "mean", discard: 0, cover: "",
    order: "", off: false },
  show: (place, app) => new ImagesView(place, app).open(),
};

class ImagesView {
  constructor(place, app) {
    const video = app.run.capabilities.includes("videos");
    Object.assign(this, { place, app, video, hovered: NO_PATCH, word: NO_PATCH });
    this.image = patchImage({
      name: app.t("title"),
      displaySize: video ? VIDEO_WIDTH : undefined,
      onPoint: (patch_size) => this.point(patch_size),
      onPick: (patch_size) => this.toggleCover(patch_size),
      onMove: (from, to) => this.swap(from, to),
    });
    this.readout = make("p", { class: "image-readout" });
    this.candidates = make("div", { class: "image-candidates" });
    this.about = make("p", { class: "note" });
    this.board = make("div", { on: { keydown: (event) => event.key === "Escape" && this.openBoard().focus() } });
    this.drawn = button(app.t("draw"), () => this.openBoard());
    const serial = serialQueue();
    this.redraw = serial(() => this.draw());
    this.reloadMaps = serial(() => this.loadMaps());
    this.region = serial(() => this.loadRegions());
  }

  async open() {
    const { app } = this;
    this.info = await app.fetchJson("vit/info", this.params({ order: [], cover: [] }));
    const { info } = this;
    this.ways = make("div", { class: "controls" });
    this.controls = this.choices();
    const left = make("div", {}, this.readout, this.image.element, this.about);
    const page = make("div", { class: this.video ? "" : "image-page" }, left, this.candidates);
    fill(this.place, this.sources(), this.board, this.ways, this.changes(), page);
    if (!info.layers && !this.video) this.place.prepend(make("p", { class: "note" }, app.t("no_attention")));
    await this.redraw();
  }

  /** Where an image comes from: the run's own test images, a file, or the board. */
  sources() {
    const { app, info } = this;
    const format = (value) => `${value + 1} / ${info.count}`;
    const numbers = { name: app.t(this.video ? "video" : "image"), to: info.count - 1, format, redraw: () => this.onNewInput() };
    const onOwnImage = fileInput(app, () => this.onOwnImage());
    return row(info.count ? slider(app, "number", numbers) : null, onOwnImage, this.video ? null : this.drawn);
  }

  /** What can be done to an image. */
  changes() {
    const { app, info } = this;
    return row(
      button(app.t(this.video ? "shuffle_frames" : "shuffle"), () => this.shuffle()),
      button(app.t("back"), () => this.change({ order: "" })),
      button(app.t("uncover"), () => this.change({ cover: "" })),
      info.positions === "none" ? null : toggle(app, "off", { name: app.t("off"), redraw: this.redraw }),
    );
  }

  /** What is shown over it; `loadMaps` lays out those that the choice needs. */
  choices() {
    const { app, info, reloadMaps: redraw } = this;
    const readout = info.positions === "none" ? [] : ["position"];
    const shows = [...(info.layers ? ["attention", "rollout"] : []), ...readout, "bare"];
    if (!shows.includes(app.state.shows)) app.set({ shows: shows[0] });
    const last = Math.max(info.layers - 1, 0);
    if (app.state.layer < 0 || app.state.layer > last) app.state.layer = last; // it says most of what was decided
    const named = (names) => names.map((each) => [each, app.t(each)]);
    const numbered = (count) => Array.from({ length: count }, (_, place) => [place, String(place + 1)]);
    const heads = [[-1, app.t("mean")], ...numbered(info.heads)];
    return {
      shows: dropdown(app, "shows", { name: app.t("shows"), options: named(shows), redraw }),
      layer: dropdown(app, "layer", { name: app.t("layer"), options: numbered(info.layers), redraw }),
      head: dropdown(app, "head", { name: app.t("head"), options: heads, redraw }),
      fusion: dropdown(app, "fusion", { name: app.t("fusion"), options: named(["mean", "min", "max"]), redraw }),
      discard: slider(app, "discard", { name: app.t("discard"), to: 0.95, step: 0.05, format: formatPercent, redraw }),
    };
  }

  /** What every question says of the image. */
  params(more = {}) {
    const { state, run } = this.app;
    return { run: run.id, ...(state.pixels ? { pixels: state.pixels } : { number: state.number }), order: listOf(state.order),
      cover: listOf(state.cover), ...more };
  }

  /** The same of what the model makes of it, which may be told nothing of places. */
  modelParams(more = {}) {
    return this.params({ positions: this.app.state.off ? "off" : "readout", ...more });
  }

  /** Ask for everything anew: another image, or other patches. */
  async draw() {
    const { app } = this;
    const changed = Boolean(app.state.order || app.state.cover || app.state.off);
    const bare = this.params({ order: [], cover: [] });
    const [info, pixels, plain, other] = [
      await app.fetchJson("vit/info", bare), await app.fetchArray("vit/image", this.params()),
      await app.fetchJson("vit/predict", { ...bare, positions: "readout" }),
      changed ? await app.fetchJson("vit/predict", this.modelParams()) : null,
    ];
    Object.assign(this.info, info);
    Object.assign(this, { prediction: other ?? plain, word: NO_PATCH, regions: null });
    this.image.show({ pixels, grid: info.grid, heat: null, covered: listOf(app.state.cover) });
    this.about.textContent = this.imageNote(info);
    this.drawPrediction(plain, other);
    app.showCode({ name: app.t("prediction"), python: predictImageCode(this) });
    await this.loadMaps();
  }

  /** What is known of the image itself. */
  imageNote({ name, truth }) {
    const { word, state: { pixels } } = this.app;
    if (truth) return `${word("name")}: ${name} · ${word("truth")}: ${truth}`;
    return [word(this.video ? "own_video" : "onOwnImage"), fitsInLink(pixels) ? "" : word("not_kept")].filter(Boolean).join(" · ");
  }

  /** The maps of this layer or rollout, and what is asked of them now. */
  async loadMaps() {
    const { state } = this.app;
    const { shows, layer, head, fusion, discard } = this.controls;
    const needed = { attention: [shows, layer, head], rollout: [shows, fusion, discard] }[state.shows] ?? [shows];
    fill(this.ways, ...(this.video ? [] : needed)); // of a video there is one thing to show
    this.maps = await this.mapsOf(state);
    if (!this.maps) this.app.showCode({ name: this.app.t("title"), python: null });
    this.paint();
  }

  mapsOf({ shows, layer, head, fusion, discard }) {
    if (shows === "attention") return this.app.fetchArray("vit/attention", this.modelParams({ layer, head }));
    if (shows === "rollout") return this.app.fetchArray("vit/rollout", this.modelParams({ fusion, discard }));
    return shows === "position" ? this.app.fetchArray("vit/position-similarity", { run: this.app.run.id }) : null;
  }

  /** Show over the image where somebody looks: a word of the caption, the patch that is pointed at, or the class token. */
  paint() {
    const { app } = this;
    const { heat, readout } = this.word >= 0 && this.regions ? this.wordHeat() : this.maps ? this.patchHeat() : { heat: null, readout: "" };
    this.readout.textContent = readout;
    this.image.show({ heat, chosen: this.word >= 0 ? NO_PATCH : app.state.query });
    if (this.word >= 0) app.showCode({ name: app.t("regions"), python: this.codeOf(this.word) });
    app.addDownload({ name: app.t("title"), figure: this.image.figure, table: this.image.table });
  }

  wordHeat() {
    const readout = this.app.t("word_looks", { word: this.prediction.pieces[this.word].text });
    return { heat: rowOf(this.regions, this.word).slice(-this.image.patches), readout };
  }

  /** One row of the maps; what stands in front of the patches (the class token) has the first rows and columns. */
  patchHeat() {
    const { app, maps } = this;
    const { patches } = this.image;
    const prefix_tokens = maps.shape[0] - patches;
    const middle = app.state.shows === "position" ? Math.floor(patches / 2) : NO_PATCH; // without a class token to ask
    const query = this.hovered >= 0 ? this.hovered : app.state.query >= 0 ? app.state.query : middle;
    const across = this.info.grid[1];
    const place = `${Math.floor(query / across) + 1},${(query % across) + 1}`;
    const who = query >= 0 ? app.t("patch_size", { place }) : app.t(prefix_tokens ? "class" : "every");
    const readout = {
      attention: app.t(query >= 0 ? "hovered" : prefix_tokens ? "of_class" : "of_every", { place }),
      rollout: app.t("reaches", { who }),
      position: app.t("like", { place }),
    };
    const row = query >= 0 ? rowOf(maps, prefix_tokens + query) : prefix_tokens ? rowOf(maps, 0) : meanRow(maps);
    app.showCode({ name: app.t("title"), python: heatCode(this, { query, prefix_tokens, across, patches }) });
    return { heat: row.slice(prefix_tokens), readout: readout[app.state.shows] };
  }

  point(patch_size) {
    this.hovered = patch_size;
    if (this.maps) this.paint();
  }

  /** What the model says, of the image as it is and as it was changed. */
  drawPrediction(plain, other) {
    const { app } = this;
    const parts = [make("h2", {}, app.t("prediction"))];
    for (const [name, prediction] of [["original", plain], ["changed", other]]) {
      if (!prediction) continue;
      parts.push(make("h3", {}, app.t(name)), make("p", { class: "image-prediction", "data-prediction": name }, prediction.text));
      if (prediction.candidates.length) {
        const chart = bars({ name: app.t(name), labels: prediction.candidates.map((each) => each.text),
          values: prediction.candidates.map((each) => each.probability), max: 1, readout: formatPercent, narrow: true });
        parts.push(chart.element);
        app.addDownload({ key: name, name: `${app.t("prediction")} (${app.t(name)})`, figure: chart.svg, table: chart.table });
      }
    }
    if (!other) app.addDownload({ key: "changed" });
    if (!other) parts.push(make("p", { class: "note" }, app.t(this.video ? "unchanged_video" : "unchanged")));
    if (this.info.generates && app.run.capabilities.includes("attention"))
      parts.push(make("p", { class: "note" }, app.t("caption")), this.captionStrip(other ?? plain));
    fill(this.candidates, ...parts);
  }

  captionStrip(prediction) {
    const name = this.app.t("caption");
    const strip = tokenStrip({ name, tokens: prediction.pieces.map((each) => ({ text: each.text, note: formatPercent(each.probability) })),
      onPoint: (word) => {
        this.word = word;
        this.reportErrors(this.region);
      } });
    const rows = prediction.pieces.map(({ text, probability }) => [text, probability]);
    this.app.addDownload({ name, figure: strip, table: { columns: [name, "p"], rows } });
    this.app.showCode({ name: this.app.t("regions"), python: prediction.pieces.length ? this.codeOf(0) : null });
    return strip;
  }

  /** The code for where the model looked when it wrote a word. */
  codeOf(word) {
    return regionCode(this, { word, patches: this.image.patches });
  }

  async loadRegions() {
    if (this.word >= 0) this.regions ??= await this.app.fetchArray("vit/regions", this.modelParams({ target: this.prediction.text }));
    this.paint();
  }

  toggleCover(patch_size) {
    const covered = listOf(this.app.state.cover);
    const without = covered.filter((each) => each !== patch_size);
    this.change({ cover: (without.length < covered.length ? without : [...covered, patch_size].sort((one, other) => one - other)).join(".") });
  }

  swap(from, to) {
    const order = this.orderNow();
    [order[from], order[to]] = [order[to], order[from]];
    this.change({ order: order.every((patch_size, place) => patch_size === place) ? "" : order.join(".") });
  }

  shuffle() {
    this.change({ order: shuffle(this.orderNow()).join(".") });
  }

  orderNow() {
    const order = listOf(this.app.state.order);
    return order.length ? order : Array.from({ length: this.image.patches }, (_, place) => place);
  }

  async change(changes) {
    this.app.set(changes);
    await this.reportErrors(this.redraw);
  }

  /** Another test image: what was changed in the last one is undone. */
  onNewInput() {
    this.app.set({ pixels: "", order: "", cover: "" });
    return this.redraw();
  }

  /** An image or a video that no number names. */
  async onOwnImage() {
    this.app.set({ order: "", cover: "" });
    await this.reportErrors(this.redraw);
  }

  /** Open the board, or close it; gives the button that does. */
  openBoard() {
    if (this.board.hasChildNodes()) return fill(this.board) && this.drawn;
    const { image_size, channels } = this.info;
    const board = drawingBoard({ imageSize: image_size, channels, t: this.app.t, onChange: (pixels) => {
      storePixels(this.app, pixels);
      this.onOwnImage();
    } });
    board.load(this.image.options.pixels);
    fill(this.board, board.element);
    return this.drawn;
  }

  /** What goes wrong is told where the view stands. */
  reportErrors(action) {
    return action().catch(this.app.showError);
  }
}

function listOf(text) {
  return text ? text.split(".").map(Number) : [];
}
