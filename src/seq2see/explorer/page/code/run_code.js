/** Python code for the files of a run (metrics, samples, evaluation), for tokenizers, and for modules of a model. */

import { assignCall, loadModel, assignText, python, SEQ2SEE, text, texts } from "./python.js";
import { IMPORT_FIND_RUN, inputCode } from "./input_code.js";

const IMPORT_READ_METRICS = "from seq2see.training.loop import read_metrics";
const IMPORT_MOVING_AVERAGE = "from seq2see.inspection.plotting import moving_average";
const IMPORT_FIND_RUN_AND_READ_TABLE = "from seq2see.runs.run_folder import find_run, read_table";

/** The curves of some runs: `curves[run, metric]`, pairs of step and value; and the `smoothed` loss of the first run. */
export function curvesCode(runs, metrics, smoothing) {
  const isSmoothed = smoothing > 0 && metrics.includes("loss");
  return python([IMPORT_READ_METRICS, IMPORT_FIND_RUN, isSmoothed ? IMPORT_MOVING_AVERAGE : null], [
    `names = ${texts(runs.map((run) => run.load_name))}`,
    `metrics = ${texts(metrics)}`,
    "curves = {}",
    "for name in names:",
    "    run = find_run(name)",
    '    records = read_metrics(run.metrics) + read_metrics(run.path / "timing.jsonl")',
    "    for metric in metrics:",
    '        points = [(each["step"], each[metric]) for each in records if metric in each]',
    "        curves[name, metric] = points",
    isSmoothed ? 'losses = [loss for _, loss in curves[names[0], "loss"]]' : null,
    isSmoothed ? `smoothed = moving_average(losses, percent=${smoothing})` : null,
    isSmoothed ? "print(smoothed)" : "print(curves)",
  ]);
}

/** The sample outputs of one evaluation during training: `rows`. */
export function samplesCode(run, step) {
  const name = `step-${String(step).padStart(6, "0")}.tsv`;
  return python([IMPORT_FIND_RUN_AND_READ_TABLE], [
    assignCall("run", "find_run", [text(run.load_name)]),
    `rows = read_table(run.samples / "${name}", columns=3)`,
    "for source, reference, output in rows:",
    '    print(source, reference, output, sep="\\t")',
  ]);
}

/** The sorted rows of an evaluation: `rows`. */
export function rowsCode(run, { split, sort, search, cell, start, count }) {
  const isFiltered = cell || search;
  const args = ["rows", "model", cell ? `(${cell.map(text).join(", ")})` : "None", text(search)];
  const names = `SORT_KEYS, evaluated_rows${isFiltered ? ", filter_rows" : ""}`;
  return python([SEQ2SEE, IMPORT_FIND_RUN, `from seq2see.runs.evaluate import ${names}`], [
    assignText("name", run.load_name),
    "model = seq2see.load(name)",
    assignCall("rows", "evaluated_rows", ["find_run(name)", "model", text(split)]),
    isFiltered ? assignCall("rows", "filter_rows", args) : null,
    `rows = sorted(rows, key=SORT_KEYS["${sort}"])[${start}:${start + count}]`,
    "for row in rows:",
    "    print(row.text, row.truth, row.prediction, row.quality, row.confidence)",
  ]);
}

/** The confusion matrix: `counts` (truth, prediction). */
export function confusionCode(run, split) {
  return python([SEQ2SEE, IMPORT_FIND_RUN, "from seq2see.runs.evaluate import confusion, evaluated_rows"], [
    assignText("name", run.load_name),
    "model = seq2see.load(name)",
    assignCall("rows", "evaluated_rows", ["find_run(name)", "model", text(split)]),
    "counts = confusion(rows, model).counts",
    "print(model.tokenizers.labels, counts)",
  ]);
}

/** The tokenization of a text: `ids` and `tokens` of each side. */
export function tokensCode(run, value, names) {
  const sides = names.map((name) => `"${name}": model.tokenizers.${name === "target" ? "target" : "source"}`);
  return python([SEQ2SEE], [
    loadModel(run),
    assignText("text", value),
    `sides = {${sides.join(", ")}}`,
    "ids = {name: each.encode(text) for name, each in sides.items()}",
    "tokens = {name: each.tokens(ids[name]) for name, each in sides.items()}",
    "print(ids, tokens)",
  ]);
}

/** The modules of a model with the shapes and costs of one forward pass: `root`. */
export function blocksCode(run, params) {
  const { imports, lines, args } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.module_summary import summarize_modules"], [
    loadModel(run),
    lines,
    assignCall("named", "model.named_batch", [args[0], args[1] ?? "None"]),
    "root = summarize_modules(model.module, named.batch)",
    "print(root.kind, root.parameters, root.macs)",
    "for each in root.children:",
    "    print(each.name, each.kind, each.parameters, each.macs)",
  ]);
}

/** The source code of one module: `source`. */
export function sourceCode(run, block) {
  return python(["import inspect", SEQ2SEE, "from seq2see.core.devices import plain_class"], [
    loadModel(run),
    `block = model.module${block ? `.get_submodule(${text(block)})` : ""}`,
    "source = inspect.getsource(plain_class(block))",
    "print(source)",
  ]);
}
