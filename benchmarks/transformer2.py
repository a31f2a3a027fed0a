"""Transformer² on a desk: SVF and LoRA by cross-entropy and by REINFORCE, and experts in two passes.

python benchmarks/transformer2.py run FOLDER                      all rows of the desk; those that exist are kept
python benchmarks/transformer2.py collect FOLDER                  the table, in results/transformer2.json
python benchmarks/transformer2.py run FOLDER --real FILE.gguf     the same for SmolLM2-Instruct, for a GPU

The base models are small GPTs that add, reverse and sort lists, each between 30 and 70 % right (recipe `chat-puzzles`,
one for each seed). An expert is trained for one task, and tested on all of them. The learning rate of each method is
the best of one grid on the validation questions of one task and one seed. Each row is a file, so a run can be
interrupted. Seconds are CPU seconds of the process.

Every claim is decided by the difference of two rows of equal seed: the interval of the mean over the seeds (95 %, by
Student's t) is above 0, below 0, or contains 0.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.adapters.adapt import adapt, merge
from seq2see.adapters.expert import Expert, ExpertConfig, read_expert, write_expert
from seq2see.adapters.settings import SVF, AdapterSettings, LoRA
from seq2see.core.devices import describe_machine, pick_device
from seq2see.core.files import write_json
from seq2see.data.dialogue import Dialogue
from seq2see.data.dialogue_dataset import DialogueDataset
from seq2see.data.generated.puzzle_talk import PuzzleTalk
from seq2see.data.pair_dataset import bucketed_batches
from seq2see.interop.chat_template_files import find_template
from seq2see.labs.verdicts import Verdict, mean_interval
from seq2see.recipes.registry import recipe
from seq2see.runs.chat import as_chat
from seq2see.runs.dispatch import BASE, Experts, dispatched_by_name, dispatched_by_shots
from seq2see.runs.load import open_model, read_model
from seq2see.runs.prepare import prepare
from seq2see.runs.train import batches, new_trainer
from seq2see.tasks.answers import AnswerGenerator
from seq2see.tasks.model_folder import ModelConfig, StoredModel, fingerprint_of, write_model
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import Cosine
from seq2see.training.reinforce import Reinforce
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "transformer2.json"
OMITTED = ("fused-feed-forward",)
"""The parts that read the matrix of a layer instead of calling it: with an adapter, this matrix must be computed."""


@dataclass(frozen=True)
class Method:
    """What is trained, and from what."""

    adapter: AdapterSettings | None
    objective: NextToken | Reinforce

    @property
    def by_rewards(self) -> bool:
        """Whether it learns from rewards."""
        return isinstance(self.objective, Reinforce)


METHODS = {
    "SVF, cross-entropy": Method(SVF(), NextToken()),
    "LoRA r = 8, cross-entropy": Method(LoRA(rank=8), NextToken()),
    "LoRA r = 16, cross-entropy": Method(LoRA(rank=16), NextToken()),
    "all weights, cross-entropy": Method(None, NextToken()),
    "SVF, REINFORCE": Method(SVF(), Reinforce()),
    "LoRA r = 8, REINFORCE": Method(LoRA(rank=8), Reinforce()),
}


EXPERT_METHOD, CLASSIFIER_METHOD = "SVF, REINFORCE", "SVF, cross-entropy"
"""The experts that are mixed, and how the classifier is trained."""
ON_NEW_TASK = ("SVF, cross-entropy", "LoRA r = 8, cross-entropy", "all weights, cross-entropy")
"""The methods that also learn the new task."""


@dataclass(frozen=True)
class Setting:
    """The sizes of the experiment."""

    seeds: int = 5
    tasks: tuple[str, ...] = ("add", "reverse", "sort")
    """The tasks of the base model."""
    new_task: str = "descend"
    """A task that the base model never solves."""
    tested: tuple[str, ...] = ("add", "reverse", "sort", "descend", "name")
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    """The learning rates of every method."""
    tuned_on: str = "sort"
    """The task that all methods are compared on, and whose validation questions choose the rates."""
    steps: dict[str, int] = field(default_factory=lambda: {"cross-entropy": 80, "rewards": 60})
    batch_tokens: dict[str, int] = field(default_factory=lambda: {"cross-entropy": 768, "rewards": 400})
    size: int = 3000
    """The number of training questions of an expert."""
    test_questions: int = 200
    """The number of test questions of each task."""
    base: dict[str, Any] = field(default_factory=lambda: {"training.steps": 800})
    """Changes of the recipe of the base model, whose training ends earlier."""
    base_accuracy: float = 30
    """The training of a base model ends when it solves this percentage of each task."""
    check_every: int = 50
    shots: int = 10
    """The number of solved questions of few-shot adaptation."""
    mixing_rounds: int = 10
    """The maximum number of rounds of the cross-entropy method."""
    real: Path | None = None
    """A pretrained language model that takes the place of the base models."""


def desk_base(setting: Setting, seed: int, out: Path) -> tuple[StoredModel, str]:
    """The base model of a seed, trained if it does not exist, and its fingerprint."""
    if setting.real is not None:
        template = find_template(setting.real)
        assert template is not None, f"{setting.real} has no chat template"
        return as_chat(read_model(setting.real, pick_device()), template), fingerprint_of(setting.real)
    folder = out / "bases" / f"seed{seed}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_model(folder, train_base(setting, seed))
    return read_model(folder, pick_device()), fingerprint_of(folder)


def train_base(setting: Setting, seed: int) -> StoredModel:
    """A base model that is trained until it solves enough validation questions of each of its tasks, and not all."""
    chosen: Any = recipe("chat-puzzles").with_(**{**setting.base, "training.seed": seed})
    prepared = prepare(chosen, print)
    trainer, batch_at = new_trainer(chosen, prepared), batches(chosen, prepared)
    while trainer.step < chosen.training.steps:
        trainer.train_step(batch_at(trainer.step + 1))
        if trainer.step % setting.check_every == 0:
            stored = StoredModel(ModelConfig.of(chosen, trainer.step), trainer.model.eval(), prepared.tokenizers)
            solved = accuracy(stored, setting, setting.tasks, "valid")
            print(f"base {seed}, step {trainer.step}: {solved}", flush=True)
            if min(solved.values()) >= setting.base_accuracy:
                break
    return stored


def questions(task: str, split: str, setting: Setting) -> list[Dialogue]:
    """The questions of one task."""
    found: Any = splits_of(task, setting.size)[split]
    return found if split == "train" else found[: setting.test_questions]


@cache
def splits_of(task: str, size: int) -> Mapping[str, Any]:
    """The questions of one task by split."""
    return PuzzleTalk(puzzles=(task,), size=size).splits()  # type: ignore[arg-type]


def accuracy(stored: StoredModel, setting: Setting, tasks: Sequence[str], split: str = "test") -> dict[str, float]:
    """The percentage of right answers to the questions of each task, with greedy decoding."""
    model = open_model(stored)
    return {task: share_right(model, questions(task, split, setting)) for task in tasks}


@dataclass
class Trained:
    """A fine-tuned model."""

    stored: StoredModel
    weights: int
    seconds: float
    rewards: list[float]
    """The mean reward of every tenth of the training, if there are rewards."""


def fine_tune(
    base: StoredModel, method: Method, dialogues: Sequence[Dialogue], rate: float, seed: int, setting: Setting
) -> Trained:
    """Train an adapter (or all weights) of a copy of the base model on these dialogues."""
    kind = "rewards" if method.by_rewards else "cross-entropy"
    steps, batch_tokens = setting.steps[kind], setting.batch_tokens[kind]
    began = time.process_time()
    module = copy.deepcopy(base.module)
    if method.adapter is not None:
        adapt(module, method.adapter, seed)
    stored = StoredModel(base.config, module, base.tokenizers)
    training = Training(
        steps=steps,
        seed=seed,
        learning_rate=rate,
        batch_tokens=batch_tokens,
        schedule=Cosine(warmup=max(1, steps // 10)),
    )
    trainer = AcceleratedTrainer(module, method.objective, training, pick_device(), OMITTED if method.adapter else ())
    settings: Any = base.config.model
    dataset = DialogueDataset(dialogues, base.tokenizers.target, settings.template, settings.target.max_tokens)
    batch_at: Callable[[int], Any] = bucketed_batches(dataset, batch_tokens, seed)
    if isinstance(method.objective, Reinforce):
        answers, questions_at = AnswerGenerator(open_model(stored), dataset, method.objective, seed), batch_at
        batch_at = lambda step: answers(questions_at(step), step)  # noqa: E731
    rewards = [trainer.train_step(batch_at(step)).get("reward", 0.0) for step in range(1, steps + 1)]
    trained = sum(each.numel() for each in module.parameters() if each.requires_grad)
    seconds = time.process_time() - began
    tenths = [rewards[steps * part // 10 : max(steps * (part + 1) // 10, steps * part // 10 + 1)] for part in range(10)]
    curve = [round(statistics.fmean(each), 3) for each in tenths if each] if method.by_rewards else []
    return Trained(StoredModel(base.config, module.eval(), base.tokenizers), trained, round(seconds, 1), curve)


def file_name(*parts: str) -> str:
    """The name of the file of a row."""
    return "-".join(re.sub(r"[^\w.]+", "-", part.lower()).strip("-") for part in parts) + ".json"


class Experiment:
    """The rows of a folder: each is measured once."""

    def __init__(self, setting: Setting, out: Path):
        self.setting, self.out = setting, out
        self._bases: dict[int, tuple[StoredModel, str]] = {}

    def base(self, seed: int) -> tuple[StoredModel, str]:
        """The base model of a seed and its fingerprint."""
        if seed not in self._bases:
            self._bases = {seed: desk_base(self.setting, seed, self.out)}
        return self._bases[seed]

    def row(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A stored row, or a newly measured one."""
        path = self.out / "rows" / name
        if path.exists():
            stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return stored
        measured = measure() | {"environment": describe_machine()}
        write_json(path, measured)
        print(name, {key: value for key, value in measured.items() if key != "environment"}, flush=True)
        return measured

    def run(self) -> None:
        """All rows: the rates with the first seed, then seed by seed."""
        rates = {name: self.tuned_rate(name) for name in METHODS}
        for seed in range(1, self.setting.seeds + 1):
            self.row(file_name("base", f"seed{seed}"), lambda: self.measure_base(seed))  # noqa: B023
            for name, task in self.plan(seed):
                self.row(
                    file_name(name, task, f"seed{seed}"),
                    lambda: self.measure_expert(name, task, rates[name], seed),  # noqa: B023
                )
            self.row(
                file_name("dispatch", f"seed{seed}"),
                lambda: self.measure_dispatch(rates[CLASSIFIER_METHOD], seed),  # noqa: B023
            )

    def plan(self, seed: int) -> Iterator[tuple[str, str]]:
        """The experts of a seed: all methods on one task, some on the new one, and SVF on all tasks.

        With rewards the new task is measured once: a model that is never right sees no reward.
        """
        setting = self.setting
        for name, method in METHODS.items():
            is_svf = isinstance(method.adapter, SVF)
            yield from ((name, task) for task in (setting.tasks if is_svf else (setting.tuned_on,)))
            if name in ON_NEW_TASK or (name == EXPERT_METHOD and seed == 1):
                yield name, setting.new_task

    def tuned_rate(self, name: str) -> float:
        """The learning rate with the most right answers to validation questions."""
        scores = {}
        for rate in self.setting.rates:
            row = self.row(file_name("rate", name, f"{rate:g}"), lambda: self.measure_rate(name, rate))  # noqa: B023
            scores[rate] = row["valid"]
        return max(scores, key=lambda rate: (scores[rate], -rate))

    def measure_rate(self, name: str, rate: float) -> dict[str, Any]:
        """The validation accuracy of one method with one learning rate."""
        task = self.setting.tuned_on
        found = fine_tune(self.base(1)[0], METHODS[name], questions(task, "train", self.setting), rate, 1, self.setting)
        valid = accuracy(found.stored, self.setting, [task], "valid")[task]
        return {"method": name, "rate": rate, "task": task, "valid": valid, "seconds": found.seconds}

    def measure_base(self, seed: int) -> dict[str, Any]:
        """The base model without an expert."""
        stored, _ = self.base(seed)
        weights = sum(each.numel() for each in stored.module.parameters())
        return {"method": "base", "seed": seed, "weights": weights,
                "accuracy": accuracy(stored, self.setting, self.setting.tested)}  # fmt: skip

    def measure_expert(self, name: str, task: str, rate: float, seed: int) -> dict[str, Any]:
        """One expert: its accuracy on its own task and on all others; its adapter is stored."""
        method, (base, fingerprint) = METHODS[name], self.base(seed)
        found = fine_tune(base, method, questions(task, "train", self.setting), rate, seed, self.setting)
        if method.adapter is not None:
            origin = str(self.setting.real or self.out / "bases" / f"seed{seed}")
            config = ExpertConfig(base=origin, fingerprint=fingerprint, adapter=method.adapter)
            folder = self.expert_folder(name, task, seed)
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not folder.exists():
                write_expert(folder, Expert.of(found.stored.module, config))
            merge(found.stored.module)
        return {
            "method": name, "task": task, "seed": seed, "rate": rate, "weights": found.weights,
            "seconds": found.seconds, "rewards": found.rewards,
            "accuracy": accuracy(found.stored, self.setting, self.setting.tested),
        }  # fmt: skip

    def measure_dispatch(self, classifier_rate: float, seed: int) -> dict[str, Any]:
        """The base model, each expert, the three kinds of a first pass, and the best choice for each task."""
        setting, (base, _) = self.setting, self.base(seed)
        began = time.process_time()
        folders = {task: self.expert_folder(EXPERT_METHOD, task, seed) for task in setting.tasks}
        experts = Experts(open_model(base), {task: read_expert(folder) for task, folder in folders.items()})
        namer = fine_tune(
            base, METHODS[CLASSIFIER_METHOD], questions("name", "train", setting), classifier_rate, seed, setting
        )
        config = ExpertConfig(base="base", fingerprint="", adapter=SVF())
        classifier = Expert.of(namer.stored.module, config)
        tasks = (*setting.tasks, setting.new_task)
        asked = {task: questions(task, "test", setting) for task in tasks}

        def right(models: Callable[[str], Any]) -> dict[str, float]:
            return {task: share_right(models(task), asked[task]) for task in tasks}

        rows = self.out / "rows"
        measured = {BASE: rows / file_name("base", f"seed{seed}")}
        measured |= {task: rows / file_name(EXPERT_METHOD, task, f"seed{seed}") for task in setting.tasks}
        alone = {
            name: {task: json.loads(path.read_text(encoding="utf-8"))["accuracy"][task] for task in tasks}
            for name, path in measured.items()
        }
        by_name = {
            "prompt": dispatched_by_name(experts),
            "classifier": dispatched_by_name(experts, classifier),
        }
        found = {**alone, **{name: right(lambda task: model) for name, model in by_name.items()}}  # noqa: B023
        named = {name: self.named_right(model, asked) for name, model in by_name.items()}
        mixtures: dict[str, Any] = {}
        for name, per_matrix in (("few-shot", False), ("few-shot, per matrix", True)):
            mixtures[name], found[name] = {}, {}
            for task in tasks:
                shots = questions(task, "train", setting)[: setting.shots]
                model, mixture = dispatched_by_shots(experts, shots, per_matrix, seed, setting.mixing_rounds)
                found[name][task] = share_right(model, asked[task])
                mixtures[name][task] = dict(
                    zip(
                        mixture.names,
                        (round(each, 3) for each in mixture.result.coefficients.mean(1).tolist()),
                        strict=True,
                    )
                )
        found["oracle"] = {task: max(each[task] for each in alone.values()) for task in tasks}
        return {
            "seed": seed, "accuracy": found, "named": named, "mixtures": mixtures,
            "seconds": round(time.process_time() - began, 1),
        }  # fmt: skip

    def named_right(self, model: Any, asked: Mapping[str, Sequence[Dialogue]]) -> dict[str, float]:
        """The percentage of questions whose first pass names the right expert; a new task has none."""
        expected = {task: task if task in self.setting.tasks else BASE for task in asked}
        return {
            task: round(
                100 * statistics.fmean(name == expected[task] for name in model.choose(histories(dialogues))), 2
            )
            for task, dialogues in asked.items()
        }

    def expert_folder(self, name: str, task: str, seed: int) -> Path:
        """The folder of a stored expert."""
        return self.out / "experts" / file_name(name, task, f"seed{seed}").removesuffix(".json")


