/**
 * The tree of a search: a column of nodes for each step, the best candidates on top.
 *
 *   const tree = searchTree({ name, branches, best_path, until: 5, rootLabel: "∅", pruned: true, format, onPick, onPoint });
 *   container.append(tree.element);
 *
 * branches   columns of the server: parent, time, token_id, token, log_probability, total, score, outcome
 * best_path  the numbers of the nodes of the returned hypothesis
 * until      the number of steps that are shown; `pruned`: also show the pruned nodes
 * format     (number) -> the small text under a token
 * onPick     (number) on a click on a node; onPoint for pointer and keyboard, -1 when they leave
 *
 * The arrow keys move: left to the parent, right to the best child, up and down in a column.
 * `tree.svg.viewData = {numbers, best_path}` is the data of the figure.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, make } from "./dom.js";
import { readable } from "./token_strip.js";

const [WIDTH, HEIGHT, STEP_WIDTH, ROW_HEIGHT] = [96, 40, 150, 50];
const [LEFT, TOP] = [70, 10];
const FONT = { "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };
const MAX_CHARACTERS = 9;

export function searchTree(options) {
  const { name, branches, best_path, until, rootLabel, pruned, format, onPick, onPoint } = options;
  const onBestPath = new Set(best_path);
  const isShown = (number) => branches.time[number] < until && (pruned || branches.outcome[number] !== "pruned");
  const numbers = branches.time.map((_, number) => number).filter(isShown);
  const positions = layOut(numbers, branches);
  const width = LEFT + Math.max(until, 1) * STEP_WIDTH;
  const height = TOP + Math.max(1, ...numbers.map((number) => positions.get(number).rank + 1)) * ROW_HEIGHT;
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = draw("svg", { ...size, role: "tree", "aria-label": name, class: "search-tree" });
  svg.append(...numbers.map((number) => edge(number, branches, positions, onBestPath)));
  svg.append(label({ x: LEFT - 46, y: TOP + HEIGHT / 2, size: 17 }, rootLabel));
  const nodes = new Map(numbers.map((number) => [number, node(number, branches, positions.get(number), onBestPath, format)]));
  svg.append(...nodes.values());
  listen(svg, { nodes, branches, positions, onPick, onPoint });
  svg.redraw = () => searchTree(options).svg;
  svg.viewData = { numbers, best_path: best_path.filter((number) => nodes.has(number)) };
  return { element: make("div", { class: "scroll search-box" }, svg), svg };
}

/** The position of each node: its step, and its rank among the visible nodes of the step. */
function layOut(numbers, branches) {
  const counts = new Map();
  return new Map(numbers.map((number) => {
    const time = branches.time[number];
    const rank = counts.get(time) ?? 0;
    counts.set(time, rank + 1);
    return [number, { rank, x: LEFT + time * STEP_WIDTH + STEP_WIDTH - WIDTH - 20, y: TOP + rank * ROW_HEIGHT }];
  }));
}

function colorOf(number, branches, onBestPath) {
  const { accent, muted } = palette();
  if (onBestPath.has(number)) return accent;
  return { expanded: LINE_COLORS[0], finished: LINE_COLORS[2], pruned: muted }[branches.outcome[number]];
}

/** A line from the parent; its width increases with the probability of the node. */
function edge(number, branches, positions, onBestPath) {
  const to = positions.get(number);
  const from = positions.get(branches.parent[number]) ?? { x: LEFT - 20 - WIDTH, y: TOP };
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return draw("path", {
    d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`,
    fill: "none",
    stroke: colorOf(number, branches, onBestPath),
    "stroke-width": 1 + 5 * Math.exp(branches.log_probability[number]),
    ...(branches.outcome[number] === "pruned" ? { "stroke-dasharray": "3 4", opacity: 0.7 } : {}),
  });
}

function node(number, branches, { x, y }, onBestPath, format) {
  const isPruned = branches.outcome[number] === "pruned";
  const token = readable(branches.token[number]);
  const short = token.length > MAX_CHARACTERS ? `${token.slice(0, MAX_CHARACTERS - 1)}…` : token;
  const name = `${token} ${format(number)}`;
  const role = { role: "treeitem", tabindex: -1, "aria-label": name, "data-number": number };
  const group = draw("g", { class: "clickable", ...role });
  const finished = branches.outcome[number] === "finished";
  group.append(
    draw("rect", {
      x, y, width: WIDTH, height: HEIGHT, rx: finished ? 19 : 5, fill: isPruned ? palette().background : palette().card,
      stroke: colorOf(number, branches, onBestPath), "stroke-width": onBestPath.has(number) ? 3 : 1.5,
      ...(isPruned ? { "stroke-dasharray": "3 4" } : {}),
    }),
    label({ x: x + WIDTH / 2, y: y + 14, size: 15, muted: isPruned }, short),
    label({ x: x + WIDTH / 2, y: y + 31, size: 13, muted: true }, format(number)),
    draw("title", {}, name),
  );
  return group;
}

function label({ x, y, size, muted = false }, text) {
  const attributes = { "text-anchor": "middle", "dominant-baseline": "central", fill: muted ? palette().muted : palette().foreground };
  return draw("text", { x, y, "font-size": size, ...attributes, ...FONT }, text);
}

function listen(svg, { nodes, branches, positions, onPick, onPoint }) {
  const numberOf = (event) => Number(event.target.closest("[data-number]")?.dataset.number ?? -1);
  const walkTo = (number) => {
    if (!nodes.has(number)) return;
    for (const each of nodes.values()) each.setAttribute("tabindex", -1);
    nodes.get(number).setAttribute("tabindex", 0);
    nodes.get(number).focus();
  };
  nodes.values().next().value?.setAttribute("tabindex", 0);
  svg.addEventListener("pointerover", (event) => onPoint(numberOf(event)));
  svg.addEventListener("pointerleave", () => onPoint(-1));
  svg.addEventListener("focusin", (event) => onPoint(numberOf(event)));
  svg.addEventListener("click", (event) => numberOf(event) >= 0 && onPick(numberOf(event)));
  svg.addEventListener("keydown", (event) => {
    const number = numberOf(event);
    const target = neighbor(event.key, number, { nodes, branches, positions });
    if (target !== null) walkTo(target);
    else if (event.key === "Enter" || event.key === " ") onPick(number);
    else return;
    event.preventDefault();
  });
}

function neighbor(key, number, { nodes, branches, positions }) {
  const all = [...nodes.keys()];
  const sibling = (offset) => all.find((each) =>
    branches.time[each] === branches.time[number] && positions.get(each).rank === positions.get(number).rank + offset);
  if (key === "ArrowLeft") return branches.parent[number];
  if (key === "ArrowRight") return all.find((each) => branches.parent[each] === number) ?? -1;
  if (key === "ArrowUp") return sibling(-1) ?? -1;
  return key === "ArrowDown" ? sibling(1) ?? -1 : null;
}
