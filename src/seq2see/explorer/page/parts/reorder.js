/**
 * Tokens that can be put into another order: dragged with the pointer, or carried with Shift and the arrow keys.
 *
 *   const line = reorderStrip({ name: "order", tokens: ["我", "有", "笔"], order: [0, 1, 2], onOrder: (order) => ... });
 *   place.append(line);
 *
 * `order[i]` is the number of the token that stands at place i; the numbers are shown below the tokens.
 * `line.shown = {tokens, order}` is what is shown; while something is carried, only the strip changes, and `onOrder` is
 * called when it is put down.
 */

import { fill, make } from "./dom.js";
import { readable } from "./strip.js";

export function reorderStrip({ name, tokens, order, onOrder }) {
  const strip = make("div", { class: "strip reorder", role: "listbox", "aria-label": name });
  const items = tokens.map((token, index) =>
    make("span", { class: "token", role: "option", tabindex: "-1", "data-index": index }, make("span", { class: "piece" },
      readable(token) || "∅"), make("small", {}, index + 1)));
  let now = [...order];
  let carried = -1;
  let begun = "";
  const lay = () => {
    fill(strip, ...now.map((token) => items[token]));
    strip.shown = { tokens: now.map((token) => tokens[token]), order: [...now] };
    now.forEach((token, place) => items[token].classList.toggle("moved", token !== place));
  };
  const walkTo = (token) => {
    items.forEach((item, index) => (item.tabIndex = index === token ? 0 : -1));
  };
  const put = (token, place) => {
    now = now.filter((each) => each !== token);
    now.splice(Math.min(Math.max(place, 0), now.length), 0, token);
    lay();
  };
  const tokenAt = (event) => {
    const under = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
    return under && strip.contains(under) ? items.indexOf(under) : -1;
  };
  strip.addEventListener("pointerdown", (event) => {
    carried = items.indexOf(event.target.closest(".token"));
    begun = now.join();
    if (carried < 0) return;
    items[carried].classList.add("carried");
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    const over = carried < 0 ? -1 : tokenAt(event);
    if (over >= 0 && over !== carried) put(carried, now.indexOf(over));
  });
  const drop = () => {
    if (carried < 0) return;
    items[carried].classList.remove("carried");
    walkTo(carried);
    items[carried].focus();
    carried = -1;
    if (now.join() !== begun) onOrder([...now]);
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
      put(token, place + step);
      onOrder([...now]);
    } else walkTo(now[place + step] ?? token);
    items[event.shiftKey ? token : now[place + step] ?? token].focus();
  });
  lay();
  walkTo(now[0]);
  return strip;
}

/** The same things in an order that chance chooses. */
export function shuffled(places) {
  return places.map((place) => [Math.random(), place]).sort(([one], [other]) => one - other).map(([, place]) => place);
}
