/** The view "Images": attention maps and rollout over patches, and predictions for covered or moved patches. */

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
const NO_PATCH = -1; // no patch is selected: the query is the class token, or the mean of all patches

export const view = {
  name: "vit",
  strings,
  state: { overlay: "attention", layer: -1, head: -1, query: NO_PATCH, fusion: "mean", discard: 0, cover: "",
    order: "", off: false },
  show: (container, app) => new ImagesView(container, app).open(),
};

class ImagesView {
  constructor(container, app) {
    const video = app.run.capabilities.includes("videos");
    Object.assign(this, { container, app, video, hovered: NO_PATCH, word: NO_PATCH });
    this.image = patchImage({
      name: app.t("title"),
      displaySize: video ? VIDEO_WIDTH : undefined,
      onPoint: (patch) => this.point(patch),
      onPick: (patch) => this.toggleCover(patch),
      onMove: (from, to) => this.swap(from, to),
    });
    this.readout = make("p", { class: "image-readout" });
    this.candidates = make("div", { class: "image-candidates" });
    this.note = make("p", { class: "note" });
    this.board = make("div", { on: { keydown: (event) => event.key === "Escape" && this.openBoard().focus() } });
    this.drawButton = button(app.t("draw"), () => this.openBoard());
    const serial = serialQueue();
    this.redraw = serial(() => this.draw());
    this.reloadMaps = serial(() => this.loadMaps());
    this.showRegion = serial(() => this.loadRegions());
  }

  async open() {
    const { app } = this;
    this.info = await app.fetchJson("vit/info", this.params({ order: [], cover: [] }));
    const { info } = this;
    this.overlayControls = make("div", { class: "controls" });
    this.controls = this.createControls();
    const leftColumn = make("div", {}, this.readout, this.image.element, this.note);
    const page = make("div", { class: this.video ? "" : "image-page" }, leftColumn, this.candidates);
    fill(this.container, this.sources(), this.board, this.overlayControls, this.changes(), page);
    if (!info.layers && !this.video) this.container.prepend(make("p", { class: "note" }, app.t("no_attention")));
    await this.redraw();
  }

  /** The sources of images: the test split of the run, a file, or the drawing board. */
  sources() {
    const { app, info } = this;
    const format = (value) => `${value + 1} / ${info.count}`;
    const sliderOptions = { name: app.t(this.video ? "video" : "image"), to: info.count - 1, format, redraw: () => this.onNewInput() };
    const upload = fileInput(app, () => this.onUpload());
    return row(info.count ? slider(app, "number", sliderOptions) : null, upload, this.video ? null : this.drawButton);
  }

  /** The buttons that change an image. */
  changes() {
    const { app, info } = this;
    return row(
      button(app.t(this.video ? "shuffle_frames" : "shuffle"), () => this.shuffle()),
      button(app.t("reset"), () => this.change({ order: "" })),
      button(app.t("uncover"), () => this.change({ cover: "" })),
      info.positions === "none" ? null : toggle(app, "off", { name: app.t("off"), redraw: this.redraw }),
    );
  }

  /** The controls of the overlay; `loadMaps` shows those that the selected overlay needs. */
  createControls() {
    const { app, info, reloadMaps: redraw } = this;
    const position = info.positions === "none" ? [] : ["position"];
    const overlays = [...(info.layers ? ["attention", "rollout"] : []), ...position, "none"];
    if (!overlays.includes(app.state.overlay)) app.set({ overlay: overlays[0] });
    const last = Math.max(info.layers - 1, 0);
    if (app.state.layer < 0 || app.state.layer > last) app.state.layer = last; // the default
    const options = (names) => names.map((each) => [each, app.t(each)]);
    const numberOptions = (count) => Array.from({ length: count }, (_, index) => [index, String(index + 1)]);
    const heads = [[-1, app.t("mean")], ...numberOptions(info.heads)];
    return {
      overlay: dropdown(app, "overlay", { name: app.t("overlay"), options: options(overlays), redraw }),
      layer: dropdown(app, "layer", { name: app.t("layer"), options: numberOptions(info.layers), redraw }),
      head: dropdown(app, "head", { name: app.t("head"), options: heads, redraw }),
      fusion: dropdown(app, "fusion", { name: app.t("fusion"), options: options(["mean", "min", "max"]), redraw }),
      discard: slider(app, "discard", { name: app.t("discard"), to: 0.95, step: 0.05, format: formatPercent, redraw }),
    };
  }

