/** Two runs on one text or picture, or one run on two: answers, probabilities and attention side by side, and how they differ. */

import { mapsCode, sidesCode } from "../code/both.js";
import { bars } from "../parts/bars.js";
import { legend } from "../parts/chart.js";
import { LINES } from "../parts/colours.js";
import { choice, row, slider, textBox } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { fileBox } from "../parts/file_box.js";
import { figure, share } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { looksAt, pictureAsked, pictureOf } from "../parts/given.js";
import { readable, tokenStrip } from "../parts/strip.js";
import { TwoSeries } from "./compare_series.js";
import { words } from "./compare_words.js";

/** What an attention may be of: the target looks at the source, or a sequence looks at itself. */
const KINDS = ["across", "source", "target"];
const FEW = 14; // columns of maps that fit side by side

export const view = {
  name: "compare",
  words,
  second: true,
  state: { other: "", other_number: -1, kind: "", layer: -1, head: -1 },

  async show(place, bench) {
    if (bench.run.abilities.includes("series")) return new TwoSeries(place, bench).open();
    const parts = Object.fromEntries(["inputs", "answers", "read", "maps"].map((name) => [name, make("div", {})]));
    const turn = turns();
    const redraw = turn(() => tell(parts, turn, bench));
    fill(parts.inputs, inputs(bench, redraw));
    fill(place, parts.inputs, parts.answers, parts.read, parts.maps);
    return redraw();
  },
};

/** What is read on either side: texts to type, or pictures: of the test split, or for both one's own. */
function inputs(bench, redraw) {
  const { abilities } = bench.run;
  const target = abilities.includes("decode") ? [["target", "common", "first_answer"]] : [];
  const texts = [["text", "example", "usual"], ["other", "other", "same"]];
  const box = ([key, name, empty]) =>
    textBox(bench, key, { name: bench.word(name), lines: 1, placeholder: bench.word("empty", { what: bench.word(empty) }), redraw });
  if (!looksAt(bench.run)) return make("div", {}, row(...texts.map(box)), row(...target.map(box)));
  const named = (value) => (value < 0 ? bench.word("same") : String(value + 1));
  const [name, other] = abilities.includes("films") ? ["film", "other_film"] : ["picture", "other_picture"];
  const { number, other_number: second } = bench.state;
  const another = () => {
    bench.set({ pixels: "" });
    return redraw();
  };
  return row(slider(bench, "number", { name: bench.word(name), from: 0, to: number, shown: named, redraw: another }),
    slider(bench, "other_number", { name: bench.word(other), from: -1, to: second, shown: named, redraw }), fileBox(bench, redraw),
    ...target.map(box));
}

async function tell(parts, turn, bench) {
  const { text, other, target, number, pixels, other_number: otherNumber } = bench.state;
  const second = bench.second?.ready ? bench.second.id : null;
  const found = await bench.ask("compare/sides", {
    run: bench.run.id, second, text, other, target: target || null, number, other_number: otherNumber < 0 ? null : otherNumber,
    ...(pixels ? { pixels } : {}),
  });
  for (const input of parts.inputs.querySelectorAll("input[type=range]")) input.max = found.pictures - 1;
  const [one, two] = found.sides.map(({ input }) => JSON.stringify(input));
  const sides = found.sides.map((side, place) => sideOf(side, place, bench));
  fill(parts.answers, one === two ? note(bench.word("alike")) : null, make("div", { class: "sides" }, ...sides),
    guessesOf(found.sides, bench));
  await showPictures(parts.answers, found, bench);
  tellRead(parts.read, found, bench);
  bench.code({ name: bench.word("title"), python: sidesCode(found.sides.map(({ input }) => ({ input, run: runOf(input, bench) }))) });
  await tellMaps(parts.maps, { found, turn }, bench);
}

/** What both sides look at, above what they say of it. */
async function showPictures(place, found, bench) {
  for (const [index, { input, name }] of found.sides.entries()) {
    if (!looksAt(bench.runs.find((run) => run.id === input.run))) continue;
    const pixels = await bench.numbers("vit/picture", pictureAsked(input));
    place.querySelectorAll(".side h2")[index].after(pictureOf(pixels, input.pixels ? name : `${name}: ${input.number + 1}`));
  }
}

