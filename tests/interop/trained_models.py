"""Two small translators, trained for a few seconds, and random ones of every shape: inputs of the export tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.tokenizers.tokenizer import BOS, BPE, EOS, PAD, Characters, WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding, GenerativeModel, decode, make_limits, make_logits_processors, make_sampler
from seq2see.decoding.samplers import Hypothesis
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task
from speedups import without_shape_checks

SENTENCES = 200
Answer = tuple[int, ...]


def page_example(engine: str) -> str:
    """The Python that the page about exports shows for an engine."""
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    return next(block for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if engine in block)


@cache
def examples():
    return PocketCorpus(size=1500).splits()


@cache
def make_tokenizers(kind: str, other: str = "") -> Tokenizers:
    """Tokenizers of the pocket corpus: one for both sides, or one for each."""
    kinds = {"characters": Characters(), "words": WordLevel(), "bpe": BPE(vocab_size=420)}
    sources = [example.source for example in examples()["train"]]
    targets = [example.target for example in examples()["train"]]
    if not other:
        both = train_tokenizer(kinds[kind], sources + targets)
        return Tokenizers(both, both)
    return Tokenizers(train_tokenizer(kinds[kind], sources), train_tokenizer(kinds[other], targets))


def small_settings(both: Tokenizers, positions: str = "sinusoidal", head: str = "tied", **stack) -> ModelSettings:
    """Settings of a small Transformer that goes with these tokenizers."""
    part = TransformerSettings(**{"width": 40, "depth": 2, "heads": 4, "dropout": 0.0} | stack)
    text = {"embedding": TokenEmbeddingSettings(positions=positions), "tokenizer": WordLevel()}
    vocabulary = "shared" if both.shared else "separate"
    return ModelSettings(
        source=Text(**text), target=TextTarget(**text, head=head, vocabulary=vocabulary), encoder=part, decoder=part
    )


def stored_model(settings: ModelSettings, both: Tokenizers, module: nn.Module, **decoding) -> StoredModel:
    answers = Decoding(**{"max_new_tokens": 40} | decoding)
    return StoredModel(
        ModelConfig(task=pretrained_task(settings), name="trained", step=1, model=settings, decoding=answers),
        module.eval(),
        both,
    )


@cache
def trained_translator(order: str) -> StoredModel:
    """A translator of the pocket's sentences: pre-norm with two vocabularies, or post-norm with one."""
    both = make_tokenizers("characters", "words") if order == "pre" else make_tokenizers("words")
    settings = small_settings(both, norm_order=order, head="untied")
    module = fresh_model(settings, both.sizes, "xavier", seed=1)
    with without_shape_checks():
        train(
            module, PairDataset(examples()["train"], both.source, both.target, 60), steps=110 if order == "pre" else 220
        )
    suppress_specials(module)
    return stored_model(settings, both, module)


def suppress_specials(module: nn.Module) -> None:
    """Make <pad> and <bos> as improbable as a finished training does: some engines suppress them in another way."""
    with torch.no_grad():
        module.head.project.bias[[PAD, BOS]] = -30.0


def train(module: nn.Module, pairs: PairDataset, steps: int) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    order = np.random.default_rng(0)
    for _ in range(steps):
        batch = pairs.batch(order.integers(len(pairs), size=16))
        logits = module(batch).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, batch.labels.flatten(), ignore_index=IGNORE_INDEX)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def random_model(settings: ModelSettings, both: Tokenizers) -> StoredModel:
    """A random model; no bias is 0 and no norm weight is 1, so that a missing weight is noticed."""
    module = fresh_model(settings, both.sizes, "xavier", seed=1)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    return stored_model(settings, both, module, max_new_tokens=9)


def held_out_sentences(count: int = SENTENCES) -> list[str]:
    """Sentences of the test split."""
    return [example.source for example in examples()["test"][:count]]


def encode_texts(model: StoredModel, texts: list[str]) -> list[list[int]]:
    """Token ids with <eos>."""
    return [[*model.tokenizers.source.encode(text), EOS] for text in texts]


@cache
def own_answers(order: str, decoding: Decoding, count: int = SENTENCES) -> list[list[Hypothesis]]:
    """The outputs of the own decoding loop for `count` sentences."""
    return decode_answers(trained_translator(order).module, trained_translator(order), decoding, count)


def decode_answers(
    engine: GenerativeModel, model: StoredModel, decoding: Decoding, count: int = SENTENCES
) -> list[list[Hypothesis]]:
    """The outputs of the own decoding loop with this engine instead of the model."""
    source = Sequences.of(encode_texts(model, held_out_sentences(count)))
    return decode(engine, source, make_sampler(decoding), make_limits(decoding), make_logits_processors(decoding))


@torch.no_grad()
def logits(model: StoredModel, source: list[int], tokens: list[int]) -> torch.Tensor:
    """(time, vocab): the logits after <bos> and after each of the tokens."""
    decoder_inputs = Sequences.of([[BOS, *tokens]])
    batch = Batch(
        Sequences.of([source]),
        decoder_inputs,
        torch.zeros_like(decoder_inputs.values),
        torch.zeros(1, dtype=torch.long),
    )
    return model.module(batch)[0]


@dataclass(frozen=True)
class Difference:
    """Where two answers to a sentence part, and what our model scores there."""

    sentence: int
    time: int
    actual: int
    reference: int
    distance: float
    """By how much our model prefers its own token there."""


def first_differences(model: StoredModel, actual: list[Answer], reference: list[Answer]) -> list[Difference]:
    """The first token at which each pair of answers differs, with the distance of the two tokens' logits."""
    assert len(actual) == len(reference)
    sources = encode_texts(model, held_out_sentences())
    found = []
    for number, (left, right) in enumerate(zip(actual, reference, strict=True)):
        if left == right:
            continue
        time = next(t for t in range(max(len(left), len(right)) + 1) if left[t : t + 1] != right[t : t + 1])
        scores = logits(model, sources[number], list(left[:time]))[-1]
        own, other = (answer[time] if time < len(answer) else EOS for answer in (left, right))
        found.append(Difference(number, time, own, other, float(scores[own] - scores[other])))
    return found


def assert_same_answers(model: StoredModel, actual: list[Answer], reference: list[Answer]) -> None:
    """Equal answers to all sentences; or, at the first difference, two tokens that score alike."""
    assert len(actual) == SENTENCES
    assert len(set(actual)) > SENTENCES // 2, "answers so alike prove little"
    apart = [each for each in first_differences(model, actual, reference) if abs(each.distance) > 1e-4]
    assert not apart, f"{len(apart)} answers differ, the first: {apart[0]}"


def best_tokens(answers: list[list[Hypothesis]]) -> list[Answer]:
    return [hypotheses[0].tokens for hypotheses in answers]


def without_specials(ids: list[int], shift: int = 0) -> Answer:
    """The tokens of an answer up to its <eos>, counted as the target's vocabulary does."""
    tokens: list[int] = []
    for number in ids:
        if number - shift == EOS:
            break
        if number - shift not in (PAD, BOS) and number != PAD:
            tokens.append(number - shift)
    return tuple(tokens)
