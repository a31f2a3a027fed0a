/**
 * All heads of all layers as thumbnails, to select one.
 *
 *   const grid = thumbnails({ name: "heads", layers: [{ title: "encoder 1", heads: 4 }], onPick: (layer, head) => ... });
 *   container.append(grid.element);
 *   grid.show(layer, { shape: [heads, rows, columns], values }, notes)     draw one layer; a note for each head
 *   grid.choose(layer, head)                                               head -1 selects a whole layer
 *
 * Each thumbnail is a button; the arrow keys move between heads and layers. `canvas.viewData` has the values.
 */

import { colormap } from "./colors.js";
import { fill, make } from "./dom.js";
import { imageOf, robustMax } from "./heat_paint.js";

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const MANY = 900; // cells; larger maps use a robust maximum
const MAX_SIZE = 84; // pixels on the screen

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
      const [dy, dx] = STEPS[event.key] ?? [0, 0];
      const next = buttons[row + dy]?.[Math.min(head, buttons[row + dy].length - 1) + dx];
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      next?.focus();
    });
    return button;
  }

  return {
    element,
    show(layer, { shape: [heads, height, width], values }, notes = []) {
      for (let head = 0; head < heads; head += 1) {
        const part = values.subarray(head * height * width, (head + 1) * height * width);
        fill(buttons[layer][head], thumbnailCanvas(part, height, width), make("small", {}, notes[head] ?? ""));
      }
    },
    choose(layer, head) {
      buttons.forEach((row, layerIndex) => row.forEach((button, number) => {
        const chosen = layerIndex === layer && (number === head || head < 0);
        button.setAttribute("aria-pressed", String(chosen));
        button.tabIndex = layerIndex === layer && number === Math.max(head, 0) ? 0 : -1;
      }));
      // Scroll only the grid, not the page.
      const { offsetTop, offsetHeight } = rows[layer];
      const { scrollTop, clientHeight } = element;
      if (offsetTop < scrollTop || offsetTop + offsetHeight > scrollTop + clientHeight)
        element.scrollTop = offsetTop - (clientHeight - offsetHeight) / 2;
    },
  };
}

/** A canvas with one pixel per cell, scaled by the browser; each head has its own color range. */
function thumbnailCanvas(values, height, width) {
  const largest = values.length > MANY ? robustMax(values, 0.97) : null;
  const cells = { rows: Array(height).fill(""), columns: Array(width).fill(""), values, diverging: false, min: 0, max: largest };
  const canvas = imageOf(cells, colormap(false));
  canvas.redraw = () => imageOf(cells, colormap(false));
  const scale = MAX_SIZE / Math.max(height, width);
  Object.assign(canvas.style, { width: `${Math.max(width * scale, 6)}px`, height: `${Math.max(height * scale, 6)}px` });
  canvas.viewData = { rows: height, columns: width, values };
  return canvas;
}
