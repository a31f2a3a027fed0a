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
from seq2see.layers.norms import EPSILON
from seq2see.layers.positions import POSITIONS
from seq2see.layers.relative_positions import AlibiPositions, RotaryPositions
from seq2see.models.build import DECODERS, DECODERS_WITHOUT_MEMORY, ENCODER_MODELS, ENCODERS, build_model, fresh_model
from seq2see.models.heads import HEADS
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
from seq2see.models.token_embeddings import TOKEN_EMBEDDINGS
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


def test_every_kind_of_settings_has_a_class_and_every_word_its_table():
    assert set(choices(ModelSettings.model_fields["encoder"].annotation)) == set(ENCODERS)
    decoders = set(choices(ModelSettings.model_fields["decoder"].annotation))
    assert decoders == set(DECODERS_WITHOUT_MEMORY) | {
        NgramSettings
    }  # counts have nothing to do with vectors and heads
    assert set(typing.get_args(TextTarget.model_fields["head"].annotation)) == set(HEADS)
    assert set(DECODERS_WITHOUT_MEMORY) == set(DECODERS) | {MLPDecoderSettings}  # a window cannot look at a source
    assert set(typing.get_args(NgramSettings.model_fields["smoothing"].annotation)) == set(SMOOTHINGS)
    assert set(typing.get_args(TokenEmbeddingSettings.model_fields["positions"].annotation)) == set(POSITIONS)
    assert set(choices(ModelSettings.model_fields["target"].annotation)) == {TextTarget, Series, *ENCODER_MODELS}
    assert set(typing.get_args(TokenEmbeddingSettings.model_fields["vectors"].annotation)) == set(TOKEN_EMBEDDINGS)
    assert set(typing.get_args(TransformerSettings.model_fields["think"].annotation)) == set(FEED_FORWARDS)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_weights_depend_on_the_seed_alone(name):
    torch.manual_seed(5)
    one = weights(FAMILIES[name])
    torch.manual_seed(6)
    torch.randn(7)
    two, other = weights(FAMILIES[name]), weights(FAMILIES[name], seed=4)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(one["target.table.weight"], other["target.table.weight"])


def test_both_sides_have_the_sizes_of_their_vocabularies():
    model = build_model(seq2seq_settings(recurrent_encoder("gru"), transformer(width=12)), *SIZES)
    assert model.source.table.weight.shape == (SOURCE_SIZE, WIDTH)
    assert model.target.table.weight.shape == (TARGET_SIZE, 12)
    assert model.decoder.blocks[0].cross_attention.kv_proj.weight.shape == (24, WIDTH)


def test_each_side_gets_its_own_dropout():
    model = build_model(seq2seq_settings(transformer(dropout=0.25), recurrent_decoder("gru", "dot")), *SIZES)
    assert model.source.dropout.p == 0.25
    assert model.target.dropout.p == 0.2


def test_tables_are_drawn_so_that_tokens_and_positions_are_of_one_size():
    found = fresh_model(seq2seq_settings(transformer(), transformer()), (900, 901), "xavier", 1)
    for table in (found.source.table, found.target.table):
        assert float(table.weight.detach().std()) == pytest.approx(WIDTH**-0.5, rel=0.05)


@pytest.mark.parametrize("start", ["xavier", "he", "zero"])
def test_every_initializer_reaches_every_matrix_and_leaves_norms_alone(init):
    found = weights(seq2seq_settings(transformer(width=64), transformer(width=64), head="free"), init)
    for name in ("encoder.blocks.0.activation.widen", "decoder.blocks.1.cross_attention.kv_proj", "head.project"):
        matrix = found[f"{name}.weight"]
        out, into = matrix.shape
        spread = {"xavier": 2 / (into + out), "he": 2 / into, "zero": 0.0}[init] ** 0.5
        assert float(matrix.std()) == pytest.approx(spread, rel=0.1)
        assert found[f"{name}.bias"].count_nonzero() == 0
    assert (found["encoder.blocks.0.self_attention_residual.norm.weight"] == 1).all()


