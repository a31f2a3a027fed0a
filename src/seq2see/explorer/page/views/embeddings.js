/** Words as points: a map of a model's table, who is near whom, what sums lead to, and one word in several sentences. */

import { contextsOfCode, mapCode, nearCode, sumCode } from "../code/vectors.js";
import { bars } from "../parts/bars.js";
import { legend, lineChart } from "../parts/chart.js";
import { fill, latest, make } from "../parts/dom.js";
import { row, slider, textBox } from "../parts/controls.js";
import { share } from "../parts/figures.js";
import { scatter } from "../parts/scatter.js";
import { readable } from "../parts/strip.js";

const words = {
  en: {
    title: "Embeddings",
    look_for: "Search a word: do its neighbours mean something alike, or do they only stand in like places?",
    help_text:
      "A model keeps a vector for each token. The map shows them on the two directions in which they differ most " +
      "(principal axes), which is only a part of what there is: the shares say how much. Near, in the list, is measured " +
      "in all directions: by the cosine of the angle between two vectors. Search a word or press one on the map; drag to " +
      "move, the wheel to zoom. Below: first − second + third (king − man + woman), and what becomes of one word's " +
      "vector in different sentences, from the table through every layer.",
    word: "word",
    search: "a word to find on the map",
    map: "Map of {count} tokens; the axes show {first} and {second} of all variance",
    near: "Nearest to “{word}”, by cosine",
    pieces: "It is cut into {pieces}; its vector is their mean.",
    count: "neighbours",
    choose: "Search a word, or press a point of the map: its nearest neighbours will stand here.",
    not_on_map: "It is not among the tokens on the map.",
    analogy: "What is to the third as the first to the second? first − second + third",
    first: "first",
    second_word: "second",
    third: "third",
    all: "all tokens",
    others: "without the three",
    contexts: "One word in several sentences",
    common: "a word that stands in every sentence",
    sentences: "sentences, one a line",
    cosine: "cosine of each two sentences, layer by layer",
    pair: "{first} and {second}",
    layer: "layer",
    table: "table",
    entering: "entering",
    block: "block {number}",
  },
  zh: {
    title: "词向量",
    look_for: "搜索一个词：它的近邻是意思相近，还是只是常出现在相似的位置？",
    help_text:
      "模型为每个词元存一个向量。地图画的是差别最大的两个方向（主成分），只是全部信息的一部分：占多少见标题。" +
      "列表里的“近”按全部方向计算：两个向量夹角的余弦。搜索一个词，或在地图上点一个；拖动可平移，滚轮可缩放。" +
      "下面是 第一 − 第二 + 第三（国王 − 男人 + 女人），以及同一个词在不同句子里的向量，从词表一直到每一层。",
    word: "词",
    search: "要在地图上找的词",
    map: "{count} 个词元的地图；两轴占全部方差的 {first} 和 {second}",
    near: "与“{word}”最近（余弦）",
    pieces: "它被切成 {pieces}，向量取平均。",
    count: "近邻个数",
    choose: "搜索一个词，或点地图上的一个点：它的近邻会显示在这里。",
    not_on_map: "它不在地图上的词元之中。",
    analogy: "谁之于第三，如同第一之于第二？第一 − 第二 + 第三",
    first: "第一",
    second_word: "第二",
    third: "第三",
    all: "全部词元",
    others: "除去这三个",
    contexts: "同一个词在几个句子里",
    common: "每个句子里都有的词",
    sentences: "句子，每行一个",
    cosine: "每两个句子之间的余弦，逐层",
    pair: "{first} 与 {second}",
    layer: "层",
    table: "词表",
    entering: "进入",
    block: "第 {number} 块",
  },
};

const MOST = 10_000; // tokens on the map

export const view = {
  name: "embeddings",
  words,
  state: { word: "", near: 10, first: "", minus: "", third: "", common: "", sentences: "" },

  async show(place, bench) {
    const body = { run: bench.run.id, count: MOST };
    const { pieces, shares } = await bench.ask("embeddings/words", body);
    const { values } = await bench.numbers("embeddings/map", body);
    const near = make("div", { class: "near" });
    const pick = (piece) => {
      bench.set({ word: piece });
      search.set(piece);
      find().catch(bench.fail);
    };
    const map = scatter({ name: bench.word("title"), labels: pieces, places: values, onPick: (index) => pick(plain(pieces[index])) });
    const find = latest(() => tellNear({ near, map, pieces, pick }, bench));
    const search = textBox(bench, "word", { name: bench.word("word"), lines: 1, placeholder: bench.word("search"), redraw: find });
    const count = slider(bench, "near", { name: bench.word("count"), from: 1, to: 30, shown: String, redraw: find });
    const [first, second] = shares.map(share);
    fill(place, row(search, count),
      note(bench.word("map", { count: pieces.length.toLocaleString("en"), first, second })),
      make("div", { class: "map-and-list" }, map.element, near), sums(bench), bench.run.task === "caption" ? "" : inContexts(bench));
    bench.offer({ name: bench.word("title"), picture: map.picture, table: map.table });
    bench.code({ name: bench.word("title"), python: mapCode(bench.run, MOST) });
    await find();
  },
};

