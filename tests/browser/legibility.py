"""The legibility of a page: size and contrast of every text, overlapping texts, and the width of the page."""

from __future__ import annotations

from typing import Any

MIN_SIZE, MIN_CONTRAST = 12, 4.5
"""Pixels at zoom 1; and the ratio of WCAG 2.2 (1.4.3)."""

READ = """([minSize, minContrast]) => {
  const parsed = (color) => (color.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = ([r, g, b, alpha = 1], under) =>
    [r, g, b].map((part, index) => part * alpha + under[index] * (1 - alpha));
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => {
    const [r, g, b] = color.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opacity = (element) => Number(getComputedStyle(element).opacity);
  const totalOpacity = (element) => (element ? opacity(element) * totalOpacity(element.parentElement) : 1);
  const backgroundOf = (element) => {
    if (!element) return [255, 255, 255];
    const color = parsed(getComputedStyle(element).backgroundColor);
    return color.length === 4 && color[3] < 1 ? over(color, backgroundOf(element.parentElement)) : color.slice(0, 3);
  };
  const middle = ({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2];
  const isUnder = (shape, [x, y]) => {
    const { left, right, top, bottom } = shape.getBoundingClientRect();
    return left <= x && x <= right && top <= y && y <= bottom;
  };
  const backgroundOfText = (text) => {  // the last sibling shape under its center, else the page
    const shapes = [...text.parentElement.querySelectorAll(":scope > rect")];
    const found = shapes.findLast((shape) => isUnder(shape, middle(text.getBoundingClientRect())));
    return found ? parsed(getComputedStyle(found).fill).slice(0, 3) : backgroundOf(text.closest("svg").parentElement);
  };
  const contrastOf = (element) => {
    const drawn = element instanceof SVGElement;
    const style = getComputedStyle(element);
    const background = drawn ? backgroundOfText(element) : backgroundOf(element);
    const color = parsed(drawn ? style.fill : style.color).slice(0, 3);
    const foreground = over([...color, totalOpacity(element)], background);
    const [one, other] = [luminance(foreground), luminance(background)].sort((first, second) => second - first);
    return (one + 0.05) / (other + 0.05);
  };
  const excluded = "title, script, option, math, .live, .skip-link, [aria-hidden], button:disabled";
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    const element = node.parentElement;
    const isVisible = element.checkVisibility({ visibilityProperty: true });
    if (node.data.trim() && isVisible && !element.closest(excluded)) texts.push([node, element]);
  }
  const named = (node, value) => [node.data.trim().slice(0, 30), Number(value.toFixed(2))];
  const size = (element) => parseFloat(getComputedStyle(element).fontSize)
    * (element instanceof SVGElement ? element.getScreenCTM().a : 1);
  const boxes = texts.flatMap(([node, element]) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter(({ width }) => width > 1).map((rect) => [rect, node, element]);
  }).sort(([one], [other]) => one.top - other.top);
  const scrolled = ".scroll, .strip-window, .single-head-strip, .thumbnails, .chart-box, .bars-box";
  const collide = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 3
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > Math.min(one.height, other.height) / 2;
  const pairs = boxes.flatMap(([rect, node, element], index) => {
    const next = boxes.slice(index + 1, index + 60).filter(([, other, otherElement]) =>
      // of two texts in different scroll areas, one may be scrolled away
      other !== node && element.closest(scrolled) === otherElement.closest(scrolled));
    return next.filter(([other]) => collide(rect, other)).map(([, other]) => [node.data, other.data]);
  });
  const wide = document.documentElement.scrollWidth;
  return {
    small: texts.map(([node, element]) => named(node, size(element))).filter(([, found]) => found < minSize - 0.05),
    pale: texts.map(([node, element]) => named(node, contrastOf(element))).filter(([, found]) => found < minContrast),
    over: pairs,
    wide: wide > innerWidth ? [wide] : [],
  };
}"""


def readability(page: Any) -> dict[str, list[Any]]:
    """The faults of a page: texts that are `small` or `pale`, or lie `over` each other, and a page that is `wide`."""
    return page.evaluate(READ, [MIN_SIZE, MIN_CONTRAST])
