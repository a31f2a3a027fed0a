/**
 * Making elements without ever parsing text as HTML: what comes from a corpus, a model or a user is only ever text.
 *
 *   make("p", { class: "note" }, "a < b ", make("b", {}, "bold"))
 *   make("button", { type: "button", on: { click: () => ... } }, "press")
 *   draw("line", { x1: 0, y1: 0, x2: 9, y2: 9, stroke: "black" })      (the same, for SVG)
 */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes and children; strings and numbers among the children become text. */
export function make(tag, properties = {}, ...children) {
  return furnish(document.createElement(tag), properties, children);
}

/** An SVG element, in the same way. */
export function draw(tag, properties = {}, ...children) {
  const element = furnish(document.createElementNS(SVG, tag), properties, children);
  if (tag === "svg") element.setAttribute("xmlns", SVG);
  return element;
}

/** Put other children into an element, in place of those it has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return element;
}

function furnish(element, properties, children) {
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
export function soon(act, milliseconds = 250) {
  let waiting = 0;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => act(...given), milliseconds);
  };
}

/**
 * Let one call finish before the next begins, and of those that came meanwhile run only the last:
 * an answer that comes late never covers a newer one, and a dragged slider does not queue up a hundred requests.
 */
export function latest(act) {
  let running = null;
  let wanted = false;
  return function turn() {
    wanted = true;
    running ??= (async () => {
      try {
        while (wanted) {
          wanted = false;
          await act();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  };
}
