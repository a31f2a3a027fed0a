"""The mapping between the weight names of Hugging Face's BERT classes and the state-dict keys of seq2see.

The encoder is the same for all tasks; the name of the architecture determines the head.
"""

from __future__ import annotations

from collections.abc import Iterator

from seq2see.core.settings import Settings
from seq2see.interop.causal_layouts import WeightMapping, norm_mappings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    EmbeddingTarget,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Tags,
)
from seq2see.models.transformer import TransformerSettings

BASE_MODEL_PREFIX = "bert."
"""The prefix of the encoder's weight names; an encoder that was saved without a head does not have it."""

IGNORED_SUFFIXES = (
    "position_ids",
    "predictions.decoder.weight",
    "predictions.decoder.bias",
    "pooler.dense.weight",
    "pooler.dense.bias",
    "seq_relationship.weight",
    "seq_relationship.bias",
)
"""Suffixes of weights that are not read: buffers, copies of tied weights, and unused heads."""

ARCHITECTURES: dict[str, type[Settings]] = {
    "BertForMaskedLM": MaskedTokensTarget,
    "BertForPreTraining": MaskedTokensNSPTarget,
    "BertForSequenceClassification": Label,
    "BertForTokenClassification": Tags,
    "BertModel": EmbeddingTarget,
}


def bert_mappings(settings: ModelSettings, size: int, num_labels: int) -> Iterator[WeightMapping]:
    """A BERT (Devlin et al. 2019) with `size` tokens, and with `num_labels` labels if it predicts labels."""
    yield from _embeddings(settings, size)
    stack = encoder_settings_of(settings)
    width, hidden = stack.width, stack.feed_forward_width
    for number in range(stack.depth):
        key, external = f"encoder.blocks.{number}", f"{BASE_MODEL_PREFIX}encoder.layer.{number}"
        qkv = tuple(f"{external}.attention.self.{name}" for name in ("query", "key", "value"))
        for part, names, out_features, in_features in (
            ("self_attention.qkv_proj", qkv, width, width),
            ("self_attention.out_proj", (f"{external}.attention.output.dense",), width, width),
            ("feed_forward.up_proj", (f"{external}.intermediate.dense",), hidden, width),
            ("feed_forward.down_proj", (f"{external}.output.dense",), width, hidden),
        ):
            yield from _linear(f"{key}.{part}", names, out_features, in_features)
        yield from norm_mappings(f"{key}.self_attention_residual.norm", f"{external}.attention.output.LayerNorm", width)
        yield from norm_mappings(f"{key}.feed_forward_residual.norm", f"{external}.output.LayerNorm", width)
    yield from _head(settings, size, num_labels)


def _embeddings(settings: ModelSettings, size: int) -> Iterator[WeightMapping]:
    width, prefix = encoder_settings_of(settings).width, f"{BASE_MODEL_PREFIX}embeddings"
    assert settings.source is not None
    assert isinstance(settings.source.embedding, BertEmbeddingSettings)
    words, max_positions = f"{prefix}.word_embeddings.weight", settings.source.embedding.max_positions
    yield WeightMapping("source.table.weight", (words,), ((size, width),), is_vocabulary_table=True)
    yield WeightMapping(
        "source.positions.embedding.weight", (f"{prefix}.position_embeddings.weight",), ((max_positions, width),)
    )
    yield WeightMapping(
        "source.token_type_embedding.weight", (f"{prefix}.token_type_embeddings.weight",), ((2, width),)
    )
    yield from norm_mappings("source.norm", f"{prefix}.LayerNorm", width)


def _head(settings: ModelSettings, size: int, num_labels: int) -> Iterator[WeightMapping]:
    width, target = encoder_settings_of(settings).width, settings.target
    if isinstance(target, MaskedTokensTarget | MaskedTokensNSPTarget):
        inner = "head.tokens" if isinstance(target, MaskedTokensNSPTarget) else "head"
        yield WeightMapping(f"{inner}.bias", ("cls.predictions.bias",), ((size,),), is_vocabulary_table=True)
        yield from _linear("transform.project", ("cls.predictions.transform.dense",), width, width)
        yield from norm_mappings("transform.norm", "cls.predictions.transform.LayerNorm", width)
    if isinstance(target, MaskedTokensNSPTarget | Label):
        yield from _linear("pooler", (f"{BASE_MODEL_PREFIX}pooler.dense",), width, width)
    if isinstance(target, MaskedTokensNSPTarget):  # in BERT, class 0 means "is the next sentence"
        yield WeightMapping(
            "head.next_sentence.project.weight", ("cls.seq_relationship.weight",), ((2, width),), flip=True
        )
        yield WeightMapping("head.next_sentence.project.bias", ("cls.seq_relationship.bias",), ((2,),), flip=True)
    if isinstance(target, Label | Tags):
        yield from _linear("head.project", ("classifier",), num_labels, width)


def _linear(key: str, external: tuple[str, ...], out_features: int, in_features: int) -> Iterator[WeightMapping]:
    """A linear layer; several external layers are concatenated along the output features."""
    yield WeightMapping(
        f"{key}.weight", tuple(f"{name}.weight" for name in external), ((out_features, in_features),) * len(external)
    )
    yield WeightMapping(f"{key}.bias", tuple(f"{name}.bias" for name in external), ((out_features,),) * len(external))


def num_special_tokens(target: type[Settings]) -> int:
    """The number of special tokens of an input: one <bos>, and an <eos> after each text."""
    return 3 if target is MaskedTokensNSPTarget else 2


def encoder_settings_of(settings: ModelSettings) -> TransformerSettings:
    """The settings of the encoder, which must be a Transformer."""
    assert isinstance(settings.encoder, TransformerSettings)
    return settings.encoder
