"""Models of dialogues: their memory, and their choices and their variety on real dialogues.

python benchmarks/chat.py recall [RECIPE ...]       recall of pocket talk by distance, for each kind of model
python benchmarks/chat.py hits [RECIPE ...]         hits@1 of 20 beside tf-idf, and distinct-1 and -2 beside humans

The rows are stored in results/chat.json; a new row replaces the older row of the same recipe. `hits` needs the corpora
of the catalogue. The speed of a conversation is measured by chat_speed.py.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.registry import recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.train import train_recipe
from seq2see.tasks.dialogue_scores import interval_text

RESULTS = Path(__file__).parent / "results" / "chat.json"
RECALL = ("chat", "chat-zh", "chat-seq2seq", "chat-retrieve", "chat-retrieve-generate")
HITS = ("chat-retrieve-daily", "chat-retrieve-daily-zh", "chat-retrieve-chitchat", "chat-daily", "chat-daily-zh")
SIDES = ("model", "human")
CHANGES: dict[str, Any] = {}
"""Settings that differ from the recipes, for a quick check of this program."""
COLUMNS: dict[str, list[dict[str, Any]]] = {
    "recall": [
        {"key": "name", "title": "recipe"},
        {"key": "seconds", "title": "CPU seconds", "digits": 0},
        {"key": "questions", "digits": 0},
        {"key": "recall", "title": "recall of facts %"},
        *({"key": f"distance {distance}", "digits": 1} for distance in range(1, 7)),
    ],
    "hits": [
        {"key": "name", "title": "recipe"},
        {"key": "seconds", "title": "CPU seconds", "digits": 0},
        {"key": "hits", "title": "hits@1 of 20 %"},
        {"key": "tf-idf", "title": "tf-idf %"},
        *({"key": f"distinct-{order}", "title": f"distinct-{order} (human)"} for order in (1, 2)),
    ],
}


def test_scores(name: str) -> tuple[dict[str, Any], float]:
    """Train a recipe in a temporary folder and score its test dialogues; also the processor time of the training."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run = train_recipe(recipe(name).with_(**CHANGES), Path(folder) / name)
        seconds = time.process_time() - began
        scores: dict[str, Any] = evaluate(run)["test"]
    return scores, seconds


def recall_row(name: str) -> dict[str, Any]:
    """The recall of facts of one recipe: in all, and by distance."""
    scores, seconds = test_scores(name)
    recall = scores["recall"]
    distances = {f"distance {distance}": each["value"] for distance, each in recall["by_distance"].items()}
    row = {"name": name, "seconds": seconds, "questions": recall["probes"], "recall": interval_text(recall["all"])}
    return {**row, **distances}


def hits_row(name: str) -> dict[str, Any]:
    """hits@1 of one recipe and of tf-idf for the same candidates, and the variety of its replies."""
    scores, seconds = test_scores(name)
    hits = scores["hits_at_1"]
    variety = {
        f"distinct-{order}": "{:.3f} ({:.3f})".format(*(scores[side][f"distinct_{order}"]["value"] for side in SIDES))
        for order in (1, 2)
    }
    shares = {"hits": interval_text(hits["model"]), "tf-idf": interval_text(hits["tfidf"])}
    return {"name": name, "seconds": seconds, **shares, **variety}


def store(kind: str, row: dict[str, Any]) -> None:
    """Add a row to a table of the results file."""
    tables = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"] if RESULTS.exists() else {}
    rows = {each["name"]: each for each in [*tables.get(kind, {}).get("rows", []), row]}
    tables[kind] = {"rows": [*rows.values()], "columns": COLUMNS[kind]}
    command = f"python benchmarks/chat.py {' and '.join(sorted(tables, reverse=True))}"
    write_json(RESULTS, {"environment": describe_machine(), "command": command, "tables": tables})


def main(arguments: list[str]) -> None:
    """Measure what the first argument names."""
    kind, *names = arguments
    measure, usual = {"recall": (recall_row, RECALL), "hits": (hits_row, HITS)}[kind]
    for name in names or usual:
        row = measure(name)
        print(json.dumps(row))
        store(kind, row)


if __name__ == "__main__":
    main(sys.argv[1:])
