/**
 * Numbers as people read them.
 *
 *   figure(0.01234)   "0.0123"     figure(123456)   "123,456"     share(0.1234)   "12.3 %"
 */

/** About as many digits as matter; very small and very large ones with an exponent. */
export function formatNumber(value, digits = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e7 || size < 1e-4) return value.toExponential(digits - 1).replace("-", "−");
  if (size >= 1000) return Math.round(value).toLocaleString("en").replace("-", "−");
  if (Number.isInteger(value)) return String(value).replace("-", "−");
  const after = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toFixed(Math.min(after, 8)).replace("-", "−");
}

/** A number at an axis: no more digits than it has. */
export function formatTick(value) {
  const short = Number(value.toPrecision(6));
  const grouped = Math.abs(short) >= 1000 && Math.abs(short) < 1e7;
  return (grouped ? short.toLocaleString("en") : String(short)).replace("-", "−");
}

/** How many there are, in short: "55.4M", "5540万". */
export function formatCount(value) {
  const style = { notation: "compact", maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(document.documentElement.lang, style).format(value);
}

export function formatPercent(value) {
  const percent = 100 * value;
  return `${percent >= 99.95 ? "100" : percent.toFixed(percent < 0.1 ? 3 : percent < 10 ? 2 : 1)} %`;
}
