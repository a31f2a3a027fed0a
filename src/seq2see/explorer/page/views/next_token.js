/** What comes next: candidates with sliders for how one is drawn, and how surprising every token of the text was. */

import { probabilitiesCode, logitLensCode, surprisalCode } from "../code/generation_code.js";
import { bars } from "../parts/bars.js";
import { tokenProbabilities } from "../parts/token_probabilities.js";
import { LINE_COLORS, palette } from "../parts/colors.js";
import { dropdown, button, row, slider, textBox } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber, formatPercent } from "../parts/number_format.js";
import { inputBox } from "../parts/input_box.js";
import { isSeq2Seq, exampleText, forcedIds } from "../parts/input_form.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./next_token_strings.js";

const TOP_CANDIDATES = 200; // candidates that are told one by one
const ALL_CANDIDATES = 10_000_000; // more than any vocabulary has
const MAX_BITS = 12; // what the strongest color of the strip stands for

export const view = {
  name: "next-token",
  strings,
  state: {
    position: -1, forced: "", temperature: 1, top_k: 0, top_p: 1, repetition_penalty: 1, count: 16, color_by: "surprisal",
  },

  async show(container, app) {
    const page = new NextTokenView(app);
    fill(container, ...page.parts());
    await page.redraw();
  },
};

/** Whether the model fills blanks: then every place is asked by itself, and nothing is appended. */
function isMaskedModel(run) {
  return run.task === "fill";
}

/** Only a stack of blocks can be read layer by layer, and only that of one model alone. */
function hasLayers(run) {
  return run.capabilities.includes("attention") && (isMaskedModel(run) ? run.encoder : run.decoder) === "transformer";
}

class NextTokenView {
  constructor(app) {
    this.app = app;
    const serial = serialQueue();
    this.redraw = serial(() => this.load());
    this.reloadPosition = serial(() => this.loadPosition());
    this.repaint = serial(() => this.surprisal && this.drawStrip());
    this.recompute = serial(() => this.drawProbabilities());
    this.surprisal = make("div", { class: "surprisal-window" });
    this.top_predictions = make("p", { class: "note told", "aria-live": "polite" });
    this.heading = make("h2", {});
    this.note = make("p", { class: "note" });
    this.chart = make("div", {});
    this.lens = make("div", { class: "scroll lens" });
    this.undo = button(app.t("undo"), () => this.setForced(forcedIds(app).slice(0, -1)).catch(app.showError));
    this.clear = button(app.t("clear"), () => this.setForced([]).catch(app.showError));
  }

  parts() {
    const { app } = this;
    const restart = () => {
      app.set({ position: -1, forced: "" });
      return this.redraw();
    };
    const colorOptions = [["surprisal", app.t("surprisal")], ["entropy", app.t("entropy")]];
    const isSeq2Seq_ = isSeq2Seq(app.run);
    const name = app.t(isSeq2Seq_ ? "source" : isMaskedModel(app.run) ? "mask_positions" : "text");
    this.input = inputBox(app, { name, defaultText: exampleText(app), redraw: restart });
    return [
      row(...this.input.controls, isSeq2Seq_ ? textBox(app, "target", { name: app.t("target_prefix"), redraw: restart }) : ""),
      this.input.element,
      row(
        dropdown(app, "color_by", { name: app.t("color_by"), options: colorOptions, redraw: this.repaint }),
        isMaskedModel(app.run) ? "" : this.undo, isMaskedModel(app.run) ? "" : this.clear,
      ),
      this.surprisal, this.top_predictions, this.heading, this.sliders(), this.note, this.chart, this.lens,
    ];
  }

  sliders() {
    const { app } = this;
    const redraw = this.recompute;
    const settingSlider = (key, from, to, step, shown) =>
      slider(app, key, { name: app.t(key), from, to, step, viewData: shown, redraw });
    const formatAll = (value) => (value === 0 ? app.t("all") : String(value));
    return row(
      settingSlider("temperature", 0.05, 2, 0.05, (value) => value.toFixed(2)),
      settingSlider("top_k", 0, 200, 1, formatAll),
      settingSlider("top_p", 0.01, 1, 0.01, (value) => (value === 1 ? app.t("all") : value.toFixed(2))),
      isMaskedModel(app.run) ? "" : settingSlider("repetition_penalty", 1, 5, 0.1, (value) => value.toFixed(1)),
      settingSlider("count", 5, 60, 1, String),
    );
  }

  params() {
    const target = isSeq2Seq(this.app.run) ? this.app.state.target : "";
    return { run: this.app.run.id, ...this.input.params(), target, forced: forcedIds(this.app) };
  }

  /** One answer for all parts that are needed; see `ToldAsked` of views/next_token.py. */
  ask(parts, { position = this.app.state.position, most: max_candidates = TOP_CANDIDATES } = {}) {
    return this.app.fetchJson("next-token/analysis", { ...this.params(), parts, position, most: max_candidates });
  }

