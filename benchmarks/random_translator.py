"""A translator with random weights for speed benchmarks: real sentences, and outputs of realistic lengths.

Only the probability of <eos> is fitted, by least squares: after about two tokens per source word, <eos> becomes the
most probable token. So the outputs of a batch end at different times, as those of a trained model do, and every engine
with these weights does the same amount of work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding, Limits, decode
from seq2see.decoding.samplers import GreedySampler, History
from seq2see.models.build import fresh_model
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.recipes.registry import recipe
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers, write_model
from seq2see.tasks.task import pretrained_task, task_of

MAX_NEW_TOKENS, MEAN_LENGTH = 64, 25
"""The maximum and the mean number of tokens of an output."""
SPECIAL_TOKENS = 4
LOGIT_SCALE = 6.0
"""The standard deviation of the logits, with which the best token has a probability of about one half."""


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    width: int
    depth: int
    heads: int
    vocabulary: int


SHAPES = {"base": Shape(512, 6, 8, 32_000), "small": Shape(256, 3, 4, 8_000), "tiny": Shape(32, 1, 2, 500)}


def sentences(count: int, vocabulary: int) -> list[list[int]]:
    """English sentences of Multi30k (of the pocket world, if that is not there) as numbers, with <eos>."""
    try:
        splits, _ = task_of(recipe("multi30k-transformer")).read(recipe("multi30k-transformer"))
    except UserError:
        splits, _ = task_of(recipe("pocket-transformer")).read(recipe("pocket-transformer"))
    id_of_word: dict[str, int] = {}
    found = []
    for example in splits["test"][:count]:
        words = example.source.split() if " " in example.source else list(example.source)
        ids = [
            id_of_word.setdefault(word, len(id_of_word)) % (vocabulary - SPECIAL_TOKENS) + SPECIAL_TOKENS
            for word in words
        ]
        found.append([*ids, EOS])
    return found


def make(name: str) -> StoredModel:
    """A model of this size whose outputs have 25 tokens on average; the same at every call."""
    shape = SHAPES[name]
    stack = TransformerSettings(width=shape.width, depth=shape.depth, heads=shape.heads, norm_order="post")
    words = train_tokenizer(
        WordLevel(), [" ".join(f"w{number}" for number in range(shape.vocabulary - SPECIAL_TOKENS))]
    )
    text = {"tokenizer": WordLevel(), "max_tokens": 128}
    target = TextTarget(**text, vocabulary="shared", head="untied")
    settings = ModelSettings(encoder=stack, decoder=stack, source=Text(**text), target=target)
    module = fresh_model(settings, (shape.vocabulary, shape.vocabulary), "xavier", seed=1).eval()
    fit_eos(module, sentences(64, shape.vocabulary))
    config = ModelConfig(
        task=pretrained_task(settings),
        name=f"random-{name}",
        step=0,
        model=settings,
        decoding=Decoding(max_new_tokens=MAX_NEW_TOKENS),
    )
    return StoredModel(config=config, module=module, tokenizers=Tokenizers(words, words))


@torch.no_grad()
def fit_eos(model: Seq2Seq, sources: list[list[int]]) -> None:
    """Fit a logit of <eos> that rises with time, and the bias with which outputs have the mean length."""
    source = Sequences.of(sources)
    head = model.head.project
    head.bias.zero_()
    head.weight[EOS] = 0
    hidden = hidden_states(model, source)
    head.weight *= LOGIT_SCALE / (hidden[0] @ head.weight.T).std()
    times = torch.arange(hidden.size(1)) - 2.0 * source.lengths[:, None]  # 0 at the end of the output
    flat = torch.cat([hidden.flatten(0, 1), torch.ones(times.numel(), 1)], dim=1)
    ramp = torch.linalg.lstsq(flat, times.flatten()[:, None]).solution.flatten()
    best = (hidden @ head.weight.T).amax(dim=-1).mean()
    head.weight[EOS], offset = LOGIT_SCALE * ramp[:-1], LOGIT_SCALE * ramp[-1] + best
    low, high = -20.0 * LOGIT_SCALE, 20.0 * LOGIT_SCALE
    for _ in range(12):
        head.bias[EOS] = offset + (low + high) / 2
        if mean_length(model, source) > MEAN_LENGTH:
            low = (low + high) / 2
        else:
            high = (low + high) / 2


def suppress_eos(history: History, scores: Tensor) -> Tensor:
    """A logits processor with which no output ends."""
    return scores.index_fill(1, torch.tensor([EOS]), -torch.inf)


def hidden_states(model: Seq2Seq, source: Sequences) -> Tensor:
    """The hidden states (row, time, width) of greedy decoding without <eos>."""
    outputs = decode(model, source, GreedySampler(), Limits(MAX_NEW_TOKENS), [suppress_eos])  # type: ignore[arg-type]
    tokens = torch.tensor([[BOS, *row[0].tokens[:-1]] for row in outputs])
    target = Sequences(tokens, torch.full((tokens.size(0),), tokens.size(1)))
    labels = torch.full_like(tokens, IGNORE_INDEX)
    return model.hidden(Batch(source, target, labels, torch.arange(tokens.size(0)))).values


def mean_length(model: Seq2Seq, source: Sequences) -> float:
    """The mean number of tokens of a greedy output with <eos>."""
    outputs = decode(model, source, GreedySampler(), Limits(MAX_NEW_TOKENS))  # type: ignore[arg-type]
    return sum(len(row[0].tokens) + row[0].finished for row in outputs) / len(outputs)


def store(name: str, folder: Path) -> None:
    """Write the model in the formats of all engines."""
    from seq2see.interop.ctranslate2 import write_ct2
    from seq2see.interop.hugging_face_seq2seq import write_seq2seq

    stored = make(name)
    folder.mkdir(parents=True)
    write_model(folder / "ours", stored)
    write_seq2seq(stored, folder / "hf")
    write_ct2(stored, folder / "ct2")
