/**
 * Making elements without ever parsing text as HTML: what comes from a corpus, a model or a user is only ever text.
 *
 *   make("p", { class: "note" }, "a < b ", make("b", {}, "bold"))
 *   make("button", { type: "button", on: { click: () => ... } }, "press")
 *   draw("line", { x1: 0, y1: 0, x2: 9, y2: 9, stroke: "black" })      (the same, for SVG)
 */

const SVG = "http://www.w3.org/2000/svg";
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]"; // by the keyboard

/** An HTML element with attributes and children; strings and numbers among the children become text. */
export function make(tag, properties = {}, ...children) {
  return setProperties(document.createElement(tag), properties, children);
}

/** An SVG element, in the same way. */
export function draw(tag, properties = {}, ...children) {
  const element = setProperties(document.createElementNS(SVG, tag), properties, children);
  if (tag === "svg") element.setAttribute("xmlns", SVG);
  return element;
}

/** Put other children into an element, in place of those it has; the keyboard stays where it was among them. */
export function fill(element, ...children) {
  const back = focusRestorer(element);
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  back();
  return element;
}

/** The way back for the keyboard: to what has the same name, else to what stands in the same place among its like. */
function focusRestorer(element) {
  const { activeElement: active } = document;
  if (!active || active === element || !element.contains(active)) return () => {};
  const isAlike = (each) => each.tagName === active.tagName && each.getAttribute("role") === active.getAttribute("role");
  const reached = () => [...element.querySelectorAll(FOCUSABLE)].filter((each) => isAlike(each) && !each.disabled);
  const place = reached().indexOf(active);
  return () => {
    const now = reached();
    const named = active.id || active.name ? now.find((each) => each.id === active.id && each.name === active.name) : null;
    const found = now.includes(active) ? active : named ?? now[Math.min(place, now.length - 1)];
    found?.focus({ preventScroll: true });
  };
}

function setProperties(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
    else if (name === "style") for (const [key, look] of Object.entries(value)) element.style.setProperty(key, look);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  if (children.length) fill(element, ...children);
  return element;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** Call something once nobody has asked for it for a while: one request for a word, not one for each letter. */
export function debounce(action, milliseconds = 250) {
  let waiting = 0;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => action(...given), milliseconds);
  };
}

/**
 * Acts that may not run into each other, as all that draws one page: a slow answer to the question before would be drawn
 * over the answer to this one.
 *
 *   const turn = turns();
 *   this.redraw = turn(() => this.draw());
 *   this.repaint = turn(() => this.paint());
 *
 * One after another, in the order of asking; what is wanted again while it waits is done once. Inside an act call the plain
 * functions (`this.paint()`): a turn that waits for another turn waits forever.
 */
export function serialQueue() {
  let last = Promise.resolve();
  return (action) => {
    let waiting = null;
    const begin = () => {
      waiting = null;
      return action();
    };
    return () => {
      waiting ??= last = last.then(begin, begin);
      return waiting;
    };
  };
}

/** An act that minds only itself: while it runs, what is wanted meanwhile is done once, afterwards. */
export function coalesced(action) {
  return serialQueue()(action);
}
