/** Two runs on one text or image, or one run on two: answers, probabilities and attention side by side, and how they differ. */

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

/** What an attention may be of: the target looks at the source, or a sequence looks at itself. */
const KINDS = ["is_cross_attention", "source", "target"];
const FEW = 14; // columns of maps that fit side by side

export const view = {
  name: "compare",
  strings,
  second: true,
  state: { other: "", other_number: -1, kind: "", layer: -1, head: -1 },

  async show(place, app) {
    if (app.run.capabilities.includes("series")) return new SeriesComparison(place, app).open();
    const parts = Object.fromEntries(["inputs", "answers", "read", "maps"].map((name) => [name, make("div", {})]));
    const serial = serialQueue();
    const redraw = serial(() => drawView(parts, serial, app));
    fill(parts.inputs, inputs(app, redraw));
    fill(place, parts.inputs, parts.answers, parts.read, parts.maps);
    return redraw();
  },
};

/** What is read on either side: texts to type, or images: of the test split, or for both one's own. */
function inputs(app, redraw) {
  const { capabilities } = app.run;
  const target = capabilities.includes("decode") ? [["target", "common", "first_answer"]] : [];
  const texts = [["text", "example", "usual"], ["other", "other", "same"]];
  const box = ([key, name, empty]) =>
    textBox(app, key, { name: app.t(name), lines: 1, placeholder: app.t("empty", { message: app.t(empty) }), redraw });
  if (!takesImages(app.run)) return make("div", {}, row(...texts.map(box)), row(...target.map(box)));
  const named = (value) => (value < 0 ? app.t("same") : String(value + 1));
  const [name, other] = capabilities.includes("videos") ? ["video", "other_video"] : ["image", "other_image"];
  const { number, other_number: second } = app.state;
  const another = () => {
    app.set({ pixels: "" });
    return redraw();
  };
  return row(slider(app, "number", { name: app.t(name), from: 0, to: number, shown: named, redraw: another }),
    slider(app, "other_number", { name: app.t(other), from: -1, to: second, shown: named, redraw }), fileInput(app, redraw),
    ...target.map(box));
}

async function drawView(parts, serial, app) {
  const { text, other, target, number, pixels, other_number: otherNumber } = app.state;
  const second = app.second?.ready ? app.second.id : null;
  const found = await app.fetchJson("compare/sides", {
    run: app.run.id, second, text, other, target: target || null, number, other_number: otherNumber < 0 ? null : otherNumber,
    ...(pixels ? { pixels } : {}),
  });
  for (const input of parts.inputs.querySelectorAll("input[type=range]")) input.max = found.images - 1;
  const [one, two] = found.sides.map(({ input }) => JSON.stringify(input));
  const sides = found.sides.map((side, place) => sideOf(side, place, app));
  fill(parts.answers, one === two ? note(app.t("alike")) : null, make("div", { class: "sides" }, ...sides),
    candidatesChart(found.sides, app));
  await showImages(parts.answers, found, app);
  drawTarget(parts.read, found, app);
  app.showCode({ name: app.t("title"), python: compareCode(found.sides.map(({ input }) => ({ input, run: runOf(input, app) }))) });
  await drawAttention(parts.maps, { found, serial }, app);
}

/** What both sides look at, above what they say of it. */
async function showImages(place, found, app) {
  for (const [index, { input, name }] of found.sides.entries()) {
    if (!takesImages(app.runs.find((run) => run.id === input.run))) continue;
    const pixels = await app.fetchArray("vit/image", imageRequest(input));
    place.querySelectorAll(".side h2")[index].after(imageElement(pixels, input.pixels ? name : `${name}: ${input.number + 1}`));
  }
}

