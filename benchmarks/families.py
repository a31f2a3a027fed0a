"""The Transformer, GPT and BERT beside each other: three questions about the same strings, each made for one of them.

python benchmarks/families.py         some minutes; writes results/families.json

A string is a few letters, a full stop, and the same letters backwards: `cab.bac`. Who sees only the left half of it
cannot know its first letter; who sees the right half knows it. Three small models of the same blocks learn from the
same strings, the Transformer from their two halves as pairs, and each is asked, on strings that nobody has seen:

first letter    hide it and show the rest: what was it?
write on        show the first half: write the second, and stop at the right place
other alphabet  say the first half backwards in letters of another alphabet, of which there is no text to go on from
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seq2see.api import resolve
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.runs.model import Model, load
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import train_recipe

RESULTS = Path(__file__).parent / "results" / "families.json"
LETTERS, OTHERS = "abcdefgh", "ABCDEFGH"
TRAIN, TEST = 8000, 200
STACK = {"width": 64, "depth": 2, "heads": 4, "dropout": 0.0}
STEPS = {"training.steps": 2500, "training.evaluate_every": 2500, "training.learning_rate": 3e-3}


def strings(count: int, seed: int) -> list[str]:
    """First halves: four to seven letters each."""
    draws = random.Random(seed)
    return ["".join(draws.choices(LETTERS, k=draws.randint(4, 7))) for _ in range(count)]


def backwards(half: str) -> str:
    """The second half, in the other alphabet."""
    return half[::-1].translate(str.maketrans(LETTERS, OTHERS))


def learn(folder: Path, halves: Sequence[str]) -> dict[str, Model]:
    """Train the three of them."""
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
    """Whether the hidden first letter is found; GPT can only be asked what it thinks comes first."""
    if not model.config.model.generates:
        return model(f"\n[MASK]{half[1:]}.{half[::-1]}\n").candidates[0][0].text == half[0]
    if model.has_source:
        return None
    return model("\n", max_new_tokens=1).text == "\n" + half[0]


def continuation(model: Model, half: str) -> bool | None:
    """Whether the second half is written and then stopped; a model that only reads would have to be told how long."""
    if not model.config.model.generates or model.has_source:
        return None
    return model(f"\n{half}.", max_new_tokens=9).text.startswith(f"\n{half}.{half[::-1]}\n")


def other_alphabet(model: Model, half: str) -> bool | None:
    """Whether it is said backwards in the other alphabet."""
    return model(half).text == backwards(half) if model.config.model.generates and model.has_source else None


TASKS: dict[str, Callable[[Model, str], bool | None]] = {
    "first letter": first_letter,
    "write on": continuation,
    "other alphabet": other_alphabet,
}


def main() -> None:
    halves = strings(TRAIN, seed=1)
    seen = set(halves)
    unseen = [half for half in strings(4 * TEST, seed=2) if half not in seen][:TEST]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        models = learn(Path(folder), halves)
        for name, task in TASKS.items():
            row: dict[str, Any] = {"question": name}
            for family, model in models.items():
                right = [task(model, half) for half in unseen]
                row[family] = None if right[0] is None else round(100 * sum(map(bool, right)) / len(right), 1)
            rows.append(row)
            print(row, file=sys.stderr)
    about = {"environment": describe_machine(), "command": "python benchmarks/families.py"}
    write_json(RESULTS, about | {"rows": rows})


if __name__ == "__main__":
    main()