/** One side's own answer, token by token. */
function sideOf(side, place, bench) {
  const name = bench.word("side", { place: bench.word(place ? "second_side" : "first"), name: side.name });
  const strip = tokenStrip({
    name, tokens: side.tokens.map(({ piece }) => piece), notes: side.tokens.map(({ probability }) => share(probability)),
  });
  strip.paint(side.tokens.map(({ probability }) => probability));
  side.differs.forEach((differs, index) => strip.children[index].classList.toggle("differs", differs));
  const rows = side.tokens.map(({ piece, probability }, index) => [piece, probability, side.differs[index] ? 1 : 0]);
  const columns = [bench.word("piece"), "p", bench.word("difference")];
  bench.offer({ key: `side ${place}`, name, picture: strip, table: rows.length && { columns, rows } });
  const notes = [side.truncated ? bench.word("cut") : null, ...side.remarks].filter(Boolean);
  return make("section", { class: "side" }, make("h2", { class: `side-${place}` }, name),
    side.input.text ? make("p", { class: "note" }, side.input.text) : null,
    make("p", { class: "side-answer" }, side.answer || bench.word("nothing")),
    make("p", { class: "note" }, bench.word("log_p", { value: figure(side.log_probability) })),
    make("div", { class: "strip-window" }, strip), ...notes.map((note) => make("p", { class: "note" }, note)));
}

/** Of models that only read: for each thing that was asked, what it may be on either side. */
function guessesOf(sides, bench) {
  const count = Math.min(...sides.map((side) => side.guesses.length));
  if (!count) return null;
  const charts = Array.from({ length: count }, (_, place) => {
    const [first, second] = sides.map((side) => new Map(side.guesses[place].map(({ piece, probability }) => [piece, probability])));
    const labels = [...new Set([...first.keys(), ...second.keys()])];
    const each = labels.flatMap((label) => [[label, first.get(label) ?? 0], ["", second.get(label) ?? 0]]);
    return bars({
      name: `${bench.word("guesses")} ${place + 1}`, labels: each.map(([label]) => label), values: each.map(([, value]) => value),
      most: 1, told: share, colours: each.map((_, index) => LINES[index % 2]),
    });
  });
  const rows = sides.flatMap((side, place) => side.guesses.flatMap((guess, index) =>
    guess.map(({ piece, probability }) => [bench.word(place ? "second_side" : "first"), index + 1, piece, probability])));
  const drawn = make("section", {}, make("h2", {}, bench.word("guesses")), sidesLegend(bench),
    make("div", { class: "charts" }, ...charts.map((chart) => chart.element)));
  bench.offer({ name: bench.word("guesses"), picture: drawn, table: { columns: ["", "#", bench.word("piece"), "p"], rows } });
  return drawn;
}

function sidesLegend(bench) {
  return legend(["first", "second_side"].map((key) => ({ name: bench.word(key) })));
}

/** The same target on both sides: how probable each token of it is, and the difference. */
function tellRead(place, { read, target }, bench) {
  const [first, second] = read;
  bench.offer({ name: bench.word("both_read") }); // unless there is one again
  if (!first.length || !second.length) return fill(place);
  const heading = [make("h2", {}, bench.word("both_read")), make("p", { class: "side-answer" }, target || bench.word("nothing"))];
  const pieces = first.map(({ piece }) => piece);
  if (pieces.join("\n") !== second.map(({ piece }) => piece).join("\n"))
    return fill(place, ...heading, note(bench.word("other_pieces")));
  const columns = read.map((side) => side.map(({ probability }) => probability));
  const less = columns[1].map((probability, index) => probability - columns[0][index]);
  const map = heatMap({
    name: bench.word("both_read"), rows: ["first", "second_side", "difference"].map((key) => bench.word(key)),
    columns: pieces, values: [...columns.flat(), ...less], both: true, most: 1, written: (value) => value.toFixed(2).replace("-", "−"),
  });
  map.element.classList.add("read-map");
  fill(place, ...heading, map.element);
  const rows = pieces.map((piece, index) => [piece, columns[0][index], columns[1][index], less[index]]);
  const names = ["piece", "first", "second_side", "difference"].map((key) => bench.word(key));
  bench.offer({ name: bench.word("both_read"), picture: map.picture, table: { columns: names, rows } });
}