def test_xavier_is_uniform_within_its_bound():
    matrix = weights(seq2seq_settings(transformer(width=64), transformer(width=64)))[
        "encoder.blocks.0.activation.widen.weight"
    ]
    bound = (6 / (64 + 256)) ** 0.5
    assert 0.98 * bound < matrix.abs().max() <= bound


@pytest.mark.parametrize(
    ("positions", "places"),
    [("rotary", RotaryPositions), ("alibi", AlibiPositions), ("learned", type(None)), ("none", type(None))],
)
def test_every_part_that_looks_is_told_what_the_frontend_leaves_to_it(positions, places):
    frontend = TokenEmbeddingSettings(positions=positions)
    translates = seq2seq_settings(transformer(), transformer(), positions)
    goes_on = ModelSettings(target=TextTarget(frontend=frontend), decoder=transformer())
    fills_in = ModelSettings(source=Text(frontend=frontend), target=MaskedTokensTarget(), encoder=transformer())
    for settings in (translates, goes_on, fills_in):
        looks = [part for part in build_model(settings, *SIZES).modules() if isinstance(part, SelfAttention)]
        assert {type(look.relative_positions) for look in looks} == {places}


@pytest.mark.parametrize("key_heads", [0, 1])
def test_plain_products_add_nothing_however_many_heads_share_their_keys(kv_heads):
    blocks = transformer(matrices="plain", kv_heads=kv_heads)
    look = build_model(ModelSettings(decoder=blocks), *SIZES).decoder.blocks[0].self_attention
    assert [name for name, _ in look.named_parameters()] == ["output.weight", "qkv_proj.weight"]


def test_numbers_that_name_no_token_are_never_probable():
    settings = ModelSettings(target=TextTarget(suppress_tokens=(0, 3)), decoder=transformer())
    chances = build_model(settings, *SIZES).head(torch.randn(4, WIDTH)).softmax(-1)
    assert (chances == 0).all(0).nonzero().flatten().tolist() == [0, 3]


def test_a_series_has_its_distances_told_by_rotation():
    look = build_model(ModelSettings(target=Series(), decoder=transformer()), 1, 1).decoder.blocks[0].self_attention
    assert isinstance(look.relative_positions, RotaryPositions)


@pytest.mark.parametrize(
    "frontend",
    [TokenEmbeddingSettings(positions="learned", max_positions=7), BertEmbeddingSettings(max_positions=7)],
    ids=["own", "bert"],
)
def test_there_are_as_many_learned_positions_as_the_frontend_says(frontend):
    settings = ModelSettings(source=Text(frontend=frontend), target=MaskedTokensTarget(), encoder=transformer())
    assert build_model(settings, *SIZES).source.positions.table.num_embeddings == 7


@pytest.mark.parametrize(
    ("encoder", "curve", "epsilon"),
    [
        (transformer(activation="gelu", norm_eps=0.5), "gelu", 0.5),
        (transformer(activation="swiglu", norm_eps=0.5), "gelu-tanh", 0.5),  # a gate is no curve
        (recurrent_encoder("gru"), "gelu-tanh", EPSILON),
    ],
    ids=["curve", "gate", "cells"],
)
def test_what_fills_blanks_thinks_and_normalizes_as_its_blocks_do(encoder, activation, epsilon):
    settings = ModelSettings(
        source=Text(frontend=BertEmbeddingSettings()), target=MaskedTokensTarget(), encoder=encoder
    )
    model = build_model(settings, *SIZES)
    assert model.transform.activation is ACTIVATIONS[activation]
    assert (model.transform.norm.eps, model.source.norm.eps) == (epsilon, epsilon)


def test_one_table_serves_both_sides_if_tokens_are_as_wide_on_both():
    """What a decoder's state is wide does not matter then."""
    decoder = recurrent_decoder("gru", "additive").with_(width=12, embedding_width=WIDTH)
    settings = seq2seq_settings(recurrent_encoder("gru"), decoder, "none").with_(**{"target.vocabulary": "shared"})
    model = build_model(settings, TARGET_SIZE, TARGET_SIZE)
    assert model.source.table is model.target.table
    assert model.target.table.weight.shape == (TARGET_SIZE, WIDTH)


