/**
 * A row of tokens, to point at, to click, and to navigate with the arrow keys.
 *
 *   const strip = tokenStrip({ name: "source", tokens: ["我", "▁has"], onPick: (index) => ..., onPoint: (index) => ... });
 *   container.append(strip);
 *   strip.paint(weights)            background colors for values from 0 to 1 (null removes them)
 *   strip.choose(3)                 mark one token as chosen (-1: none)
 *
 * `tokens` are texts or `{text, note}` (a small note below the token). `onPoint(-1)`: the pointer has left.
 * Bytes (`<0xE7>`) are shown small; `strip.viewData = {tokens, values}` is the data of the strip.
 */

import { sequentialStyle } from "./colors.js";
import { make } from "./dom.js";

const BYTE = /^<0x([0-9A-F]{2})>$/;

export function tokenStrip({ name, tokens, notes = [], chosen = -1, onPick = () => {}, onPoint = () => {} }) {
  const items = tokens.map((token, index) => tokenElement(token, notes[index], index));
  const strip = make("div", { class: "strip", role: "listbox", "aria-label": name, tabindex: items.length ? -1 : 0 });
  strip.append(...items);
  let current = Math.max(chosen, 0);
  const walkTo = (index) => {
    if (!items[index]) return;
    items[current].tabIndex = -1;
    current = index;
    items[current].tabIndex = 0;
  };
  const indexOf = (event) => items.indexOf(event.target.closest(".token"));
  strip.addEventListener("pointerover", (event) => onPoint(indexOf(event)));
  strip.addEventListener("pointerleave", () => onPoint(-1));
  strip.addEventListener("focusin", (event) => {
    walkTo(indexOf(event));
    onPoint(indexOf(event));
  });
  strip.addEventListener("focusout", () => onPoint(-1));
  strip.addEventListener("click", (event) => indexOf(event) >= 0 && onPick(indexOf(event)));
  strip.addEventListener("keydown", (event) => {
    const target = targetOf(event.key, current, items.length);
    if (target !== null) items[target]?.focus();
    else if (event.key === "Enter" || event.key === " ") onPick(current);
    else return;
    event.preventDefault();
  });
  strip.choose = (index) => {
    items.forEach((item, number) => item.setAttribute("aria-selected", String(number === index)));
    if (index >= 0) walkTo(index);
  };
  strip.paint = (values) => paint(strip, items, values);
  strip.viewData = { tokens: tokens.map(textOf), values: null };
  strip.choose(chosen);
  walkTo(current);
  return strip;
}

/** The display text of a token: a byte becomes two hexadecimal digits. */
export function readable(token) {
  return token.replace(BYTE, "$1");
}

function tokenElement(token, note, index) {
  const text = textOf(token);
  const kind = BYTE.test(text) ? " byte" : /^<.+>$|^\[[A-Z]+\]$/.test(text) ? " special" : "";
  const item = make("span", { class: `token${kind}`, role: "option", tabindex: "-1", "data-index": index });
  item.append(make("span", { class: "token-text" }, readable(text) || "∅"));
  const noteText = note ?? token.note;
  if (noteText !== undefined) item.append(make("small", {}, noteText));
  return item;
}

function textOf(token) {
  return typeof token === "string" ? token : token.text;
}

function paint(strip, items, values) {
  strip.viewData = { ...strip.viewData, values: values ? Array.from(values) : null };
  items.forEach((item, index) => {
    Object.assign(item.style, values ? sequentialStyle(values[index]) : { background: "", color: "" });
  });
}

function targetOf(key, current, count) {
  if (key === "ArrowRight" || key === "ArrowDown") return Math.min(current + 1, count - 1);
  if (key === "ArrowLeft" || key === "ArrowUp") return Math.max(current - 1, 0);
  return key === "Home" ? 0 : key === "End" ? count - 1 : null;
}
