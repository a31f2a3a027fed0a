/** The mean of each value's neighborhood, `percent` of all values wide; near the ends it is narrower, and never lags. */
export function movingAverage(values, percent) {
  const half = Math.floor((values.length * percent) / 200);
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1) + value);
  return values.map((_, place) => {
    const [from, to] = [Math.max(place - half, 0), Math.min(place + half + 1, values.length)];
    return (sums[to] - sums[from]) / (to - from);
  });
}
