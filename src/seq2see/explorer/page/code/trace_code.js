/** Python code for the views "Attention", "Single head" and "Recurrent": traces of one forward pass. */

import { assignCall, loadModel, assignText, number, python, withComment, SEQ2SEE, text } from "./python.js";
import { IMPORT_FIND_RUN, IMPORT_TASK_OF, inputCode, recipeOf } from "./input_code.js";
import { comment } from "./comments.js";

const NUMPY = "import numpy as np";
const RETENTION_NAMES = "RETENTION_MEASURES, memory_retention, to_double";

/** Lines that load the model and trace a forward pass: `record`. */
function traceCode(run, params, kinds = null) {
  const { imports, lines, args } = inputCode(run, params);
  const trace = assignCall("record", "model.trace", [...args, kinds]);
  return { imports: [SEQ2SEE, ...imports], lines: [loadModel(run), ...lines, trace] };
}

/** The view "Attention": the `weights` of one head, or of all heads, fused; and the weights of one query. */
export function attentionCode({ app: { run, state }, params, info, layers, selection, visible }, query) {
  const { layer: number, head } = selection;
  const { imports, lines } = traceCode(run, params);
  const { name, rows, columns } = layers[number];
  const isHidden = (side) => state.hide_special && info.special[side]?.some(Boolean);
  const heads = state.heads === "all" && !visible.all ? "one" : state.heads;
  const fused = { mean: "signal.values.mean(axis=0)", max: "signal.values.max(axis=0)", all: "signal.values" }[heads];
  const weights = `weights = ${fused ?? `signal.values[${head}]`}`;
  const note = heads === "all" ? comment("all_heads") : heads === "one" ? comment("head", { number: head + 1 }) : "";
  const shown = (side) => `[not each for each in record.special[${text(side)}]]`;
  return python(imports, [
    lines,
    assignCall("signal", "record.find", [text(name), '"attention"']),
    note ? withComment(weights, note) : weights,
    isHidden(rows) ? `weights = weights[..., ${shown(rows)}, :]` : null,
    isHidden(columns) ? `weights = weights[..., ${shown(columns)}]` : null,
    state.transposed && state.display === "matrix" ? withComment("weights = weights.T", comment("queries_down")) : null,
    "print(record.query_tokens(signal), record.tokens[signal.key_side])",
    "print(weights.round(3))",
    withComment(`print(signal.values[:, ${query}].round(3))`, comment("one_token", { token: info.tokens[rows][query] })),
  ]);
}

/** The entropy and the distance of all heads: `measures`, one entry for each attention layer. */
export function measuresCode(run, params, grid) {
  const { imports, lines } = traceCode(run, params);
  const distance = grid ? "patch_distance(signal.values, record.grid)" : "distance(signal.values)";
  const names = grid ? "entropy, patch_distance" : "distance, entropy";
  return python([...imports, `from seq2see.inspection.attention_measures import ${names}`], [
    lines,
    "measures = {}",
    'for signal in record.of("attention"):',
    "    measures[signal.name] = [entropy(signal.values).mean(-1)]",
    grid ? '    if signal.side == "source" and not signal.is_cross_attention:' : "    if not signal.is_cross_attention:",
    `        distances = ${distance}`,
    "        measures[signal.name].append(distances.mean(-1))",
    "print(measures)",
  ]);
}

/** The alignment error rates of all cross-attention heads for a test example with a gold alignment: `errors`. */
export function alignmentCode(run, params) {
  const { imports, lines } = traceCode(run, params);
  return python([...imports, "from seq2see.inspection.attention_measures import alignment_error",
    "from seq2see.metrics.alignment import GoldAlignment", IMPORT_FIND_RUN, IMPORT_TASK_OF], [
    lines,
    recipeOf(run),
    assignText("source", params.text),
    assignText("target", params.target),
    "examples = task_of(recipe).evaluation_examples(recipe)",
    "examples = [each for each in examples if each.source == source]",
    "example = next(each for each in examples if each.target == target)",
    "gold = GoldAlignment.of(example.sure_links, example.possible_links)",
    withComment("words = [", comment("word_of_token")),
    "    [*model.tokenizers.source.word_ids(example.source, example.source_words), None],",
    "    [*model.tokenizers.target.word_ids(example.target, example.target_words), None],",
    "]",
    "errors = {}",
    'for signal in [each for each in record.of("attention") if each.is_cross_attention]:',
    "    rates = [alignment_error(head, *words, gold) for head in signal.values]",
    "    errors[signal.name] = rates",
    "print(errors)",
  ]);
}

