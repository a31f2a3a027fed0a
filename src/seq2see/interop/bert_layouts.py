"""Where the weights of BERT lie in Hugging Face's layouts, and where the same weights lie in ours.

The body is the same whatever is asked of it; which head stands on it is told by the name of the architecture.
"""

from __future__ import annotations

from collections.abc import Iterator

from seq2see.core.settings import Settings
from seq2see.interop.causal_layouts import Place, norm_places
from seq2see.models.settings import Blanks, BlanksAndPairs, Label, ModelSettings, Sentences, Tags, Vector
from seq2see.models.transformer import TransformerSettings

BODY = "bert."
"""What the names of the body's weights begin with; a body that was saved alone leaves it out."""

UNUSED = (
    "position_ids",
    "predictions.decoder.weight",
    "predictions.decoder.bias",
    "pooler.dense.weight",
    "pooler.dense.bias",
    "seq_relationship.weight",
    "seq_relationship.bias",
)
"""Endings of what some files hold: what the settings or a tied weight say as well, or a head that nobody asks."""

ARCHITECTURES: dict[str, type[Settings]] = {
    "BertForMaskedLM": Blanks,
    "BertForPreTraining": BlanksAndPairs,
    "BertForSequenceClassification": Label,
    "BertForTokenClassification": Tags,
    "BertModel": Vector,
}


def bert_places(settings: ModelSettings, size: int, answers: int) -> Iterator[Place]:
    """A BERT (Devlin et al. 2019) over so many tokens, with so many labels if it gives labels."""
    yield from _frontend(settings, size)
    stack = encoder_of(settings)
    width, hidden = stack.width, stack.hidden
    for number in range(stack.depth):
        ours, theirs = f"encoder.blocks.{number}", f"{BODY}encoder.layer.{number}"
        look = tuple(f"{theirs}.attention.self.{name}" for name in ("query", "key", "value"))
        for part, names, out, into in (
            ("look.queries_keys_values", look, width, width),
            ("look.output", (f"{theirs}.attention.output.dense",), width, width),
            ("think.widen", (f"{theirs}.intermediate.dense",), hidden, width),
            ("think.narrow", (f"{theirs}.output.dense",), width, hidden),
        ):
            yield from _matrix(f"{ours}.{part}", names, out, into)
        yield from norm_places(f"{ours}.around_look.norm", f"{theirs}.attention.output.LayerNorm", width)
        yield from norm_places(f"{ours}.around_think.norm", f"{theirs}.output.LayerNorm", width)
    yield from _head(settings, size, answers)


def _frontend(settings: ModelSettings, size: int) -> Iterator[Place]:
    width, inside = encoder_of(settings).width, f"{BODY}embeddings"
    assert settings.source is not None
    assert isinstance(settings.source.frontend, Sentences)
    words, places = f"{inside}.word_embeddings.weight", settings.source.frontend.longest
    yield Place("source.table.weight", (words,), ((size, width),), by_token=True)
    yield Place("source.positions.table.weight", (f"{inside}.position_embeddings.weight",), ((places, width),))
    yield Place("source.sentences.weight", (f"{inside}.token_type_embeddings.weight",), ((2, width),))
    yield from norm_places("source.norm", f"{inside}.LayerNorm", width)


def _head(settings: ModelSettings, size: int, answers: int) -> Iterator[Place]:
    width, target = encoder_of(settings).width, settings.target
    if isinstance(target, Blanks | BlanksAndPairs):
        inner = "head.tokens" if isinstance(target, BlanksAndPairs) else "head"
        yield Place(f"{inner}.common", ("cls.predictions.bias",), ((size,),), by_token=True)
        yield from _matrix("rethink.project", ("cls.predictions.transform.dense",), width, width)
        yield from norm_places("rethink.norm", "cls.predictions.transform.LayerNorm", width)
    if isinstance(target, BlanksAndPairs | Label):
        yield from _matrix("sum_up", (f"{BODY}pooler.dense",), width, width)
    if isinstance(target, BlanksAndPairs):  # they count "yes, it follows" first
        yield Place("head.follows.project.weight", ("cls.seq_relationship.weight",), ((2, width),), flipped=True)
        yield Place("head.follows.project.bias", ("cls.seq_relationship.bias",), ((2,),), flipped=True)
    if isinstance(target, Label | Tags):
        yield from _matrix("head.project", ("classifier",), answers, width)


def _matrix(ours: str, theirs: tuple[str, ...], out: int, into: int) -> Iterator[Place]:
    """A product with something added; several of theirs lie one below the other in ours."""
    yield Place(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), ((out, into),) * len(theirs))
    yield Place(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), ((out,),) * len(theirs))


def around(target: type[Settings]) -> int:
    """How many tokens stand around what is read: <bos>, and an <eos> behind each text."""
    return 3 if target is BlanksAndPairs else 2


def encoder_of(settings: ModelSettings) -> TransformerSettings:
    """The settings of its blocks."""
    assert isinstance(settings.encoder, TransformerSettings)
    return settings.encoder