  /** The fields of all requests that specify the image. */
  params(fields = {}) {
    const { state, run } = this.app;
    return { run: run.id, ...(state.pixels ? { pixels: state.pixels } : { number: state.number }), order: listOf(state.order),
      cover: listOf(state.cover), ...fields };
  }

  /** The fields of requests that run the model, with or without position embeddings. */
  modelParams(fields = {}) {
    return this.params({ positions: this.app.state.off ? "off" : "on", ...fields });
  }

  /** Load and draw everything for a new or changed image. */
  async draw() {
    const { app } = this;
    const isChanged = Boolean(app.state.order || app.state.cover || app.state.off);
    const unchangedParams = this.params({ order: [], cover: [] });
    const [info, pixels, original, changed] = [
      await app.fetchJson("vit/info", unchangedParams), await app.fetchArray("vit/image", this.params()),
      await app.fetchJson("vit/predict", { ...unchangedParams, positions: "on" }),
      isChanged ? await app.fetchJson("vit/predict", this.modelParams()) : null,
    ];
    Object.assign(this.info, info);
    Object.assign(this, { prediction: changed ?? original, word: NO_PATCH, regions: null });
    this.image.show({ pixels, grid: info.grid, heat: null, covered: listOf(app.state.cover) });
    this.note.textContent = this.imageNote(info);
    this.drawPrediction(original, changed);
    app.showCode({ name: app.t("prediction"), python: predictImageCode(this) });
    await this.loadMaps();
  }

  /** The name and the reference of the image. */
  imageNote({ name, truth }) {
    const { t, state: { pixels } } = this.app;
    if (truth) return `${t("name")}: ${name} · ${t("truth")}: ${truth}`;
    return [t(this.video ? "own_video" : "own_image"), fitsInLink(pixels) ? "" : t("not_in_link")].filter(Boolean).join(" · ");
  }

  /** Load the maps of the selected overlay, and draw them. */
  async loadMaps() {
    const { state } = this.app;
    const { overlay, layer, head, fusion, discard } = this.controls;
    const shown = { attention: [overlay, layer, head], rollout: [overlay, fusion, discard] }[state.overlay] ?? [overlay];
    fill(this.overlayControls, ...(this.video ? [] : shown)); // a video has no overlay to select
    this.maps = await this.mapsOf(state);
    if (!this.maps) this.app.showCode({ name: this.app.t("title"), python: null });
    this.paint();
  }

  mapsOf({ overlay, layer, head, fusion, discard }) {
    if (overlay === "attention") return this.app.fetchArray("vit/attention", this.modelParams({ layer, head }));
    if (overlay === "rollout") return this.app.fetchArray("vit/rollout", this.modelParams({ fusion, discard }));
    return overlay === "position" ? this.app.fetchArray("vit/position-similarity", { run: this.app.run.id }) : null;
  }

  /** Draw the overlay: the attention of a caption token, of the hovered patch, or of the class token. */
  paint() {
    const { app } = this;
    const { heat, readout } = this.heat();
    this.readout.textContent = readout;
    this.image.show({ heat, chosen: this.word >= 0 ? NO_PATCH : app.state.query });
    if (this.word >= 0) app.showCode({ name: app.t("regions"), python: this.codeOf(this.word) });
    app.addDownload({ name: app.t("title"), figure: this.image.figure, table: this.image.table });
  }

  heat() {
    if (this.word >= 0 && this.regions) return this.wordHeat();
    return this.maps ? this.patchHeat() : { heat: null, readout: "" };
  }

  wordHeat() {
    const readout = this.app.t("word_attends_to", { word: this.prediction.tokens[this.word].text });
    return { heat: rowOf(this.regions, this.word).slice(-this.image.patches), readout };
  }

  /** One row of the attention map; the first rows and columns belong to prefix tokens such as the class token. */
  patchHeat() {
    const { app, maps } = this;
    const { patches } = this.image;
    const prefixCount = maps.shape[0] - patches;
    const fallback = app.state.overlay === "position" ? Math.floor(patches / 2) : NO_PATCH; // positions have no class token
    const query = this.hovered >= 0 ? this.hovered : app.state.query >= 0 ? app.state.query : fallback;
    const gridWidth = this.info.grid[1];
    const position = `${Math.floor(query / gridWidth) + 1},${(query % gridWidth) + 1}`;
    const name = query >= 0 ? app.t("patch", { position }) : app.t(prefixCount ? "class_token" : "all_patches");
    const readout = {
      attention: app.t(query >= 0 ? "patch_attends_to" : prefixCount ? "class_attends_to" : "patches_attend_to", { position }),
      rollout: app.t("rollout_to", { name }),
      position: app.t("similarity_to", { position }),
    };
    const row = query >= 0 ? rowOf(maps, prefixCount + query) : prefixCount ? rowOf(maps, 0) : meanRow(maps);
    app.showCode({ name: app.t("title"), python: heatCode(this, { query, prefixCount, gridWidth, patches }) });
    return { heat: row.slice(prefixCount), readout: readout[app.state.overlay] };
  }

