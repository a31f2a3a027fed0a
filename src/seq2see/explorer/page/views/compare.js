/** The view "Compare": outputs, probabilities and attention of two runs on one input, or of one run on two inputs. */

import { mapsCode, compareCode } from "../code/compare_code.js";
import { bars } from "../parts/bars.js";
import { legend } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { dropdown, row, slider, textBox } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { fileInput } from "../parts/file_input.js";
import { formatNumber, formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { takesImages, imageRequest, imageElement } from "../parts/input_box.js";
import { readable, tokenStrip } from "../parts/token_strip.js";
import { SeriesComparison } from "./compare_series.js";
import { strings } from "./compare_strings.js";

/** The kinds of attention: cross-attention, and the self-attention of source and target. */
const KINDS = ["cross", "source", "target"];
const MAX_COLUMNS = 14; // of maps that fit side by side

export const view = {
  name: "compare",
  strings,
  second: true,
  state: { other: "", other_number: -1, kind: "", layer: -1, head: -1 },

  async show(container, app) {
    if (app.run.capabilities.includes("series")) return new SeriesComparison(container, app).open();
    const parts = Object.fromEntries(["inputs", "answers", "target", "maps"].map((name) => [name, make("div", {})]));
    const serial = serialQueue();
    const redraw = serial(() => drawView(parts, serial, app));
    fill(parts.inputs, inputs(app, redraw));
    fill(container, parts.inputs, parts.answers, parts.target, parts.maps);
    return redraw();
  },
};

/** The controls for both inputs: texts, images of the test split, or one uploaded image for both sides. */
function inputs(app, redraw) {
  const { capabilities } = app.run;
  const target = capabilities.includes("decode") ? [["target", "common_target", "first_output"]] : [];
  const texts = [["text", "example", "default_text"], ["other", "other_text", "same"]];
  const box = ([key, name, empty]) =>
    textBox(app, key, { name: app.t(name), lines: 1, placeholder: app.t("empty", { value: app.t(empty) }), redraw });
  if (!takesImages(app.run)) return make("div", {}, row(...texts.map(box)), row(...target.map(box)));
  const formatNumbered = (value) => (value < 0 ? app.t("same") : String(value + 1));
  const [name, other] = capabilities.includes("videos") ? ["video", "other_video"] : ["image", "other_image"];
  const { number, other_number: second } = app.state;
  const onNumber = () => {
    app.set({ pixels: "" });
    return redraw();
  };
  return row(slider(app, "number", { name: app.t(name), from: 0, to: number, format: formatNumbered, redraw: onNumber }),
    slider(app, "other_number", { name: app.t(other), from: -1, to: second, format: formatNumbered, redraw }), fileInput(app, redraw),
    ...target.map(box));
}

async function drawView(parts, serial, app) {
  const { text, other, target, number, pixels, other_number: otherNumber } = app.state;
  const second = app.second?.ready ? app.second.id : null;
  const response = await app.fetchJson("compare/sides", {
    run: app.run.id, second, text, other, target: target || null, number, other_number: otherNumber < 0 ? null : otherNumber,
    ...(pixels ? { pixels } : {}),
  });
  for (const input of parts.inputs.querySelectorAll("input[type=range]")) input.max = response.images - 1;
  const [firstInput, secondInput] = response.sides.map(({ input }) => JSON.stringify(input));
  const sections = response.sides.map((side, index) => sideOf(side, index, app));
  fill(parts.answers, firstInput === secondInput ? note(app.t("identical")) : null, make("div", { class: "sides" }, ...sections),
    candidatesChart(response.sides, app));
  await showImages(parts.answers, response, app);
  drawTarget(parts.target, response, app);
  app.showCode({ name: app.t("title"), python: compareCode(response.sides.map(({ input }) => ({ input, run: runOf(input, app) }))) });
  await drawAttention(parts.maps, { response, serial }, app);
}

/** Show the input images of both sides. */
async function showImages(container, response, app) {
  for (const [index, { input, name }] of response.sides.entries()) {
    if (!takesImages(app.runs.find((run) => run.id === input.run))) continue;
    const pixels = await app.fetchArray("vit/image", imageRequest(input));
    container.querySelectorAll(".side h2")[index].after(imageElement(pixels, input.pixels ? name : `${name}: ${input.number + 1}`));
  }
}

/** The output of one side, token by token. */
function sideOf(side, sideIndex, app) {
  const name = app.t("side", { side: app.t(sideIndex ? "second_side" : "first"), name: side.name });
  const strip = tokenStrip({
    name, tokens: side.tokens.map(({ token }) => token), notes: side.tokens.map(({ probability }) => formatPercent(probability)),
  });
  strip.paint(side.tokens.map(({ probability }) => probability));
  side.differs.forEach((differs, index) => strip.children[index].classList.toggle("differs", differs));
  const rows = side.tokens.map(({ token, probability }, index) => [token, probability, side.differs[index] ? 1 : 0]);
  const columns = [app.t("token"), "p", app.t("difference")];
  app.addDownload({ key: `side ${sideIndex}`, name, figure: strip, table: rows.length && { columns, rows } });
  const notes = [side.truncated ? app.t("truncated") : null, ...side.warnings].filter(Boolean);
  return make("section", { class: "side" }, make("h2", { class: `side-${sideIndex}` }, name),
    side.input.text ? make("p", { class: "note" }, side.input.text) : null,
    make("p", { class: "side-answer" }, side.answer || app.t("empty_output")),
    make("p", { class: "note" }, app.t("log_p", { value: formatNumber(side.log_probability) })),
    make("div", { class: "strip-window" }, strip), ...notes.map((note) => make("p", { class: "note" }, note)));
}

/** For encoder-only models: the candidates of both sides for each prediction. */
function candidatesChart(sides, app) {
  const count = Math.min(...sides.map((side) => side.candidates.length));
  if (!count) return null;
  const charts = Array.from({ length: count }, (_, number) => {
    const probabilitiesOf = (side) => new Map(side.candidates[number].map(({ token, probability }) => [token, probability]));
    const [first, second] = sides.map(probabilitiesOf);
    const labels = [...new Set([...first.keys(), ...second.keys()])];
    const entries = labels.flatMap((label) => [[label, first.get(label) ?? 0], ["", second.get(label) ?? 0]]);
    return bars({
      name: `${app.t("candidates")} ${number + 1}`, labels: entries.map(([label]) => label), values: entries.map(([, value]) => value),
      max: 1, format: formatPercent, colors: entries.map((_, index) => LINE_COLORS[index % 2]),
    });
  });
  const rows = sides.flatMap((side, sideIndex) => side.candidates.flatMap((candidates, index) =>
    candidates.map(({ token, probability }) => [app.t(sideIndex ? "second_side" : "first"), index + 1, token, probability])));
  const section = make("section", {}, make("h2", {}, app.t("candidates")), sidesLegend(app),
    make("div", { class: "charts" }, ...charts.map((chart) => chart.element)));
  app.addDownload({ name: app.t("candidates"), figure: section, table: { columns: ["", "#", app.t("token"), "p"], rows } });
  return section;
}

function sidesLegend(app) {
  return legend(["first", "second_side"].map((key) => ({ name: app.t(key) })));
}

/** The probability of each token of the common target on both sides, and the difference. */
function drawTarget(container, { target_tokens, target }, app) {
  const [first, second] = target_tokens;
  app.addDownload({ name: app.t("common_target") }); // removes an old one
  if (!first.length || !second.length) return fill(container);
  const heading = [make("h2", {}, app.t("common_target")), make("p", { class: "side-answer" }, target || app.t("empty_output"))];
  const tokens = first.map(({ token }) => token);
  if (tokens.join("\n") !== second.map(({ token }) => token).join("\n"))
    return fill(container, ...heading, note(app.t("different_tokens")));
  const columns = target_tokens.map((side) => side.map(({ probability }) => probability));
  const difference = columns[1].map((probability, index) => probability - columns[0][index]);
  const map = heatMap({
    name: app.t("common_target"), rows: ["first", "second_side", "difference"].map((key) => app.t(key)),
    columns: tokens, values: [...columns.flat(), ...difference], diverging: true, max: 1,
    formatCell: (value) => value.toFixed(2).replace("-", "−"),
  });
  map.element.classList.add("target-map");
  fill(container, ...heading, map.element);
  const rows = tokens.map((token, index) => [token, columns[0][index], columns[1][index], difference[index]]);
  const names = ["token", "first", "second_side", "difference"].map((key) => app.t(key));
  app.addDownload({ name: app.t("common_target"), figure: map.figure, table: { columns: names, rows } });
}

async function drawAttention(container, { response, serial }, app) {
  const sides = [];
  for (const side of response.sides) sides.push(await attentionOf(side, app));
  const kinds = KINDS.filter((kind) => sides.every((side) => side.of(kind).length));
  if (!kinds.length) app.showCode({ name: app.t("attention"), python: null });
  for (const key of ["first", "second_side", "difference"]) app.addDownload({ name: mapName(app, app.t(key)) });
  if (!kinds.length) return fill(container, sides.some((side) => side.any) ? note(app.t("no_maps")) : null);
  const maps = make("div", { class: "maps" });
  const selectedKind = () => (kinds.includes(app.state.kind) ? app.state.kind : kinds[0]);
  const draw = () => drawMaps(maps, sides.map((side) => ({ ...side, layers: side.of(selectedKind()) })), app);
  const redraw = serial(draw);
  const max = (measure) => Math.max(...sides.map((side) => measure(side.of(selectedKind())))) - 1;
  const controls = make("div", {});
  const formatHead = (value) => (value < 0 ? app.t("mean") : String(value + 1));
  const drawControls = () => {
    const [depth, heads] = [max((layers) => layers.length), max((layers) => layers[0].heads)];
    if (app.state.layer < 0) app.state.layer = depth; // the default is the last layer
    const options = kinds.map((kind) => [kind, app.t(`kind_${kind}`)]);
    fill(controls, row(
      dropdown(app, "kind", { name: app.t("kind"), options, redraw: () => {
        drawControls();
        return redraw();
      } }),
      slider(app, "layer", { name: app.t("layer"), from: 0, to: depth, format: formatHead, redraw }),
      slider(app, "head", { name: app.t("head"), from: -1, to: heads, format: formatHead, redraw }),
    ));
  };
  drawControls(); // before `fill`, which restores the focus
  fill(container, make("h2", {}, app.t("attention")), controls, maps);
  await draw();
}

/** The attention layers of one side, by kind. */
async function attentionOf({ input }, app) {
  const { layers, tokens } = await app.fetchJson("attention/layers", input);
  const kindOf = (layer) => (layer.is_cross_attention ? "cross" : layer.rows);
  const numberedLayers = layers.map((layer, number) => ({ ...layer, number, kind: kindOf(layer) }));
  return { input, tokens, any: layers.length > 0, of: (kind) => numberedLayers.filter((layer) => layer.kind === kind) };
}

/** Both attention maps and their difference; indices are limited to the layers and heads of each side. */
async function drawMaps(container, sides, app) {
  const [axes, values, codeSides] = [[], [], []];
  for (const { input, layers, tokens } of sides) {
    const layer = layers[Math.min(app.state.layer, layers.length - 1)];
    const head = Math.min(Math.max(app.state.head, 0), layer.heads - 1);
    const heads = app.state.head < 0 ? "mean" : "one";
    values.push((await app.fetchArray("attention/head", { ...input, layer: layer.number, head, heads })).values);
    axes.push([tokens[layer.rows], tokens[layer.columns]]);
    codeSides.push({ input, run: runOf(input, app), name: layer.name, head, heads });
  }
  const max = values.reduce((largest, each) => each.reduce((one, other) => Math.max(one, other), largest), 0);
  const nameOf = (index) => app.t(index ? "second_side" : "first");
  const maps = values.map((each, index) => mapOf(nameOf(index), axes[index], { values: each, max }));
  container.classList.toggle("wide", axes.some(([, columns]) => columns.length > MAX_COLUMNS));
  const sameShape = axes[0].every((tokens, axis) => tokens.length === axes[1][axis].length);
  app.showCode({ name: app.t("attention"), python: mapsCode(codeSides, sameShape) });
  if (sameShape) {
    const names = axes[0].map((tokens, axis) => tokens.map((token, index) => joinNames(token, axes[1][axis][index])));
    const difference = values[1].map((value, index) => value - values[0][index]);
    maps.push(mapOf(app.t("difference"), names, { values: difference, diverging: true }));
  }
  fill(container, ...maps.map(({ name, map }, index) => make("section", { "data-map": index }, make("h3", {}, name), map.element)),
    sameShape ? null : note(app.t("different_shapes")));
  for (const { name, map } of maps) app.addDownload({ name: mapName(app, name), figure: map.figure, table: map.table });
}

/** The name of the download of a map. */
function mapName(app, name) {
  return `${app.t("attention")}: ${name}`;
}

function runOf(input, app) {
  return app.runs.find((run) => run.id === input.run);
}

function note(text) {
  return make("p", { class: "note" }, text);
}

function mapOf(name, [rows, columns], options) {
  return { name, map: heatMap({ name, rows, columns, ...options }) };
}

/** The name of a row or column that stands for two tokens. */
function joinNames(first, second) {
  return first === second ? first : `${readable(first)}/${readable(second)}`;
}