/** A piece as it is typed: without the sign for a space. */
function plain(piece) {
  return piece.replace(/^[▁Ġ]|^##/u, "") || piece;
}

async function tellNear({ near, map, pieces, pick }, bench) {
  const { word } = bench.state;
  bench.code({ name: bench.word("count"), python: word ? nearCode(bench.run, word, bench.state.near) : null });
  if (!word) {
    map.mark([]);
    bench.offer({ key: "near" });
    return fill(near, note(bench.word("choose")));
  }
  const found = await bench.ask("embeddings/near", { run: bench.run.id, word, count: bench.state.near });
  const own = found.pieces.map((piece) => pieces.indexOf(piece)).filter((index) => index >= 0);
  const others = found.near.map(({ piece }) => pieces.indexOf(piece)).filter((index) => index >= 0);
  map.mark([...own, ...others]);
  const chart = listOf(bench.word("near", { word }), found.near, pick);
  fill(near, make("h2", {}, bench.word("near", { word })),
    found.pieces.length > 1 ? note(bench.word("pieces", { pieces: found.pieces.map(readable).join(" + ") })) : null,
    own.length ? null : note(bench.word("not_on_map")), chart.element);
  bench.offer({ key: "near", name: bench.word("near", { word }), picture: chart.svg, table: chart.table });
}

function note(text) {
  return make("p", { class: "note" }, text);
}

function listOf(name, near, pick = null) {
  return bars({
    name, labels: near.map(({ piece }) => piece), values: near.map(({ cosine }) => cosine), most: 1,
    onPick: pick && ((index) => pick(plain(near[index].piece))),
  });
}

/** first − second + third. */
function sums(bench) {
  const told = make("div", { class: "charts" });
  const redraw = latest(async () => {
    const { first, minus, third } = bench.state;
    const three = [first, minus, third];
    bench.code({ name: bench.word("analogy"), python: three.every(Boolean) ? sumCode(bench.run, three, 8) : null });
    if (!three.every(Boolean)) {
      for (const key of ["all", "others"]) bench.offer({ key: `sum ${key}` });
      return fill(told);
    }
    const found = await bench.ask("embeddings/analogy", { run: bench.run.id, words: three, count: 8 });
    const charts = ["all", "others"].map((key) => [key, listOf(bench.word(key), found[key])]);
    fill(told, ...charts.map(([key, chart]) => make("section", {}, make("h3", {}, bench.word(key)), chart.element)));
    for (const [key, chart] of charts) {
      const name = `${first} − ${minus} + ${third}: ${bench.word(key)}`;
      bench.offer({ key: `sum ${key}`, name, picture: chart.svg, table: chart.table });
    }
    return undefined;
  });
  const names = { first: "first", minus: "second_word", third: "third" };
  const boxes = Object.entries(names).map(([key, name]) => textBox(bench, key, { name: bench.word(name), lines: 1, redraw }));
  redraw().catch(bench.fail);
  return make("section", { class: "sums" }, make("h2", {}, bench.word("analogy")), row(...boxes), told);
}

/** One word in several sentences, from the table to the last layer. */
function inContexts(bench) {
  const told = make("div", {});
  const redraw = latest(async () => {
    const { common } = bench.state;
    const sentences = bench.state.sentences.split("\n").map((each) => each.trim()).filter(Boolean);
    const asks = common && sentences.length > 1;
    bench.code({ name: bench.word("contexts"), python: asks ? contextsOfCode(bench.run, common, sentences) : null });
    if (!asks) {
      bench.offer({ name: bench.word("contexts") });
      return fill(told);
    }
    const found = await bench.ask("embeddings/contexts", { run: bench.run.id, word: common, sentences });
    const lines = found.pairs.map(([first, second], pair) => ({
      name: bench.word("pair", { first: first + 1, second: second + 1 }),
      x: found.layers.map((_, layer) => layer), y: found.layers.map((layer) => found.cosines[layer][pair]),
    }));
    const xName = found.layers.map((layer, place) => `${place} ${layerName(layer, bench)}`).join(" · ");
    const chart = lineChart({ name: bench.word("cosine"), lines, xName });
    const list = make("ol", {}, ...sentences.map((sentence) => make("li", {}, sentence)));
    fill(told, make("div", { class: "charts" }, list, make("div", {}, chart.element, legend(lines))));
    return bench.offer({ name: bench.word("contexts"), picture: chart.svg, table: chart.table });
  });
  const boxes = [
    textBox(bench, "common", { name: bench.word("word"), lines: 1, placeholder: bench.word("common"), redraw }),
    textBox(bench, "sentences", { name: bench.word("sentences"), lines: 3, redraw }),
  ];
  redraw().catch(bench.fail);
  return make("section", { class: "contexts" }, make("h2", {}, bench.word("contexts")), row(...boxes), told);
}

function layerName(name, bench) {
  const [, number] = name.match(/^block (\d+)$/) ?? [];
  return number ? bench.word("block", { number }) : bench.word(name);
}
