"""From settings to a model: the right classes, the first weights, and settings that contradict each other."""

from __future__ import annotations

import sys
import typing

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.core.settings import choices, read_tree
from seq2see.layers.attention import SelfAttention
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS
from seq2see.layers.norms_and_dropout import EPSILON
from seq2see.layers.positions import POSITIONS, AlibiPositions, RotaryPositions
from seq2see.models.build import DECODERS, DECODERS_WITHOUT_MEMORY, ENCODER_MODELS, ENCODERS, build_model, fresh_model
from seq2see.models.embeddings_and_heads import HEADS, TOKEN_EMBEDDINGS
from seq2see.models.image_settings import ImageSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    EmbeddingTarget,
    ImageLabel,
    MaskedTokensTarget,
    ModelSettings,
    Series,
    Text,
    TextTarget,
    TokenEmbeddingSettings,
)
from seq2see.models.transformer import TransformerSettings
from seq2see.training.ngram_smoothing import SMOOTHINGS
from tiny_models import (
    FAMILIES,
    SOURCE_SIZE,
    TARGET_SIZE,
    WIDTH,
    recurrent_decoder,
    recurrent_encoder,
    seq2seq_settings,
    transformer,
)

SIZES = (SOURCE_SIZE, TARGET_SIZE)


def weights(settings: ModelSettings, init: str = "xavier", seed: int = 3) -> dict[str, torch.Tensor]:
    return dict(fresh_model(settings, SIZES, init, seed).state_dict())


def test_every_kind_of_settings_and_every_option_has_a_class():
    assert set(choices(ModelSettings.model_fields["encoder"].annotation)) == set(ENCODERS)
    decoders = set(choices(ModelSettings.model_fields["decoder"].annotation))
    assert decoders == set(DECODERS_WITHOUT_MEMORY) | {NgramSettings}  # n-gram counts use no embeddings and heads
    assert set(typing.get_args(TextTarget.model_fields["head"].annotation)) == set(HEADS)
    assert set(DECODERS_WITHOUT_MEMORY) == set(DECODERS) | {
        MLPDecoderSettings
    }  # an MLP over a window has no cross-attention
    assert set(typing.get_args(NgramSettings.model_fields["smoothing"].annotation)) == set(SMOOTHINGS)
    assert set(typing.get_args(TokenEmbeddingSettings.model_fields["positions"].annotation)) == set(POSITIONS)
    assert set(choices(ModelSettings.model_fields["target"].annotation)) == {TextTarget, Series, *ENCODER_MODELS}
    assert TokenEmbeddingSettings.model_fields["scale"].annotation is bool
    assert set(TOKEN_EMBEDDINGS) == {True, False}
    assert set(typing.get_args(TransformerSettings.model_fields["activation"].annotation)) == set(FEED_FORWARDS)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_weights_depend_on_the_seed_alone(name):
    torch.manual_seed(5)
    one = weights(FAMILIES[name])
    torch.manual_seed(6)
    torch.randn(7)
    two, other = weights(FAMILIES[name]), weights(FAMILIES[name], seed=4)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["target.table.weight"], other["target.table.weight"])


def test_embeddings_have_the_sizes_of_their_vocabularies():
    model = build_model(seq2seq_settings(recurrent_encoder("gru"), transformer(width=12)), *SIZES)
    assert model.source.table.weight.shape == (SOURCE_SIZE, WIDTH)
    assert model.target.table.weight.shape == (TARGET_SIZE, 12)
    assert model.decoder.blocks[0].cross_attention.kv_proj.weight.shape == (24, WIDTH)


def test_each_side_gets_its_own_dropout():
    model = build_model(seq2seq_settings(transformer(dropout=0.25), recurrent_decoder("gru", "dot")), *SIZES)
    assert model.source.dropout.p == 0.25
    assert model.target.dropout.p == 0.2


def test_embedding_tables_are_initialized_so_that_tokens_and_positions_are_of_one_scale():
    model = fresh_model(seq2seq_settings(transformer(), transformer()), (900, 901), "xavier", 1)
    for table in (model.source.table, model.target.table):
        assert float(table.weight.detach().std()) == pytest.approx(WIDTH**-0.5, rel=0.05)


