"""Decoding on a CPU beside Hugging Face and CTranslate2: the same weights, the same sentences, each engine at its best.

python benchmarks/decode_cpu.py                     everything; writes results/decode_cpu.json (half an hour, alone)
python benchmarks/decode_cpu.py --models small --engines seq2see_int8 ct2_int8       a part; nothing is written
python benchmarks/decode_cpu.py --bleu RUN          what bf16 and int8 cost a trained run on its test set

A model has random weights that end their answers as a trained one does (`random_translator.py`). Every engine runs
alone in a process of its own, in each way in which it can share the cores, and its best way counts. Tokens per second
are those of the answers, <eos> among them, from numbers to numbers; the first round is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpu_engines import Competitor, WorkerLayout, competitors, running
from random_translator import SHAPES, sentences, store

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "decode_cpu.json"
CELLS = [(1, 1), (1, 4), (32, 1), (32, 4)]
"""Sentences side by side, beams."""
COUNTS = {1: 12, 32: 64}
"""How many sentences are translated, by how many are side by side."""
ENGINES = ("hf_float32", "ct2_float32", "ct2_int8", "seq2see_float32", "seq2see_bf16", "seq2see_int8")
RATIOS = {
    "to_hf": ("seq2see_float32", "hf_float32"),
    "to_ct2_float32": ("seq2see_float32", "ct2_float32"),
    "to_ct2_int8": ("seq2see_int8", "ct2_int8"),
}
TITLES = {
    "hf_float32": "HF float32", "ct2_float32": "CT2 float32", "ct2_int8": "CT2 int8",
    "seq2see_float32": "seq2see float32", "seq2see_bf16": "seq2see bf16", "seq2see_int8": "seq2see int8",
    "to_hf": "float32 / HF", "to_ct2_float32": "float32 / CT2", "to_ct2_int8": "int8 / CT2",
    "same_as_hf": "= HF (%)", "same_as_ct2": "= CT2 (%)",
}  # fmt: skip


def measure_here(folder: Path, competitor: Competitor, vocabulary: int, repeats: int) -> list[dict[str, Any]]:
    """All cells of one competitor, in this process."""
    cells = []
    with running(folder, competitor) as translate:
        for batch, beams in CELLS:
            # Sentences of like length go together, as every engine would have it.
            sources = sorted(sentences(COUNTS[batch], vocabulary), key=len)
            batches = [sources[start : start + batch] for start in range(0, len(sources), batch)]
            answers = translate(batches, beams)
            seconds = []
            for _ in range(repeats):
                began = time.perf_counter()
                translate(batches, beams)
                seconds.append(time.perf_counter() - began)
            tokens = sum(len(answer) + 1 for answer in answers)
            cells.append({"batch": batch, "beams": beams, "tokens": tokens, "seconds": seconds, "answers": answers})
    return cells


def measure_in_subprocess(folder: Path, model: str, competitor: Competitor, repeats: int) -> list[dict[str, Any]]:
    """The same in a process of its own."""
    asked = {"folder": str(folder), "vocabulary": SHAPES[model].vocabulary, "repeats": repeats, **asdict(competitor)}
    environment = {"OMP_NUM_THREADS": str(competitor.layout.threads), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, __file__, "--once", json.dumps(asked)],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{competitor.name} ({competitor.layout}) failed:\n{done.stderr[-2000:]}")
    return [
        {"model": model, "name": competitor.name, "way": str(competitor.layout)} | cell
        for cell in json.loads(done.stdout)
    ]


def rate(run: dict[str, Any]) -> float:
    """Tokens a second, the median of the repeats."""
    return run["tokens"] / statistics.median(run["seconds"])


def relative_range(run: dict[str, Any]) -> float:
    """The slowest less the fastest repeat, as a share of the median."""
    return (max(run["seconds"]) - min(run["seconds"])) / statistics.median(run["seconds"])


def summarize(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a cell: every engine at its best, what ours is to the others, and how many answers are the same."""
    rows = []
    for model, batch, beams in dict.fromkeys((run["model"], run["batch"], run["beams"]) for run in runs):
        here = [run for run in runs if (run["model"], run["batch"], run["beams"]) == (model, batch, beams)]
        best = {run["name"]: run for run in sorted(here, key=rate)}
        row: dict[str, Any] = {"model": model, "batch": batch, "search": "greedy" if beams == 1 else f"beam {beams}"}
        row |= {name: round(rate(best[name])) for name in ENGINES if name in best}
        row |= {
            title: round(rate(best[mine]) / rate(best[theirs]), 2)
            for title, (mine, theirs) in RATIOS.items()
            if mine in best and theirs in best
        }
        for peer in ("hf", "ct2"):
            if f"{peer}_float32" in best and "seq2see_float32" in best:
                row[f"same_as_{peer}"] = same_percentage(
                    best["seq2see_float32"]["answers"], best[f"{peer}_float32"]["answers"]
                )
        row["ways"] = {name: run["way"] for name, run in best.items()}
        row["spreads"] = {name: round(relative_range(run), 3) for name, run in best.items()}
        rows.append(row)
    return rows


