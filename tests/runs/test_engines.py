"""Who decodes: the plain model, its quick twin, or CTranslate2; and when."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.decoding import optimize
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.settings import Decoding
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs import engines
from seq2see.runs.engines import BATCH_SIZE, MIN_SOURCES, TorchEngine
from seq2see.runs.model import Model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import WordLevel

WORDS = [f"{first}{second}" for first in "bcdf" for second in "aeiou"]


def stored(members: int = 1) -> StoredModel:
    """A Transformer of 24 words, or several that differ in their weights."""
    both = train_tokenizer(WordLevel(), [" ".join(WORDS)])
    part = TransformerSettings(width=16, depth=1, heads=2, dropout=0.0)
    text = {"embedding": TokenEmbeddingSettings(), "tokenizer": WordLevel()}
    shape = ModelSettings(source=Text(**text), target=TextTarget(**text, head="untied"), encoder=part, decoder=part)
    models = [fresh_model(shape, (len(both), len(both)), "xavier", seed).eval() for seed in range(1, members + 1)]
    with torch.no_grad():
        for model in models:
            model.head.project.bias[:4] = torch.tensor([-30.0, -30.0, -1.0, -30.0])  # as a training would leave them
    config = ModelConfig(
        name="tiny", step=1, model=shape, decoding=Decoding(max_new_tokens=7), members=(shape,) * (members - 1)
    )
    return StoredModel(config, models[0] if members == 1 else Ensemble(models), Tokenizers(both, both))


def texts(count: int) -> list[str]:
    return [" ".join(WORDS[(3 * number + place) % 20] for place in range(1 + number % 5)) for number in range(count)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every twin that is made, as (precision, threads)."""
    found: list[tuple[str, int]] = []
    optimize_for_inference = optimize.optimize_for_inference

    def note(model: Any, precision: Any, threads: int) -> Any:
        found.append((precision, threads))
        return optimize_for_inference(model, precision, threads)

    monkeypatch.setattr(optimize, "optimize_for_inference", note)
    return found


class TestTwins:
    def test_a_few_sentences_are_answered_by_the_plain_model(self, made: list[tuple[str, int]]):
        model = Model(stored())
        model.predict(texts(MIN_SOURCES - 1))
        assert made == []

    def test_many_are_answered_by_a_twin_which_is_kept(self, made: list[tuple[str, int]]):
        model = Model(stored())
        model.predict(texts(MIN_SOURCES))
        model.predict(texts(MIN_SOURCES), num_beams=2)
        assert made == [("float32", 1)]

    def test_who_asks_again_and_again_gets_a_twin_too(self, made: list[tuple[str, int]]):
        model = Model(stored())
        for text in texts(MIN_SOURCES):
            model(text)
        assert made == [("float32", 1)]

    def test_the_first_of_very_many_get_one_at_once(self, made: list[tuple[str, int]]):
        Model(stored()).predict(texts(2), many=True)
        assert made == [("float32", 1)]

    def test_another_precision_is_a_twin_from_the_first_sentence(self, made: list[tuple[str, int]]):
        model = Model(stored())
        module = model.module
        model("ba be", precision="int8")
        model("ba be", precision="bf16")
        model("ba be", precision="int8")
        assert made == [("int8", 1), ("bf16", 1)]
        assert model.module is module
        assert all(weight.dtype == torch.float32 for weight in module.parameters())

    def test_an_answer_that_is_read_as_it_comes_has_the_precision_that_was_asked_for(self, made: list[tuple[str, int]]):
        model = Model(stored())
        list(model.stream("ba ce"))
        assert made == []
        told = "".join(model.stream("ba ce", precision="bf16"))
        assert made == [("bf16", 1)]
        assert told == model("ba ce", precision="bf16").text

    def test_twin_and_plain_model_give_the_same_answers(self):
        plain = Model(stored())
        plain.engine.use_optimized = lambda asked: False
        for settings in ({}, {"num_beams": 3}, {"do_sample": True, "seed": 5}):
            answers = [
                Model(stored()).predict(texts(150), many=True, **settings),
                plain.predict(texts(150), **settings),
            ]
            assert [each.text for each in answers[0]] == [each.text for each in answers[1]]
            scores = [[each.score for each in found] for found in answers]
            torch.testing.assert_close(torch.tensor(scores[0]), torch.tensor(scores[1]), atol=1e-4, rtol=0)
            assert len({each.text for each in answers[0]}) > 5

    def test_a_model_that_was_trained_on_gets_a_new_twin(self, made: list[tuple[str, int]]):
        model = Model(stored())
        before = model.predict(texts(40))
        with torch.no_grad():
            model.module.head.project.bias[7] += 100.0
        after = model.predict(texts(40))
        assert made == [("float32", 1)] * 2
        assert [each.text for each in before] != [each.text for each in after]
        assert all(set(each.text.split()) == {model.tokenizers.target.decode([7])} for each in after)

    def test_every_member_of_an_ensemble_gets_its_twin(self, made: list[tuple[str, int]]):
        model = Model(stored(members=2))
        quick_answers = model.predict(texts(40))
        assert made == [("float32", 1)] * 2
        model.engine.use_optimized = lambda asked: False
        assert [each.text for each in model.predict(texts(40))] == [each.text for each in quick_answers]


