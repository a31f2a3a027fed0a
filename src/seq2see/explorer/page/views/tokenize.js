/** How a text is cut: its pieces, their numbers and their bytes, as one types. */

import { tokensCode } from "../code/run_code.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { row, textBox } from "../parts/controls.js";
import { readable } from "../parts/token_strip.js";

const strings = {
  en: {
    title: "Tokenize",
    hint: "See how many pieces a word or a character costs: the rarer it is, the more.",
    help_text:
      "A model never sees letters: its tokenizer cuts a text into pieces, and each piece is a number of the vocabulary. " +
      "Type, and see the pieces, their numbers, and their bytes in UTF-8. “▁” is a space, “⏎” a new line. A character " +
      "that is not in the vocabulary may be several pieces, one for each of its bytes: they stand together under it.",
    source: "source side: {kind}, {size} pieces",
    target: "target side: {kind}, {size} pieces",
    both: "{kind}, {size} pieces",
    counts: "{pieces} pieces for {characters} characters and {bytes} bytes",
    unknown: "not in the vocabulary",
    unknowns: "{count} of them stand for something that is not in the vocabulary (dashed)",
    character: "character",
    token: "token",
    id: "number",
    bytes: "bytes",
    empty: "Type something above.",
    example: "我有一支笔，你有两本书。",
  },
  zh: {
    title: "分词",
    hint: "看一个词或一个字要切成几个词元：越少见，切得越碎。",
    help_text:
      "模型看不到文字：分词器先把文本切成词元，每个词元在词表里有一个编号。输入文本，即可看到词元、编号和 UTF-8 字节。" +
      "“▁”是空格，“⏎”是换行。词表里没有的字可能被切成几个词元，每个字节一个：它们一起排在这个字下面。",
    source: "源端：{kind}，词表 {size}",
    target: "目标端：{kind}，词表 {size}",
    both: "{kind}，词表 {size}",
    counts: "{characters} 个字符、{bytes} 个字节，切成 {pieces} 个词元",
    unknown: "不在词表中",
    unknowns: "其中 {count} 个代表词表里没有的内容（虚线框）",
    character: "字符",
    token: "词元",
    id: "编号",
    bytes: "字节",
    empty: "请在上面输入文本。",
    example: "我有一支笔，你有两本书。",
  },
};

export const view = {
  name: "tokenize",
  strings,
  state: {},

  async show(place, app) {
    const told = make("div", {});
    const redraw = coalesced(() => draw(told, app));
    const params = { name: app.t("text"), lines: 3, placeholder: defaultText(app), redraw };
    fill(place, row(textBox(app, "text", params)), told);
    await redraw();
  },
};

/** A sentence of ours; of a model that writes about images, one of those that it has learned to write. */
function defaultText(app) {
  return (app.run.task === "caption" && app.run.example?.target) || app.t("example");
}

async function draw(told, app) {
  const text = app.state.text || defaultText(app);
  const { sides } = await app.fetchJson("tokenize", { run: app.run.id, text });
  fill(told, ...sides.map((side) => tokenizedSection(side, app)));
  const columns = ["side", "character", "token", "id", "bytes"].map((key) => app.t(key));
  const rows = sides.flatMap((side) => side.groups.flatMap((group) =>
    group.pieces.map((token) => [side.name, group.text, token.token, token.id, token.bytes.join(" ")])));
  app.addDownload({ name: app.t("title"), figure: told, table: { columns, rows } });
  app.showCode({ name: app.t("title"), python: tokensCode(app.run, text, sides.map((side) => side.name)) });
}

/** One side's pieces; those that are bytes of one character stand under it. */
function tokenizedSection(side, app) {
  const count = side.groups.reduce((sum, group) => sum + group.pieces.length, 0);
  const unknown = side.groups.filter((group) => group.unknown).reduce((sum, group) => sum + group.pieces.length, 0);
  const counts = [app.t("counts", { pieces: count, characters: side.characters, bytes: side.bytes }),
    unknown ? app.t("unknowns", { count: unknown }) : ""].filter(Boolean).join(" · ");
  return make("section", {}, make("h2", {}, app.t(side.name, side)), make("p", { class: "note" }, counts),
    make("div", { class: "tokenizedSection", role: "list" }, ...side.groups.map((group) => groupOf(group, app))));
}

function groupOf(group, app) {
  const pieces = group.pieces.map((token) => make("span", { class: "token-entry" },
    make("b", {}, readable(token.token)), make("span", {}, token.id), make("small", {}, token.bytes.join(" "))));
  const attributes = `cut-group${group.pieces.length > 1 ? " multi-token" : ""}${group.unknown ? " unknown" : ""}`;
  const title = group.unknown ? app.t("unknown") : null;
  return make("span", { class: attributes, role: "listitem", title },
    group.shown && make("span", { class: "token-group-text" }, group.shown), make("span", { class: "token-group-tokens" }, ...pieces));
}
