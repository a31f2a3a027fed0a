/**
 * A strip of tokens that can be reordered: dragged with the pointer, or moved with Shift and the arrow keys.
 *
 *   const strip = reorderStrip({ name: "order", tokens: ["我", "有", "笔"], order: [0, 1, 2], onOrder: (order) => ... });
 *   container.append(strip);
 *
 * `order[i]` is the index of the token at position i; the original positions are shown below the tokens.
 * `strip.viewData = {tokens, order}` is the data of the strip. During a drag only the strip changes; `onOrder` is called
 * at its end.
 */

import { fill, make } from "./dom.js";
import { readable } from "./token_strip.js";

export function reorderStrip({ name, tokens, order, onOrder }) {
  const strip = make("div", { class: "strip reorder", role: "listbox", "aria-label": name });
  const items = tokens.map((token, index) =>
    make("span", { class: "token", role: "option", tabindex: "-1", "data-index": index }, make("span", { class: "token-text" },
      readable(token) || "∅"), make("small", {}, index + 1)));
  let current = [...order];
  let dragged = -1;
  let orderBefore = "";
  const render = () => {
    fill(strip, ...current.map((token) => items[token]));
    strip.viewData = { tokens: current.map((token) => tokens[token]), order: [...current] };
    current.forEach((token, position) => items[token].classList.toggle("moved", token !== position));
  };
  const walkTo = (token) => {
    items.forEach((item, index) => (item.tabIndex = index === token ? 0 : -1));
  };
  const move = (token, position) => {
    current = current.filter((each) => each !== token);
    current.splice(Math.min(Math.max(position, 0), current.length), 0, token);
    render();
  };
  const tokenAt = (event) => {
    const element = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
    return element && strip.contains(element) ? items.indexOf(element) : -1;
  };
  strip.addEventListener("pointerdown", (event) => {
    dragged = items.indexOf(event.target.closest(".token"));
    orderBefore = current.join();
    if (dragged < 0) return;
    items[dragged].classList.add("dragged");
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    const target = dragged < 0 ? -1 : tokenAt(event);
    if (target >= 0 && target !== dragged) move(dragged, current.indexOf(target));
  });
  const endDrag = () => {
    if (dragged < 0) return;
    items[dragged].classList.remove("dragged");
    walkTo(dragged);
    items[dragged].focus();
    dragged = -1;
    if (current.join() !== orderBefore) onOrder([...current]);
  };
  strip.addEventListener("pointerup", endDrag);
  strip.addEventListener("pointercancel", endDrag);
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const token = items.indexOf(event.target);
    if (!step || token < 0) return;
    event.preventDefault();
    const position = current.indexOf(token);
    if (event.shiftKey) {
      if (current[position + step] === undefined) return;
      move(token, position + step);
      onOrder([...current]);
    } else walkTo(current[position + step] ?? token);
    items[event.shiftKey ? token : current[position + step] ?? token].focus();
  });
  render();
  walkTo(current[0]);
  return strip;
}

/** The items in random order. */
export function shuffle(items) {
  return items.map((item) => [Math.random(), item]).sort(([one], [other]) => one - other).map(([, item]) => item);
}