class TestWorkers:
    @pytest.mark.parametrize("native", [True, False])
    def test_answers_do_not_depend_on_the_number_of_workers(self, native: bool, monkeypatch):
        monkeypatch.setattr(engines.TorchEngine, "_is_exact", lambda engine: native)
        monkeypatch.setattr(engines, "MEASURED", 500)  # as if these were very many
        alone, crowd = Model(stored()), Model(stored())
        alone.engine.pool.cores, crowd.engine.pool.cores = 1, 3
        counts: list[int] = []
        many = texts(9 * BATCH_SIZE + 5)
        for _ in range(3):  # the first few calls try one way of working after another
            expected, found = alone.predict(many), crowd.predict(many, on_progress=counts.append)
            assert [each.text for each in expected] == [each.text for each in found]
            assert [each.source for each in found] == many
        assert counts == [*[BATCH_SIZE] * 9, 5] * 3
        assert len(crowd.engine.pool.throughputs) == (2 if native else 1)

    def test_for_less_than_a_thousand_sources_no_other_way_is_tried(self, monkeypatch):
        monkeypatch.setattr(engines.TorchEngine, "_is_exact", lambda engine: True)
        model = Model(stored())
        model.engine.pool.cores = 3
        for _ in range(3):
            model.predict(texts(999))
        assert len(model.engine.pool.throughputs) == 1

    def test_sources_of_like_length_are_decoded_together(self, monkeypatch):
        seen: list[list[int]] = []
        decode = TorchEngine._decode

        def note(engine: TorchEngine, model: Any, asked: Any, batch: list[int]) -> Any:
            seen.append([len(asked.sources[place]) for place in batch])
            return decode(engine, model, asked, batch)

        monkeypatch.setattr(TorchEngine, "_decode", note)
        Model(stored()).predict(texts(3 * BATCH_SIZE))
        lengths = [length for batch in seen for length in batch]
        assert lengths == sorted(lengths)
        assert [len(batch) for batch in seen] == [BATCH_SIZE] * 3

    def test_what_needs_much_memory_is_decoded_in_smaller_batches(self):
        counts: list[int] = []
        Model(stored()).predict(
            texts(5), num_beams=100, early_stopping=True, max_new_tokens=1250, on_progress=counts.append
        )
        assert counts == [2, 2, 1]


class TestCt2:
    def test_it_gives_our_answers(self):
        pytest.importorskip("ctranslate2")
        own, other = Model(stored()), Model(stored(), engine="ct2")
        counts: list[int] = []
        found = other.predict(texts(70), on_progress=counts.append)
        assert [each.text for each in found] == [each.text for each in own.predict(texts(70))]
        assert sum(counts) == 70
        assert other("ba be bi").answers[0].score == pytest.approx(own("ba be bi").answers[0].score, abs=1e-4)

    def test_a_dialogue_is_answered_by_it_as_well(self, monkeypatch):
        pytest.importorskip("ctranslate2")
        model = Model(stored(), engine="ct2")
        label_mask: list[int] = []
        there = model.engine.answer
        monkeypatch.setattr(model.engine, "answer", lambda *words: asked.append(1) or there(*words))
        assert "".join(model.stream("ba ce")) == Model(stored())("ba ce").text
        assert asked

    def test_it_takes_no_prefix(self):
        pytest.importorskip("ctranslate2")
        with pytest.raises(UserError, match="takes no prefix"):
            Model(stored(), engine="ct2")("ba", prefix="be")

    def test_it_takes_no_ensemble(self):
        pytest.importorskip("ctranslate2")
        with pytest.raises(UserError, match="takes no ensemble"):
            Model(stored(members=2), engine="ct2")

    def test_without_its_package_the_remedy_is_named(self, monkeypatch):
        monkeypatch.setattr(engines, "find_spec", lambda name: None)
        with pytest.raises(UserError, match=r'pip install "seq2see\[ct2\]"'):
            Model(stored(), engine="ct2")

    def test_another_engine_does_not_exist(self):
        with pytest.raises(UserError, match=r"There is no engine 'ct3'. Did you mean 'ct2'"):
            Model(stored(), engine="ct3")


@pytest.mark.parametrize("text", ["", " ", "\u200b"], ids=ascii)
def test_nothing_is_answered_to_what_cannot_be_seen(text: str):
    with pytest.raises(UserError, match="The text is empty"):
        Model(stored())(text)


def test_an_empty_list_has_no_answers():
    assert Model(stored()).predict([]) == []
