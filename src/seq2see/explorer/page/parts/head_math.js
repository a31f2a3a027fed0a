/**
 * The attention of one head, step by step, as in `layers/attention.py`.
 *
 *   const head = { score_function, head_dim, queries, keys, values, attention_mask, bias, score_vector }   {shape, values}
 *   attentionSteps(head, 3, { scaled: true, masked: true })    the scores, weights and output of query 3
 *   attentionMatrix(head, options)                             the weights of all queries, row by row
 *   withEdits(head, "q.3.2=1.5,k.0.1=-2")                      a copy of the head with some numbers changed
 *
 * scaled-dot: softmax(q · k / √head_dim) v;  dot: softmax(q · k) v;  additive: softmax(w · tanh(q + k)) v with the score
 * vector w.
 */

const PARTS = { q: "queries", k: "keys", v: "values" };
const EDIT = /^([qkv])\.(\d+)\.(\d+)=(-?\d+(?:\.\d+)?(?:e-?\d+)?)$/;

/** The terms of the score of a query and a key; their sum is the score before scaling. */
export function dotProductTerms(head, query, key) {
  const [queryRow, keyRow] = [rowOf(head.queries, query), rowOf(head.keys, key)];
  if (head.score_function !== "additive") return queryRow.map((value, index) => value * keyRow[index]);
  return queryRow.map((value, index) => head.score_vector.values[index] * Math.tanh(value + keyRow[index]));
}

/** All intermediate results for one query. */
export function attentionSteps(head, query, options) {
  const steps = attentionRow(head, query, options);
  return { ...steps, output: weightedSum(head.values, steps.weights) };
}

/** The intermediate results for one query up to the softmax. */
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

/** The factor of q · k. */
export function scoreScale({ score_function, head_dim }) {
  return score_function === "scaled-dot" ? 1 / Math.sqrt(head_dim) : 1;
}

/** eˣ / Σ eˣ; the largest score is subtracted first to avoid an overflow. A fully masked row has weights 0. */
export function softmax(scores) {
  const largest = scores.reduce((first, second) => Math.max(first, second), -Infinity);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((first, second) => first + second, 0);
  return powers.map((power) => power / sum);
}

/** The weighted sum of the value vectors. */
export function weightedSum(values, weights) {
  const [count, head_dim] = values.shape;
  const result = new Array(head_dim).fill(0);
  for (let key = 0; key < count; key += 1)
    for (let index = 0; index < head_dim; index += 1) result[index] += weights[key] * values.values[key * head_dim + index];
  return result;
}

/** The edits in a text of the link that are valid for this head: [{part, row, column, value}]. */
export function parseEdits(head, text) {
  const matches = text.split(",").map((each) => EDIT.exec(each)).filter(Boolean);
  return matches
    .map(([, part, row, column, value]) => ({ part, row: Number(row), column: Number(column), value: Number(value) }))
    .filter(({ part, row, column }) => row < head[PARTS[part]].shape[0] && column < head[PARTS[part]].shape[1]);
}

/** The text of a list of edits. */
export function formatEdits(edits) {
  return edits.map(({ part, row, column, value }) => `${part}.${row}.${column}=${value}`).join(",");
}

/** A copy of the head with the edits of a text. */
export function withEdits(head, text) {
  const edited = { ...head };
  for (const { part, row, column, value } of parseEdits(head, text)) {
    const name = PARTS[part];
    const { shape } = edited[name];
    if (edited[name] === head[name]) edited[name] = { shape, values: Float64Array.from(head[name].values) };
    edited[name].values[row * shape[1] + column] = value;
  }
  return edited;
}

/** One row of a matrix, without a copy. */
export function rowOf({ shape, values }, row) {
  return values.subarray(row * shape[1], (row + 1) * shape[1]);
}

/** The mean of all rows. */
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
