/** The view "Next token": the probabilities of the next token with sampling parameters, and the surprisal of a text. */

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

const TOP_CANDIDATES = 200; // listed candidates
const ALL_CANDIDATES = 10_000_000; // larger than any vocabulary
const MAX_BITS = 12; // the value of the strongest color of the strip

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

/** Whether the model is a masked language model: each position is predicted by itself, and no token is appended. */
function isMaskedModel(run) {
  return run.capabilities.includes("masks");
}

/** Whether the logit lens is available: for a single model with a stack of Transformer blocks. */
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
    this.stripWindow = make("div", { class: "strip-window" });
    this.readout = make("p", { class: "note readout", "aria-live": "polite" });
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
    const hasTarget = isSeq2Seq(app.run);
    const name = app.t(hasTarget ? "source" : isMaskedModel(app.run) ? "masked_text" : "text");
    this.input = inputBox(app, { name, defaultText: exampleText(app), redraw: restart });
    return [
      row(...this.input.controls, hasTarget ? textBox(app, "target", { name: app.t("target_prefix"), redraw: restart }) : ""),
      this.input.element,
      row(
        dropdown(app, "color_by", { name: app.t("color_by"), options: colorOptions, redraw: this.repaint }),
        isMaskedModel(app.run) ? "" : this.undo, isMaskedModel(app.run) ? "" : this.clear,
      ),
      this.stripWindow, this.readout, this.heading, this.sliders(), this.note, this.chart, this.lens,
    ];
  }

  sliders() {
    const { app } = this;
    const redraw = this.recompute;
    const settingSlider = (key, from, to, step, format) =>
      slider(app, key, { name: app.t(key), from, to, step, format, redraw });
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
    return { run: this.app.run.id, ...this.input.params(), target, forced_ids: forcedIds(this.app) };
  }

  /** Request several parts at once; see `NextTokenRequest` of views/next_token.py. */
  analyze(parts, { position = this.app.state.position, max_candidates = TOP_CANDIDATES } = {}) {
    return this.app.fetchJson("next-token/analysis", { ...this.params(), parts, position, max_candidates });
  }

  /** The parts of a response about one position. */
  get positionParts() {
    return hasLayers(this.app.run) ? ["candidates", "lens"] : ["candidates"];
  }

  /** Load a new text. A selected position is a request of its own, as saved pages store the two separately. */
  async load() {
    const { app } = this;
    const isDefault = app.state.position < 0;
    const response = await this.analyze(isDefault ? ["surprisal", ...this.positionParts] : ["surprisal"], { position: -1 });
    const positionResponse = isDefault ? response : await this.analyze(this.positionParts);
    this.undo.disabled = this.clear.disabled = forcedIds(app).length === 0;
    this.surprisal = response.surprisal;
    this.drawStrip();
    await this.drawPosition(positionResponse);
  }

  async loadPosition() {
    await this.drawPosition(await this.analyze(this.positionParts));
  }

  /** Draw everything about one position, so that strip and bars always show the same one. */
  async drawPosition({ candidates, lens }) {
    const { app } = this;
    this.candidates = candidates;
    const { position, entropy } = candidates;
    this.strip.choose(position);
    const prefix = this.surprisal.tokens.slice(Math.max(position - 8, 0), position).join("");
    this.heading.textContent = app.t(isMaskedModel(app.run) ? "at_position" : position === 0 ? "at_first" : "after", {
      position: position + 1, prefix, entropy: formatNumber(entropy),
    });
    await this.drawProbabilities();
    if (lens) this.drawLens(lens);
  }

  /** Draw the logit lens: the prediction of the output head for the hidden state of each layer. */
  drawLens({ final_token, top_tokens, probability, entropy }) {
    const { app } = this;
    const lastLayer = top_tokens.length - 1;
    const layerNames = { 0: app.t("embedding"), [lastLayer]: app.t("last_layer", { layer: lastLayer }) };
    const rowOf = (tokens, layer) => [
      layerNames[layer] ?? layer, formatPredictions(tokens), formatNumber(entropy[layer]), formatPercent(probability[layer]),
    ];
    const cells = (row) => row.map((cell, column) => make("td", { class: column > 1 ? "number" : null }, cell));
    const head = ["layer", "prediction", "entropy", "probability_of"].map((key) => make("th", {}, app.t(key, { final_token })));
    fill(this.lens, make("h2", {}, app.t("lens")), make("p", { class: "note" }, app.t("lens_help")),
      make("table", {}, make("tr", {}, ...head), ...top_tokens.map((tokens, layer) => make("tr", {}, ...cells(rowOf(tokens, layer))))));
    this.lens.viewData = { final_token, top_tokens, probability, entropy };
    const table = { columns: head.map((each) => each.textContent), rows: top_tokens.map((tokens, layer) =>
      [layer, formatPredictions(tokens), entropy[layer], probability[layer]]) };
    app.addDownload({ name: app.t("lens"), figure: this.lens.querySelector("table"), table });
    app.showCode({ name: app.t("lens"), python: logitLensCode(app.run, this.params(), this.candidates.position) });
  }

  /** Draw the strip of tokens, followed by a position for the next token if tokens can be appended. */
  drawStrip() {
    const { app, surprisal } = this;
    const nextToken = isMaskedModel(app.run) ? [] : [{ text: "…", note: app.t("next") }];
    const tokens = [...surprisal.tokens.map((text, position) => ({ text, note: this.bitsAt(position) })), ...nextToken];
    this.strip = tokenStrip({
      name: app.t("surprisal"),
      tokens,
      chosen: this.candidates?.position < tokens.length ? this.candidates.position : -1,
      onPick: (position) => this.select(position).catch(app.showError),
      onPoint: (position) => this.point(position),
    });
    fill(this.stripWindow, this.strip, surprisal.truncated ? make("p", { class: "note" }, app.t("truncated")) : null);
    this.paintStrip();
    const columns = ["token", "surprisal", "entropy", "top_predictions"].map((key) => app.t(key));
    const rows = surprisal.surprisal.map((bits, position) =>
      [surprisal.tokens[position], bits, surprisal.entropy[position], formatPredictions(surprisal.top_predictions[position])]);
    app.addDownload({ name: app.t("surprisal"), figure: this.strip, table: { columns, rows } });
    app.showCode({ name: app.t("surprisal"), python: surprisalCode(app.run, this.params(), app.state.color_by) });
  }

  paintStrip() {
    const colorValue = (bits, position) => (this.isMasked(position) ? 0 : Math.min((bits ?? Infinity) / MAX_BITS, 1));
    const values = this.surprisal[this.app.state.color_by].map(colorValue);
    this.strip.paint(values.concat(new Array(this.surprisal.tokens.length + 1 - values.length).fill(0)));
    this.point(-1);
  }

  point(position) {
    const { app, surprisal } = this;
    const isToken = position >= 0 && position < surprisal.surprisal.length;
    this.readout.textContent = isToken
      ? app.t("token_readout", {
          token: surprisal.tokens[position], bits: this.bitsAt(position, "surprisal"), entropy: formatNumber(surprisal.entropy[position]),
          predictions: formatPredictions(surprisal.top_predictions[position]),
        })
      : app.t("strip_help", { bits: MAX_BITS });
  }

  /** The text of surprisal or entropy; a mask has none, and a token of probability 0 has infinite surprisal. */
  bitsAt(position, name = this.app.state.color_by) {
    const bits = this.surprisal[name][position];
    if (this.isMasked(position)) return "?";
    return bits === null ? "∞" : bits === undefined ? "" : formatNumber(bits, 2);
  }

  isMasked(position) {
    return this.surprisal.mask_positions.includes(position);
  }

  async select(position) {
    this.app.set({ position: position >= this.surprisal.tokens.length ? -1 : position });
    await this.reloadPosition();
  }

  /** Draw the sampling probabilities; if they extend beyond the listed candidates, request the whole vocabulary. */
  async drawProbabilities() {
    const { app } = this;
    let result = tokenProbabilities(this.candidates, app.state);
    if (!result.complete) {
      this.candidates = (await this.analyze(["candidates"], { max_candidates: ALL_CANDIDATES })).candidates;
      result = tokenProbabilities(this.candidates, app.state);
    }
    this.drawBars(result);
  }

  drawBars({ probabilities, restProbability }) {
    const { app, candidates } = this;
    const order = this.ranked(probabilities);
    const shown = order.slice(0, app.state.count);
    const otherProbability = order.slice(shown.length).reduce((sum, position) => sum + probabilities[position], restProbability);
    const current = this.surprisal.ids[candidates.position];
    const groupColor = (position) => LINE_COLORS[candidates.already_generated[position] ? 1 : 0];
    const colorOf = (position) => (probabilities[position] > 0 ? groupColor(position) : palette().border);
    const rest = app.t("other_tokens", { count: this.size() - shown.length });
    const chart = bars({
      name: app.t("probability"),
      labels: [...shown.map((position) => candidates.tokens[position]), rest],
      values: [...shown.map((position) => probabilities[position]), otherProbability],
      format: (probability) => (probability > 0 ? formatPercent(probability) : "–"),
      chosen: shown.findIndex((position) => candidates.ids[position] === current),
      colors: [...shown.map(colorOf), LINE_COLORS[7]],
      onPick: (index) => index < shown.length && this.pick(candidates.ids[shown[index]]).catch(app.showError),
    });
    fill(this.chart, chart.element);
    const count = this.candidateCount(probabilities, restProbability);
    this.note.textContent = app.t(isMaskedModel(app.run) ? "click_to_fill" : "click_to_append", { count });
    const columns = ["token", "id", "log_probability", "probability"].map((key) => app.t(key));
    const { tokens, ids, scores } = candidates;
    const rows = order.map((position) => [tokens[position], ids[position], scores[position], probabilities[position]]);
    app.addDownload({ name: app.t("title"), figure: chart.svg, table: { columns, rows } });
    const settings = { ...app.state, position: candidates.position, count: shown.length };
    app.showCode({ name: app.t("title"), python: probabilitiesCode(app.run, this.params(), settings) });
  }

  /** Candidates by probability; those that are cut off by score. */
  ranked(probabilities) {
    const { scores, already_generated } = this.candidates;
    const penalized = scores.map((score, position) => (already_generated[position] ? score * this.app.state.repetition_penalty : score));
    return probabilities.map((_, position) => position)
      .sort((one, other) => probabilities[other] - probabilities[one] || penalized[other] - penalized[one]);
  }

  size() {
    return this.candidates.ids.length + this.candidates.rest.count;
  }

  /** The number of tokens with a probability above 0. */
  candidateCount(probabilities, restProbability) {
    return probabilities.filter((probability) => probability > 0).length + (restProbability > 0 ? this.candidates.rest.count : 0);
  }

  /** A click on a candidate: append it at the end, or replace the token at its position. */
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

  /** Update the text box. */
  rewrite(key, text) {
    this.stripWindow.parentElement?.querySelector(`#control-${key}`)?.closest(".control").set(text);
  }

  async setForced(ids) {
    this.app.set({ forced: ids.join("."), position: -1 });
    await this.redraw();
  }
}

function formatPredictions(predictions) {
  return predictions.map(({ token, probability }) => `${token} ${formatPercent(probability)}`).join(" · ");
}
