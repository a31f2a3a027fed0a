/** The view "Embeddings": a map of the token embeddings, nearest neighbors, analogies, and one word in several contexts. */

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
    hint: "Search a word: are its nearest neighbors similar in meaning, or only in the contexts in which they occur?",
    help_text:
      "The embedding matrix has a vector for each token. The map shows their first two principal components (PCA), with the " +
      "fraction of the variance that each explains. The list of nearest neighbors uses all dimensions: the cosine " +
      "similarity of two vectors. Search a word or click one on the map; drag to move, turn the wheel to zoom. Below: " +
      "analogies, first − second + third (king − man + woman), and contextual embeddings: the vectors of one word in " +
      "several sentences, from the embedding matrix through all layers.",
    word: "word",
    search: "a word to show on the map",
    map: "{count} tokens; the axes explain {first} and {second} of the variance",
    neighbors: "Nearest neighbors of “{word}” by cosine similarity",
    tokens: "It is tokenized as {tokens}; its vector is their mean.",
    count: "neighbors",
    choose: "Search a word or click a point of the map to see its nearest neighbors here.",
    not_on_map: "It is not among the tokens of the map.",
    analogy: "Analogy: first − second + third",
    first: "first",
    second_word: "second",
    third: "third",
    all: "all tokens",
    others: "without the three words",
    contexts: "One word in several sentences",
    common: "a word that occurs in every sentence",
    sentences: "sentences, one a line",
    cosine: "cosine similarity of each pair of sentences, by layer",
    pair: "{first} and {second}",
    layer: "layer",
    table: "embedding matrix",
    input: "embedding",
    block: "block {number}",
  },
  zh: {
    title: "词向量",
    hint: "搜索一个词：它的近邻是意思相近，还是只是常出现在相似的上下文里？",
    help_text:
      "嵌入矩阵为每个词元存一个向量。图中是它们的前两个主成分（PCA），标题给出各自解释的方差比例。" +
      "近邻列表使用全部维度：两个向量的余弦相似度。搜索一个词，或在图上点一个；拖动可平移，滚轮可缩放。" +
      "下面是类比：第一 − 第二 + 第三（国王 − 男人 + 女人），以及上下文嵌入：同一个词在不同句子里的向量，从嵌入矩阵到每一层。",
    word: "词",
    search: "要在图上显示的词",
    map: "{count} 个词元；两轴解释 {first} 和 {second} 的方差",
    neighbors: "“{word}”的近邻（余弦相似度）",
    tokens: "它被切分成 {tokens}，向量取平均。",
    count: "近邻个数",
    choose: "搜索一个词，或点图上的一个点，这里会显示它的近邻。",
    not_on_map: "它不在图上的词元之中。",
    analogy: "类比：第一 − 第二 + 第三",
    first: "第一",
    second_word: "第二",
    third: "第三",
    all: "全部词元",
    others: "除去这三个词",
    contexts: "同一个词在几个句子里",
    common: "每个句子里都有的词",
    sentences: "句子，每行一个",
    cosine: "每两个句子之间的余弦相似度，逐层",
    pair: "{first} 与 {second}",
    layer: "层",
    table: "嵌入矩阵",
    input: "嵌入",
    block: "第 {number} 块",
  },
};

const MAX_WORDS = 10_000; // tokens of the map

export const view = {
  name: "embeddings",
  strings,
  state: { word: "", neighbors: 10, first: "", second_word: "", third: "", common: "", sentences: "" },

  async show(container, app) {
    const body = { run: app.run.id, count: MAX_WORDS };
    const { tokens, explained_variance } = await app.fetchJson("embeddings/tokens", body);
    const { values } = await app.fetchArray("embeddings/map", body);
    const neighbors = make("div", { class: "neighbors" });
    const pick = (token) => {
      app.set({ word: token });
      search.set(token);
      showNeighbors().catch(app.showError);
    };
    const map = scatter({ name: app.t("title"), labels: tokens, points: values, onPick: (index) => pick(typedForm(tokens[index])) });
    const showNeighbors = coalesced(() => drawNeighbors({ neighbors, map, tokens, pick }, app));
    const search = textBox(app, "word", { name: app.t("word"), lines: 1, placeholder: app.t("search"), redraw: showNeighbors });
    const count = slider(app, "neighbors", { name: app.t("count"), from: 1, to: 30, format: String, redraw: showNeighbors });
    const [first, second] = explained_variance.map(formatPercent);
    fill(container, row(search, count),
      note(app.t("map", { count: tokens.length.toLocaleString("en"), first, second })),
      make("div", { class: "map-and-list" }, map.element, neighbors), analogySection(app),
      app.run.capabilities.includes("text") ? contextSection(app) : "");
    app.addDownload({ name: app.t("title"), figure: map.figure, table: map.table });
    app.showCode({ name: app.t("title"), python: mapCode(app.run, MAX_WORDS) });
    await showNeighbors();
  },
};

