/** A model as blocks in blocks: the shapes that pass through each, its size and its cost, its formula and its source. */

import { blocksCode, sourceCode } from "../code/tables.js";
import { fill, latest, make } from "../parts/dom.js";
import { press, row, textBox } from "../parts/controls.js";
import { counted, share } from "../parts/figures.js";
import { formula } from "../parts/formula.js";
import { exampleText } from "../parts/input.js";
import { FORMULAS } from "../formulas.js";

const words = {
  en: {
    title: "Architecture",
    look_for: "Find the block with the most parameters, and the one with the most multiply-adds: they are seldom the same.",
    help_text:
      "A model is blocks in blocks. One real example went through it, and each block tells what it was given and what it " +
      "gave (row × time × width, say), how many numbers it has learnt, and how many multiply-adds the example cost " +
      "it: products, convolutions and attention are counted, sums and norms are not. Choose a block to see its formula, " +
      "the paper it comes from, and the source code that just ran. The bar is its share of all multiply-adds.",
    parameters: "parameters",
    operations: "multiply-adds",
    shapes: "shapes",
    given: "given",
    gives: "gives",
    block: "block",
    kind: "class",
    calls: "called",
    times: "× {count}",
    shared: "↑ its numbers are those of a block above",
    idle: "not entered by this example",
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
    look_for: "找出参数最多的模块，再找出乘加最多的模块：它们往往不是同一个。",
    help_text:
      "模型由层层嵌套的模块组成。让一个真实样例通过它，每个模块都会说明：收到什么形状、给出什么形状（例如 行 × 时刻 × 宽度）、" +
      "学到了多少个参数、这个样例用了多少次乘加（只计矩阵乘、卷积和注意力，不计加法和归一化）。选一个模块，可以看到它的公式、" +
      "出处论文，以及刚刚运行过的源代码。横条是它占全部乘加的比例。",
    parameters: "参数",
    operations: "乘加次数",
    shapes: "形状",
    given: "输入",
    gives: "输出",
    block: "模块",
    kind: "类",
    calls: "调用",
    times: "× {count} 次",
    shared: "↑ 与前面的模块共用参数",
    idle: "这个样例没有经过它",
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

const DEEP = 3; // levels that are open at first: the model, its halves, and their stacks

export const view = {
  name: "architecture",
  words,
  state: { block: "" },

  async show(place, bench) {
    const tree = make("div", { class: "blocks", role: "tree", "aria-label": bench.word("title") });
    const told = make("div", { class: "block-told", "aria-live": "polite" });
    const total = make("p", { class: "note" });
    const redraw = latest(() => drawTree({ tree, told, total }, bench));
    const box = textBox(bench, "text", { name: bench.word("text"), lines: 1, placeholder: bench.word("usual"), redraw });
    tree.addEventListener("keydown", (event) => walk(event, tree));
    tree.addEventListener("focusin", (event) => event.target.matches(".block-name") && reach(tree, event.target));
    const openAll = (open) => tree.querySelectorAll("details").forEach((each) => (each.open = open));
    const buttons = [press(bench.word("open_all"), () => openAll(true)), press(bench.word("close_all"), () => openAll(false))];
    fill(place, row(...(bench.run.abilities.includes("text") ? [box] : []), ...buttons), total,
      make("div", { class: "two-columns" }, tree, told));
    await redraw();
  },
};

async function drawTree({ tree, told, total }, bench) {
  const text = bench.run.abilities.includes("text") ? bench.state.text : ""; // that of another run may be in the link
  const { root } = await bench.ask("architecture/blocks", { run: bench.run.id, text });
  const choose = latest(() => tell(told, bench));
  const all = listed(root);
  tree.shown = all;
  const exactly = (count) => count.toLocaleString("en");
  total.textContent = bench.word("whole", { parameters: exactly(root.parameters), operations: exactly(root.operations) });
  fill(tree, blockOf(root, { bench, root, tree, choose }, 0));
  mark(tree, bench.state.block);
  reach(tree, tree.querySelector(".chosen > summary .block-name") ?? tree.querySelector(".block-name"));
  await choose();
  bench.offer({ name: bench.word("title"), picture: tree, table: tableOf(all, bench) });
  const asked = { text: text || exampleText(bench), number: 0 };
  bench.code({ name: bench.word("title"), python: blocksCode(bench.run, asked) });
}

/** A block, and in it the blocks that it is made of. */
function blockOf(block, around, depth) {
  const head = make("summary", { class: "block-head", tabindex: "-1" }, ...headOf(block, around));
  const box = make("details", { class: `block${wasEntered(block) ? "" : " idle"}`, role: "treeitem", "data-block": block.name }, head);
  box.open = depth < DEEP && !isRepeated(block.name);
  box.addEventListener("toggle", () => block.parts.length && box.setAttribute("aria-expanded", String(box.open)));
  box.append(...block.parts.map((part) => blockOf(part, around, depth + 1)));
  if (!block.parts.length) box.classList.add("leaf");
  return box;
}

/** The one block that the Tab key comes to; the arrow keys go on from there. */
function reach(tree, name) {
  for (const each of tree.querySelectorAll(".block-name")) each.tabIndex = each === name ? 0 : -1;
}

/** Up and down through what can be seen; right opens a block, left closes it or goes out of it. */
function walk(event, tree) {
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

function headOf(block, { bench, root, tree, choose }) {
  const name = block.name.split(".").at(-1) || bench.word("model");
  const pick = make("button", { type: "button", class: "block-name", tabindex: "-1", on: { click: (event) => {
    event.preventDefault();
    bench.set({ block: block.name || "." });
    mark(tree, bench.state.block);
    choose().catch(bench.fail);
  } } }, name, " ", make("code", {}, block.kind));
  const part = root.operations ? block.operations / root.operations : 0;
  const bar = make("span", { class: `block-bar${part ? "" : " none"}`, title: share(part) },
    make("span", { style: { width: `${100 * part}%` } }));
  return [pick, bar, make("span", { class: "block-shapes" }, shapesOf(block, bench)),
    make("span", { class: "block-size", title: block.shared ? bench.word("shared") : null }, sizeOf(block, bench))];
}

function shapesOf(block, bench) {
  if (!block.calls) return wasEntered(block) ? "" : bench.word("idle");
  const calls = block.calls > 1 ? ` ${bench.word("times", { count: block.calls })}` : "";
  return `${shaped(block.given)} → ${shaped(block.gives)}${calls}`;
}

function wasEntered(block) {
  return block.calls > 0 || block.parts.some(wasEntered);
}

function sizeOf(block, bench) {
  const parts = [
    block.parameters && `${counted(block.parameters)} ${bench.word("parameters")}${block.shared ? " ↑" : ""}`,
    block.operations && `${counted(block.operations)} ${bench.word("operations")}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

function shaped(shapes) {
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
async function tell(told, bench) {
  const { block } = bench.state;
  const name = block === "." ? "" : block;
  bench.code({ name: bench.word("block"), python: block ? sourceCode(bench.run, name) : null });
  if (!block) return fill(told, make("p", { class: "note" }, bench.word("choose")));
  const { kind, sources } = await bench.ask("architecture/source", { run: bench.run.id, block: name });
  const [line, paper] = FORMULAS[kind] ?? [];
  const parts = [make("h2", {}, make("code", {}, kind)), line && formula(line), paper && make("p", { class: "note" }, paper)];
  if (!sources.length) parts.push(make("p", { class: "note" }, bench.word("part", { kind })));
  for (const [place, source] of sources.entries()) {
    if (place) parts.push(make("h3", {}, bench.word("builds_on", source)));
    parts.push(make("p", { class: "note" }, bench.word("line", source)),
      make("pre", { class: "source", tabindex: "0" }, make("code", {}, source.text)));
  }
  fill(told, ...parts.filter(Boolean));
}

function listed(block) {
  return [block, ...block.parts.flatMap(listed)];
}

function tableOf(blocks, bench) {
  const columns = ["block", "kind", "given", "gives", "calls", "parameters", "operations"].map((key) => bench.word(key));
  const rows = blocks.map((each) => [each.name || bench.word("model"), each.kind, shaped(each.given), shaped(each.gives),
    each.calls, each.parameters, each.operations]);
  return { columns, rows };
}