def histories(dialogues: Sequence[Dialogue]) -> list[Any]:
    """The questions without their answers."""
    return [each.messages[:-1] for each in dialogues]


def share_right(model: Any, dialogues: Sequence[Dialogue]) -> float:
    """The percentage of right answers with greedy decoding."""
    outputs = model.replies(histories(dialogues), lambda count: None)
    flags = [output.text.split() == each.target.split() for output, each in zip(outputs, dialogues, strict=True)]
    return round(100 * statistics.fmean(flags), 2)


# --- the table ---


def interval(values: Sequence[float]) -> dict[str, float]:
    """The mean with its 95 % interval by Student's t; one value has no interval.

    >>> interval([1.0, 2.0, 3.0])
    {'mean': 2.0, 'low': -0.48, 'high': 4.48}
    """
    found = mean_interval(values, 0.95)
    ends = (found.low, found.high) if len(values) > 1 else (found.estimate, found.estimate)
    return {"mean": round(found.estimate, 2), "low": round(ends[0], 2), "high": round(ends[1], 2)}


Rows = list[dict[str, Any]]


def read_rows(folder: Path) -> Rows:
    """All measured rows of a folder."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "rows").glob("*.json"))]


class Tables:
    """The tables of a folder; only seeds whose rows are complete count."""

    def __init__(self, rows: Rows, setting: Setting):
        self.setting = setting
        self.base = {row["seed"]: row for row in rows if row.get("method") == "base"}
        self.dispatch = {row["seed"]: row for row in rows if "mixtures" in row}
        self.experts = {
            (row["method"], row["task"], row["seed"]): row for row in rows if "seed" in row and "rate" in row
        }
        self.rates = [row for row in rows if "valid" in row]
        self.seeds = sorted(self.base.keys() & self.dispatch.keys())
        self.environment: dict[str, Any] = rows[0]["environment"]

    # --- values by seed ---

    def own(self, method: str, task: str) -> list[float]:
        """The accuracy of an expert on its own task, by seed."""
        return [self.experts[method, task, seed]["accuracy"][task] for seed in self.seeds]

    def gain(self, method: str, task: str) -> list[float]:
        """The change of the accuracy on its own task, by seed."""
        return [
            after - self.base[seed]["accuracy"][task]
            for seed, after in zip(self.seeds, self.own(method, task), strict=True)
        ]

    def others(self, method: str, task: str) -> list[float]:
        """The mean change of the accuracy on the other tasks of the base model, by seed: below 0 is forgetting."""
        tasks = [each for each in self.setting.tasks if each != task]
        found = []
        for seed in self.seeds:
            expert, base = self.experts[method, task, seed]["accuracy"], self.base[seed]["accuracy"]
            found.append(round(statistics.fmean(expert[each] - base[each] for each in tasks), 2))
        return found

    def mean_gain(self, method: str) -> list[float]:
        """The mean gain of the experts of all tasks, by seed."""
        return [
            statistics.fmean(each)
            for each in zip(*(self.gain(method, task) for task in self.setting.tasks), strict=True)
        ]

    def chosen(self, name: str, tasks: Sequence[str] = ()) -> list[float]:
        """The mean accuracy of a first pass over some tasks (by default all), by seed."""
        found = []
        for seed in self.seeds:
            accuracy = self.dispatch[seed]["accuracy"][name]
            found.append(round(statistics.fmean(accuracy[task] for task in (tasks or accuracy)), 2))
        return found

    def best_single(self) -> list[float]:
        """The mean accuracy of the one expert that is best over all tasks, by seed."""
        return [max(each) for each in zip(*(self.chosen(task) for task in self.setting.tasks), strict=True)]

    # --- tables ---

    def learning(self) -> Rows:
        """Each method: its weights, its accuracy, and what it forgets."""
        rows: Rows = []
        for task in (self.setting.tuned_on, *(each for each in self.setting.tasks if each != self.setting.tuned_on),
                     self.setting.new_task):  # fmt: skip
            before = [self.base[seed]["accuracy"][task] for seed in self.seeds]
            rows.append({"task": task, "method": "base model", "right": before})
            for method in METHODS:
                if any((method, task, seed) not in self.experts for seed in self.seeds):
                    continue
                measured = [self.experts[method, task, seed] for seed in self.seeds]
                rows.append({
                    "task": task, "method": method, "weights": measured[0]["weights"],
                    "rate": f"{measured[0]['rate']:g}",
                    "right": self.own(method, task), "others": self.others(method, task),
                    "seconds": [each["seconds"] for each in measured],
                })  # fmt: skip
        return rows

    def two_passes(self) -> Rows:
        """The base model, the experts, the three kinds of a first pass, and the best choice."""
        found, names = [], {BASE: "base model"}
        for name in self.dispatch[self.seeds[0]]["accuracy"]:
            tasks = (*self.setting.tasks, self.setting.new_task)
            row = {"answered by": f"expert {name}" if name in self.setting.tasks else names.get(name, name)}
            found.append({**row, **{task: self.chosen(name, [task]) for task in tasks}, "mean": self.chosen(name)})
        return found

    def mixtures(self) -> Rows:
        """The mean coefficient of each expert in the mixture for each task."""
        rows = []
        for task in (*self.setting.tasks, self.setting.new_task):
            mixed = [self.dispatch[seed]["mixtures"]["few-shot"][task] for seed in self.seeds]
            rows.append({"task": task, **{name: [each[name] for each in mixed] for name in self.setting.tasks}})
        return rows

    def claims(self) -> Rows:
        """Each claim with the interval of a difference of paired seeds."""
        task, new = self.setting.tuned_on, self.setting.new_task
        svf, lora, rewards, lora_rewards = (
            "SVF, cross-entropy", "LoRA r = 8, cross-entropy", "SVF, REINFORCE", "LoRA r = 8, REINFORCE",
        )  # fmt: skip
        everything = "all weights, cross-entropy"
        differences = {
            "SVF by REINFORCE improves its tasks": self.mean_gain(rewards),
            "SVF by cross-entropy improves its tasks": self.mean_gain(svf),
            "SVF learns more by REINFORCE than by cross-entropy": minus(self.mean_gain(rewards), self.mean_gain(svf)),
            "SVF by REINFORCE is better than LoRA by cross-entropy": minus(
                self.own(rewards, task), self.own(lora, task)
            ),
            "SVF is better than LoRA by cross-entropy": minus(self.own(svf, task), self.own(lora, task)),
            "SVF is better than LoRA by REINFORCE": minus(self.own(rewards, task), self.own(lora_rewards, task)),
            "SVF is better than LoRA on a new task": minus(self.own(svf, new), self.own(lora, new)),
            "SVF by REINFORCE forgets less than LoRA": minus(self.others(rewards, task), self.others(lora, task)),
            "SVF by cross-entropy forgets less than LoRA": minus(self.others(svf, task), self.others(lora, task)),
            "SVF by cross-entropy forgets less than all weights": minus(
                self.others(svf, task), self.others(everything, task)
            ),
            "prompt dispatch is better than the base model": minus(self.chosen("prompt"), self.chosen(BASE)),
            "the classifier is better than prompt dispatch": minus(self.chosen("classifier"), self.chosen("prompt")),
            "few-shot mixing is better than the base model": minus(self.chosen("few-shot"), self.chosen(BASE)),
            "few-shot mixing is better than the best single expert": minus(self.chosen("few-shot"), self.best_single()),
            "few-shot mixing is better than prompt dispatch": minus(self.chosen("few-shot"), self.chosen("prompt")),
        }
        return [{"claim": claim, **verdict(values)} for claim, values in differences.items()]

    def write(self, path: Path) -> None:
        """The results file."""
        number = {"digits": 1}
        tables = {
            "learning": {
                "columns": [
                    {"key": "task", "title": "task"}, {"key": "method", "title": "method"},
                    {"key": "weights", "title": "trained weights"}, {"key": "rate", "title": "learning rate"},
                    {"key": "right", "title": "right answers %", **number},
                    {"key": "others", "title": "change of the other tasks", "sign": True, **number},
                    {"key": "seconds", "title": "CPU seconds", **number},
                ],
                "rows": self.learning(),
            },
            "dispatch": {
                "columns": [{"key": "answered by", "title": "answered by"}]
                + [{"key": task, "title": task, **number} for task in (*self.setting.tasks, self.setting.new_task)]
                + [{"key": "mean", "title": "mean", **number}],
                "rows": self.two_passes(),
            },
            "claims": {
                "columns": [
                    {"key": "claim", "title": "claim"},
                    {"key": "difference", "title": "difference, points", "sign": True, **number},
                    {"key": "interval", "title": "95 % interval"}, {"key": "verdict", "title": "verdict"},
                ],
                "rows": self.claims(),
            },
            "mixtures": {"rows": self.mixtures()},
            "rates": {"rows": [{key: row[key] for key in ("method", "rate", "task", "valid")} for row in self.rates]},
        }  # fmt: skip
        environment = {**self.environment, "seeds": len(self.seeds), "note": "the machine did other work too"}
        command = "python benchmarks/transformer2.py"
        write_json(path, {"command": command, "environment": environment, "tables": tables})
        print(f"{path}: {len(self.seeds)} seeds")


def minus(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The differences of paired values."""
    return [one - other for one, other in zip(first, second, strict=True)]


