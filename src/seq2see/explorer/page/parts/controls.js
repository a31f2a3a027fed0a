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
 * Each starts with `app.state[key]`; a change is written to the link by `app.set` and then `redraw()` is called.
 * `redraw` may be asynchronous (wrap it in `coalesced` of dom.js); what it throws is told to the user by `app.fail`.
 * A slider redraws while it is dragged, a text box when the keyboard has rested for a moment.
 * A control's `set(value)` changes what it shows without a redraw, for views that move it themselves.
 */

import { fill, make, debounce } from "./dom.js";
import { formatNumber } from "./figures.js";

const MAX_LENGTH = 20_000;

export function slider(app, key, { name, from = 0, to = 1, step = 1, format = formatNumber, redraw }) {
  const input = make("input", { type: "range", name: key, min: from, max: to, step, id: `control-${key}` });
  const output = make("output", { for: input.id });
  const tell = () => (output.textContent = format(Number(input.value)));
  input.addEventListener("input", () => {
    tell();
    app.set({ [key]: Number(input.value) });
    runRedraw(app, redraw);
  });
  const box = labeled(name, input, output);
  return withSetter(box, app.state[key], (value) => {
    input.value = value;
    tell();
  });
}

/** One of a few: `options` are pairs of value and name, or values that name themselves. */
export function dropdown(app, key, { name, options, redraw }) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const entries = pairs.map(([value, text]) => make("option", { value: String(value) }, text));
  const select = make("select", { name: key, id: `control-${key}` }, ...entries);
  select.addEventListener("change", () => {
    app.set({ [key]: pairs[select.selectedIndex][0] });
    runRedraw(app, redraw);
  });
  const box = labeled(name, select);
  return withSetter(box, app.state[key], (value) => {
    const place = pairs.findIndex(([each]) => String(each) === String(value));
    select.selectedIndex = Math.max(place, 0);
  });
}

export function toggle(app, key, { name, redraw }) {
  const input = make("input", { type: "checkbox", name: key, id: `control-${key}` });
  input.addEventListener("change", () => {
    app.set({ [key]: input.checked });
    runRedraw(app, redraw);
  });
  const box = make("label", { class: "control toggle", for: input.id }, input, make("span", {}, name));
  return withSetter(box, app.state[key], (value) => (input.checked = Boolean(value)));
}

/** A text of any length up to what the server takes; `lines: 1` makes it a single line, where Enter redraws at once. */
export function textBox(app, key, { name, lines = 2, placeholder = "", redraw }) {
  const tag = lines === 1 ? "input" : "textarea";
  const properties = { name: key, id: `control-${key}`, maxlength: MAX_LENGTH, placeholder, spellcheck: "false" };
  const input = make(tag, { ...properties, ...(lines === 1 ? { type: "text" } : { rows: lines }) });
  const change = () => {
    if (input.value === app.state[key]) return;
    app.set({ [key]: input.value });
    runRedraw(app, redraw);
  };
  input.addEventListener("input", debounce(change));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (lines === 1 || event.ctrlKey || event.metaKey) && !event.isComposing) change();
  });
  const box = labeled(name, input);
  box.classList.add("wide");
  return withSetter(box, app.state[key], (value) => (input.value = value));
}

export function button(name, action) {
  return make("button", { type: "button", on: { click: action } }, name);
}

export function row(...controls) {
  return make("div", { class: "controls" }, ...controls);
}

/** A redraw that fails, at once or later, is told where the view stands. */
async function runRedraw(app, redraw) {
  try {
    await redraw();
  } catch (error) {
    app.fail(error);
  }
}

function labeled(name, input, ...more) {
  const text = make("span", { class: "name" }, name);
  const box = make("label", { class: "control", for: input.id });
  return fill(box, text, input, ...more);
}

function withSetter(box, value, set) {
  set(value);
  box.set = set;
  return box;
}
