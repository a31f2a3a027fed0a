/** Python for what lies in a run's folder (curves, samples, answers), and for what a model is made of. */

import { assignCall, loadModel, assignText, python, SEQ2SEE, text, texts } from "./python.js";
import { IMPORT_FIND_RUN, inputCode } from "./input_code.js";

const IMPORT_READ_LOG = "from seq2see.training.journal import read_journal";
const READ_TABLE = "from seq2see.workbench.report_texts import read_table";

/** The curves of some runs: `curves[run, figure]`, pairs of step and value; and of the first its `bold` line of the loss. */
export function curvesCode(runs, figures, smooth) {
  const own = smooth > 0 && figures.includes("loss");
  return python([IMPORT_READ_LOG, IMPORT_FIND_RUN, own ? "from seq2see.inspection.curves import smoothed" : null], [
    `names = ${texts(runs.map((run) => run.load_name))}`,
    `figures = ${texts(figures)}`,
    "curves = {}",
    "for name in names:",
    "    run = find_run(name)",
    '    notes = read_journal(run.metrics) + read_journal(run.path / "timing.jsonl")',
    "    for figure in figures:",
    '        noted = [(note["step"], note[figure]) for note in notes if figure in note]',
    "        curves[name, figure] = noted",
    own ? `bold = smoothed([loss for _, loss in curves[names[0], "loss"]], percent=${smooth})` : null,
    own ? "print(bold)" : "print(curves)",
  ]);
}

/** What a run answered at one step of its training: `rows`. */
export function samplesCode(run, step) {
  const name = `step-${String(step).padStart(6, "0")}.tsv`;
  return python([IMPORT_FIND_RUN, READ_TABLE], [
    assignCall("run", "find_run", [text(run.load_name)]),
    `rows = read_table(run.samples / "${name}", columns=3)`,
    "for source, reference, output in rows:",
    '    print(source, reference, output, sep="\\t")',
  ]);
}

/** Rows of an evaluation, sorted: `rows`. */
export function rowsCode(run, { split, sort, search, cell, start, count }) {
  const few = cell || search;
  const input_shapes = ["rows", "model", cell ? `(${cell.map(text).join(", ")})` : "None", text(search)];
  return python([SEQ2SEE, IMPORT_FIND_RUN, `from seq2see.workbench.judged import ORDERS, ${few ? "chosen, " : ""}judged`], [
    assignText("name", run.load_name),
    "model = seq2see.load(name)",
    assignCall("rows", "judged", ["find_run(name)", "model", text(split)]),
    few ? assignCall("rows", "chosen", input_shapes) : null,
    `rows = sorted(rows, key=ORDERS["${sort}"])[${start}:${start + count}]`,
    "for row in rows:",
    "    print(row.text, row.truth, row.answer, row.quality, row.sure)",
  ]);
}

/** Which label was taken for which: `counts` (truth, answer). */
export function confusionCode(run, split) {
  return python([SEQ2SEE, IMPORT_FIND_RUN, "from seq2see.workbench.judged import confusion, judged"], [
    assignText("name", run.load_name),
    "model = seq2see.load(name)",
    assignCall("rows", "judged", ["find_run(name)", "model", text(split)]),
    "counts = confusion(rows, model).counts",
    "print(model.tokenizers.labels, counts)",
  ]);
}

/** A text in its pieces: `ids` and `pieces` of each side. */
export function tokensCode(run, read, names) {
  const sides = names.map((name) => `"${name}": model.tokenizers.${name === "target" ? "target" : "source"}`);
  return python([SEQ2SEE], [
    loadModel(run),
    assignText("text", read),
    `sides = {${sides.join(", ")}}`,
    "ids = {name: each.encode(text) for name, each in sides.items()}",
    "pieces = {name: each.pieces(ids[name]) for name, each in sides.items()}",
    "print(ids, pieces)",
  ]);
}

/** The blocks of a model and what one example does in them: `root`. */
export function blocksCode(run, params) {
  const { imports, lines, input_shapes } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.architecture import blocks_of"], [
    loadModel(run),
    lines,
    assignCall("reading", "model.reading", [input_shapes[0], input_shapes[1] ?? "None"]),
    "root = blocks_of(model.module, reading.batch)",
    "print(root.kind, root.parameters, root.operations)",
    "for each in root.parts:",
    "    print(each.name, each.kind, each.parameters, each.operations)",
  ]);
}

/** The source of one block: `source`. */
export function sourceCode(run, block) {
  return python(["import inspect", SEQ2SEE], [
    loadModel(run),
    `block = model.module${block ? `.get_submodule(${text(block)})` : ""}`,
    "source = inspect.getsource(type(block))",
    "print(source)",
  ]);
}
