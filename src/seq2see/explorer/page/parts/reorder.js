/**
 * Tokens that can be put into another order: dragged with the pointer, or carried with Shift and the arrow keys.
 *
 *   const line = reorderStrip({ name: "order", tokens: ["我", "有", "笔"], order: [0, 1, 2], onOrder: (order) => ... });
 *   place.append(line);
 *
 * `order[i]` is the number of the token that stands at place i; the numbers are shown below the tokens.
 * `line.viewData = {tokens, order}` is what is shown; while something is carried, only the strip changes, and `onOrder` is
 * called when it is put down.
 */

import { fill, make } from "./dom.js";
import { readable } from "./strip.js";

export function reorderStrip({ name, tokens, order, onOrder }) {
  const strip = make("div", { class: "strip reorder", role: "listbox", "aria-label": name });
  const items = tokens.map((token, index) =>
    make("span", { class: "token", role: "option", tabindex: "-1", "data-index": index }, make("span", { class: "token-text" },
      readable(token) || "∅"), make("small", {}, index + 1)));
  let now = [...order];
  let dragged = -1;
  let orderBefore = "";
  const render = () => {
    fill(strip, ...now.map((token) => items[token]));
    strip.viewData = { tokens: now.map((token) => tokens[token]), order: [...now] };
    now.forEach((token, place) => items[token].classList.toggle("moved", token !== place));
  };
  const walkTo = (token) => {
    items.forEach((item, index) => (item.tabIndex = index === token ? 0 : -1));
  };
  const move = (token, place) => {
    now = now.filter((each) => each !== token);
    now.splice(Math.min(Math.max(place, 0), now.length), 0, token);
    render();
  };
  const tokenAt = (event) => {
    const under = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
    return under && strip.contains(under) ? items.indexOf(under) : -1;
  };
  strip.addEventListener("pointerdown", (event) => {
    dragged = items.indexOf(event.target.closest(".token"));
    orderBefore = now.join();
    if (dragged < 0) return;
    items[dragged].classList.add("dragged");
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    const over = dragged < 0 ? -1 : tokenAt(event);
    if (over >= 0 && over !== dragged) move(dragged, now.indexOf(over));
  });
  const drop = () => {
    if (dragged < 0) return;
    items[dragged].classList.remove("dragged");
    walkTo(dragged);
    items[dragged].focus();
    dragged = -1;
    if (now.join() !== orderBefore) onOrder([...now]);
  };
  strip.addEventListener("pointerup", drop);
  strip.addEventListener("pointercancel", drop);
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const token = items.indexOf(event.target);
    if (!step || token < 0) return;
    event.preventDefault();
    const place = now.indexOf(token);
    if (event.shiftKey) {
      if (now[place + step] === undefined) return;
      move(token, place + step);
      onOrder([...now]);
    } else walkTo(now[place + step] ?? token);
    items[event.shiftKey ? token : now[place + step] ?? token].focus();
  });
  render();
  walkTo(now[0]);
  return strip;
}

/** The same things in an order that chance chooses. */
export function shuffle(places) {
  return places.map((place) => [Math.random(), place]).sort(([one], [other]) => one - other).map(([, place]) => place);
}
