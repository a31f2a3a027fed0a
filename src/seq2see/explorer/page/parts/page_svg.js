/**
 * Conversion of HTML elements to SVG with their layout: boxes become rectangles, texts become text elements, and small
 * images become squares.
 *
 *   elementToSvg(element)         an <svg> of an element in the document
 *   tableToSvg(table)             an <svg> of a table `{columns, rows}` that is not in the document
 *
 * Only visible elements are drawn, including the parts outside of the scroll position. Inputs are omitted.
 */

import { draw, make } from "./dom.js";
import { svgColor, SvgContext } from "./svg_context.js";

const MARGIN = 8; // pixels
const SIDES = ["Top", "Right", "Bottom", "Left"];
const MAX_ROWS = 300; // of a table

export function elementToSvg(element) {
  const { left, top } = element.getBoundingClientRect();
  const corner = { left: left - element.scrollLeft - MARGIN, top: top - element.scrollTop - MARGIN };
  const drawing = { svg: draw("svg"), ...corner, right: 0, bottom: 0, context: make("canvas").getContext("2d") };
  visit(element, drawing, 1);
  const [width, height] = [Math.ceil(drawing.right + MARGIN), Math.ceil(drawing.bottom + MARGIN)];
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) drawing.svg.setAttribute(name, value);
  return drawing.svg;
}

export function tableToSvg({ columns, rows }) {
  const shownRows = rows.length > MAX_ROWS ? [...rows.slice(0, MAX_ROWS), [`… ${rows.length - MAX_ROWS}`]] : rows;
  const cell = (value) => make("td", typeof value === "number" ? { class: "number" } : {}, value);
  const lines = shownRows.map((row) => make("tr", {}, ...row.map(cell)));
  const heads = make("tr", {}, ...columns.map((name) => make("th", {}, name)));
  const offscreen = make("div", { class: "offscreen", "aria-hidden": "true" }, make("table", {}, heads, ...lines));
  document.body.append(offscreen);
  try {
    return elementToSvg(offscreen);
  } finally {
    offscreen.remove();
  }
}

function visit(node, drawing, alpha) {
  if (node instanceof Text) return write(node, drawing, alpha);
  if (!(node instanceof Element) || !node.checkVisibility({ visibilityProperty: true })) return undefined;
  if (node.matches("input, select, textarea")) return undefined;
  const style = getComputedStyle(node);
  const opacity = alpha * Number(style.opacity);
  for (const rect of node.getClientRects()) box(rect, style, drawing, opacity); // an inline box has a rectangle per line
  if (node instanceof SVGElement || node instanceof HTMLCanvasElement) return image(node, drawing);
  marker(node, drawing, opacity);
  for (const child of node.childNodes) visit(child, drawing, opacity);
  return undefined;
}

/** The position of a rectangle in the drawing, whose size grows with it. */
function placed({ left, top, width, height }, drawing) {
  const position = { x: left - drawing.left, y: top - drawing.top, width, height };
  drawing.right = Math.max(drawing.right, position.x + width);
  drawing.bottom = Math.max(drawing.bottom, position.y + height);
  return position;
}

/** The background, the borders and the outline of a box. */
function box(rect, style, drawing, alpha) {
  const position = placed(rect, drawing);
  const corners = { rx: parseFloat(style.borderTopLeftRadius) || null };
  const background = svgColor("fill", style.backgroundColor, alpha);
  if (background["fill-opacity"] !== 0) drawing.svg.append(draw("rect", { ...position, ...corners, ...background }));
  const widths = SIDES.map((side) => (style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`])));
  const border = (width, color, line) => inset(position, width, { ...corners, fill: "none", "stroke-width": width,
    ...svgColor("stroke", color, alpha), ...(line === "dashed" ? { "stroke-dasharray": "5 3" } : {}) });
  if (widths.every(Boolean)) drawing.svg.append(border(widths[0], style.borderTopColor, style.borderTopStyle));
  else SIDES.forEach((side, index) => widths[index] && drawing.svg.append(edge(side, position, widths[index],
    svgColor("stroke", style[`border${side}Color`], alpha))));
  if (style.outlineStyle === "solid") drawing.svg.append(border(parseFloat(style.outlineWidth), style.outlineColor));
}

/** A border, inside its box. */
function inset({ x, y, width, height }, by, attributes) {
  const size = { width: Math.max(width - by, 0), height: Math.max(height - by, 0) };
  return draw("rect", { x: x + by / 2, y: y + by / 2, ...size, ...attributes });
}

function edge(side, { x, y, width, height }, lineWidth, attributes) {
  const [right, bottom] = [x + width, y + height];
  const [x1, y1, x2, y2] = { Top: [x, y, right, y], Right: [right, y, right, bottom], Bottom: [x, bottom, right, bottom],
    Left: [x, y, x, bottom] }[side];
  return draw("line", { x1, y1, x2, y2, ...attributes, "stroke-width": lineWidth });
}

/** An SVG or a canvas of the page, redrawn for the current theme if it can be. */
function image(node, drawing) {
  const position = placed(node.getBoundingClientRect(), drawing);
  const { x, y, width, height } = position;
  let copy = node.redraw?.() ?? node;
  if (copy instanceof HTMLCanvasElement) {
    const context = new SvgContext(width, height);
    context.drawImage(copy, 0, 0, width, height);
    copy = context.svg;
  } else copy = copy.cloneNode(true);
  for (const [name, value] of Object.entries({ x, y, width, height })) copy.setAttribute(name, value);
  drawing.svg.append(copy);
}

/** The text of `::before`, such as the marker of an open block. */
function marker(node, drawing, alpha) {
  const style = getComputedStyle(node, "::before");
  const [, symbol] = /^"(.+)"$/.exec(style.content) ?? [];
  if (!symbol) return;
  const { left, top, height } = node.getBoundingClientRect();
  writeText(symbol, { left, top, width: parseFloat(style.fontSize), height }, style, drawing, alpha);
}

function write(node, drawing, alpha) {
  if (!node.data.trim()) return;
  const style = getComputedStyle(node.parentElement);
  for (const [text, rect] of linesOf(node)) writeText(text, rect, style, drawing, alpha);
}

function writeText(text, rect, style, drawing, alpha) {
  const { x, y, height } = placed(rect, drawing);
  drawing.context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = drawing.context.measureText(text);
  const attributes = { "font-size": parseFloat(style.fontSize), "font-family": style.fontFamily, "xml:space": "preserve" };
  if (style.fontWeight !== "400") attributes["font-weight"] = style.fontWeight;
  if (style.fontStyle !== "normal") attributes["font-style"] = style.fontStyle;
  const base = y + (height - ascent - descent) / 2 + ascent;
  drawing.svg.append(draw("text", { x, y: base, ...attributes, ...svgColor("fill", style.color, alpha) }, text));
}

/** The lines of a wrapped text node, each with its rectangle. */
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const rects = range.getClientRects();
  const content = /^pre/.test(getComputedStyle(node.parentElement).whiteSpace) ? node.data : node.data.replace(/\s+/g, " ");
  if (rects.length <= 1) return rects.length ? [[content.trim() || content, rects[0]]] : [];
  const lines = [];
  let index = 0;
  for (const letter of node.data) {
    range.setStart(node, index);
    range.setEnd(node, (index += letter.length));
    const rect = range.getClientRects()[0];
    if (!rect) continue;
    if (lines.length && Math.abs(lines.at(-1)[1].top - rect.top) < rect.height / 2) lines.at(-1)[0] += letter;
    else lines.push([letter, rect]);
  }
  return lines.filter(([text]) => text.trim());
}
