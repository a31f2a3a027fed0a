"""Two passes over a question: the first chooses the expert or the mixture, the second answers (Transformer², 3.2).

- prompt: the base model itself names the task of the question, and the expert of that name answers; after any other
  reply, the base model answers.
- classifier: the same, but a further expert, which was trained to name tasks, names it.
- few-shot: a mixture z' = Σ a_k z_k of all experts answers. The coefficients are found from a few solved questions
  (`adapters/mixing.py`), once for all questions.

A greedy answer is right if and only if each token of the right answer is the most probable one after the tokens before
it. So one parallel pass with teacher forcing gives both the number of solved questions that a candidate
answers, and the log-likelihood of the right answers.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.adapters.adapt import load_adapter_weights
from seq2see.adapters.expert import CONFIG, Expert, check_base, read_expert
from seq2see.adapters.mixing import (
    ROUNDS,
    Coefficients,
    Score,
    SearchResult,
    cross_entropy_method,
    mix,
    scale_vectors,
    set_scale_vectors,
)
from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.documents import read_json
from seq2see.core.errors import UserError, unknown_name
from seq2see.data.dialogue import Dialogue, Message
from seq2see.data.generated.puzzle_talk import NAMING_QUESTION
from seq2see.data.readers.data_report import ErrorPolicy
from seq2see.data.readers.dialogues import scan_dialogues
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import Hypothesis
from seq2see.metrics.dialogue import normalized_reply
from seq2see.runs.chat import open_chat
from seq2see.runs.run_folder import find_model
from seq2see.tasks.chat_model import ChatModel
from seq2see.tasks.model import Prediction
from seq2see.tasks.model_folder import fingerprint_of

BASE = "base"
"""The name of the base model among the experts."""
DISPATCHES = ("prompt", "classifier", "few-shot")


def read_experts(names: Sequence[str]) -> dict[str, Expert]:
    """Experts by name: each is a run or a folder, whose last part is its name, or `name=folder`."""
    experts: dict[str, Expert] = {}
    for text in names:
        name, _, folder = text.rpartition("=")
        name = name or Path(folder).name
        if name in experts or name == BASE:
            conflict = "is the name of the base model" if name == BASE else "is the name of two experts"
            hint = "Give them names: --experts add=runs/one,sort=runs/two."
            raise UserError(f"'{name}' {conflict}.", location=folder, hint=hint)
        experts[name] = read_expert_of(folder)
    if not experts:
        raise UserError(
            "There are no experts.", hint="Name at least one run with an adapter: --experts runs/add,runs/sort."
        )
    return experts


def read_expert_of(name: str) -> Expert:
    """The expert of a run, or in a folder of its own."""
    folder = Path(name) if (Path(name) / CONFIG).is_file() else find_model(name)
    if not (folder / CONFIG).is_file():
        raise UserError(
            "This run has no adapter, so it is no expert.",
            location=name,
            hint="Train one with --set adapter.kind=svf --set pretrained=BASE.",
        )
    config = folder / "config.json"  # of a run; an expert alone has none
    step = int(read_json(config)["step"]) if config.exists() else 0
    return read_expert(folder, step)


@dataclass
class Experts:
    """A base model and its experts: one module that takes the adapter of each expert in turn."""

    base: Any
    """The base model without adapters, a `ChatModel`."""
    experts: dict[str, Expert]

    def __post_init__(self) -> None:
        first = next(iter(self.experts.values()))
        self.module: nn.Module = first.apply(copy.deepcopy(self.base.module)).eval()
        self.module.to(device_of(self.base.module)).requires_grad_(False)

    def use(self, name: str) -> nn.Module:
        """The module with the adapter of this expert, or the base model."""
        if name == BASE:
            base: nn.Module = self.base.module
            return base
        if name not in self.experts:
            raise unknown_name("expert", name, [*self.experts, BASE])
        load_adapter_weights(self.module, self.experts[name].weights)
        return self.module

    def scale_vectors(self) -> list[dict[str, Tensor]]:
        """z of each expert."""
        return [scale_vectors(self.use(name)) for name in self.experts]


def open_experts(base: str, names: Sequence[str], classifier: str = "") -> tuple[Experts, Expert | None]:
    """The base model with its experts, and the classifier among them; experts of another base are refused."""
    experts = read_experts(names)
    fingerprint = fingerprint_of(find_model(base))
    named = {**experts, **({classifier: read_expert_of(classifier)} if classifier else {})}
    for name, expert in named.items():
        check_base(expert, fingerprint, name)
    if len({expert.config.adapter for expert in named.values()}) > 1:
        raise UserError(
            "The experts have different adapters.",
            hint="Choose experts with equal [adapter] settings: one module takes each of them in turn.",
        )
    model = open_chat(base)
    if not isinstance(model, ChatModel):
        raise UserError("Experts answer in dialogues, so their base must be a model of the task chat.", location=base)
    return Experts(model, experts), named.get(classifier)


Choose = Callable[[Sequence[Sequence[Message]]], list[str]]
"""The name of the expert for each history."""


class DispatchedModel(ChatModel):
    """A model whose experts answer: the first pass chooses one of them (or the mixture) for each question."""

    choose: Choose
    """The first pass."""
    pick: Callable[[str], nn.Module]
    """The module that answers for a name."""
    chosen: list[str]
    """The names of the last prediction."""
    provenance: Mapping[str, Any]
    """What its outputs depend on besides the base model, for a resumed output file."""

    @staticmethod
    def of(experts: Experts, choose: Choose, pick: Callable[[str], nn.Module]) -> DispatchedModel:
        """The model of these experts."""
        base = experts.base
        model = DispatchedModel(base.stored, base.engine, base.task)
        model.name, model.choose, model.pick, model.chosen, model.provenance = base.name, choose, pick, [], {}
        return model

    @contextmanager
    def answering(self, name: str) -> Iterator[None]:
        """In this context the expert of this name answers."""
        before, self.module = self.module, self.pick(name)
        try:
            yield
        finally:
            self.module = before

    def module_for(self, precision: str, is_conversation: bool = False) -> Any:
        """The module of the expert; there are no fast copies of it."""
        if precision != "float32":
            raise UserError("Experts answer in float32.", hint="Leave out decoding.precision.")
        return self.module

    def reply_hypotheses(
        self,
        histories: Sequence[Sequence[Message]],
        decoding: Decoding,
        seed: int = 0,
        indices: Sequence[int] | None = None,
        on_progress: Callable[[int], Any] = lambda count: None,
    ) -> list[list[Hypothesis]]:
        """The replies to histories, each by its expert."""
        self.chosen = self.choose(histories) if histories else []
        numbers = list(range(len(histories))) if indices is None else list(indices)
        found: dict[int, list[Hypothesis]] = {}
        for name in dict.fromkeys(self.chosen):
            rows = [row for row, each in enumerate(self.chosen) if each == name]
            with self.answering(name):
                own = [histories[row] for row in rows], decoding, seed, [numbers[row] for row in rows], on_progress
                found |= zip(rows, super().reply_hypotheses(*own), strict=True)
        return [found[row] for row in range(len(histories))]

    def predict(self, texts: Sequence[str], **settings: Any) -> list[Prediction]:
        """The replies to many messages or histories, with the name of the expert that gave each."""
        predictions = super().predict(texts, **settings)
        return [replace(each, expert=name) for each, name in zip(predictions, self.chosen, strict=True)]

    def stream_reply(self, history: Sequence[Message], decoding: Decoding, seed: int = 0) -> Iterator[str]:
        """The reply to a history, chunk by chunk."""
        self.chosen = self.choose([history])
        with self.answering(self.chosen[0]):
            yield from super().stream_reply(history, decoding, seed)


def dispatched_by_name(
    experts: Experts, classifier: Expert | None = None, question: str = NAMING_QUESTION
) -> DispatchedModel:
    """The expert whose name is the reply to a question about the message: of the classifier, or of the base model."""
    if "{question}" not in question:
        raise UserError("The question about a message has no place for it.", hint="Write {question} where it belongs.")
    names = {normalized_reply(name): name for name in experts.experts}

    def choose(histories: Sequence[Sequence[Message]]) -> list[str]:
        naming = [[Message("user", question.format(question=each[-1].content))] for each in histories]
        namer = experts.base
        if classifier is not None:
            load_adapter_weights(experts.module, classifier.weights)
            namer = replaced_module(experts.base, experts.module)
        replies = namer.replies(naming, lambda count: None, do_sample=False, num_beams=1, num_return_sequences=1)
        return [names.get(normalized_reply(each.text), BASE) for each in replies]

    return DispatchedModel.of(experts, choose, experts.use)


def replaced_module(model: Any, module: nn.Module) -> Any:
    """A model like this one, with another module."""
    changed = copy.copy(model)
    changed.module = module
    changed.module_for = lambda precision, is_conversation=False: module
    return changed


@dataclass(frozen=True)
class Mixture:
    """The mixture of experts that few-shot adaptation found."""

    names: tuple[str, ...]
    matrices: tuple[str, ...]
    """One name for each group of coefficients; a single empty name if all matrices share theirs."""
    result: SearchResult

    def text(self) -> str:
        """The coefficients in words; with one for each matrix, their means.

        `0.41 add + 0.93 sort`
        """
        means = self.result.coefficients.mean(1).tolist()
        return " + ".join(f"{mean:.2f} {name}" for mean, name in zip(means, self.names, strict=True))


def dispatched_by_shots(
    experts: Experts, shots: Sequence[Dialogue], per_matrix: bool = False, seed: int = 1, rounds: int = ROUNDS
) -> tuple[DispatchedModel, Mixture]:
    """The mixture of all experts that answers the most of these solved questions."""
    if not shots:
        raise UserError("Few-shot adaptation needs solved questions.", hint="Name a file of dialogues: --shots FILE.")
    vectors, names = experts.scale_vectors(), tuple(experts.experts)
    matrices = tuple(vectors[0]) if per_matrix else ("",)
    batch = solved_batch(experts.base, shots)

    def score(coefficients: Coefficients) -> Score:
        set_scale_vectors(experts.module, mix(vectors, coefficients))
        return shot_score(experts.module, batch, experts.base)

    result = cross_entropy_method(score, len(names), len(matrices), seed, rounds)
    mixture = Mixture(names, matrices, result)
    set_scale_vectors(experts.module, mix(vectors, result.coefficients))
    text = mixture.text()
    model = DispatchedModel.of(experts, lambda histories: [text] * len(histories), lambda name: experts.module)
    return model, mixture


def solved_batch(model: Any, shots: Sequence[Dialogue]) -> Batch:
    """The questions with their right answers as rows."""
    rows = [row for each in shots for row in model.candidate_rows(each.messages[:-1], [each.target])]
    labels = Sequences.of([row.labels for row in rows], padding=IGNORE_INDEX).values
    batch = Batch(None, Sequences.of([row.inputs for row in rows]), labels, torch.arange(len(rows)))
    return batch.to(model.device)


@torch.inference_mode()
def shot_score(module: Any, batch: Batch, model: Any) -> Score:
    """The share of right greedy answers, and the mean log-likelihood of the right answers."""
    logits = module(batch).float()
    logits[..., model.prompted([[0]], 1).forbidden] = -torch.inf
    losses = nn.functional.cross_entropy(logits.mT, batch.labels, ignore_index=IGNORE_INDEX, reduction="none")
    right = ((logits.argmax(-1) == batch.labels) | ~batch.label_mask).all(1)
    return float(right.float().mean()), -float(losses.sum() / len(batch.labels))


def read_shots(path: Path) -> list[Dialogue]:
    """The solved questions of a file of dialogues (see `data/readers/dialogues.py`)."""
    dialogues, report = scan_dialogues([path])
    report.raise_for_errors(ErrorPolicy())
    return list(dialogues)


@dataclass(frozen=True)
class DispatchOptions:
    """How the first pass is made."""

    dispatch: str
    """One of `DISPATCHES`."""
    classifier: str = ""
    """The expert that names tasks."""
    shots: Path | None = None
    """The file of solved questions."""
    question: str = NAMING_QUESTION
    """The question about a message, for prompt and classifier."""
    per_matrix: bool = False
    """Whether a mixture has a coefficient for each matrix of each expert."""

    def check(self) -> None:
        """Raise an error if something is missing."""
        if self.dispatch not in DISPATCHES:
            raise unknown_name("dispatch", self.dispatch, DISPATCHES)
        if self.dispatch == "classifier" and not self.classifier:
            hint = "Name an expert that was trained to name tasks: --classifier runs/name."
            raise UserError("There is no classifier.", hint=hint)
        if self.dispatch == "few-shot" and self.shots is None:
            hint = "Name a file of dialogues: --shots FILE."
            raise UserError("Few-shot adaptation needs solved questions.", hint=hint)


def open_dispatched(base: str, names: Sequence[str], options: DispatchOptions) -> tuple[DispatchedModel, str]:
    """The model of `predict --experts`; and a line about what it found before the first question, if there is any."""
    options.check()
    experts, classifier = open_experts(base, names, options.classifier if options.dispatch == "classifier" else "")
    line, mixture = "", ""
    if options.shots is not None and options.dispatch == "few-shot":
        shots = read_shots(options.shots)
        model, found = dispatched_by_shots(experts, shots, options.per_matrix)
        right, mixture = round(found.result.score[0] * len(shots)), str(found.result.coefficients.tolist())
        line = f"mixture {found.text()}; {right} of {len(shots)} shots right after {found.result.rounds} rounds"
    else:
        model = dispatched_by_name(experts, classifier, options.question)
    weights = {name: _fingerprint(expert) for name, expert in experts.experts.items()}
    classifier_weights = _fingerprint(classifier) if classifier else ""
    model.provenance = {
        "dispatch": options.dispatch, "experts": weights, "classifier": classifier_weights, "mixture": mixture,
        "question": options.question,
    }  # fmt: skip
    return model, line


def _fingerprint(expert: Expert) -> str:
    """A hash of what an expert learned."""
    return hashlib.sha256(b"".join(expert.files().values())).hexdigest()