  point(patch) {
    this.hovered = patch;
    if (this.maps) this.paint();
  }

  /** The predictions for the original and for the changed image. */
  drawPrediction(original, changed) {
    const { app } = this;
    const parts = [make("h2", {}, app.t("prediction"))];
    for (const [name, prediction] of [["original", original], ["changed", changed]]) {
      if (!prediction) continue;
      parts.push(make("h3", {}, app.t(name)), make("p", { class: "image-prediction", "data-prediction": name }, prediction.text));
      if (prediction.candidates.length) {
        const chart = bars({ name: app.t(name), labels: prediction.candidates.map((each) => each.text),
          values: prediction.candidates.map((each) => each.probability), max: 1, format: formatPercent, narrow: true });
        parts.push(chart.element);
        app.addDownload({ key: name, name: `${app.t("prediction")} (${app.t(name)})`, figure: chart.svg, table: chart.table });
      }
    }
    if (!changed) app.addDownload({ key: "changed" });
    if (!changed) parts.push(make("p", { class: "note" }, app.t(this.video ? "unchanged_video" : "unchanged")));
    if (this.info.generates && app.run.capabilities.includes("attention"))
      parts.push(make("p", { class: "note" }, app.t("caption_help")), this.captionStrip(changed ?? original));
    fill(this.candidates, ...parts);
  }

  captionStrip(prediction) {
    const name = this.app.t("caption_help");
    const strip = tokenStrip({ name, tokens: prediction.tokens.map((each) => ({ text: each.text, note: formatPercent(each.probability) })),
      onPoint: (word) => {
        this.word = word;
        this.reportErrors(this.showRegion);
      } });
    const rows = prediction.tokens.map(({ text, probability }) => [text, probability]);
    this.app.addDownload({ name, figure: strip, table: { columns: [name, "p"], rows } });
    this.app.showCode({ name: this.app.t("regions"), python: prediction.tokens.length ? this.codeOf(0) : null });
    return strip;
  }

  /** The Python code for the attention map of a caption token. */
  codeOf(word) {
    return regionCode(this, { word, patches: this.image.patches });
  }

  async loadRegions() {
    if (this.word >= 0) this.regions ??= await this.app.fetchArray("vit/regions", this.modelParams({ target: this.prediction.text }));
    this.paint();
  }

  toggleCover(patch) {
    const covered = listOf(this.app.state.cover);
    const remaining = covered.filter((each) => each !== patch);
    const cover = remaining.length < covered.length ? remaining : [...covered, patch].sort((one, other) => one - other);
    this.change({ cover: cover.join(".") });
  }

  swap(from, to) {
    const order = this.orderNow();
    [order[from], order[to]] = [order[to], order[from]];
    this.change({ order: order.every((patch, index) => patch === index) ? "" : order.join(".") });
  }

  shuffle() {
    this.change({ order: shuffle(this.orderNow()).join(".") });
  }

  orderNow() {
    const order = listOf(this.app.state.order);
    return order.length ? order : Array.from({ length: this.image.patches }, (_, index) => index);
  }

  async change(changes) {
    this.app.set(changes);
    await this.reportErrors(this.redraw);
  }

  /** A new test image: reset all changes of patches. */
  onNewInput() {
    this.app.set({ pixels: "", order: "", cover: "" });
    return this.redraw();
  }

  /** A new uploaded or drawn image. */
  async onUpload() {
    this.app.set({ order: "", cover: "" });
    await this.reportErrors(this.redraw);
  }

  /** Open or close the drawing board, and return its button. */
  openBoard() {
    if (this.board.hasChildNodes()) return fill(this.board) && this.drawButton;
    const { image_size, channels } = this.info;
    const board = drawingBoard({ imageSize: image_size, channels, t: this.app.t, onChange: (pixels) => {
      storePixels(this.app, pixels);
      this.onUpload();
    } });
    board.load(this.image.options.pixels);
    fill(this.board, board.element);
    return this.drawButton;
  }

  /** Run an asynchronous action, and show its errors. */
  reportErrors(action) {
    return action().catch(this.app.showError);
  }
}

function listOf(text) {
  return text ? text.split(".").map(Number) : [];
}
