/** A model as blocks in blocks: the shapes that pass through each, its size and its cost, its formula and its source. */

import { blocksCode, sourceCode } from "../code/run_code.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { button, row, textBox } from "../parts/controls.js";
import { formatCount, formatPercent } from "../parts/number_format.js";
import { formula } from "../parts/formula.js";
import { exampleText } from "../parts/input_form.js";
import { FORMULAS } from "../formulas.js";

const strings = {
  en: {
    title: "Architecture",
    hint: "Find the block with the most parameters, and the one with the most multiply-adds: they are seldom the same.",
    help_text:
      "A model is blocks in blocks. One real example went through it, and each block tells what it was given and what it " +
      "gave (row × time × width, say), how many numbers it has learned, and how many multiply-adds the example cost " +
      "it: products, convolutions and attention are counted, sums and norms are not. Choose a block to see its formula, " +
      "the paper it comes from, and the source code that just ran. The bar is its share of all multiply-adds.",
    parameters: "parameters",
    macs: "multiply-adds",
    shapes: "shapes",
    input_shapes: "input_shapes",
    output_shapes: "output_shapes",
    block: "block",
    kind: "class",
    calls: "called",
    times: "× {count}",
    shared: "↑ its numbers are those of a block above",
    unused: "not entered by this example",
    whole: "{parameters} parameters · {operations} multiply-adds for this example",
    open_all: "Open all",
    close_all: "Close all",
    part: "{kind}: a part of torch, whose source is not ours to show.",
    line: "{file}, line {line}",
    builds_on: "{name}, on which it builds",
    choose: "Choose a block: its formula, its paper and its source will stand here.",
    model: "model",
    text: "example",
    usual: "a text (empty: an example of the run's own)",
  },
  zh: {
    title: "模型结构",
    hint: "找出参数最多的模块，再找出乘加最多的模块：它们往往不是同一个。",
    help_text:
      "模型由层层嵌套的模块组成。让一个真实样例通过它，每个模块都会说明：收到什么形状、给出什么形状（例如 行 × 时刻 × 宽度）、" +
      "学到了多少个参数、这个样例用了多少次乘加（只计矩阵乘、卷积和注意力，不计加法和归一化）。选一个模块，可以看到它的公式、" +
      "出处论文，以及刚刚运行过的源代码。横条是它占全部乘加的比例。",
    parameters: "参数",
    macs: "乘加次数",
    shapes: "形状",
    input_shapes: "输入",
    output_shapes: "输出",
    block: "模块",
    kind: "类",
    calls: "调用",
    times: "× {count} 次",
    shared: "↑ 与前面的模块共用参数",
    unused: "这个样例没有经过它",
    whole: "{parameters} 个参数 · 这个样例共 {operations} 次乘加",
    open_all: "全部展开",
    close_all: "全部收起",
    part: "{kind}：torch 的部件，源代码不在本项目中。",
    line: "{file}，第 {line} 行",
    builds_on: "{name}（它的基类）",
    choose: "选一个模块：它的公式、论文和源代码会显示在这里。",
    model: "模型",
    text: "样例",
    usual: "一段文本（留空：用这次训练自己的样例）",
  },
};

const OPEN_LEVELS = 3; // levels that are open at first: the model, its halves, and their stacks

export const view = {
  name: "architecture",
  strings,
  state: { block: "" },

  async show(place, app) {
    const tree = make("div", { class: "blocks", role: "tree", "aria-label": app.t("title") });
    const details = make("div", { class: "block-details", "aria-live": "polite" });
    const total = make("p", { class: "note" });
    const redraw = coalesced(() => drawTree({ tree, details, total }, app));
    const box = textBox(app, "text", { name: app.t("text"), lines: 1, placeholder: app.t("usual"), redraw });
    tree.addEventListener("keydown", (event) => onKey(event, tree));
    tree.addEventListener("focusin", (event) => event.target.matches(".block-name") && setTabStop(tree, event.target));
    const openAll = (open) => tree.querySelectorAll("details").forEach((each) => (each.open = open));
    const buttons = [button(app.t("open_all"), () => openAll(true)), button(app.t("close_all"), () => openAll(false))];
    fill(place, row(...(app.run.capabilities.includes("text") ? [box] : []), ...buttons), total,
      make("div", { class: "two-columns" }, tree, details));
    await redraw();
  },
};

async function drawTree({ tree, details, total }, app) {
  const text = app.run.capabilities.includes("text") ? app.state.text : ""; // that of another run may be in the link
  const { root } = await app.fetchJson("architecture/blocks", { run: app.run.id, text });
  const choose = coalesced(() => drawSource(details, app));
  const all = flatten(root);
  tree.viewData = all;
  const exactly = (count) => count.toLocaleString("en");
  total.textContent = app.t("whole", { parameters: exactly(root.parameters), macs: exactly(root.macs) });
  fill(tree, blockOf(root, { app, root, tree, choose }, 0));
  mark(tree, app.state.block);
  setTabStop(tree, tree.querySelector(".chosen > summary .block-name") ?? tree.querySelector(".block-name"));
  await choose();
  app.addDownload({ name: app.t("title"), figure: tree, table: tableOf(all, app) });
  const params = { text: text || exampleText(app), number: 0 };
  app.showCode({ name: app.t("title"), python: blocksCode(app.run, params) });
}