/** The attention of one head, computed step by step: `weights` and `output` of one query. */
export function singleHeadCode({ app: { run, state }, params, layers, layer: layerNumber, query, original }, edits) {
  const { scaled, masked } = state;
  const layer = layers[layerNumber];
  const head = Math.min(Math.max(state.head, 0), layer.heads - 1);
  const { imports, lines } = traceCode(run, params, "kinds=ATTENTION_INPUTS");
  const divide = layer.score_function === "scaled-dot" && scaled ? " / np.sqrt(queries.shape[-1])" : "";
  const scores = layer.score_function === "additive"
    ? 'scores = np.tanh(queries[query] + keys) @ arrays["score_vector"]' : `scores = keys @ queries[query]${divide}`;
  const broadcast = (name, kind) => `${name} = np.broadcast_to(arrays["${kind}"], arrays["attention"].shape)[${head}, query]`;
  const names = { q: "queries", k: "keys", v: "values" };
  return python([...imports, NUMPY, "from seq2see.inspection.trace import ATTENTION_INPUTS"], [
    lines,
    assignText("name", layer.name),
    "arrays = {each.kind: each.values for each in record.signals if each.name == name}",
    `queries, keys, values = (arrays[kind][${head}] for kind in ("query", "key", "value"))`,
    edits.map(({ part, row, column, value }) =>
      withComment(`${names[part]}[${row}, ${column}] = ${number(value)}`, comment("edited"))),
    `query = ${query}`,
    layer.score_function === "scaled-dot" && !scaled ? withComment(scores, comment("no_scale", { head_dim: layer.head_dim })) : scores,
    original.bias.values.length ? [broadcast("bias", "attention_bias"), "scores = scores + bias"] : null,
    masked ? [broadcast("mask", "attention_mask"), "scores = np.where(mask > 0, scores, -np.inf)"] : `# ${comment("no_mask")}`,
    "weights = np.exp(scores - scores.max())",
    "weights = weights / weights.sum()",
    "output = weights @ values",
    "print(weights.round(4), output.round(4))",
  ]);
}

const SORT_KEYS = {
  mean: "-states.sum(axis=0)",
  change: "-np.abs(np.diff(states, axis=0)).sum(axis=0)",
  peak: "np.abs(states).argmax(axis=0)",
};

/** A signal of one cell: `states` (time, unit), with the units in the displayed order. */
export function statesCode(run, params, { cell, signal, sort }) {
  const { imports, lines } = traceCode(run, params, 'kinds=("hidden", "gate")');
  const kind = ["hidden", "cell"].includes(signal) ? "hidden" : "gate";
  const component = signal === "hidden" ? null : text(signal);
  return python([...imports, sort in SORT_KEYS ? NUMPY : null], [
    lines,
    assignCall("states", "record.find", [text(cell.name), text(kind), component], ".values"),
    sort in SORT_KEYS ? [`order = np.argsort(${SORT_KEYS[sort]}, kind="stable")`, "states = states[:, order]"] : null,
    `print(record.tokens[${text(cell.side)}])`,
    "print(states.T.round(3))",
  ]);
}

/** The influence of one token at each time: `influence` (measure, time). */
export function influenceCode(run, params, { cell, word }) {
  const { imports, lines, args } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, `from seq2see.inspection.recurrent_memory import ${RETENTION_NAMES}`], [
    loadModel(run),
    lines,
    assignCall("named", "model.named_batch", [args[0], args[1] ?? "None"]),
    withComment("module = to_double(model.module)", comment("in_double")),
    assignCall("influence", "memory_retention", ["module", "named.batch", text(cell.name), String(word)]),
    "for measure, values in zip(RETENTION_MEASURES, influence):",
    "    print(measure, values.round(4))",
  ]);
}

/** The context vectors of attention compared with one fixed context vector: `comparison`. */
export function contextsCode(run, params) {
  const { imports, lines, args } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.recurrent_memory import compare_contexts"], [
    loadModel(run),
    lines,
    assignCall("named", "model.named_batch", [args[0], args[1] ?? "None"]),
    "comparison = compare_contexts(model.module, named.batch)",
    'print(named.tokens["labels"])',
    "print(comparison.with_attention.round(3), comparison.without_attention.round(3))",
    "print(comparison.fixed_context.round(3), comparison.attention_contexts.round(3))",
  ]);
}