  /** What is told of one place. */
  get positionParts() {
    return hasLayers(this.app.run) ? ["candidates", "lens"] : ["candidates"];
  }

  /** Another text. Where one of its places is chosen, that is asked for by itself: a saved page has the two apart. */
  async load() {
    const { app } = this;
    const isLastPosition = app.state.position < 0;
    const surprisal = await this.ask(isLastPosition ? ["surprisal", ...this.positionParts] : ["surprisal"], { position: -1 });
    const positionResponse = isLastPosition ? surprisal : await this.ask(this.positionParts);
    this.undo.disabled = this.clear.disabled = forcedIds(app).length === 0;
    this.surprisal = surprisal.surprisal;
    this.drawStrip();
    await this.drawPosition(positionResponse);
  }

  async loadPosition() {
    await this.drawPosition(await this.ask(this.positionParts));
  }

  /** Tokens and bars change together: a bar of before, pressed behind a token of now, would do nothing. */
  async drawPosition({ candidates, lens }) {
    const { app } = this;
    this.candidates = candidates;
    const { position, entropy } = candidates;
    this.drawn.choose(position);
    const prefix = this.surprisal.pieces.slice(Math.max(position - 8, 0), position).join("");
    this.heading.textContent = app.t(isMaskedModel(app.run) ? "at_place" : position === 0 ? "at_first" : "after", {
      position: position + 1, before: prefix, entropy: formatNumber(entropy),
    });
    await this.drawProbabilities();
    if (lens) this.drawLens(lens);
  }

  /** What every layer would say if the model ended there. */
  drawLens({ final_token, top_tokens, probability, entropy }) {
    const { app } = this;
    const lastLayer = top_tokens.length - 1;
    const layerNames = { 0: app.t("enters"), [lastLayer]: app.t("says_it", { layer: lastLayer }) };
    const rowOf = (tokens, layer) => [layerNames[layer] ?? layer, formatPredictions(tokens), formatNumber(entropy[layer]), formatPercent(probability[layer])];
    const cells = (row) => row.map((cell, column) => make("td", { class: column > 1 ? "number" : null }, cell));
    const head = ["layer", "says", "entropy", "chance_of"].map((key) => make("th", {}, app.t(key, { final_token })));
    fill(this.lens, make("h2", {}, app.t("lens")), make("p", { class: "note" }, app.t("lens_help")),
      make("table", {}, make("tr", {}, ...head), ...top_tokens.map((tokens, layer) => make("tr", {}, ...cells(rowOf(tokens, layer))))));
    this.lens.viewData = { final_token, top_tokens, probability, entropy };
    const table = { columns: head.map((each) => each.textContent), rows: top_tokens.map((tokens, layer) =>
      [layer, formatPredictions(tokens), entropy[layer], probability[layer]]) };
    app.addDownload({ name: app.t("lens"), figure: this.lens.querySelector("table"), table });
    app.showCode({ name: app.t("lens"), python: logitLensCode(app.run, this.params(), this.candidates.position) });
  }

  /** The text as tokens; behind them, where something can be appended, a place for the next one. */
  drawStrip() {
    const { app, surprisal } = this;
    const open = isMaskedModel(app.run) ? [] : [{ text: "…", note: app.t("next") }];
    const tokens = [...surprisal.pieces.map((text, position) => ({ text, note: this.bitsAt(position) })), ...open];
    this.drawn = tokenStrip({
      name: app.t("surprisal"),
      tokens,
      chosen: this.candidates?.position < tokens.length ? this.candidates.position : -1,
      onPick: (position) => this.select(position).catch(app.showError),
      onPoint: (position) => this.point(position),
    });
    fill(this.surprisal, this.drawn, surprisal.truncated ? make("p", { class: "note" }, app.t("truncated")) : null);
    this.paintStrip();
    const columns = ["token", "surprisal", "entropy", "top_predictions"].map((key) => app.t(key));
    const rows = surprisal.surprisal.map((bits, position) =>
      [surprisal.pieces[position], bits, surprisal.entropy[position], formatPredictions(surprisal.top_predictions[position])]);
    app.addDownload({ name: app.t("surprisal"), figure: this.drawn, table: { columns, rows } });
    app.showCode({ name: app.t("surprisal"), python: surprisalCode(app.run, this.params(), app.state.color_by) });
  }

  paintStrip() {
    const colorValue = (bits, position) => (this.isMasked(position) ? 0 : Math.min((bits ?? Infinity) / MAX_BITS, 1));
    const values = this.surprisal[this.app.state.color_by].map(colorValue);
    this.drawn.color_by(values.concat(new Array(this.surprisal.pieces.length + 1 - values.length).fill(0)));
    this.point(-1);
  }

  point(position) {
    const { app, surprisal } = this;
    const isToken = position >= 0 && position < surprisal.surprisal.length;
    this.top_predictions.textContent = isToken
      ? app.t("pointed", {
          token: surprisal.pieces[position], bits: this.bitsAt(position, "surprisal"), entropy: formatNumber(surprisal.entropy[position]),
          top_predictions: formatPredictions(surprisal.top_predictions[position]),
        })
      : app.t("point", { bits: MAX_BITS });
  }