/** A block, and in it the blocks that it is made of. */
function blockOf(block, around, depth) {
  const head = make("summary", { class: "block-head", tabindex: "-1" }, ...headOf(block, around));
  const box = make("details", { class: `block${wasCalled(block) ? "" : " unused"}`, role: "treeitem", "data-block": block.name }, head);
  box.open = depth < OPEN_LEVELS && !isRepeated(block.name);
  box.addEventListener("toggle", () => block.children.length && box.setAttribute("aria-expanded", String(box.open)));
  box.append(...block.children.map((part) => blockOf(part, around, depth + 1)));
  if (!block.children.length) box.classList.add("leaf");
  return box;
}

/** The one block that the Tab key comes to; the arrow keys go on from there. */
function setTabStop(tree, name) {
  for (const each of tree.querySelectorAll(".block-name")) each.tabIndex = each === name ? 0 : -1;
}

/** Up and down through what can be seen; right opens a block, left closes it or goes out of it. */
function onKey(event, tree) {
  const names = [...tree.querySelectorAll(".block-name")].filter((each) => each.checkVisibility());
  const [box, place] = [event.target.closest("details"), names.indexOf(event.target)];
  if (place < 0) return;
  const nameOf = (each) => each?.querySelector(".block-name");
  const inner = box.matches(".leaf") ? null : nameOf(box.querySelector("details"));
  const ways = {
    ArrowDown: () => names[place + 1],
    ArrowUp: () => names[place - 1],
    ArrowRight: () => (box.open ? inner : inner && void (box.open = true)),
    ArrowLeft: () => (box.open && inner ? void (box.open = false) : nameOf(box.parentElement.closest("details"))),
    Home: () => names[0],
    End: () => names.at(-1),
  };
  if (!(event.key in ways)) return;
  event.preventDefault();
  ways[event.key]()?.focus();
}

/** Of blocks that are all alike only the first is open at first. */
function isRepeated(name) {
  return /\.[1-9]\d*$/.test(name);
}

function headOf(block, { app, root, tree, choose }) {
  const name = block.name.split(".").at(-1) || app.t("model");
  const pick = make("button", { type: "button", class: "block-name", tabindex: "-1", on: { click: (event) => {
    event.preventDefault();
    app.set({ block: block.name || "." });
    mark(tree, app.state.block);
    choose().catch(app.showError);
  } } }, name, " ", make("code", {}, block.kind));
  const part = root.macs ? block.macs / root.macs : 0;
  const bar = make("span", { class: `block-bar${part ? "" : " none"}`, title: formatPercent(part) },
    make("span", { style: { width: `${100 * part}%` } }));
  return [pick, bar, make("span", { class: "block-shapes" }, shapesOf(block, app)),
    make("span", { class: "block-size", title: block.shared ? app.t("shared") : null }, sizeOf(block, app))];
}

function shapesOf(block, app) {
  if (!block.calls) return wasCalled(block) ? "" : app.t("unused");
  const calls = block.calls > 1 ? ` ${app.t("times", { count: block.calls })}` : "";
  return `${formatShapes(block.input_shapes)} → ${formatShapes(block.output_shapes)}${calls}`;
}

function wasCalled(block) {
  return block.calls > 0 || block.children.some(wasCalled);
}

function sizeOf(block, app) {
  const children = [
    block.parameters && `${formatCount(block.parameters)} ${app.t("parameters")}${block.shared ? " ↑" : ""}`,
    block.macs && `${formatCount(block.macs)} ${app.t("macs")}`,
  ];
  return children.filter(Boolean).join(" · ");
}

function formatShapes(shapes) {
  return shapes.map((shape) => shape.join("×")).join(", ") || "·";
}

function mark(tree, name) {
  const wanted = name === "." ? "" : name;
  for (const each of tree.querySelectorAll("details")) {
    const own = each.dataset.block;
    each.classList.toggle("chosen", name !== "" && own === wanted);
    if (name !== "" && (own === "" || wanted.startsWith(`${own}.`))) each.open = true; // so that it can be seen
  }
}

/** The formula of the chosen block, who found it, and the source of its class. */
async function drawSource(details, app) {
  const { block } = app.state;
  const name = block === "." ? "" : block;
  app.showCode({ name: app.t("block"), python: block ? sourceCode(app.run, name) : null });
  if (!block) return fill(details, make("p", { class: "note" }, app.t("choose")));
  const { kind, sources } = await app.fetchJson("architecture/source", { run: app.run.id, block: name });
  const [line, palette] = FORMULAS[kind] ?? [];
  const children = [make("h2", {}, make("code", {}, kind)), line && formula(line), palette && make("p", { class: "note" }, palette)];
  if (!sources.length) children.push(make("p", { class: "note" }, app.t("part", { kind })));
  for (const [place, source] of sources.entries()) {
    if (place) children.push(make("h3", {}, app.t("builds_on", source)));
    children.push(make("p", { class: "note" }, app.t("line", source)),
      make("pre", { class: "source", tabindex: "0" }, make("code", {}, source.text)));
  }
  fill(details, ...children.filter(Boolean));
}

function flatten(block) {
  return [block, ...block.children.flatMap(flatten)];
}

function tableOf(blocks, app) {
  const columns = ["block", "kind", "input_shapes", "output_shapes", "calls", "parameters", "macs"].map((key) => app.t(key));
  const rows = blocks.map((each) => [each.name || app.t("model"), each.kind, formatShapes(each.input_shapes), formatShapes(each.output_shapes),
    each.calls, each.parameters, each.macs]);
  return { columns, rows };
}
