/**
 * All heads of all layers as small images, to choose one from.
 *
 *   const grid = thumbnails({ name: "heads", layers: [{ title: "encoder 1", heads: 4 }], onPick: (layer, head) => ... });
 *   container.append(grid.element);
 *   grid.show(layer, { shape: [heads, rows, columns], values }, notes)     paint one layer; a note for each head
 *   grid.choose(layer, head)                                               -1 as head chooses a whole layer
 *
 * Each image is a button; the arrow keys go from head to head and from layer to layer. `canvas.viewData` has the numbers.
 */

import { colormap } from "./colors.js";
import { fill, make } from "./dom.js";
import { imageOf, robustMax } from "./heat_paint.js";

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const MANY = 900; // cells; of fewer, the largest is the darkest
const LARGEST = 84; // pixels on the screen

export function thumbnails({ name, layers, headName, onPick }) {
  const buttons = layers.map((layer, row) => Array.from({ length: layer.heads }, (_, head) => buttonOf(layer, row, head)));
  const rows = layers.map((layer, row) =>
    make("div", { class: "thumbnail-row" }, make("span", { class: "thumbnail-title" }, layer.title), ...buttons[row]));
  const element = make("div", { class: "thumbnails", role: "group", "aria-label": name }, ...rows);

  function buttonOf(layer, row, head) {
    const label = `${layer.title} ${headName(head)}`;
    const attributes = { "aria-label": label, title: label, tabindex: row || head ? -1 : 0 };
    const button = make("button", { type: "button", class: "thumbnail", ...attributes });
    button.addEventListener("click", () => onPick(row, head));
    button.addEventListener("keydown", (event) => {
      const [rows_, right] = STEPS[event.key] ?? [0, 0];
      const next = buttons[row + rows_]?.[Math.min(head, buttons[row + rows_].length - 1) + right];
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      next?.focus();
    });
    return button;
  }

  return {
    element,
    show(layer, { shape: [heads, rows_, columns_], values }, notes = []) {
      for (let head = 0; head < heads; head += 1) {
        const part = values.subarray(head * rows_ * columns_, (head + 1) * rows_ * columns_);
        fill(buttons[layer][head], thumbnailCanvas(part, rows_, columns_), make("small", {}, notes[head] ?? ""));
      }
    },
    choose(layer, head) {
      buttons.forEach((row, layerIndex) => row.forEach((button, number) => {
        const chosen = layerIndex === layer && (number === head || head < 0);
        button.setAttribute("aria-pressed", String(chosen));
        button.tabIndex = layerIndex === layer && number === Math.max(head, 0) ? 0 : -1;
      }));
      // Only within the grid: the page itself does not jump.
      const { offsetTop, offsetHeight } = rows[layer];
      const [top, height] = [element.scrollTop, element.clientHeight];
      if (offsetTop < top || offsetTop + offsetHeight > top + height) element.scrollTop = offsetTop - (height - offsetHeight) / 2;
    },
  };
}

/** Cells of a pixel each, drawn larger by the browser; every head by its own largest weights. */
function thumbnailCanvas(values, rows_, columns_) {
  const largest = values.length > MANY ? robustMax(values, 0.97) : null;
  const cells = { rows: Array(rows_).fill(""), columns: Array(columns_).fill(""), values, diverging: false, min: 0, max: largest };
  const canvas = imageOf(cells, colormap(false));
  canvas.redraw = () => imageOf(cells, colormap(false));
  const scale = LARGEST / Math.max(rows_, columns_);
  Object.assign(canvas.style, { width: `${Math.max(columns_ * scale, 6)}px`, height: `${Math.max(rows_ * scale, 6)}px` });
  canvas.viewData = { rows: rows_, columns: columns_, values };
  return canvas;
}