def same_percentage(mine: list[list[int]], theirs: list[list[int]]) -> float:
    """How many answers in a hundred are the same to the last token."""
    return 100 * sum(one == other for one, other in zip(mine, theirs, strict=True)) / len(mine)


def show(rows: Sequence[dict[str, Any]]) -> str:
    """Tables for a terminal of 80 columns: tokens a second, then ratios and shares of equal answers."""
    lines = []
    for titles, width in ((ENGINES, 10), ((*RATIOS, "same_as_hf", "same_as_ct2"), 12)):
        short = [TITLES[title].replace("float32", "f32").replace("seq2see", "ours") for title in titles]
        lines.append(" " * 16 + "".join(f"{title[: width - 1]:>{width}}" for title in short))
        for row in rows:
            cells = "".join(f"{row.get(title, '-'):>{width}}" for title in titles)
            lines.append(f"{row['model']} {row['batch']} {row['search']}".ljust(16) + cells)
    return "\n".join(lines)


def measure(models: Sequence[str], engines: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """Every competitor on every model, one after another."""
    runs = []
    for model in models:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / model
            store(model, folder)
            for competitor in competitors(os.cpu_count() or 1):
                if competitor.name in engines:
                    runs += measure_in_subprocess(folder, model, competitor, repeats)
                    figures = "  ".join(
                        f"{run['batch']}x{run['beams']}: {rate(run):,.0f}" for run in runs[-len(CELLS) :]
                    )
                    print(f"{model} {competitor.name} ({competitor.layout})  {figures}", flush=True)
    return runs


def precision_cost(name: str) -> list[dict[str, Any]]:
    """The scores of a trained run on its test set, decoded in each precision."""
    from seq2see.runs.evaluate import score_outputs
    from seq2see.runs.model import load
    from seq2see.runs.prepare import read_corpus
    from seq2see.runs.run_folder import find_run

    model, chosen = load(name), find_run(name).recipe()
    corpus, _ = read_corpus(chosen)
    examples, rows, first = corpus["test"], [], []
    for precision in ("float32", "bf16", "int8"):
        began = time.perf_counter()
        found = model.predict([each.source for each in examples], precision=precision)
        seconds = time.perf_counter() - began
        texts = [each.text for each in found]
        first = first or texts
        scores = score_outputs(
            chosen, [each.target for each in examples], texts, [each.all_references for each in examples]
        )
        same = 100 * sum(one == other for one, other in zip(texts, first, strict=True)) / len(texts)
        rows.append({
            "recipe": chosen.name, "precision": precision, "bleu": scores["bleu"]["value"],
            "same_as_float32": round(same, 1), "seconds": round(seconds, 2),
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


def write(**parts: Any) -> None:
    """Put parts into the results file; what is not measured now stays as it is."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    columns = [{"key": key, "title": TITLES.get(key, key)} for key in ("model", "batch", "search", *TITLES)]
    head = {"environment": describe_machine(), "command": "python benchmarks/decode_cpu.py"}
    write_json(RESULTS, {**stored, **head, "columns": columns, **parts})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["base", "small"])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bleu", metavar="RUN")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure_here:
        request = json.loads(asked.measure_here)
        competitor = Competitor(request["engine"], request["precision"], WorkerLayout(**request["way"]))
        print(json.dumps(measure_here(Path(request["folder"]), competitor, request["vocabulary"], request["repeats"])))
    elif asked.bleu:
        write(tables={"bleu": {"rows": precision_cost(asked.bleu)}})
    else:
        runs = measure(asked.models, asked.engines, asked.repeats)
        rows = summarize(runs)
        print(show(rows))
        if len(sys.argv) == 1:
            write(rows=rows, runs=[{key: each for key, each in run.items() if key != "answers"} for run in runs])


if __name__ == "__main__":
    main()
