/** A centered moving average whose window is `percent` of all values wide, and narrower near both ends. */
export function movingAverage(values, percent) {
  const half = Math.floor((values.length * percent) / 200);
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1) + value);
  return values.map((_, index) => {
    const [from, to] = [Math.max(index - half, 0), Math.min(index + half + 1, values.length)];
    return (sums[to] - sums[from]) / (to - from);
  });
}