@pytest.mark.parametrize("init", ["xavier", "he", "zero"])
def test_every_initializer_reaches_every_matrix_and_leaves_norms_alone(init):
    tensors = weights(seq2seq_settings(transformer(width=64), transformer(width=64), head="untied"), init)
    for name in ("encoder.blocks.0.feed_forward.up_proj", "decoder.blocks.1.cross_attention.kv_proj", "head.project"):
        matrix = tensors[f"{name}.weight"]
        out, into = matrix.shape
        spread = {"xavier": 2 / (into + out), "he": 2 / into, "zero": 0.0}[init] ** 0.5
        assert float(matrix.std()) == pytest.approx(spread, rel=0.1)
        assert tensors[f"{name}.bias"].count_nonzero() == 0
    assert (tensors["encoder.blocks.0.self_attention_residual.norm.weight"] == 1).all()


def test_xavier_is_uniform_within_its_bound():
    matrix = weights(seq2seq_settings(transformer(width=64), transformer(width=64)))[
        "encoder.blocks.0.feed_forward.up_proj.weight"
    ]
    bound = (6 / (64 + 256)) ** 0.5
    assert 0.98 * bound < matrix.abs().max() <= bound


@pytest.mark.parametrize(
    ("positions", "relative_positions"),
    [("rotary", RotaryPositions), ("alibi", AlibiPositions), ("learned", type(None)), ("none", type(None))],
)
def test_self_attention_applies_the_positions_that_are_not_added_to_the_embeddings(positions, relative_positions):
    embedding = TokenEmbeddingSettings(positions=positions)
    seq2seq = seq2seq_settings(transformer(), transformer(), positions)
    causal = ModelSettings(target=TextTarget(embedding=embedding), decoder=transformer())
    masked = ModelSettings(source=Text(embedding=embedding), target=MaskedTokensTarget(), encoder=transformer())
    for settings in (seq2seq, causal, masked):
        modules = [each for each in build_model(settings, *SIZES).modules() if isinstance(each, SelfAttention)]
        assert {type(attention.relative_positions) for attention in modules} == {relative_positions}


@pytest.mark.parametrize("kv_heads", [0, 1])
def test_without_bias_self_attention_has_weights_alone_for_any_number_of_key_heads(kv_heads):
    blocks = transformer(bias=False, kv_heads=kv_heads)
    attention = build_model(ModelSettings(decoder=blocks), *SIZES).decoder.blocks[0].self_attention
    assert [name for name, _ in attention.named_parameters()] == ["out_proj.weight", "qkv_proj.weight"]


def test_suppressed_tokens_have_no_probability():
    settings = ModelSettings(target=TextTarget(suppress_tokens=(0, 3)), decoder=transformer())
    probabilities = build_model(settings, *SIZES).head(torch.randn(4, WIDTH)).softmax(-1)
    assert (probabilities == 0).all(0).nonzero().flatten().tolist() == [0, 3]


def test_a_series_has_rotary_positions():
    attention = (
        build_model(ModelSettings(target=Series(), decoder=transformer()), 1, 1).decoder.blocks[0].self_attention
    )
    assert isinstance(attention.relative_positions, RotaryPositions)


@pytest.mark.parametrize(
    "embedding",
    [TokenEmbeddingSettings(positions="learned", max_positions=7), BertEmbeddingSettings(max_positions=7)],
    ids=["tokens", "bert"],
)
def test_the_number_of_learned_positions_is_that_of_the_settings(embedding):
    settings = ModelSettings(source=Text(embedding=embedding), target=MaskedTokensTarget(), encoder=transformer())
    assert build_model(settings, *SIZES).source.positions.embedding.num_embeddings == 7


@pytest.mark.parametrize(
    ("encoder", "activation", "eps"),
    [
        (transformer(activation="gelu", norm_eps=0.5), "gelu", 0.5),
        (transformer(activation="swiglu", norm_eps=0.5), "gelu-tanh", 0.5),  # a gated feed-forward layer
        (recurrent_encoder("gru"), "gelu-tanh", EPSILON),
    ],
    ids=["gelu", "gated", "recurrent"],
)
def test_the_masked_lm_head_has_the_activation_and_the_epsilon_of_the_blocks(encoder, activation, eps):
    settings = ModelSettings(
        source=Text(embedding=BertEmbeddingSettings()), target=MaskedTokensTarget(), encoder=encoder
    )
    model = build_model(settings, *SIZES)
    assert model.transform.activation is ACTIVATIONS[activation]
    assert (model.transform.norm.eps, model.source.norm.eps) == (eps, eps)