/** One side's own answer, token by token. */
function sideOf(side, place, app) {
  const name = app.t("side", { place: app.t(place ? "second_side" : "first"), name: side.name });
  const strip = tokenStrip({
    name, tokens: side.tokens.map(({ token }) => token), notes: side.tokens.map(({ probability }) => formatPercent(probability)),
  });
  strip.paint(side.tokens.map(({ probability }) => probability));
  side.differs.forEach((differs, index) => strip.children[index].classList.toggle("differs", differs));
  const rows = side.tokens.map(({ token, probability }, index) => [token, probability, side.differs[index] ? 1 : 0]);
  const columns = [app.t("token"), "p", app.t("difference")];
  app.addDownload({ key: `side ${place}`, name, figure: strip, table: rows.length && { columns, rows } });
  const notes = [side.truncated ? app.t("cut") : null, ...side.remarks].filter(Boolean);
  return make("section", { class: "side" }, make("h2", { class: `side-${place}` }, name),
    side.input.text ? make("p", { class: "note" }, side.input.text) : null,
    make("p", { class: "side-answer" }, side.answer || app.t("nothing")),
    make("p", { class: "note" }, app.t("log_p", { value: formatNumber(side.log_probability) })),
    make("div", { class: "strip-window" }, strip), ...notes.map((note) => make("p", { class: "note" }, note)));
}

/** Of models that only read: for each thing that was asked, what it may be on either side. */
function candidatesChart(sides, app) {
  const count = Math.min(...sides.map((side) => side.guesses.length));
  if (!count) return null;
  const charts = Array.from({ length: count }, (_, place) => {
    const [first, second] = sides.map((side) => new Map(side.guesses[place].map(({ token, probability }) => [token, probability])));
    const labels = [...new Set([...first.keys(), ...second.keys()])];
    const each = labels.flatMap((label) => [[label, first.get(label) ?? 0], ["", second.get(label) ?? 0]]);
    return bars({
      name: `${app.t("guesses")} ${place + 1}`, labels: each.map(([label]) => label), values: each.map(([, value]) => value),
      max: 1, told: formatPercent, colors: each.map((_, index) => LINE_COLORS[index % 2]),
    });
  });
  const rows = sides.flatMap((side, place) => side.guesses.flatMap((guess, index) =>
    guess.map(({ token, probability }) => [app.t(place ? "second_side" : "first"), index + 1, token, probability])));
  const drawn = make("section", {}, make("h2", {}, app.t("guesses")), sidesLegend(app),
    make("div", { class: "charts" }, ...charts.map((chart) => chart.element)));
  app.addDownload({ name: app.t("guesses"), figure: drawn, table: { columns: ["", "#", app.t("token"), "p"], rows } });
  return drawn;
}

function sidesLegend(app) {
  return legend(["first", "second_side"].map((key) => ({ name: app.t(key) })));
}

/** The same target on both sides: how probable each token of it is, and the difference. */
function drawTarget(place, { read, target }, app) {
  const [first, second] = read;
  app.addDownload({ name: app.t("both_read") }); // unless there is one again
  if (!first.length || !second.length) return fill(place);
  const heading = [make("h2", {}, app.t("both_read")), make("p", { class: "side-answer" }, target || app.t("nothing"))];
  const pieces = first.map(({ token }) => token);
  if (pieces.join("\n") !== second.map(({ token }) => token).join("\n"))
    return fill(place, ...heading, note(app.t("other_pieces")));
  const columns = read.map((side) => side.map(({ probability }) => probability));
  const less = columns[1].map((probability, index) => probability - columns[0][index]);
  const map = heatMap({
    name: app.t("both_read"), rows: ["first", "second_side", "difference"].map((key) => app.t(key)),
    columns: pieces, values: [...columns.flat(), ...less], diverging: true, max: 1, formatCell: (value) => value.toFixed(2).replace("-", "−"),
  });
  map.element.classList.add("read-map");
  fill(place, ...heading, map.element);
  const rows = pieces.map((token, index) => [token, columns[0][index], columns[1][index], less[index]]);
  const names = ["token", "first", "second_side", "difference"].map((key) => app.t(key));
  app.addDownload({ name: app.t("both_read"), figure: map.figure, table: { columns: names, rows } });
}

