"""A translator that knows nothing, but works as hard as a real one: random weights, real sentences, answers that end.

Its weights are drawn, only the end of a sentence is taught, by least squares: after about twice as many tokens
as the source has words, <eos> becomes the most probable token. So answers of one batch end at different times,
as real ones do, and every engine that is given these weights has the same work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.rules import Forbid
from seq2see.decoding.settings import Decoding
from seq2see.models.build import fresh_model
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.recipes.table import recipe
from seq2see.sequences.tokenisers import BOS, EOS, Words
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.model_folder import ModelConfig, StoredModel, write_model
from seq2see.workbench.prepare import read_corpus
from seq2see.workbench.tokenisers import Tokenisers

LONGEST, WANTED = 64, 25
"""Tokens of an answer: at most, and on average."""
SPECIAL = 4
LOUDNESS = 6.0
"""How far the scores of words spread; the best then has about half of the probability, as in a trained model."""


@dataclass(frozen=True)
class Shape:
    """A size of model that the peers' figures are known for."""

    width: int
    depth: int
    heads: int
    vocabulary: int


SHAPES = {"base": Shape(512, 6, 8, 32_000), "small": Shape(256, 3, 4, 8_000), "tiny": Shape(32, 1, 2, 500)}


def sentences(count: int, vocabulary: int) -> list[list[int]]:
    """English sentences of Multi30k (of the pocket world, if that is not there) as numbers, with <eos>."""
    try:
        splits, _ = read_corpus(recipe("multi30k-transformer"))
    except UserError:
        splits, _ = read_corpus(recipe("pocket-transformer"))
    numbers: dict[str, int] = {}
    found = []
    for example in splits["test"][:count]:
        words = example.source.split() if " " in example.source else list(example.source)
        ids = [numbers.setdefault(word, len(numbers)) % (vocabulary - SPECIAL) + SPECIAL for word in words]
        found.append([*ids, EOS])
    return found


def make(name: str) -> StoredModel:
    """A model of this size whose answers have 25 tokens on average; the same at every call."""
    shape = SHAPES[name]
    stack = TransformerSettings(width=shape.width, depth=shape.depth, heads=shape.heads, order="post")
    words = train_tokeniser(Words(), [" ".join(f"w{number}" for number in range(shape.vocabulary - SPECIAL))])
    text = {"tokeniser": Words(), "longest": 128}
    target = TextTarget(**text, vocabulary="shared", head="free")
    settings = ModelSettings(encoder=stack, decoder=stack, source=Text(**text), target=target)
    module = fresh_model(settings, (shape.vocabulary, shape.vocabulary), "xavier", seed=1).eval()
    teach_to_end(module, sentences(64, shape.vocabulary))
    config = ModelConfig(name=f"random-{name}", step=0, model=settings, decoding=Decoding(max_new_tokens=LONGEST))
    return StoredModel(config=config, module=module, tokenisers=Tokenisers(words, words))


@torch.no_grad()
def teach_to_end(model: Seq2Seq, sources: list[list[int]]) -> None:
    """Give <eos> a score that rises with time, and find the bias with which answers are as long as wanted."""
    source = Sequences.of(sources)
    head = model.head.project
    head.bias.zero_()
    head.weight[EOS] = 0
    hidden = spoken(model, source)
    head.weight *= LOUDNESS / (hidden[0] @ head.weight.T).std()
    times = torch.arange(hidden.size(1)) - 2.0 * source.lengths[:, None]  # 0 where the answer should end
    flat = torch.cat([hidden.flatten(0, 1), torch.ones(times.numel(), 1)], dim=1)
    ramp = torch.linalg.lstsq(flat, times.flatten()[:, None]).solution.flatten()
    best = (hidden @ head.weight.T).amax(dim=-1).mean()
    head.weight[EOS], offset = LOUDNESS * ramp[:-1], LOUDNESS * ramp[-1] + best
    low, high = -20.0 * LOUDNESS, 20.0 * LOUDNESS
    for _ in range(12):
        head.bias[EOS] = offset + (low + high) / 2
        if mean_length(model, source) > WANTED:
            low = (low + high) / 2
        else:
            high = (low + high) / 2


def spoken(model: Seq2Seq, source: Sequences) -> Tensor:
    """The hidden states (row, time, width) while the model talks on without ever ending."""
    answers = decode(model, source, Greedy(), Limits(LONGEST), [Forbid((EOS,))])  # type: ignore[arg-type]
    tokens = torch.tensor([[BOS, *row[0].tokens[:-1]] for row in answers])
    target = Sequences(tokens, torch.full((tokens.size(0),), tokens.size(1)))
    asked = torch.full_like(tokens, NOT_ASKED)
    return model.hidden(Batch(source, target, asked, torch.arange(tokens.size(0)))).values


def mean_length(model: Seq2Seq, source: Sequences) -> float:
    """Tokens of a greedy answer, <eos> among them."""
    answers = decode(model, source, Greedy(), Limits(LONGEST))  # type: ignore[arg-type]
    return sum(len(row[0].tokens) + row[0].finished for row in answers) / len(answers)


def store(name: str, folder: Path) -> None:
    """Write the model in every form that an engine reads."""
    from seq2see.interop.ctranslate2 import write_ct2
    from seq2see.interop.hugging_face import write_hf

    stored = make(name)
    folder.mkdir(parents=True)
    write_model(folder / "ours", stored)
    write_hf(stored, folder / "hf")
    write_ct2(stored, folder / "ct2")
