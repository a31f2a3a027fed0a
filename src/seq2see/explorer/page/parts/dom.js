/**
 * Creation of elements without parsing text as HTML: strings from a corpus, a model or a user stay text nodes.
 *
 *   make("p", { class: "note" }, "a < b ", make("b", {}, "bold"))
 *   make("button", { type: "button", on: { click: () => ... } }, "save")
 *   draw("line", { x1: 0, y1: 0, x2: 9, y2: 9, stroke: "black" })      an SVG element
 */

const SVG = "http://www.w3.org/2000/svg";
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/** An HTML element with attributes and children; strings and numbers among the children become text nodes. */
export function make(tag, properties = {}, ...children) {
  return setProperties(document.createElement(tag), properties, children);
}

/** An SVG element with attributes and children. */
export function draw(tag, properties = {}, ...children) {
  const element = setProperties(document.createElementNS(SVG, tag), properties, children);
  if (tag === "svg") element.setAttribute("xmlns", SVG);
  return element;
}

/** Replace the children of an element, and restore the keyboard focus among them. */
export function fill(element, ...children) {
  const restoreFocus = focusRestorer(element);
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  restoreFocus();
  return element;
}

/** A function that restores the focus: to the element with the same id and name, else to the same index among elements of its kind. */
function focusRestorer(element) {
  const { activeElement: active } = document;
  if (!active || active === element || !element.contains(active)) return () => {};
  const isSameKind = (each) => each.tagName === active.tagName && each.getAttribute("role") === active.getAttribute("role");
  const focusable = () => [...element.querySelectorAll(FOCUSABLE)].filter((each) => isSameKind(each) && !each.disabled);
  const index = focusable().indexOf(active);
  return () => {
    const current = focusable();
    const named = active.id || active.name ? current.find((each) => each.id === active.id && each.name === active.name) : null;
    const target = current.includes(active) ? active : named ?? current[Math.min(index, current.length - 1)];
    target?.focus({ preventScroll: true });
  };
}

function setProperties(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [key, setting] of Object.entries(value)) element.style.setProperty(key, setting);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  if (children.length) fill(element, ...children);
  return element;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** A debounced function: it runs once after the calls have paused, so that a typed word causes one request. */
export function debounce(action, milliseconds = 250) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}

/**
 * A queue of asynchronous actions that run one after another, so that a slow response to an old request is not drawn over
 * the response to a new one.
 *
 *   const serial = serialQueue();
 *   this.redraw = serial(() => this.draw());
 *   this.repaint = serial(() => this.paint());
 *
 * Actions run in the order of the calls; several calls of a waiting action run it once. Inside an action, call the plain
 * functions (`this.paint()`): a queued action that awaits another one of the same queue would deadlock.
 */
export function serialQueue() {
  let last = Promise.resolve();
  return (action) => {
    let pending = null;
    const run = () => {
      pending = null;
      return action();
    };
    return () => {
      pending ??= last = last.then(run, run);
      return pending;
    };
  };
}

/** An action with its own queue: several calls while it runs cause one further run. */
export function coalesced(action) {
  return serialQueue()(action);
}
