/**
 * Colors that can be told apart by people who see colors differently, on light and on dark paper.
 *
 *   LINES[0]                  the first of eight colors for things beside each other (six of Okabe and Ito, violet, gray)
 *   shade(0.3)                [red, green, blue] for a value from 0 (the paper) to 1 (the most)
 *   lean(-0.4)                the same for a value from -1 (orange) over 0 (the paper) to 1 (blue)
 *   css(shade(0.3))           as CSS writes it
 *   inkOn(shade(0.3))         black or white, whichever is read better on it
 *   shadedStyle(0.3)          both as a style of an element, which follows the page from light to dark by itself
 *   paper()                   {paper, ink, soft, line}: the page's own colors now, for canvas and SVG
 *   onWhitePaper(act)         the colors of light paper while something is drawn to be taken home
 */

export const LINE_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9b30f0", "#696969"];

const LIGHT = { palette: "#ffffff", card: "#f6f7f9", ink: "#1b1f24", soft: "#59636e", line: "#d5dae0", mark: "#d55e00" };
const DARK = { palette: "#14171b", card: "#1e2329", ink: "#e6e9ed", soft: "#a3adb8", line: "#39424c", mark: "#ff9d4d" };

const SEQUENTIAL = {
  light: [[255, 255, 255], [176, 214, 236], [38, 132, 190], [0, 62, 112], [0, 24, 56]],
  dark: [[20, 23, 27], [22, 66, 104], [30, 126, 164], [120, 196, 170], [255, 238, 140]],
};
const DIVERGING = {
  light: [[150, 62, 0], [236, 150, 70], [255, 255, 255], [90, 170, 216], [0, 62, 112]],
  dark: [[255, 190, 110], [176, 92, 18], [20, 23, 27], [20, 102, 156], [130, 210, 255]],
};

/** Whether the page is dark now: as switched, else as the system has it. */
export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** What is done in here is done on light paper; the page is not painted meanwhile, so that nobody sees it. */
export function withLightTheme(action) {
  const { dataset } = document.documentElement;
  const { theme } = dataset;
  dataset.theme = "light";
  try {
    return action();
  } finally {
    if (theme === undefined) delete dataset.theme;
    else dataset.theme = theme;
  }
}

export function palette() {
  return isDark() ? DARK : LIGHT;
}

export function sequentialColor(value) {
  return interpolate(SEQUENTIAL[isDark() ? "dark" : "light"], value);
}

export function divergingColor(value) {
  return interpolate(DIVERGING[isDark() ? "dark" : "light"], (value + 1) / 2);
}

export function sequentialStyle(value) {
  const [light, dark] = ["light", "dark"].map((theme) => interpolate(SEQUENTIAL[theme], value));
  const either = (one, other) => `light-dark(${one}, ${other})`;
  return { background: either(css(light), css(dark)), color: either(textColorOn(light), textColorOn(dark)) };
}

/** A table of 255 colors, for images of many cells; the one in the middle is that of 0 where there are signs. */
export function colormap(diverging) {
  return Array.from({ length: 255 }, (_, step) => (diverging ? divergingColor(step / 127 - 1) : sequentialColor(step / 254)));
}

export function css([red, green, blue]) {
  return `rgb(${red}, ${green}, ${blue})`;
}

export function textColorOn([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

function interpolate(colors, value) {
  const place = Math.min(Math.max(Number.isFinite(value) ? value : 0, 0), 1) * (colors.length - 1);
  const left = Math.min(Math.floor(place), colors.length - 2);
  return colors[left].map((part, index) => Math.round(part + (colors[left + 1][index] - part) * (place - left)));
}