/** A token as a user types it: without the marker of a space or a subword. */
function typedForm(token) {
  return token.replace(/^[▁Ġ]|^##/u, "") || token;
}

async function drawNeighbors({ neighbors, map, tokens, pick }, app) {
  const { word } = app.state;
  app.showCode({ name: app.t("count"), python: word ? neighborsCode(app.run, word, app.state.neighbors) : null });
  if (!word) {
    map.mark([]);
    app.addDownload({ key: "neighbors" });
    return fill(neighbors, note(app.t("choose")));
  }
  const response = await app.fetchJson("embeddings/neighbors", { run: app.run.id, word, count: app.state.neighbors });
  const ownIndices = response.tokens.map((token) => tokens.indexOf(token)).filter((index) => index >= 0);
  const neighborIndices = response.neighbors.map(({ token }) => tokens.indexOf(token)).filter((index) => index >= 0);
  map.mark([...ownIndices, ...neighborIndices]);
  const chart = listOf(app.t("neighbors", { word }), response.neighbors, pick);
  fill(neighbors, make("h2", {}, app.t("neighbors", { word })),
    response.tokens.length > 1 ? note(app.t("tokens", { tokens: response.tokens.map(readable).join(" + ") })) : null,
    ownIndices.length ? null : note(app.t("not_on_map")), chart.element);
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

/** The section of analogies: first − second + third. */
function analogySection(app) {
  const results = make("div", { class: "charts" });
  const redraw = coalesced(async () => {
    const { first, second_word, third } = app.state;
    const words = [first, second_word, third];
    app.showCode({ name: app.t("analogy"), python: words.every(Boolean) ? analogyCode(app.run, words, 8) : null });
    if (!words.every(Boolean)) {
      for (const key of ["all", "others"]) app.addDownload({ key: `analogy ${key}` });
      return fill(results);
    }
    const response = await app.fetchJson("embeddings/analogy", { run: app.run.id, words, count: 8 });
    const charts = ["all", "others"].map((key) => [key, listOf(app.t(key), response[key])]);
    fill(results, ...charts.map(([key, chart]) => make("section", {}, make("h3", {}, app.t(key)), chart.element)));
    for (const [key, chart] of charts) {
      const name = `${first} − ${second_word} + ${third}: ${app.t(key)}`;
      app.addDownload({ key: `analogy ${key}`, name, figure: chart.svg, table: chart.table });
    }
    return undefined;
  });
  const names = { first: "first", second_word: "second_word", third: "third" };
  const boxes = Object.entries(names).map(([key, name]) => textBox(app, key, { name: app.t(name), lines: 1, redraw }));
  redraw().catch(app.showError);
  return make("section", { class: "analogy" }, make("h2", {}, app.t("analogy")), row(...boxes), results);
}

/** The section of contextual embeddings: one word in several sentences, for every layer. */
function contextSection(app) {
  const results = make("div", {});
  const redraw = coalesced(async () => {
    const { common } = app.state;
    const sentences = app.state.sentences.split("\n").map((each) => each.trim()).filter(Boolean);
    const isComplete = common && sentences.length > 1;
    app.showCode({ name: app.t("contexts"), python: isComplete ? wordContextsCode(app.run, common, sentences) : null });
    if (!isComplete) {
      app.addDownload({ name: app.t("contexts") });
      return fill(results);
    }
    const response = await app.fetchJson("embeddings/contexts", { run: app.run.id, word: common, sentences });
    const lines = response.pairs.map(([first, second], pair) => ({
      name: app.t("pair", { first: first + 1, second: second + 1 }),
      x: response.layers.map((_, layer) => layer), y: response.layers.map((layer) => response.cosines[layer][pair]),
    }));
    const xName = response.layers.map((layer, layerIndex) => `${layerIndex} ${layerName(layer, app)}`).join(" · ");
    const chart = lineChart({ name: app.t("cosine"), lines, xName });
    const list = make("ol", {}, ...sentences.map((sentence) => make("li", {}, sentence)));
    fill(results, make("div", { class: "charts" }, list, make("div", {}, chart.element, legend(lines))));
    return app.addDownload({ name: app.t("contexts"), figure: chart.svg, table: chart.table });
  });
  const boxes = [
    textBox(app, "common", { name: app.t("word"), lines: 1, placeholder: app.t("common"), redraw }),
    textBox(app, "sentences", { name: app.t("sentences"), lines: 3, redraw }),
  ];
  redraw().catch(app.showError);
  return make("section", { class: "contexts" }, make("h2", {}, app.t("contexts")), row(...boxes), results);
}

function layerName(name, app) {
  const [, number] = name.match(/^block (\d+)$/) ?? [];
  return number ? app.t("block", { number }) : app.t(name);
}
