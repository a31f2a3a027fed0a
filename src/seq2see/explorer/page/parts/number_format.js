/**
 * Number formatting.
 *
 *   formatNumber(0.01234)   "0.0123"     formatNumber(123456)   "123,456"     formatPercent(0.1234)   "12.3 %"
 */

/** A number with about `digits` significant digits; very small and very large numbers have an exponent. */
export function formatNumber(value, digits = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  const magnitude = Math.abs(value);
  if (value === 0) return "0";
  if (magnitude >= 1e7 || magnitude < 1e-4) return value.toExponential(digits - 1).replace("-", "−");
  if (magnitude >= 1000) return Math.round(value).toLocaleString("en").replace("-", "−");
  if (Number.isInteger(value)) return String(value).replace("-", "−");
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(magnitude)));
  return value.toFixed(Math.min(decimals, 8)).replace("-", "−");
}

/** A tick label of an axis, without superfluous digits. */
export function formatTick(value) {
  const short = Number(value.toPrecision(6));
  const grouped = Math.abs(short) >= 1000 && Math.abs(short) < 1e7;
  return (grouped ? short.toLocaleString("en") : String(short)).replace("-", "−");
}

/** A count in compact notation: "55.4M", "5540万". */
export function formatCount(value) {
  const style = { notation: "compact", maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(document.documentElement.lang, style).format(value);
}

export function formatPercent(value) {
  const percent = 100 * value;
  return `${percent >= 99.95 ? "100" : percent.toFixed(percent < 0.1 ? 3 : percent < 10 ? 2 : 1)} %`;
}
