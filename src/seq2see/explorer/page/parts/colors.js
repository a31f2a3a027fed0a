/**
 * Colors for color-blind readers too, in a light and a dark theme.
 *
 *   LINE_COLORS[0]                     the first of eight categorical colors (six of Okabe and Ito, violet, gray)
 *   sequentialColor(0.3)               [red, green, blue] for a value from 0 (background) to 1 (maximum)
 *   divergingColor(-0.4)               [red, green, blue] for a value from -1 (orange) over 0 (background) to 1 (blue)
 *   css(sequentialColor(0.3))          the color in CSS syntax
 *   textColorOn(sequentialColor(0.3))  black or white, whichever has the higher contrast
 *   sequentialStyle(0.3)               background and text color as a style that follows the theme
 *   palette()                          {background, foreground, muted, border, ...}: the current theme, for canvas and SVG
 *   withLightTheme(action)             run an action in the light theme, for downloads
 */

export const LINE_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9b30f0", "#696969"];

const LIGHT = {
  background: "#ffffff", card: "#f6f7f9", foreground: "#1b1f24", muted: "#59636e", border: "#d5dae0", accent: "#d55e00",
};
const DARK = {
  background: "#14171b", card: "#1e2329", foreground: "#e6e9ed", muted: "#a3adb8", border: "#39424c", accent: "#ff9d4d",
};

const SEQUENTIAL = {
  light: [[255, 255, 255], [176, 214, 236], [38, 132, 190], [0, 62, 112], [0, 24, 56]],
  dark: [[20, 23, 27], [22, 66, 104], [30, 126, 164], [120, 196, 170], [255, 238, 140]],
};
const DIVERGING = {
  light: [[150, 62, 0], [236, 150, 70], [255, 255, 255], [90, 170, 216], [0, 62, 112]],
  dark: [[255, 190, 110], [176, 92, 18], [20, 23, 27], [20, 102, 156], [130, 210, 255]],
};

/** Whether the dark theme is active: as selected by the user, else by the system. */
export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Run an action in the light theme; it is synchronous, so the page itself is not repainted meanwhile. */
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
  const lightDark = (one, other) => `light-dark(${one}, ${other})`;
  return { background: lightDark(css(light), css(dark)), color: lightDark(textColorOn(light), textColorOn(dark)) };
}

/** A colormap of 255 colors, for images of many cells; in a diverging one the middle stands for 0. */
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
  const position = Math.min(Math.max(Number.isFinite(value) ? value : 0, 0), 1) * (colors.length - 1);
  const left = Math.min(Math.floor(position), colors.length - 2);
  return colors[left].map((part, index) => Math.round(part + (colors[left + 1][index] - part) * (position - left)));
}
