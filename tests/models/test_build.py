"""From settings to a model: the right classes, the first weights, and settings that contradict each other."""

from __future__ import annotations

import typing

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.core.settings import choices, read_tree
from seq2see.layers.feed_forward import THINKS
from seq2see.layers.positions import POSITIONS
from seq2see.models.build import DECODERS, ENCODERS, READERS, WRITERS, build_model, fresh_model
from seq2see.models.counting import CountingSettings
from seq2see.models.frontends import FRONTENDS
from seq2see.models.heads import HEADS
from seq2see.models.settings import ModelSettings, Series, TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.models.window import WindowDecoderSettings
from seq2see.training.smoothing import SMOOTHINGS
from tiny_models import FAMILIES, SOURCE_SIZE, TARGET_SIZE, WIDTH, pair, reads, transformer, writes

SIZES = (SOURCE_SIZE, TARGET_SIZE)


def weights(settings: ModelSettings, start: str = "xavier", seed: int = 3) -> dict[str, torch.Tensor]:
    return dict(fresh_model(settings, SIZES, start, seed).state_dict())


def test_every_kind_of_settings_has_a_class_and_every_word_its_table():
    assert set(choices(ModelSettings.model_fields["encoder"].annotation)) == set(ENCODERS)
    decoders = set(choices(ModelSettings.model_fields["decoder"].annotation))
    assert decoders == set(WRITERS) | {CountingSettings}  # counts have nothing to do with vectors and heads
    assert set(typing.get_args(TextTarget.model_fields["head"].annotation)) == set(HEADS)
    assert set(WRITERS) == set(DECODERS) | {WindowDecoderSettings}  # a window cannot look at a source
    assert set(typing.get_args(CountingSettings.model_fields["smoothing"].annotation)) == set(SMOOTHINGS)
    assert set(typing.get_args(Tokens.model_fields["positions"].annotation)) == set(POSITIONS)
    assert set(choices(ModelSettings.model_fields["target"].annotation)) == {TextTarget, Series, *READERS}
    assert set(typing.get_args(Tokens.model_fields["vectors"].annotation)) == set(FRONTENDS)
    assert set(typing.get_args(TransformerSettings.model_fields["think"].annotation)) == set(THINKS)


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
    model = build_model(pair(reads("gru"), transformer(width=12)), *SIZES)
    assert model.source.table.weight.shape == (SOURCE_SIZE, WIDTH)
    assert model.target.table.weight.shape == (TARGET_SIZE, 12)
    assert model.decoder.blocks[0].look_across.keys_values.weight.shape == (24, WIDTH)


def test_each_side_gets_its_own_dropout():
    model = build_model(pair(transformer(dropout=0.25), writes("gru", "dot")), *SIZES)
    assert model.source.dropout.p == 0.25
    assert model.target.dropout.p == 0.2


def test_tables_are_drawn_so_that_tokens_and_positions_are_of_one_size():
    found = fresh_model(pair(transformer(), transformer()), (900, 901), "xavier", 1)
    for table in (found.source.table, found.target.table):
        assert float(table.weight.detach().std()) == pytest.approx(WIDTH**-0.5, rel=0.05)


@pytest.mark.parametrize("start", ["xavier", "he", "zero"])
def test_every_initialiser_reaches_every_matrix_and_leaves_norms_alone(start):
    found = weights(pair(transformer(width=64), transformer(width=64), head="free"), start)
    for name in ("encoder.blocks.0.think.widen", "decoder.blocks.1.look_across.keys_values", "head.project"):
        matrix = found[f"{name}.weight"]
        out, into = matrix.shape
        spread = {"xavier": 2 / (into + out), "he": 2 / into, "zero": 0.0}[start] ** 0.5
        assert float(matrix.std()) == pytest.approx(spread, rel=0.1)
        assert found[f"{name}.bias"].count_nonzero() == 0
    assert (found["encoder.blocks.0.around_look.norm.weight"] == 1).all()


def test_xavier_is_uniform_within_its_bound():
    matrix = weights(pair(transformer(width=64), transformer(width=64)))["encoder.blocks.0.think.widen.weight"]
    bound = (6 / (64 + 256)) ** 0.5
    assert 0.98 * bound < matrix.abs().max() <= bound


# Settings that contradict each other

READS = {"source": {}, "encoder": {"kind": "transformer"}}
WRITES = {"decoder": {"kind": "transformer"}}


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
            READS | {"target": {"vocabulary": "shared", "tokeniser": {"kind": "words"}}} | WRITES,
            "target.tokeniser alike, or set",
        ),
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
        build_model(pair(reads("gru", "forward").with_(width=7), writes("gru", "additive")), *SIZES)
