/**
 * Things to press, drag and type in, each bound to one key of the link.
 *
 *   slider(bench, "layer", { name: bench.word("layer"), from: 0, to: 5, redraw })
 *   choice(bench, "kind", { name: bench.word("kind"), options: [["cross", "到原文"], ["self", "自身"]], redraw })
 *   toggle(bench, "specials", { name: bench.word("specials"), redraw })
 *   textBox(bench, "text", { name: bench.word("text"), redraw })
 *   press(bench.word("play"), act)
 *   row(...)                                                   controls side by side
 *
 * Each starts with `bench.state[key]`; a change is written to the link by `bench.set` and then `redraw()` is called.
 * `redraw` may be asynchronous (wrap it in `latest` of dom.js); what it throws is told to the user by `bench.fail`.
 * A slider redraws while it is dragged, a text box when the keyboard has rested for a moment.
 * A control's `set(value)` changes what it shows without a redraw, for views that move it themselves.
 */

import { fill, make, soon } from "./dom.js";
import { figure } from "./figures.js";

const LONGEST = 20_000;

export function slider(bench, key, { name, from = 0, to = 1, step = 1, shown = figure, redraw }) {
  const input = make("input", { type: "range", name: key, min: from, max: to, step, id: `control-${key}` });
  const told = make("output", { for: input.id });
  const tell = () => (told.textContent = shown(Number(input.value)));
  input.addEventListener("input", () => {
    tell();
    bench.set({ [key]: Number(input.value) });
    redrawn(bench, redraw);
  });
  const box = labelled(name, input, told);
  return shownAs(box, bench.state[key], (value) => {
    input.value = value;
    tell();
  });
}

/** One of a few: `options` are pairs of value and name, or values that name themselves. */
export function choice(bench, key, { name, options, redraw }) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const entries = pairs.map(([value, text]) => make("option", { value: String(value) }, text));
  const select = make("select", { name: key, id: `control-${key}` }, ...entries);
  select.addEventListener("change", () => {
    bench.set({ [key]: pairs[select.selectedIndex][0] });
    redrawn(bench, redraw);
  });
  const box = labelled(name, select);
  return shownAs(box, bench.state[key], (value) => {
    const place = pairs.findIndex(([each]) => String(each) === String(value));
    select.selectedIndex = Math.max(place, 0);
  });
}

export function toggle(bench, key, { name, redraw }) {
  const input = make("input", { type: "checkbox", name: key, id: `control-${key}` });
  input.addEventListener("change", () => {
    bench.set({ [key]: input.checked });
    redrawn(bench, redraw);
  });
  const box = make("label", { class: "control toggle", for: input.id }, input, make("span", {}, name));
  return shownAs(box, bench.state[key], (value) => (input.checked = Boolean(value)));
}

/** A text of any length up to what the server takes; `lines: 1` makes it a single line, where Enter redraws at once. */
export function textBox(bench, key, { name, lines = 2, placeholder = "", redraw }) {
  const tag = lines === 1 ? "input" : "textarea";
  const properties = { name: key, id: `control-${key}`, maxlength: LONGEST, placeholder, spellcheck: "false" };
  const input = make(tag, { ...properties, ...(lines === 1 ? { type: "text" } : { rows: lines }) });
  const change = () => {
    if (input.value === bench.state[key]) return;
    bench.set({ [key]: input.value });
    redrawn(bench, redraw);
  };
  input.addEventListener("input", soon(change));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (lines === 1 || event.ctrlKey || event.metaKey) && !event.isComposing) change();
  });
  const box = labelled(name, input);
  box.classList.add("wide");
  return shownAs(box, bench.state[key], (value) => (input.value = value));
}

export function press(name, act) {
  return make("button", { type: "button", on: { click: act } }, name);
}

export function row(...controls) {
  return make("div", { class: "controls" }, ...controls);
}

/** A redraw that fails, at once or later, is told where the view stands. */
async function redrawn(bench, redraw) {
  try {
    await redraw();
  } catch (error) {
    bench.fail(error);
  }
}

function labelled(name, input, ...more) {
  const text = make("span", { class: "name" }, name);
  const box = make("label", { class: "control", for: input.id });
  return fill(box, text, input, ...more);
}

function shownAs(box, value, set) {
  set(value);
  box.set = set;
  return box;
}
