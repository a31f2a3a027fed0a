/**
 * Sliders, dropdowns, text boxes and buttons, each bound to one key of the state in the link.
 *
 *   slider(app, "layer", { name: app.t("layer"), from: 0, to: 5, redraw })
 *   dropdown(app, "kind", { name: app.t("kind"), options: [["cross", "到原文"], ["self", "自身"]], redraw })
 *   toggle(app, "specials", { name: app.t("specials"), redraw })
 *   textBox(app, "text", { name: app.t("text"), redraw })
 *   button(app.t("play"), action)
 *   row(...)                                                   controls side by side
 *
 * The initial value is `app.state[key]`; a change is written to the link by `app.set`, then `redraw()` is called.
 * `redraw` may be asynchronous (wrap it in `coalesced` of dom.js); its errors are shown by `app.showError`.
 * A slider redraws while it is dragged, a text box after a short pause in typing.
 * `set(value)` of a control changes its displayed value without a redraw.
 */

import { fill, make, debounce } from "./dom.js";
import { formatNumber } from "./number_format.js";

const MAX_LENGTH = 20_000;

export function slider(app, key, { name, from = 0, to = 1, step = 1, format = formatNumber, redraw }) {
  const input = make("input", { type: "range", name: key, min: from, max: to, step, id: `control-${key}` });
  const output = make("output", { for: input.id });
  const showValue = () => (output.textContent = format(Number(input.value)));
  input.addEventListener("input", () => {
    showValue();
    app.set({ [key]: Number(input.value) });
    runRedraw(app, redraw);
  });
  const box = labeled(name, input, output);
  return withSetter(box, app.state[key], (value) => {
    input.value = value;
    showValue();
  });
}

/** A select element: `options` are pairs of value and name, or values that are their own names. */
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
    const index = pairs.findIndex(([each]) => String(each) === String(value));
    select.selectedIndex = Math.max(index, 0);
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

/** A text of at most the length that the server accepts; with `lines: 1` it is a single line, and Enter redraws at once. */
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

/** Call `redraw`, and show its synchronous or asynchronous error. */
async function runRedraw(app, redraw) {
  try {
    await redraw();
  } catch (error) {
    app.showError(error);
  }
}

function labeled(name, input, ...elements) {
  const text = make("span", { class: "name" }, name);
  const box = make("label", { class: "control", for: input.id });
  return fill(box, text, input, ...elements);
}

function withSetter(box, value, set) {
  set(value);
  box.set = set;
  return box;
}
