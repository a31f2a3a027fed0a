/**
 * What stands in the page as SVG, as it is laid out there: tokens, tables, blocks in blocks. Boxes become rectangles, texts
 * texts, small pictures squares.
 *
 *   pageDrawing(element)          an <svg> of an element that is in the document
 *   tableDrawing(table)           of numbers that are nowhere in the page: `{columns, rows}`
 *
 * Only what can be seen is drawn; what a box has scrolled away is drawn, too. Controls to type in are left out.
 */

import { draw, make } from "./dom.js";
import { inked, SvgPaper } from "./svg_paper.js";

const EDGE = 8; // pixels around everything
const SIDES = ["Top", "Right", "Bottom", "Left"];
const LONGEST = 300; // rows of a table that are drawn

export function pageDrawing(element) {
  const { left, top } = element.getBoundingClientRect();
  const corner = { left: left - element.scrollLeft - EDGE, top: top - element.scrollTop - EDGE };
  const sheet = { svg: draw("svg"), ...corner, right: 0, bottom: 0, context: make("canvas").getContext("2d") };
  visit(element, sheet, 1);
  const [width, height] = [Math.ceil(sheet.right + EDGE), Math.ceil(sheet.bottom + EDGE)];
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) sheet.svg.setAttribute(name, value);
  return sheet.svg;
}

export function tableDrawing({ columns, rows }) {
  const told = rows.length > LONGEST ? [...rows.slice(0, LONGEST), [`… ${rows.length - LONGEST}`]] : rows;
  const cell = (value) => make("td", typeof value === "number" ? { class: "number" } : {}, value);
  const lines = told.map((row) => make("tr", {}, ...row.map(cell)));
  const heads = make("tr", {}, ...columns.map((name) => make("th", {}, name)));
  const aside = make("div", { class: "aside", "aria-hidden": "true" }, make("table", {}, heads, ...lines));
  document.body.append(aside);
  try {
    return pageDrawing(aside);
  } finally {
    aside.remove();
  }
}

function visit(node, sheet, alpha) {
  if (node instanceof Text) return write(node, sheet, alpha);
  if (!(node instanceof Element) || !node.checkVisibility({ visibilityProperty: true })) return undefined;
  if (node.matches("input, select, textarea")) return undefined;
  const style = getComputedStyle(node);
  const shining = alpha * Number(style.opacity);
  for (const rect of node.getClientRects()) box(rect, style, sheet, shining); // a text's box is broken with its lines
  if (node instanceof SVGElement || node instanceof HTMLCanvasElement) return picture(node, sheet);
  mark(node, sheet, shining);
  for (const child of node.childNodes) visit(child, sheet, shining);
  return undefined;
}

/** Where something stands on the sheet, which grows with it. */
function placed({ left, top, width, height }, sheet) {
  const place = { x: left - sheet.left, y: top - sheet.top, width, height };
  sheet.right = Math.max(sheet.right, place.x + width);
  sheet.bottom = Math.max(sheet.bottom, place.y + height);
  return place;
}

/** What a box is painted with: its ground, its borders, and the outline of what is chosen. */
function box(rect, style, sheet, alpha) {
  const place = placed(rect, sheet);
  const round = { rx: parseFloat(style.borderTopLeftRadius) || null };
  const ground = inked("fill", style.backgroundColor, alpha);
  if (ground["fill-opacity"] !== 0) sheet.svg.append(draw("rect", { ...place, ...round, ...ground }));
  const widths = SIDES.map((side) => (style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`])));
  const framed = (width, colour, line) => inset(place, width, { ...round, fill: "none", "stroke-width": width,
    ...inked("stroke", colour, alpha), ...(line === "dashed" ? { "stroke-dasharray": "5 3" } : {}) });
  if (widths.every(Boolean)) sheet.svg.append(framed(widths[0], style.borderTopColor, style.borderTopStyle));
  else SIDES.forEach((side, index) => widths[index] && sheet.svg.append(edge(side, place, widths[index],
    inked("stroke", style[`border${side}Color`], alpha))));
  if (style.outlineStyle === "solid") sheet.svg.append(framed(parseFloat(style.outlineWidth), style.outlineColor));
}

/** A frame lies within what it frames. */
function inset({ x, y, width, height }, by, looks) {
  const size = { width: Math.max(width - by, 0), height: Math.max(height - by, 0) };
  return draw("rect", { x: x + by / 2, y: y + by / 2, ...size, ...looks });
}

function edge(side, { x, y, width, height }, thick, looks) {
  const [right, bottom] = [x + width, y + height];
  const [x1, y1, x2, y2] = { Top: [x, y, right, y], Right: [right, y, right, bottom], Bottom: [x, bottom, right, bottom],
    Left: [x, y, x, bottom] }[side];
  return draw("line", { x1, y1, x2, y2, ...looks, "stroke-width": thick });
}

/** A drawing or a canvas within the page; one that can be made anew is, for the paper of now. */
function picture(node, sheet) {
  const place = placed(node.getBoundingClientRect(), sheet);
  const { x, y, width, height } = place;
  let copy = node.again?.() ?? node;
  if (copy instanceof HTMLCanvasElement) {
    const paper = new SvgPaper(width, height);
    paper.drawImage(copy, 0, 0, width, height);
    copy = paper.svg;
  } else copy = copy.cloneNode(true);
  for (const [name, value] of Object.entries({ x, y, width, height })) copy.setAttribute(name, value);
  sheet.svg.append(copy);
}

/** The sign that a style puts in front, such as that of a block that is open. */
function mark(node, sheet, alpha) {
  const style = getComputedStyle(node, "::before");
  const [, sign] = /^"(.+)"$/.exec(style.content) ?? [];
  if (!sign) return;
  const { left, top, height } = node.getBoundingClientRect();
  letters(sign, { left, top, width: parseFloat(style.fontSize), height }, style, sheet, alpha);
}

function write(node, sheet, alpha) {
  if (!node.data.trim()) return;
  const style = getComputedStyle(node.parentElement);
  for (const [text, rect] of linesOf(node)) letters(text, rect, style, sheet, alpha);
}

function letters(text, rect, style, sheet, alpha) {
  const { x, y, height } = placed(rect, sheet);
  sheet.context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = sheet.context.measureText(text);
  const looks = { "font-size": parseFloat(style.fontSize), "font-family": style.fontFamily, "xml:space": "preserve" };
  if (style.fontWeight !== "400") looks["font-weight"] = style.fontWeight;
  if (style.fontStyle !== "normal") looks["font-style"] = style.fontStyle;
  const base = y + (height - up - down) / 2 + up;
  sheet.svg.append(draw("text", { x, y: base, ...looks, ...inked("fill", style.color, alpha) }, text));
}

/** The lines that a text is broken into, each with its place. */
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const rects = range.getClientRects();
  const whole = /^pre/.test(getComputedStyle(node.parentElement).whiteSpace) ? node.data : node.data.replace(/\s+/g, " ");
  if (rects.length <= 1) return rects.length ? [[whole.trim() || whole, rects[0]]] : [];
  const lines = [];
  let at = 0;
  for (const letter of node.data) {
    range.setStart(node, at);
    range.setEnd(node, (at += letter.length));
    const rect = range.getClientRects()[0];
    if (!rect) continue;
    if (lines.length && Math.abs(lines.at(-1)[1].top - rect.top) < rect.height / 2) lines.at(-1)[0] += letter;
    else lines.push([letter, rect]);
  }
  return lines.filter(([text]) => text.trim());
}
