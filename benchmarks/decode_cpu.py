"""Decoding on a CPU, compared with Hugging Face and CTranslate2: equal weights, equal sentences, best layouts.

python benchmarks/decode_cpu.py                     everything; writes results/decode_cpu.json (half an hour, alone)
python benchmarks/decode_cpu.py --models small --engines seq2see_int8 ct2_int8       a part; nothing is written
python benchmarks/decode_cpu.py --bleu RUN          the loss of BLEU by bf16 and int8 of a trained run on its test split

The models have random weights, with outputs as long as those of a trained model (`random_translator.py`). Every engine
runs alone in its own process, in each worker layout, and the fastest layout counts. Tokens per second count the tokens
of the outputs with <eos>, from token ids to token ids; the first round is a warm-up.
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
from processors import COLUMN, replace_rows
from random_translator import SHAPES, sentences, store

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "decode_cpu.json"
CASES = [(1, 1), (1, 4), (32, 1), (32, 4)]
"""Batch size, beams."""
COUNTS = {1: 12, 32: 64}
"""The number of translated sentences, by batch size."""
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
    """All cases of one competitor, in this process."""
    cells = []
    with running(folder, competitor) as translate:
        for batch, beams in CASES:
            # Sentences of similar length are in one batch, which is best for every engine.
            sources = sorted(sentences(COUNTS[batch], vocabulary), key=len)
            batches = [sources[start : start + batch] for start in range(0, len(sources), batch)]
            outputs = translate(batches, beams)
            seconds = []
            for _ in range(repeats):
                began = time.perf_counter()
                translate(batches, beams)
                seconds.append(time.perf_counter() - began)
            tokens = sum(len(output) + 1 for output in outputs)
            cells.append({"batch": batch, "beams": beams, "tokens": tokens, "seconds": seconds, "outputs": outputs})
    return cells


def measure_in_subprocess(folder: Path, model: str, competitor: Competitor, repeats: int) -> list[dict[str, Any]]:
    """All cases of one competitor, in a new process."""
    request = {"folder": str(folder), "vocabulary": SHAPES[model].vocabulary, "repeats": repeats, **asdict(competitor)}
    environment = {"OMP_NUM_THREADS": str(competitor.layout.threads), "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(
        [sys.executable, __file__, "--once", json.dumps(request)],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if process.returncode:
        raise SystemExit(f"{competitor.name} ({competitor.layout}) failed:\n{process.stderr[-2000:]}")
    return [
        {"model": model, "name": competitor.name, "layout": str(competitor.layout)} | cell
        for cell in json.loads(process.stdout)
    ]


def tokens_per_second(run: dict[str, Any]) -> float:
    """Tokens per second, the median of the repeats."""
    return run["tokens"] / statistics.median(run["seconds"])


def relative_range(run: dict[str, Any]) -> float:
    """The difference of the slowest and the fastest repeat, relative to the median."""
    return (max(run["seconds"]) - min(run["seconds"])) / statistics.median(run["seconds"])


def summarize(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per case: the fastest layout of every engine, the ratios to the peers, and the share of equal outputs."""
    rows = []
    for model, batch, beams in dict.fromkeys((run["model"], run["batch"], run["beams"]) for run in runs):
        matching = [run for run in runs if (run["model"], run["batch"], run["beams"]) == (model, batch, beams)]
        best = {run["name"]: run for run in sorted(matching, key=tokens_per_second)}
        row: dict[str, Any] = {"model": model, "batch": batch, "search": "greedy" if beams == 1 else f"beam {beams}"}
        row |= {name: round(tokens_per_second(best[name])) for name in ENGINES if name in best}
        row |= {
            title: round(tokens_per_second(best[own]) / tokens_per_second(best[peer]), 2)
            for title, (own, peer) in RATIOS.items()
            if own in best and peer in best
        }
        for peer in ("hf", "ct2"):
            if f"{peer}_float32" in best and "seq2see_float32" in best:
                row[f"same_as_{peer}"] = same_percentage(
                    best["seq2see_float32"]["outputs"], best[f"{peer}_float32"]["outputs"]
                )
        row["layouts"] = {name: run["layout"] for name, run in best.items()}
        row["relative_ranges"] = {name: round(relative_range(run), 3) for name, run in best.items()}
        rows.append(row)
    return rows


def same_percentage(first: list[list[int]], second: list[list[int]]) -> float:
    """The percentage of outputs with equal tokens."""
    return 100 * sum(a == b for a, b in zip(first, second, strict=True)) / len(first)


def show(rows: Sequence[dict[str, Any]]) -> str:
    """Tables for a terminal of 80 columns: tokens per second, then ratios and shares of equal outputs."""
    lines = []
    for titles, width in ((ENGINES, 10), ((*RATIOS, "same_as_hf", "same_as_ct2"), 12)):
        short = [TITLES[title].replace("float32", "f32").replace("seq2see", "own") for title in titles]
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
                    rates = "  ".join(
                        f"{run['batch']}x{run['beams']}: {tokens_per_second(run):,.0f}" for run in runs[-len(CASES) :]
                    )
                    print(f"{model} {competitor.name} ({competitor.layout})  {rates}", flush=True)
    return runs


def precision_cost(name: str) -> list[dict[str, Any]]:
    """The scores of a trained run on its test set, decoded in each precision."""
    from seq2see.runs.load import load
    from seq2see.runs.run_folder import find_run
    from seq2see.tasks.task import task_of
    from seq2see.tasks.text_scores import score_outputs

    model, chosen = load(name), find_run(name).recipe()
    corpus, _ = task_of(chosen).read(chosen)
    examples, rows, first = corpus["test"], [], []
    for precision in ("float32", "bf16", "int8"):
        began = time.perf_counter()
        found = model.predict([each.source for each in examples], precision=precision)
        seconds = time.perf_counter() - began
        texts = [each.text for each in found]
        first = first or texts
        scores = score_outputs(
            chosen.metrics, [each.target for each in examples], texts, [each.all_references for each in examples]
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
    columns = [COLUMN, *({"key": key, "title": TITLES.get(key, key)} for key in ("model", "batch", "search", *TITLES))]
    for name in ("rows", "runs"):
        if name in parts:
            parts[name] = replace_rows(stored.get(name, []), parts[name])
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
    arguments = parser.parse_args()
    if arguments.once:
        request = json.loads(arguments.once)
        competitor = Competitor(request["engine"], request["precision"], WorkerLayout(**request["layout"]))
        print(json.dumps(measure_here(Path(request["folder"]), competitor, request["vocabulary"], request["repeats"])))
    elif arguments.bleu:
        write(tables={"bleu": {"rows": precision_cost(arguments.bleu)}})
    else:
        runs = measure(arguments.models, arguments.engines, arguments.repeats)
        rows = summarize(runs)
        print(show(rows))
        if len(sys.argv) == 1:
            write(rows=rows, runs=[{key: each for key, each in run.items() if key != "outputs"} for run in runs])


if __name__ == "__main__":
    main()