def verdict(values: Sequence[float]) -> dict[str, Any]:
    """Whether a difference is above 0, below 0, or not known.

    >>> verdict([1.0, 2.0, 1.5])["verdict"], verdict([1.0, -2.0, 1.5])["verdict"]
    ('holds', 'undecided at this size')
    """
    found = interval(values)
    if len(values) == 1:
        return {"difference": found["mean"], "interval": "one seed", "verdict": str(Verdict.UNDECIDED)}
    is_decided = found["low"] > 0 or found["high"] < 0
    word = (Verdict.HOLDS if found["low"] > 0 else Verdict.DOES_NOT_HOLD) if is_decided else Verdict.UNDECIDED
    ends = f"{found['low']:+.1f} to {found['high']:+.1f}"
    return {"difference": found["mean"], "interval": ends, "verdict": str(word)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=["run", "collect"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--real", type=Path, help="the GGUF file of SmolLM2-Instruct")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parsed = parser.parse_args(arguments)
    setting = Setting() if parsed.real is None else real_setting(parsed.real)
    if parsed.command == "run":
        Experiment(setting, parsed.folder).run()
    else:
        Tables(read_rows(parsed.folder), setting).write(parsed.results)


def real_setting(path: Path) -> Setting:
    """The sizes for SmolLM2-135M-Instruct on a GPU: longer training, larger batches, and smaller steps."""
    return Setting(
        rates=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        steps={"cross-entropy": 300, "rewards": 300},
        batch_tokens={"cross-entropy": 4096, "rewards": 4096},
        mixing_rounds=50,
        real=path,
    )


if __name__ == "__main__":
    main()
