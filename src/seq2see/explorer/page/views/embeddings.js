/** Words as points: a map of a model's table, who is near whom, what sums lead to, and one word in several sentences. */

import { wordContextsCode, mapCode, neighborsCode, analogyCode } from "../code/embedding_code.js";
import { bars } from "../parts/bars.js";
import { legend, lineChart } from "../parts/chart.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { row, slider, textBox } from "../parts/controls.js";
import { formatPercent } from "../parts/number_format.js";
import { scatter } from "../parts/scatter.js";
import { readable } from "../parts/token_strip.js";

const strings = {
  en: {
    title: "Embeddings",
    hint: "Search a word: do its neighbors mean something alike, or do they only stand in like places?",
    help_text:
      "A model keeps a vector for each token. The map shows them on the two directions in which they differ most " +
      "(principal axes), which is only a part of what there is: the shares say how much. Near, in the list, is measured " +
      "in all directions: by the cosine of the angle between two vectors. Search a word or press one on the map; drag to " +
      "move, the wheel to zoom. Below: first − second + third (king − man + woman), and what becomes of one word's " +
      "vector in different sentences, from the table through every layer.",
    word: "word",
    search: "a word to find on the map",
    map: "Map of {count} tokens; the axes show {first} and {second} of all variance",
    neighbors: "Nearest to “{word}”, by cosine",
    pieces: "It is cut into {pieces}; its vector is their mean.",
    count: "neighbors",
    choose: "Search a word, or press a point of the map: its nearest neighbors will stand here.",
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
    hint: "搜索一个词：它的近邻是意思相近，还是只是常出现在相似的位置？",
    help_text:
      "模型为每个词元存一个向量。地图画的是差别最大的两个方向（主成分），只是全部信息的一部分：占多少见标题。" +
      "列表里的“近”按全部方向计算：两个向量夹角的余弦。搜索一个词，或在地图上点一个；拖动可平移，滚轮可缩放。" +
      "下面是 第一 − 第二 + 第三（国王 − 男人 + 女人），以及同一个词在不同句子里的向量，从词表一直到每一层。",
    word: "词",
    search: "要在地图上找的词",
    map: "{count} 个词元的地图；两轴占全部方差的 {first} 和 {second}",
    neighbors: "与“{word}”最近（余弦）",
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

const MAX_WORDS = 10_000; // tokens on the map

export const view = {
  name: "embeddings",
  strings,
  state: { word: "", neighbors: 10, first: "", second_word: "", third: "", common: "", sentences: "" },

  async show(place, app) {
    const body = { run: app.run.id, count: MAX_WORDS };
    const { pieces, explained_variance } = await app.fetchJson("embeddings/tokens", body);
    const { values } = await app.fetchArray("embeddings/map", body);
    const neighbors = make("div", { class: "neighbors" });
    const pick = (token) => {
      app.set({ word: token });
      search.set(token);
      find().catch(app.showError);
    };
    const map = scatter({ name: app.t("title"), labels: pieces, places: values, onPick: (index) => pick(typedForm(pieces[index])) });
    const find = coalesced(() => drawNeighbors({ neighbors, map, pieces, pick }, app));
    const search = textBox(app, "word", { name: app.t("word"), lines: 1, placeholder: app.t("search"), redraw: find });
    const count = slider(app, "neighbors", { name: app.t("count"), from: 1, to: 30, shown: String, redraw: find });
    const [first, second] = explained_variance.map(formatPercent);
    fill(place, row(search, count),
      note(app.t("map", { count: pieces.length.toLocaleString("en"), first, second })),
      make("div", { class: "map-and-list" }, map.element, neighbors), analogySection(app), app.run.task === "caption" ? "" : contextSection(app));
    app.addDownload({ name: app.t("title"), figure: map.figure, table: map.table });
    app.showCode({ name: app.t("title"), python: mapCode(app.run, MAX_WORDS) });
    await find();
  },
};

/** A piece as it is typed: without the sign for a space. */
function typedForm(token) {
  return token.replace(/^[▁Ġ]|^##/u, "") || token;
}

async function drawNeighbors({ neighbors, map, pieces, pick }, app) {
  const { word } = app.state;
  app.showCode({ name: app.t("count"), python: word ? neighborsCode(app.run, word, app.state.neighbors) : null });
  if (!word) {
    map.mark([]);
    app.addDownload({ key: "neighbors" });
    return fill(neighbors, note(app.t("choose")));
  }
  const found = await app.fetchJson("embeddings/neighbors", { run: app.run.id, word, count: app.state.neighbors });
  const own = found.pieces.map((token) => pieces.indexOf(token)).filter((index) => index >= 0);
  const others = found.neighbors.map(({ token }) => pieces.indexOf(token)).filter((index) => index >= 0);
  map.mark([...own, ...others]);
  const chart = listOf(app.t("neighbors", { word }), found.neighbors, pick);
  fill(neighbors, make("h2", {}, app.t("neighbors", { word })),
    found.pieces.length > 1 ? note(app.t("pieces", { pieces: found.pieces.map(readable).join(" + ") })) : null,
    own.length ? null : note(app.t("not_on_map")), chart.element);
  app.addDownload({ key: "neighbors", name: app.t("neighbors", { word }), figure: chart.svg, table: chart.table });
}

function note(text) {
  return make("p", { class: "note" }, text);
}

function listOf(name, neighbors, pick = null) {
  return bars({
    name, labels: neighbors.map(({ token }) => token), values: neighbors.map(({ cosine }) => cosine), max: 1,
    onPick: pick && ((index) => pick(typedForm(neighbors[index].token))),
  });
}

/** first − second + third. */
function analogySection(app) {
  const told = make("div", { class: "charts" });
  const redraw = coalesced(async () => {
    const { first, second_word, third } = app.state;
    const three = [first, second_word, third];
    app.showCode({ name: app.t("analogy"), python: three.every(Boolean) ? analogyCode(app.run, three, 8) : null });
    if (!three.every(Boolean)) {
      for (const key of ["all", "others"]) app.addDownload({ key: `sum ${key}` });
      return fill(told);
    }
    const found = await app.fetchJson("embeddings/analogy", { run: app.run.id, strings: three, count: 8 });
    const charts = ["all", "others"].map((key) => [key, listOf(app.t(key), found[key])]);
    fill(told, ...charts.map(([key, chart]) => make("section", {}, make("h3", {}, app.t(key)), chart.element)));
    for (const [key, chart] of charts) {
      const name = `${first} − ${second_word} + ${third}: ${app.t(key)}`;
      app.addDownload({ key: `sum ${key}`, name, figure: chart.svg, table: chart.table });
    }
    return undefined;
  });
  const names = { first: "first", second_word: "second_word", third: "third" };
  const boxes = Object.entries(names).map(([key, name]) => textBox(app, key, { name: app.t(name), lines: 1, redraw }));
  redraw().catch(app.showError);
  return make("section", { class: "analogySection" }, make("h2", {}, app.t("analogy")), row(...boxes), told);
}

/** One word in several sentences, from the table to the last layer. */
function contextSection(app) {
  const told = make("div", {});
  const redraw = coalesced(async () => {
    const { common } = app.state;
    const sentences = app.state.sentences.split("\n").map((each) => each.trim()).filter(Boolean);
    const asks = common && sentences.length > 1;
    app.showCode({ name: app.t("contexts"), python: asks ? wordContextsCode(app.run, common, sentences) : null });
    if (!asks) {
      app.addDownload({ name: app.t("contexts") });
      return fill(told);
    }
    const found = await app.fetchJson("embeddings/contexts", { run: app.run.id, word: common, sentences });
    const lines = found.pairs.map(([first, second], pair) => ({
      name: app.t("pair", { first: first + 1, second: second + 1 }),
      x: found.layers.map((_, layer) => layer), y: found.layers.map((layer) => found.cosines[layer][pair]),
    }));
    const xName = found.layers.map((layer, place) => `${place} ${layerName(layer, app)}`).join(" · ");
    const chart = lineChart({ name: app.t("cosine"), lines, xName });
    const list = make("ol", {}, ...sentences.map((sentence) => make("li", {}, sentence)));
    fill(told, make("div", { class: "charts" }, list, make("div", {}, chart.element, legend(lines))));
    return app.addDownload({ name: app.t("contexts"), figure: chart.svg, table: chart.table });
  });
  const boxes = [
    textBox(app, "common", { name: app.t("word"), lines: 1, placeholder: app.t("common"), redraw }),
    textBox(app, "sentences", { name: app.t("sentences"), lines: 3, redraw }),
  ];
  redraw().catch(app.showError);
  return make("section", { class: "contexts" }, make("h2", {}, app.t("contexts")), row(...boxes), told);
}

function layerName(name, app) {
  const [, number] = name.match(/^block (\d+)$/) ?? [];
  return number ? app.t("block", { number }) : app.t(name);
}