@pytest.mark.parametrize(
    ("target", "tokens"),
    [
        *((ImageLabel(pooling=word), 1) for word in ("class-token", "pre-logits")),
        *((ImageLabel(pooling=word), 0) for word in ("mean", "attention")),
        (ImageLabel(pooling="distilled"), 2),
        (EmbeddingTarget(pooling="first"), 1),
    ],
    ids=str,
)
def test_as_many_vectors_stand_in_front_of_a_image_as_are_read_there(target, tokens):
    settings = ModelSettings(source=ImageSource(image_size=8), target=target, encoder=transformer())
    front = build_model(settings, 1, 5).source.prefix_tokens
    assert (len(front.vectors) if tokens else type(front)) == (tokens or torch.nn.Identity)


def test_a_language_model_goes_on_from_half_a_window_and_cells_without_places_from_any_text():
    numbered = TextTarget(max_tokens=40)
    unnumbered = TextTarget(max_tokens=40, frontend=TokenEmbeddingSettings(positions="none"))
    cells = recurrent_decoder("gru", "first-state")
    assert ModelSettings(target=numbered, decoder=transformer()).max_prompt_tokens == 20
    assert ModelSettings(target=unnumbered, decoder=transformer()).max_prompt_tokens == 20
    assert ModelSettings(target=numbered, decoder=cells).max_prompt_tokens == 20
    assert ModelSettings(target=unnumbered, decoder=cells).max_prompt_tokens == sys.maxsize


def test_the_feed_forward_part_is_as_wide_as_the_nearest_whole_number_says():
    assert [transformer(width=16, mlp_ratio=times).feed_forward_width for times in (4, 8 / 3, 2.5)] == [64, 43, 40]


# Settings that contradict each other

READS = {"source": {}, "encoder": {"kind": "transformer"}}
WRITES = {"decoder": {"kind": "transformer"}}
LOOKS = READS | {"source": {"kind": "image"}}


@pytest.mark.parametrize(
    "tree, complaint",
    [
        ({"source": {}, "encoder": {"kind": "transformer", "width": 12, "heads": 4}}, r"encoder\.width 12.*4 heads"),
        ({"decoder": {"kind": "transformer", "width": 6, "heads": 2}}, r"decoder\.width 6.*2 heads"),
        (
            READS | {"target": {"vocabulary": "shared"}, "decoder": {"kind": "transformer", "width": 512}},
            "decoder.width alike, or set",
        ),
        (
            READS | {"target": {"vocabulary": "shared", "tokenizer": {"kind": "words"}}} | WRITES,
            "target.tokenizer alike, or set",
        ),
        ({"decoder": {"kind": "transformer", "heads": 4, "key_heads": 3}}, r"decoder\.key_heads 3 must divide its 4"),
        (LOOKS | {"target": {"vocabulary": "shared"}} | WRITES, "no vocabulary that could be shared"),
        (LOOKS | {"source": {"kind": "video"}} | WRITES, r"video needs encoder\.kind=recurrent"),
        (READS, r"target\.kind=text needs \[decoder\]"),
        (READS | {"target": {"kind": "blanks"}} | WRITES, r"target\.kind=blanks has no \[decoder\]"),
        ({"target": {"kind": "blanks"}}, r"needs \[source\] and \[encoder\]"),
        (READS | {"source": {"frontend": {"kind": "sentences"}}} | WRITES, "only read"),
        ({"source": {}}, r"\[source\] needs \[encoder\]"),
        ({"encoder": {"kind": "transformer"}}, r"\[encoder\] needs \[source\]"),
        ({"encoder": {"kind": "transfomer"}}, "transfomer"),
        ({"decoder": {"kind": "convolutional"}}, "convolutional"),
    ],
)
def test_a_contradiction_is_told_in_one_sentence(tree, complaint):
    with pytest.raises(UserError, match=complaint):
        read_tree(ModelSettings, tree)


def test_an_odd_width_with_sinusoidal_positions_is_refused_in_one_sentence():
    with pytest.raises(UserError, match="even"):
        build_model(
            seq2seq_settings(recurrent_encoder("gru", "forward").with_(width=7), recurrent_decoder("gru", "additive")),
            *SIZES,
        )
