/**
 * Attention of one head, step by step, with plain numbers: what `layers/attention.py` says, written once more.
 *
 *   const head = { formula, size, queries, keys, values, allowed, lean, vector }       matrices: {shape, values}
 *   stepsOf(head, 3, { scaled: true, masked: true })     {products, scaled, leaned, allowed, weights, output} of query 3
 *   weightsOf(head, changes)                             all rows of weights, one after another
 *   edited(head, "q.3.2=1.5,k.0.1=-2")                   the same head with some numbers changed
 *
 * scaled-dot: softmax(q · k / √size) v;  dot: softmax(q · k) v;  additive: softmax(w · tanh(q + k)) v, with w the vector.
 */

const PARTS = { q: "queries", k: "keys", v: "values" };
const CHANGE = /^([qkv])\.(\d+)\.(\d+)=(-?\d+(?:\.\d+)?(?:e-?\d+)?)$/;

/** What a query and a key have in common, number by number; their sum is the score before it is divided. */
export function dotProductTerms(head, query, key) {
  const [queryRow, keyRow] = [rowOf(head.queries, query), rowOf(head.keys, key)];
  if (head.score_function !== "additive") return queryRow.map((value, index) => value * keyRow[index]);
  return queryRow.map((value, index) => head.score_vector.values[index] * Math.tanh(value + keyRow[index]));
}

/** Everything that happens to one query. */
export function attentionSteps(head, query, changes) {
  const steps = attentionRow(head, query, changes);
  return { ...steps, output: weightedSum(head.values, steps.weights) };
}

/** The same up to the softmax. */
function attentionRow(head, query, { scaled: divide, masked }) {
  const count = head.keys.shape[0];
  const products = Array.from({ length: count }, (_, key) => productOf(head, query, key));
  const scaled = products.map((value) => (divide ? value * scoreScale(head) : value));
  const bias = head.bias.values.length ? rowOf(head.bias, query) : null;
  const biased = bias ? scaled.map((value, key) => value + bias[key]) : scaled;
  const attention_mask = Array.from(rowOf(head.attention_mask, query), (value) => !masked || value > 0);
  const weights = softmax(biased.map((value, key) => (attention_mask[key] ? value : -Infinity)));
  return { products, scaled, bias, biased, attention_mask, weights };
}

export function attentionMatrix(head, options) {
  const [rows, columns] = [head.queries.shape[0], head.keys.shape[0]];
  const result = new Float32Array(rows * columns);
  for (let query = 0; query < rows; query += 1) result.set(attentionRow(head, query, options).weights, query * columns);
  return result;
}

/** What q · k is multiplied by. */
export function scoreScale({ score_function, head_dim }) {
  return score_function === "scaled-dot" ? 1 / Math.sqrt(head_dim) : 1;
}

/** eˣ / Σ eˣ; the largest is taken away first, so that nothing overflows. Where nothing is allowed, nothing is taken. */
export function softmax(scores) {
  const largest = scores.reduce((first, second) => Math.max(first, second), -Infinity);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((first, second) => first + second, 0);
  return powers.map((power) => power / sum);
}

/** The sum of all values, each by its weight. */
export function weightedSum(values, weights) {
  const [count, head_dim] = values.shape;
  const result = new Array(head_dim).fill(0);
  for (let key = 0; key < count; key += 1)
    for (let index = 0; index < head_dim; index += 1) result[index] += weights[key] * values.values[key * head_dim + index];
  return result;
}

/** The changes that a text of the link says, those that fit this head: [{part, row, column, value}]. */
export function parseEdits(head, text) {
  const result = text.split(",").map((each) => CHANGE.exec(each)).filter(Boolean);
  return result
    .map(([, part, row, column, value]) => ({ part, row: Number(row), column: Number(column), value: Number(value) }))
    .filter(({ part, row, column }) => row < head[PARTS[part]].shape[0] && column < head[PARTS[part]].shape[1]);
}

/** The text for a list of changes. */
export function formatEdits(changes) {
  return changes.map(({ part, row, column, value }) => `${part}.${row}.${column}=${value}`).join(",");
}

export function withEdits(head, text) {
  const changed = { ...head };
  for (const { part, row, column, value } of parseEdits(head, text)) {
    const name = PARTS[part];
    const { shape } = changed[name];
    if (changed[name] === head[name]) changed[name] = { shape, values: Float64Array.from(head[name].values) };
    changed[name].values[row * shape[1] + column] = value;
  }
  return changed;
}

/** One row of a matrix, without a copy. */
export function rowOf({ shape, values }, row) {
  return values.subarray(row * shape[1], (row + 1) * shape[1]);
}

/** All rows on average. */
export function meanRow({ shape: [rows, width], values }) {
  const mean = new Float32Array(width);
  values.forEach((value, index) => (mean[index % width] += value / rows));
  return mean;
}

function productOf(head, query, key) {
  const { values, shape: [, head_dim] } = head.queries;
  const keys = head.keys.values;
  let sum = 0;
  if (head.score_function === "additive") {
    const score_vector = head.score_vector.values;
    for (let index = 0; index < head_dim; index += 1)
      sum += score_vector[index] * Math.tanh(values[query * head_dim + index] + keys[key * head_dim + index]);
  } else for (let index = 0; index < head_dim; index += 1) sum += values[query * head_dim + index] * keys[key * head_dim + index];
  return sum;
}
