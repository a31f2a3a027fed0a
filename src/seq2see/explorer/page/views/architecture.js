/** The view "Architecture": the module tree of a model with shapes, parameters, multiply-adds, formulas and source code. */

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
    hint: "Find the module with the most parameters, and the one with the most multiply-adds. They are rarely the same.",
    help_text:
      "A model is a tree of modules. The tree shows one forward pass of an example: for each module the shapes of its " +
      "inputs and outputs (for example batch × time × width), the number of its parameters, and the number of its " +
      "multiply-adds (matrix multiplications, convolutions and attention; additions and norms are not counted). Select a " +
      "module to see its formula, the paper it comes from, and its source code. The bar is its share of all multiply-adds.",
    parameters: "parameters",
    macs: "multiply-adds",
    shapes: "shapes",
    input_shapes: "input shapes",
    output_shapes: "output shapes",
    block: "module",
    kind: "class",
    calls: "calls",
    times: "× {count}",
    shared: "↑ shares its parameters with a module above",
    unused: "not used by this example",
    total: "{parameters} parameters · {macs} multiply-adds for this example",
    open_all: "Open all",
    close_all: "Close all",
    torch_module: "{kind}: a module of PyTorch. Its source code is not part of this project.",
    line: "{file}, line {line}",
    base_class: "{name} (base class)",
    choose: "Select a module to see its formula, its paper and its source code here.",
    model: "model",
    text: "example",
    default_text: "a text (empty: an example of the run)",
  },
  zh: {
    title: "模型结构",
    hint: "找出参数最多的模块，再找出乘加最多的模块：它们往往不是同一个。",
    help_text:
      "模型是一棵模块树。这里显示一个样例的一次前向传播：每个模块的输入形状和输出形状（例如 批量 × 时间步 × 宽度）、" +
      "参数个数，以及乘加次数（只计矩阵乘、卷积和注意力，不计加法和归一化）。选一个模块，可以看到它的公式、" +
      "出处论文和源代码。横条是它占全部乘加的比例。",
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
    total: "{parameters} 个参数 · 这个样例共 {macs} 次乘加",
    open_all: "全部展开",
    close_all: "全部收起",
    torch_module: "{kind}：PyTorch 的模块，源代码不在本项目中。",
    line: "{file}，第 {line} 行",
    base_class: "{name}（基类）",
    choose: "选一个模块：它的公式、论文和源代码会显示在这里。",
    model: "模型",
    text: "样例",
    default_text: "一段文本（留空：用这个运行的样例）",
  },
};

const OPEN_LEVELS = 3; // initially open levels: the model, encoder and decoder, and their stacks

export const view = {
  name: "architecture",
  strings,
  state: { block: "" },

  async show(container, app) {
    const tree = make("div", { class: "blocks", role: "tree", "aria-label": app.t("title") });
    const details = make("div", { class: "block-details", "aria-live": "polite" });
    const total = make("p", { class: "note" });
    const redraw = coalesced(() => drawTree({ tree, details, total }, app));
    const box = textBox(app, "text", { name: app.t("text"), lines: 1, placeholder: app.t("default_text"), redraw });
    tree.addEventListener("keydown", (event) => onKey(event, tree));
    tree.addEventListener("focusin", (event) => event.target.matches(".block-name") && setTabStop(tree, event.target));
    const openAll = (open) => tree.querySelectorAll("details").forEach((each) => (each.open = open));
    const buttons = [button(app.t("open_all"), () => openAll(true)), button(app.t("close_all"), () => openAll(false))];
    fill(container, row(...(app.run.capabilities.includes("text") ? [box] : []), ...buttons), total,
      make("div", { class: "two-columns" }, tree, details));
    await redraw();
  },
};

