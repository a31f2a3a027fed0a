/**
 * Tokens in a row, as text goes: to read, to point at, and to walk along with the arrow keys.
 *
 *   const strip = tokenStrip({ name: "source", tokens: ["我", "▁has"], onPick: (index) => ..., onPoint: (index) => ... });
 *   place.append(strip);
 *   strip.paint(weights)            background by values from 0 to 1 (null takes it away)
 *   strip.choose(3)                 mark one token as chosen (-1 none)
 *
 * `tokens` are texts or `{text, note}` (the note is small, below). `onPoint(-1)` says that the pointer left.
 * Bytes (`<0xE7>`) are shown small; `strip.viewData = {tokens, values}` is what is shown, as data.
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
  const place = (event) => items.indexOf(event.target.closest(".token"));
  strip.addEventListener("pointerover", (event) => onPoint(place(event)));
  strip.addEventListener("pointerleave", () => onPoint(-1));
  strip.addEventListener("focusin", (event) => {
    walkTo(place(event));
    onPoint(place(event));
  });
  strip.addEventListener("focusout", () => onPoint(-1));
  strip.addEventListener("click", (event) => place(event) >= 0 && onPick(place(event)));
  strip.addEventListener("keydown", (event) => {
    const target = targetOf(event.key, current, items.length);
    if (target !== null) items[target]?.focus();
    else if (event.key === "Enter" || event.key === " ") onPick(current);
    else return;
    event.preventDefault();
  });
  strip.choose = (index) => {
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === index)));
    if (index >= 0) walkTo(index);
  };
  strip.paint = (values) => paint(strip, items, values);
  strip.viewData = { tokens: tokens.map(textOf), values: null };
  strip.choose(chosen);
  walkTo(current);
  return strip;
}

/** A token as people read it: a byte as two hexadecimal digits. */
export function readable(token) {
  return token.replace(BYTE, "$1");
}

function tokenElement(token, note, index) {
  const text = textOf(token);
  const small = BYTE.test(text) ? " byte" : /^<.+>$|^\[[A-Z]+\]$/.test(text) ? " special" : "";
  const item = make("span", { class: `token${small}`, role: "option", tabindex: "-1", "data-index": index });
  item.append(make("span", { class: "token-text" }, readable(text) || "∅"));
  const below = note ?? token.note;
  if (below !== undefined) item.append(make("small", {}, below));
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
