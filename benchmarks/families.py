"""Comparison of Transformer, GPT and BERT: three tasks on the same strings, each suited to one of them.

python benchmarks/families.py         some minutes; writes results/families.json

A string has a few letters, a full stop, and the same letters reversed: `cab.bac`. The first letter does not follow from
the rest of the first half, but it follows from the second half. Three small models with the same blocks are trained on
the same strings, the Transformer on their two halves as pairs, and tested on held-out strings:

masked first letter  predict the first letter from the rest of the string
continuation         generate the second half from the first, and stop at the right position
transliteration      generate the reversed first half in letters of another alphabet
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.registry import resolve
from seq2see.runs.load import load
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import train_recipe
from seq2see.tasks.model import Model

RESULTS = Path(__file__).parent / "results" / "families.json"
LETTERS, CAPITALS = "abcdefgh", "ABCDEFGH"
TRAIN, TEST = 8000, 200
STACK = {"width": 64, "depth": 2, "heads": 4, "dropout": 0.0}
STEPS = {"training.steps": 2500, "training.evaluate_every": 2500, "training.learning_rate": 3e-3}


def strings(count: int, seed: int) -> list[str]:
    """First halves with four to seven letters each."""
    rng = random.Random(seed)
    return ["".join(rng.choices(LETTERS, k=rng.randint(4, 7))) for _ in range(count)]


def backwards(half: str) -> str:
    """The second half, in the other alphabet."""
    return half[::-1].translate(str.maketrans(LETTERS, CAPITALS))


def train_models(folder: Path, halves: Sequence[str]) -> dict[str, Model]:
    """Train the three models."""
    text, pairs = folder / "strings.txt", folder / "pairs.tsv"
    text.write_text("".join(f"{half}.{half[::-1]}\n" for half in halves), encoding="utf-8")
    pairs.write_text("".join(f"{half}\t{backwards(half)}\n" for half in halves), encoding="utf-8")
    window = {"training.batch_tokens": 2048, "training.schedule.warmup": 100}
    decoder = {f"decoder.{name}": value for name, value in STACK.items()}
    encoder = {f"encoder.{name}": value for name, value in STACK.items()}
    greedy = {"decoding.do_sample": False, "decoding.num_beams": 1}
    recipes = {
        "Transformer": resolve("translate", [str(pairs)], STEPS | decoder | encoder | greedy | {
            "source.tokenizer.kind": "characters", "target.tokenizer.kind": "characters", "metrics": [],
            "training.batch_tokens": 1024,
        }),
        "GPT": resolve("write", [str(text)], STEPS | window | decoder | greedy | {"target.max_tokens": 64}),
        "BERT": resolve("fill-characters", [str(text)], STEPS | window | encoder | {"source.max_tokens": 64}),
    }  # fmt: skip
    models = {}
    for name, recipe in recipes.items():
        with Terminal(name, recipe.training.steps) as terminal:
            models[name] = load(train_recipe(recipe, folder / name, terminal).path)
    return models


def first_letter(model: Model, half: str) -> bool | None:
    """Whether the masked first letter is predicted; GPT predicts it without any context."""
    if not model.task.generates:
        return model(f"\n[MASK]{half[1:]}.{half[::-1]}\n").candidates[0][0].text == half[0]
    if model.has_source:
        return None
    return model("\n", max_new_tokens=1).text == "\n" + half[0]


def continuation(model: Model, half: str) -> bool | None:
    """Whether the second half is generated, with its end; None for BERT, which needs the length as input."""
    if not model.task.generates or model.has_source:
        return None
    return model(f"\n{half}.", max_new_tokens=9).text.startswith(f"\n{half}.{half[::-1]}\n")


def transliteration(model: Model, half: str) -> bool | None:
    """Whether the reversed half is generated in the other alphabet."""
    return model(half).text == backwards(half) if model.task.generates and model.has_source else None


TASKS: dict[str, Callable[[Model, str], bool | None]] = {
    "masked first letter": first_letter,
    "continuation": continuation,
    "transliteration": transliteration,
}


def main() -> None:
    halves = strings(TRAIN, seed=1)
    train_set = set(halves)
    held_out = [half for half in strings(4 * TEST, seed=2) if half not in train_set][:TEST]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        models = train_models(Path(folder), halves)
        for name, task in TASKS.items():
            row: dict[str, Any] = {"task": name}
            for family, model in models.items():
                correct = [task(model, half) for half in held_out]
                row[family] = None if correct[0] is None else round(100 * sum(map(bool, correct)) / len(correct), 1)
            rows.append(row)
            print(row, file=sys.stderr)
    about = {"environment": describe_machine(), "command": "python benchmarks/families.py"}
    write_json(RESULTS, about | {"rows": rows})


if __name__ == "__main__":
    main()