  /** A blank is nothing that could surprise anybody; what the model holds for impossible surprises beyond measure. */
  bitsAt(position, name = this.app.state.color_by) {
    const bits = this.surprisal[name][position];
    if (this.isMasked(position)) return "?";
    return bits === null ? "∞" : bits === undefined ? "" : formatNumber(bits, 2);
  }

  isMasked(position) {
    return this.surprisal.mask_positions.includes(position);
  }

  async select(position) {
    this.app.set({ position: position >= this.surprisal.pieces.length ? -1 : position });
    await this.reloadPosition();
  }

  /** The chances under the sliders; where these reach beyond the list, the whole vocabulary is asked for. */
  async drawProbabilities() {
    const { app } = this;
    let result = tokenProbabilities(this.candidates, app.state);
    if (!result.complete) {
      this.candidates = (await this.ask(["candidates"], { most: ALL_CANDIDATES })).candidates;
      result = tokenProbabilities(this.candidates, app.state);
    }
    this.drawBars(result);
  }

  drawBars({ probabilities, others }) {
    const { app, candidates } = this;
    const order = this.ranked(probabilities);
    const shown = order.slice(0, app.state.count);
    const otherProbability = order.slice(shown.length).reduce((sum, position) => sum + probabilities[position], others);
    const current = this.surprisal.ids[candidates.position];
    const colorOf = (position) => (probabilities[position] > 0 ? LINE_COLORS[candidates.already_generated[position] ? 1 : 0] : palette().border);
    const rest = app.t("others", { count: this.size() - shown.length });
    const chart = bars({
      name: app.t("probability"),
      labels: [...shown.map((position) => candidates.pieces[position]), rest],
      values: [...shown.map((position) => probabilities[position]), otherProbability],
      surprisal: (probability) => (probability > 0 ? formatPercent(probability) : "–"),
      chosen: shown.findIndex((position) => candidates.ids[position] === current),
      colors: [...shown.map(colorOf), LINE_COLORS[7]],
      onPick: (index) => index < shown.length && this.pick(candidates.ids[shown[index]]).catch(app.showError),
    });
    fill(this.chart, chart.element);
    const candidateCount = this.candidateCount(probabilities, others);
    this.note.textContent = app.t(isMaskedModel(app.run) ? "press_fill" : "press_append", { candidateCount });
    const columns = ["token", "id", "log_probability", "probability"].map((key) => app.t(key));
    const { pieces, ids, scores } = candidates;
    const rows = order.map((position) => [pieces[position], ids[position], scores[position], probabilities[position]]);
    app.addDownload({ name: app.t("title"), figure: chart.svg, table: { columns, rows } });
    const at = { ...app.state, position: candidates.position, count: shown.length };
    app.showCode({ name: app.t("title"), python: probabilitiesCode(app.run, this.params(), at) });
  }

  /** The most likely first; those that are cut off in the order that they would have. */
  ranked(probabilities) {
    const { scores, already_generated } = this.candidates;
    const worth = scores.map((score, position) => (already_generated[position] ? score * this.app.state.repetition_penalty : score));
    return probabilities.map((_, position) => position)
      .sort((one, other) => probabilities[other] - probabilities[one] || worth[other] - worth[one]);
  }

  size() {
    return this.candidates.ids.length + this.candidates.rest.count;
  }

  /** How many tokens can be drawn at all. */
  candidateCount(probabilities, others) {
    return probabilities.filter((probability) => probability > 0).length + (others > 0 ? this.candidates.rest.count : 0);
  }

  /** A candidate that was pressed: appended at the end, or put in its place in the text. */
  async pick(id) {
    const { app, surprisal } = this;
    const position = this.candidates.position;
    if (!isMaskedModel(app.run) && position === surprisal.ids.length) return this.setForced([...forcedIds(this.app), id]);
    const ids = isMaskedModel(app.run) ? surprisal.ids.with(position, id) : [...surprisal.ids.slice(0, position), id];
    const { text } = await app.fetchJson("next-token/detokenize", { run: app.run.id, ids });
    const key = isSeq2Seq(app.run) ? "target" : "text";
    app.set({ [key]: text, forced: "", position: isMaskedModel(app.run) ? position : -1 });
    this.rewrite(key, text);
    return this.redraw();
  }

  /** The text box shows what was put into the text. */
  rewrite(key, text) {
    this.surprisal.parentElement?.querySelector(`#control-${key}`)?.closest(".control").set(text);
  }

  async setForced(ids) {
    this.app.set({ forced: ids.join("."), position: -1 });
    await this.redraw();
  }
}

function formatPredictions(top_predictions) {
  return top_predictions.map(({ token, probability }) => `${token} ${formatPercent(probability)}`).join(" · ");
}