def test_a_shared_vocabulary_needs_embeddings_of_one_width():
    """The width of the decoder's state may differ."""
    decoder = recurrent_decoder("gru", "additive").with_(width=12, embedding_width=WIDTH)
    settings = seq2seq_settings(recurrent_encoder("gru"), decoder, "none").with_(**{"target.vocabulary": "shared"})
    model = build_model(settings, TARGET_SIZE, TARGET_SIZE)
    assert model.source.table is model.target.table
    assert model.target.table.weight.shape == (TARGET_SIZE, WIDTH)


@pytest.mark.parametrize(
    ("target", "count"),
    [
        *((ImageLabel(pooling=pooling), 1) for pooling in ("cls", "pre-logits")),
        *((ImageLabel(pooling=pooling), 0) for pooling in ("mean", "map")),
        (ImageLabel(pooling="distilled"), 2),
        (EmbeddingTarget(pooling="cls"), 1),
    ],
    ids=str,
)
def test_an_image_has_the_prefix_tokens_that_its_pooling_reads(target, count):
    settings = ModelSettings(source=ImageSource(image_size=8), target=target, encoder=transformer())
    prefix = build_model(settings, 1, 5).source.prefix_tokens
    assert (len(prefix.embeddings) if count else type(prefix)) == (count or torch.nn.Identity)


def test_a_prompt_may_fill_half_the_context_and_any_length_for_cells_without_positions():
    with_positions = TextTarget(max_tokens=40)
    without_positions = TextTarget(max_tokens=40, embedding=TokenEmbeddingSettings(positions="none"))
    cells = recurrent_decoder("gru", "none")
    assert ModelSettings(target=with_positions, decoder=transformer()).max_prompt_tokens == 20
    assert ModelSettings(target=without_positions, decoder=transformer()).max_prompt_tokens == 20
    assert ModelSettings(target=with_positions, decoder=cells).max_prompt_tokens == 20
    assert ModelSettings(target=without_positions, decoder=cells).max_prompt_tokens == sys.maxsize


def test_the_feed_forward_width_is_rounded():
    assert [transformer(width=16, mlp_ratio=ratio).feed_forward_width for ratio in (4, 8 / 3, 2.5)] == [64, 43, 40]


# Settings that contradict each other

ENCODER = {"source": {}, "encoder": {"kind": "transformer"}}
DECODER = {"decoder": {"kind": "transformer"}}
IMAGE_ENCODER = ENCODER | {"source": {"kind": "image"}}


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"source": {}, "encoder": {"kind": "transformer", "width": 12, "heads": 4}}, r"encoder\.width 12.*4 heads"),
        ({"decoder": {"kind": "transformer", "width": 6, "heads": 2}}, r"decoder\.width 6.*2 heads"),
        (
            ENCODER | {"target": {"vocabulary": "shared"}, "decoder": {"kind": "transformer", "width": 512}},
            "decoder.width alike, or set",
        ),
        (
            ENCODER | {"target": {"vocabulary": "shared", "tokenizer": {"kind": "words"}}} | DECODER,
            "target.tokenizer alike, or set",
        ),
        ({"decoder": {"kind": "transformer", "heads": 4, "kv_heads": 3}}, r"decoder\.kv_heads 3 must divide its 4"),
        (IMAGE_ENCODER | {"target": {"vocabulary": "shared"}} | DECODER, "no vocabulary that could be shared"),
        (IMAGE_ENCODER | {"source": {"kind": "video"}} | DECODER, r"video needs encoder\.kind=recurrent"),
        (ENCODER, r"target\.kind=text needs \[decoder\]"),
        (ENCODER | {"target": {"kind": "masked-tokens"}} | DECODER, r"target\.kind=masked-tokens has no \[decoder\]"),
        ({"target": {"kind": "masked-tokens"}}, r"needs \[source\] and \[encoder\]"),
        (ENCODER | {"source": {"embedding": {"kind": "bert"}}} | DECODER, "encoder-only"),
        ({"source": {}}, r"\[source\] needs \[encoder\]"),
        ({"encoder": {"kind": "transformer"}}, r"\[encoder\] needs \[source\]"),
        ({"encoder": {"kind": "transfomer"}}, "transfomer"),
        ({"decoder": {"kind": "gated-cnn"}}, "gated-cnn"),
    ],
)
def test_a_contradiction_raises_an_error_of_one_sentence(tree, message):
    with pytest.raises(UserError, match=message):
        read_tree(ModelSettings, tree)


def test_an_odd_width_with_sinusoidal_positions_is_refused():
    with pytest.raises(UserError, match="even"):
        build_model(
            seq2seq_settings(recurrent_encoder("gru", False).with_(width=7), recurrent_decoder("gru", "additive")),
            *SIZES,
        )
