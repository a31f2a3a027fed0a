/** The view "Tokenize": the tokens of a text with their ids and bytes. */

import { tokensCode } from "../code/run_code.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { row, textBox } from "../parts/controls.js";
import { readable } from "../parts/token_strip.js";

const strings = {
  en: {
    title: "Tokenize",
    hint: "How many tokens does a word or a character need? Rare words need more.",
    help_text:
      "A tokenizer splits a text into tokens, and each token has an id in the vocabulary; the ids are the input of a model. " +
      "Type a text to see its tokens, their ids, and their bytes in UTF-8. “▁” is a space, “⏎” a new line. A character that " +
      "is not in the vocabulary may be split into byte tokens, one per byte; they are shown together below it.",
    source: "source side: {kind}, {size} tokens",
    target: "target side: {kind}, {size} tokens",
    both: "{kind}, {size} tokens",
    counts: "{tokens} tokens for {characters} characters and {bytes} bytes",
    unknown: "not in the vocabulary",
    unknowns: "{count} unknown tokens, for text that is not in the vocabulary (dashed)",
    character: "character",
    token: "token",
    id: "id",
    bytes: "bytes",
    example: "我有一支笔，你有两本书。",
  },
  zh: {
    title: "分词",
    hint: "一个词或一个字要切分成几个词元？越少见，需要的词元越多。",
    help_text:
      "分词器把文本切分成词元，每个词元在词表里有一个编号；编号是模型的输入。输入文本，即可看到词元、编号和 UTF-8 字节。" +
      "“▁”是空格，“⏎”是换行。词表里没有的字可能被切分成字节词元，每个字节一个，一起排在这个字下面。",
    source: "源端：{kind}，词表 {size}",
    target: "目标端：{kind}，词表 {size}",
    both: "{kind}，词表 {size}",
    counts: "{characters} 个字符、{bytes} 个字节，切分成 {tokens} 个词元",
    unknown: "不在词表中",
    unknowns: "其中 {count} 个未知词元，代表词表里没有的内容（虚线框）",
    character: "字符",
    token: "词元",
    id: "编号",
    bytes: "字节",
    example: "我有一支笔，你有两本书。",
  },
};

export const view = {
  name: "tokenize",
  strings,
  state: {},

  async show(container, app) {
    const sections = make("div", {});
    const redraw = coalesced(() => draw(sections, app));
    const params = { name: app.t("text"), lines: 3, placeholder: defaultText(app), redraw };
    fill(container, row(textBox(app, "text", params)), sections);
    await redraw();
  },
};

/** An example sentence; for image captioning, a caption of the dataset. */
function defaultText(app) {
  return (!app.run.capabilities.includes("text") && app.run.example?.target) || app.t("example");
}

async function draw(sections, app) {
  const text = app.state.text || defaultText(app);
  const { sides } = await app.fetchJson("tokenize", { run: app.run.id, text });
  fill(sections, ...sides.map((side) => tokenizedSection(side, app)));
  const columns = ["side", "character", "token", "id", "bytes"].map((key) => app.t(key));
  const rows = sides.flatMap((side) => side.groups.flatMap((group) =>
    group.tokens.map((token) => [side.name, group.text, token.token, token.id, token.bytes.join(" ")])));
  app.addDownload({ name: app.t("title"), figure: sections, table: { columns, rows } });
  app.showCode({ name: app.t("title"), python: tokensCode(app.run, text, sides.map((side) => side.name)) });
}

/** The section of one tokenizer; byte tokens are grouped under their character. */
function tokenizedSection(side, app) {
  const count = side.groups.reduce((sum, group) => sum + group.tokens.length, 0);
  const unknown = side.groups.filter((group) => group.unknown).reduce((sum, group) => sum + group.tokens.length, 0);
  const counts = [app.t("counts", { tokens: count, characters: side.characters, bytes: side.bytes }),
    unknown ? app.t("unknowns", { count: unknown }) : ""].filter(Boolean).join(" · ");
  return make("section", {}, make("h2", {}, app.t(side.name, side)), make("p", { class: "note" }, counts),
    make("div", { class: "token-groups", role: "list" }, ...side.groups.map((group) => groupOf(group, app))));
}

function groupOf(group, app) {
  const tokens = group.tokens.map((token) => make("span", { class: "token-entry" },
    make("b", {}, readable(token.token)), make("span", {}, token.id), make("small", {}, token.bytes.join(" "))));
  const classes = `token-group${group.tokens.length > 1 ? " multi-token" : ""}${group.unknown ? " unknown" : ""}`;
  const title = group.unknown ? app.t("unknown") : null;
  return make("span", { class: classes, role: "listitem", title },
    group.label && make("span", { class: "token-group-text" }, group.label), make("span", { class: "token-group-tokens" }, ...tokens));
}