async function tellMaps(place, { found, turn }, bench) {
  const sides = [];
  for (const side of found.sides) sides.push(await attentionOf(side, bench));
  const kinds = KINDS.filter((kind) => sides.every((side) => side.of(kind).length));
  if (!kinds.length) bench.code({ name: bench.word("attention"), python: null });
  for (const key of ["first", "second_side", "difference"]) bench.offer({ name: mapName(bench, bench.word(key)) });
  if (!kinds.length) return fill(place, sides.some((side) => side.any) ? note(bench.word("no_maps")) : null);
  const drawn = make("div", { class: "maps" });
  const chosen = () => (kinds.includes(bench.state.kind) ? bench.state.kind : kinds[0]);
  const draw = () => drawMaps(drawn, sides.map((side) => ({ ...side, layers: side.of(chosen()) })), bench);
  const redraw = turn(draw);
  const most = (measure) => Math.max(...sides.map((side) => measure(side.of(chosen())))) - 1;
  const controls = make("div", {});
  const named = (value) => (value < 0 ? bench.word("mean") : String(value + 1));
  const control = () => {
    const [depth, heads] = [most((layers) => layers.length), most((layers) => layers[0].heads)];
    if (bench.state.layer < 0) bench.state.layer = depth; // the last one says most of what is written
    const options = kinds.map((kind) => [kind, bench.word(`looks_${kind}`)]);
    fill(controls, row(
      choice(bench, "kind", { name: bench.word("kind"), options, redraw: () => {
        control();
        return redraw();
      } }),
      slider(bench, "layer", { name: bench.word("layer"), from: 0, to: depth, shown: named, redraw }),
      slider(bench, "head", { name: bench.word("head"), from: -1, to: heads, shown: named, redraw }),
    ));
  };
  control(); // before it takes the place of another, whose keyboard it gets
  fill(place, make("h2", {}, bench.word("attention")), controls, drawn);
  await draw();
}

/** The attention that one side has, by who looks at whom. */
async function attentionOf({ input }, bench) {
  const { layers, tokens } = await bench.ask("attention/layers", input);
  const numbered = layers.map((layer, number) => ({ ...layer, number, kind: layer.across ? "across" : layer.rows }));
  return { input, tokens, any: layers.length > 0, of: (kind) => numbered.filter((layer) => layer.kind === kind) };
}

/** Both maps and their difference; who has fewer layers or heads shows the last that it has. */
async function drawMaps(place, sides, bench) {
  const [axes, values, chosen] = [[], [], []];
  for (const { input, layers, tokens } of sides) {
    const layer = layers[Math.min(bench.state.layer, layers.length - 1)];
    const head = Math.min(Math.max(bench.state.head, 0), layer.heads - 1);
    const heads = bench.state.head < 0 ? "mean" : "one";
    values.push((await bench.numbers("attention/head", { ...input, layer: layer.number, head, heads })).values);
    axes.push([tokens[layer.rows], tokens[layer.columns]]);
    chosen.push({ input, run: runOf(input, bench), name: layer.name, head, heads });
  }
  const most = values.reduce((largest, each) => each.reduce((one, other) => Math.max(one, other), largest), 0);
  const named = (index) => bench.word(index ? "second_side" : "first");
  const maps = values.map((each, index) => mapOf(named(index), axes[index], { values: each, most }));
  place.classList.toggle("wide", axes.some(([, columns]) => columns.length > FEW));
  const same = axes[0].every((pieces, axis) => pieces.length === axes[1][axis].length);
  bench.code({ name: bench.word("attention"), python: mapsCode(chosen, same) });
  if (same) {
    const names = axes[0].map((pieces, axis) => pieces.map((piece, index) => joined(piece, axes[1][axis][index])));
    const less = values[1].map((value, index) => value - values[0][index]);
    maps.push(mapOf(bench.word("difference"), names, { values: less, both: true }));
  }
  fill(place, ...maps.map(({ name, map }, index) => make("section", { "data-map": index }, make("h3", {}, name), map.element)),
    same ? null : note(bench.word("other_shapes")));
  for (const { name, map } of maps) bench.offer({ name: mapName(bench, name), picture: map.picture, table: map.table });
}

/** What a map is called where it can be taken home. */
function mapName(bench, name) {
  return `${bench.word("attention")}: ${name}`;
}

function runOf(input, bench) {
  return bench.runs.find((run) => run.id === input.run);
}

function note(text) {
  return make("p", { class: "note" }, text);
}

function mapOf(name, [rows, columns], rest) {
  return { name, map: heatMap({ name, rows, columns, ...rest }) };
}

/** The names of a cell that stands for two pieces. */
function joined(first, second) {
  return first === second ? first : `${readable(first)}/${readable(second)}`;
}