async function drawTree({ tree, details, total }, app) {
  const text = app.run.capabilities.includes("text") ? app.state.text : ""; // the link may contain the text of another run
  const { root } = await app.fetchJson("architecture/blocks", { run: app.run.id, text });
  const choose = coalesced(() => drawSource(details, app));
  const all = flatten(root);
  tree.viewData = all;
  const formatInteger = (count) => count.toLocaleString("en");
  total.textContent = app.t("total", { parameters: formatInteger(root.parameters), macs: formatInteger(root.macs) });
  fill(tree, blockOf(root, { app, root, tree, choose }, 0));
  mark(tree, app.state.block);
  setTabStop(tree, tree.querySelector(".chosen > summary .block-name") ?? tree.querySelector(".block-name"));
  await choose();
  app.addDownload({ name: app.t("title"), figure: tree, table: tableOf(all, app) });
  const params = { text: text || exampleText(app), number: 0 };
  app.showCode({ name: app.t("title"), python: blocksCode(app.run, params) });
}

/** A module with its child modules. */
function blockOf(block, context, depth) {
  const head = make("summary", { class: "block-head", tabindex: "-1" }, ...headOf(block, context));
  const box = make("details", { class: `block${wasCalled(block) ? "" : " unused"}`, role: "treeitem", "data-block": block.name }, head);
  box.open = depth < OPEN_LEVELS && !isRepeated(block.name);
  box.addEventListener("toggle", () => block.children.length && box.setAttribute("aria-expanded", String(box.open)));
  box.append(...block.children.map((part) => blockOf(part, context, depth + 1)));
  if (!block.children.length) box.classList.add("leaf");
  return box;
}

/** Set the only module that the Tab key reaches; the arrow keys reach the others. */
function setTabStop(tree, name) {
  for (const each of tree.querySelectorAll(".block-name")) each.tabIndex = each === name ? 0 : -1;
}

/** Up and down move through the visible modules; right opens a module, left closes it or moves to its parent. */
function onKey(event, tree) {
  const names = [...tree.querySelectorAll(".block-name")].filter((each) => each.checkVisibility());
  const [box, index] = [event.target.closest("details"), names.indexOf(event.target)];
  if (index < 0) return;
  const nameOf = (each) => each?.querySelector(".block-name");
  const firstChild = box.matches(".leaf") ? null : nameOf(box.querySelector("details"));
  const moves = {
    ArrowDown: () => names[index + 1],
    ArrowUp: () => names[index - 1],
    ArrowRight: () => (box.open ? firstChild : firstChild && void (box.open = true)),
    ArrowLeft: () => (box.open && firstChild ? void (box.open = false) : nameOf(box.parentElement.closest("details"))),
    Home: () => names[0],
    End: () => names.at(-1),
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  moves[event.key]()?.focus();
}

/** Of repeated blocks only the first is initially open. */
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
  const fraction = root.macs ? block.macs / root.macs : 0;
  const bar = make("span", { class: `block-bar${fraction ? "" : " none"}`, title: formatPercent(fraction) },
    make("span", { style: { width: `${100 * fraction}%` } }));
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
  const target = name === "." ? "" : name;
  for (const each of tree.querySelectorAll("details")) {
    const blockName = each.dataset.block;
    each.classList.toggle("chosen", name !== "" && blockName === target);
    if (name !== "" && (blockName === "" || target.startsWith(`${blockName}.`))) each.open = true; // makes the selected module visible
  }
}

/** Draw the formula of the selected module, its paper, and the source code of its class. */
async function drawSource(details, app) {
  const { block } = app.state;
  const name = block === "." ? "" : block;
  app.showCode({ name: app.t("block"), python: block ? sourceCode(app.run, name) : null });
  if (!block) return fill(details, make("p", { class: "note" }, app.t("choose")));
  const { kind, sources } = await app.fetchJson("architecture/source", { run: app.run.id, block: name });
  const [formulaText, citation] = FORMULAS[kind] ?? [];
  const reference = citation && make("p", { class: "note" }, citation);
  const children = [make("h2", {}, make("code", {}, kind)), formulaText && formula(formulaText), reference];
  if (!sources.length) children.push(make("p", { class: "note" }, app.t("torch_module", { kind })));
  for (const [index, source] of sources.entries()) {
    if (index) children.push(make("h3", {}, app.t("base_class", source)));
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
  const rows = blocks.map((each) => [each.name || app.t("model"), each.kind, formatShapes(each.input_shapes),
    formatShapes(each.output_shapes), each.calls, each.parameters, each.macs]);
  return { columns, rows };
}