async function drawAttention(place, { found, serial }, app) {
  const sides = [];
  for (const side of found.sides) sides.push(await attentionOf(side, app));
  const kinds = KINDS.filter((kind) => sides.every((side) => side.of(kind).length));
  if (!kinds.length) app.showCode({ name: app.t("attention"), python: null });
  for (const key of ["first", "second_side", "difference"]) app.addDownload({ name: mapName(app, app.t(key)) });
  if (!kinds.length) return fill(place, sides.some((side) => side.any) ? note(app.t("no_maps")) : null);
  const drawn = make("div", { class: "maps" });
  const chosen = () => (kinds.includes(app.state.kind) ? app.state.kind : kinds[0]);
  const draw = () => drawMaps(drawn, sides.map((side) => ({ ...side, layers: side.of(chosen()) })), app);
  const redraw = serial(draw);
  const max = (measure) => Math.max(...sides.map((side) => measure(side.of(chosen())))) - 1;
  const controls = make("div", {});
  const named = (value) => (value < 0 ? app.t("mean") : String(value + 1));
  const control = () => {
    const [depth, heads] = [max((layers) => layers.length), max((layers) => layers[0].heads)];
    if (app.state.layer < 0) app.state.layer = depth; // the last one says most of what is written
    const options = kinds.map((kind) => [kind, app.t(`looks_${kind}`)]);
    fill(controls, row(
      dropdown(app, "kind", { name: app.t("kind"), options, redraw: () => {
        control();
        return redraw();
      } }),
      slider(app, "layer", { name: app.t("layer"), from: 0, to: depth, shown: named, redraw }),
      slider(app, "head", { name: app.t("head"), from: -1, to: heads, shown: named, redraw }),
    ));
  };
  control(); // before it takes the place of another, whose keyboard it gets
  fill(place, make("h2", {}, app.t("attention")), controls, drawn);
  await draw();
}

/** The attention that one side has, by who looks at whom. */
async function attentionOf({ input }, app) {
  const { layers, tokens } = await app.fetchJson("attention/layers", input);
  const numbered = layers.map((layer, number) => ({ ...layer, number, kind: layer.is_cross_attention ? "is_cross_attention" : layer.rows }));
  return { input, tokens, any: layers.length > 0, of: (kind) => numbered.filter((layer) => layer.kind === kind) };
}

/** Both maps and their difference; who has fewer layers or heads shows the last that it has. */
async function drawMaps(place, sides, app) {
  const [axes, values, chosen] = [[], [], []];
  for (const { input, layers, tokens } of sides) {
    const layer = layers[Math.min(app.state.layer, layers.length - 1)];
    const head = Math.min(Math.max(app.state.head, 0), layer.heads - 1);
    const heads = app.state.head < 0 ? "mean" : "one";
    values.push((await app.fetchArray("attention/head", { ...input, layer: layer.number, head, heads })).values);
    axes.push([tokens[layer.rows], tokens[layer.columns]]);
    chosen.push({ input, run: runOf(input, app), name: layer.name, head, heads });
  }
  const max = values.reduce((largest, each) => each.reduce((one, other) => Math.max(one, other), largest), 0);
  const named = (index) => app.t(index ? "second_side" : "first");
  const maps = values.map((each, index) => mapOf(named(index), axes[index], { values: each, max }));
  place.classList.toggle("wide", axes.some(([, columns]) => columns.length > FEW));
  const same = axes[0].every((pieces, axis) => pieces.length === axes[1][axis].length);
  app.showCode({ name: app.t("attention"), python: mapsCode(chosen, same) });
  if (same) {
    const names = axes[0].map((pieces, axis) => pieces.map((token, index) => joinNames(token, axes[1][axis][index])));
    const less = values[1].map((value, index) => value - values[0][index]);
    maps.push(mapOf(app.t("difference"), names, { values: less, diverging: true }));
  }
  fill(place, ...maps.map(({ name, map }, index) => make("section", { "data-map": index }, make("h3", {}, name), map.element)),
    same ? null : note(app.t("other_shapes")));
  for (const { name, map } of maps) app.addDownload({ name: mapName(app, name), figure: map.figure, table: map.table });
}

/** What a map is called where it can be taken home. */
function mapName(app, name) {
  return `${app.t("attention")}: ${name}`;
}

function runOf(input, app) {
  return app.runs.find((run) => run.id === input.run);
}

function note(text) {
  return make("p", { class: "note" }, text);
}

function mapOf(name, [rows, columns], rest) {
  return { name, map: heatMap({ name, rows, columns, ...rest }) };
}

/** The names of a cell that stands for two pieces. */
function joinNames(first, second) {
  return first === second ? first : `${readable(first)}/${readable(second)}`;
}
