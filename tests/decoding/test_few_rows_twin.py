"""A twin that steps a few rows by kernels of its own says what its model says.

Without a GPU triton interprets the kernels, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.core.devices import TRITON
from seq2see.core.rows import fork, tensors_of
from seq2see.decoding.beam import Beam
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Limits, decode
from seq2see.models.settings import ModelSettings, TextTarget, Tokens
from tiny_models import FAMILIES, sources, stirred, tiny, transformer

pytestmark = pytest.mark.skipif(not TRITON, reason="needs triton, which `make test-all` installs")

WITH_TWIN = [
    "transformer, pre-norm", "transformer, post-norm", "convolutional to transformer", "recurrent to transformer"
]  # fmt: skip


def writes(**changes) -> ModelSettings:
    """GPT, or something near it."""
    positions = changes.pop("positions", "learned")
    return ModelSettings(
        decoder=transformer(**changes), target=TextTarget(frontend=Tokens(positions=positions), head="free")
    )


GPTS = {"pre-norm": writes(think="gelu-tanh"), "post-norm": writes(think="gelu", order="post")}
OTHERS = {
    "rms norm": writes(norm="rms"),
    "swiglu": writes(think="swiglu"),
    "rotary": writes(positions="rotary"),
    "alibi": writes(positions="alibi"),
    "shared keys": writes(key_heads=1),
}


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """An interpreter walks through one program after another."""
    from seq2see.kernels import few_rows

    monkeypatch.setattr(few_rows, "PROGRAMS", 4)


def twin_of(model):
    from seq2see.decoding.few_rows import few_rows_twin

    return few_rows_twin(model)


def read_both(model, source, rows, lots):
    """Logits of both, after reading the same tokens in lots of so many at a time."""
    twin, states = twin_of(model), []
    assert twin is not model
    with torch.inference_mode():
        states = [each.start(source, rows, 9) for each in (model, twin)]
        for new in lots:
            tokens = torch.randint(3, 11, (rows, new))
            logits = []
            for number, each in enumerate((model, twin)):
                scores, states[number] = each.step(tokens, states[number])
                logits.append(scores)
            yield logits, states


@pytest.mark.parametrize("name", WITH_TWIN)
def test_one_token_of_a_few_rows(name):
    for (plain, quick), states in read_both(tiny(name), sources([4, 2, 5], seed=3), 3, [1, 1, 2, 1]):
        torch.testing.assert_close(quick, plain, rtol=0, atol=1e-5)
        for one, other in zip(*map(tensors_of, states), strict=True):  # what is remembered is the same, too
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", GPTS)
def test_one_token_of_gpt(name):
    for (plain, quick), _ in read_both(stirred(GPTS[name]), None, 2, [1, 3, 1]):
        torch.testing.assert_close(quick, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", WITH_TWIN[:2])
@pytest.mark.parametrize("chooser", [Greedy(), Beam(3)], ids=["greedy", "beam"])
def test_one_sentence_gets_the_same_answers(name, chooser):
    model = tiny(name)
    mine, theirs = (decode(each, sources([5], seed=3), chooser, Limits(5)) for each in (twin_of(model), model))
    assert [each.tokens for each in mine[0]] == [each.tokens for each in theirs[0]]


def test_gpt_goes_on_from_a_prefix_with_the_same_tokens():
    model, prefix = stirred(GPTS["pre-norm"]), Sequences.of([[7, 8, 9], [5]])
    mine, theirs = (decode(each, None, Greedy(), Limits(5), prefix=prefix) for each in (twin_of(model), model))
    assert [row[0].tokens for row in mine] == [row[0].tokens for row in theirs]


def test_many_rows_several_tokens_and_float64_are_left_to_the_model(monkeypatch):
    from seq2see.decoding import few_rows

    taken = []
    own = few_rows.product
    monkeypatch.setattr(
        few_rows, "product", lambda rows, *rest, **more: taken.append(len(rows)) or own(rows, *rest, **more)
    )
    for name, rows, new, dtype, expected in (
        ("transformer, pre-norm", few_rows.FEW, 1, torch.float32, True),
        ("transformer, pre-norm", few_rows.FEW + 1, 1, torch.float32, False),
        ("transformer, pre-norm", 2, 2, torch.float32, False),
        ("transformer, pre-norm", 2, 1, torch.float64, False),
    ):
        twin = twin_of(tiny(name, dtype))
        taken.clear()
        with torch.inference_mode():
            twin.step(torch.full((rows, new), 5), twin.start(sources([3] * rows), rows, 4))
        assert set(taken) == ({rows} if expected else set())


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernels_do_not_know_stays_as_it_is(name):
    model = stirred(OTHERS[name])
    assert twin_of(model) is model


def test_only_transformers_have_a_twin():
    assert {name for name in FAMILIES if twin_of(tiny(name)) is not tiny(name)} == set(WITH_TWIN)


def test_a_model_is_left_alone_and_shares_its_weights_with_its_twin():
    model = tiny("transformer, post-norm")
    decoder, step = model.decoder, type(model.decoder).step
    twin = twin_of(model)
    assert model.decoder is decoder
    assert type(decoder).step is step
    assert {id(weight) for weight in twin.parameters()} == {id(weight) for weight in model.parameters()}


def test_a_forked_state_goes_its_own_way():
    twin = twin_of(tiny("transformer, pre-norm"))
    with torch.inference_mode():
        _, state = twin.step(torch.tensor([[5]]), twin.start(sources([3]), 1, 6))
        other = fork(state)
        expected, _ = twin.step(torch.tensor([[7]]), other)
        again, _ = twin.step(torch.tensor([[7]]), state)
    assert torch.equal(again, expected)
