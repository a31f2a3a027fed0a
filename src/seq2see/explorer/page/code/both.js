/** Python for two sides beside each other: their answers, how both read one target, and where both look. */

import { assigned, call, loaded, python, SEQ2SEE, text } from "./python.js";
import { readBy } from "./reading.js";

/** What one side is given, in Python. */
function given(side, place, sides) {
  const { imports, lines, given: [read, target] } = readBy(side.run, side.input);
  return { imports, lines: [place && side.run === sides[0].run ? null : loaded(side.run), ...lines], read, target };
}

/** Both answers, and how probable each token of the common target is: `answers` and `read`. */
export function sidesCode(sides) {
  const writes = sides.every(({ run }) => run.abilities.includes("decode"));
  const each = sides.map((side, place) => {
    const { imports, lines, read } = given(side, place, sides);
    const likely = { fill: "top_k=8", classify: "top_k=0", tag: "top_k=0" }[side.run.task];
    return { imports, lines: [
      lines,
      call("model", [read, likely], { before: "answers.append(", after: ")" }),
      writes ? assigned("reading", "model.reading", [read, text(side.input.target ?? "")]) : null,
      writes ? "read.append(forced(model, reading))" : null,
    ] };
  });
  return python([SEQ2SEE, each.map(({ imports }) => imports), writes ? "from seq2see.workbench.forcing import forced" : null].flat(2), [
    writes ? "answers, read = [], []" : "answers = []",
    each.map(({ lines }) => lines),
    "print([each.text for each in answers])",
    writes ? "print(read)" : "print([each.guesses for each in answers])",
  ]);
}

/** Both maps and their difference: `weights` and `difference`. */
export function mapsCode(sides, same) {
  return python([SEQ2SEE, ...sides.flatMap((side, place) => given(side, place, sides).imports)], [
    "weights = []",
    sides.map((side, place) => {
      const { lines, read, target } = given(side, place, sides);
      return [
        lines, assigned("record", "model.trace", [read, target]),
        assigned("look", "record.find", [text(side.name), '"attention"']),
        `weights.append(look.values${side.heads === "mean" ? ".mean(axis=0)" : `[${side.head}]`})`,
      ];
    }),
    same ? "difference = weights[1] - weights[0]" : null,
    same ? "print(difference.round(3))" : "print(weights)",
  ]);
}
