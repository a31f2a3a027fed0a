"""Engines: when the plain model decodes, when its optimized copy, and when CTranslate2."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.samplers import IndependentSearch
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs import load as loading
from seq2see.runs.load import BATCH_SIZE, MIN_SOURCES, TorchEngine, open_model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

WORDS = [f"{first}{second}" for first in "bcdf" for second in "aeiou"]


def stored(members: int = 1) -> StoredModel:
    """A Transformer with 24 words, or several with different weights."""
    tokenizer = train_tokenizer(WordLevel(), [" ".join(WORDS)])
    part = TransformerSettings(width=16, depth=1, heads=2, dropout=0.0)
    text = {"embedding": TokenEmbeddingSettings(), "tokenizer": WordLevel()}
    shape = ModelSettings(source=Text(**text), target=TextTarget(**text, head="untied"), encoder=part, decoder=part)
    models = [
        fresh_model(shape, (len(tokenizer), len(tokenizer)), "xavier", seed).eval() for seed in range(1, members + 1)
    ]
    with torch.no_grad():
        for model in models:
            model.head.project.bias[:4] = torch.tensor([-30.0, -30.0, -1.0, -30.0])  # as after training
    config = ModelConfig(
        task=pretrained_task(shape),
        name="tiny",
        step=1,
        model=shape,
        decoding=Decoding(max_new_tokens=7),
        members=(shape,) * (members - 1),
    )
    return StoredModel(config, models[0] if members == 1 else Ensemble(models), Tokenizers(tokenizer, tokenizer))


def texts(count: int) -> list[str]:
    return [
        " ".join(WORDS[(3 * number + position) % 20] for position in range(1 + number % 5)) for number in range(count)
    ]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """All optimized copies that are made, as (precision, threads)."""
    calls: list[tuple[str, int]] = []
    optimize_for_inference = loading.optimize_for_inference

    def record(model: Any, precision: Any, threads: int) -> Any:
        calls.append((precision, threads))
        return optimize_for_inference(model, precision, threads)

    monkeypatch.setattr(loading, "optimize_for_inference", record)
    return calls


@pytest.fixture(autouse=True)
def accelerated(monkeypatch: pytest.MonkeyPatch):
    """These tests are about what is fast, also where the suite runs with the plain definitions."""
    monkeypatch.delenv("SEQ2SEE_PLAIN", raising=False)


class TestOptimizedCopies:
    def test_a_few_sentences_are_decoded_by_the_plain_model(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        model.predict(texts(MIN_SOURCES - 1))
        assert made == []

    def test_many_sentences_are_decoded_by_an_optimized_copy_which_is_cached(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        model.predict(texts(MIN_SOURCES))
        model.predict(texts(MIN_SOURCES), num_beams=2)
        assert made == [("float32", 1)]

    def test_repeated_calls_get_an_optimized_copy_too(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        for text in texts(MIN_SOURCES):
            model(text)
        assert made == [("float32", 1)]

    def test_the_first_part_of_a_large_batch_gets_one_at_once(self, made: list[tuple[str, int]]):
        open_model(stored()).predict(texts(2), large_batch=True)
        assert made == [("float32", 1)]

    def test_another_precision_needs_a_copy_from_the_first_sentence(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        module = model.module
        model("ba be", precision="int8")
        model("ba be", precision="bf16")
        model("ba be", precision="int8")
        assert made == [("int8", 1), ("bf16", 1)]
        assert model.module is module
        assert all(weight.dtype == torch.float32 for weight in module.parameters())

    def test_a_streamed_output_has_the_requested_precision(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        list(model.stream("ba ce"))
        assert made == []
        output = "".join(model.stream("ba ce", precision="bf16"))
        assert made == [("bf16", 1)]
        assert output == model("ba ce", precision="bf16").text

    def test_copy_and_plain_model_give_the_same_outputs(self):
        plain = open_model(stored())
        plain.engine.use_optimized = lambda request: False
        for settings in ({}, {"num_beams": 3}, {"do_sample": True, "seed": 5}):
            predictions = [
                open_model(stored()).predict(texts(150), large_batch=True, **settings),
                plain.predict(texts(150), **settings),
            ]
            assert [each.text for each in predictions[0]] == [each.text for each in predictions[1]]
            scores = [[each.score for each in group] for group in predictions]
            torch.testing.assert_close(torch.tensor(scores[0]), torch.tensor(scores[1]), atol=1e-4, rtol=0)
            assert len({each.text for each in predictions[0]}) > 5

    def test_a_model_with_changed_weights_gets_a_new_copy(self, made: list[tuple[str, int]]):
        model = open_model(stored())
        before = model.predict(texts(40))
        with torch.no_grad():
            model.module.head.project.bias[7] += 100.0
        after = model.predict(texts(40))
        assert made == [("float32", 1)] * 2
        assert [each.text for each in before] != [each.text for each in after]
        assert all(set(each.text.split()) == {model.tokenizers.target.decode([7])} for each in after)

    def test_every_member_of_an_ensemble_gets_a_copy(self, made: list[tuple[str, int]]):
        model = open_model(stored(members=2))
        optimized = model.predict(texts(40))
        assert made == [("float32", 1)] * 2
        model.engine.use_optimized = lambda request: False
        assert [each.text for each in model.predict(texts(40))] == [each.text for each in optimized]


class TestPlain:
    """With SEQ2SEE_PLAIN=1 the plain model and the plain search decode."""

    @pytest.fixture(autouse=True)
    def plain(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("SEQ2SEE_PLAIN", "1")

    def test_no_copy_is_made_and_no_fast_search_runs(self, made: list[tuple[str, int]], monkeypatch):
        searched: list[Any] = []
        select = IndependentSearch.select

        def record(search: IndependentSearch, scores: Any) -> Any:
            searched.append(type(search))
            return select(search, scores)

        monkeypatch.setattr(IndependentSearch, "select", record)
        outputs = open_model(stored()).predict(texts(MIN_SOURCES), large_batch=True)
        assert made == []
        assert set(searched) == {IndependentSearch}
        searched.clear()
        monkeypatch.delenv("SEQ2SEE_PLAIN")
        assert [each.text for each in open_model(stored()).predict(texts(3))] == [each.text for each in outputs[:3]]
        assert IndependentSearch not in searched

    @pytest.mark.parametrize("settings", [{}, {"num_beams": 3}, {"do_sample": True, "seed": 5}])
    def test_the_outputs_are_the_same(self, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
        plain_outputs = open_model(stored()).predict(texts(70), **settings)
        monkeypatch.delenv("SEQ2SEE_PLAIN")
        outputs = open_model(stored()).predict(texts(70), large_batch=True, **settings)
        assert [each.text for each in outputs] == [each.text for each in plain_outputs]
        assert [each.score for each in outputs] == pytest.approx([each.score for each in plain_outputs], abs=1e-4)

    def test_another_precision_is_an_error(self):
        with pytest.raises(UserError, match="SEQ2SEE_PLAIN=1"):
            open_model(stored())("ba be", precision="int8")

    def test_the_copies_of_large_batches_are_not_made_either(self):
        module = torch.nn.Linear(2, 2)
        assert loading.TorchEncoderEngine().module_for(module, 1000, "float32") is module


class TestWorkers:
    @pytest.mark.parametrize("native", [True, False])
    def test_outputs_do_not_depend_on_the_number_of_workers(self, native: bool, monkeypatch):
        monkeypatch.setattr(loading.TorchEngine, "_is_exact", lambda engine: native)
        monkeypatch.setattr(loading, "MIN_MEASURED_SOURCES", 500)
        single, parallel = open_model(stored()), open_model(stored())
        single.engine.pool.cores, parallel.engine.pool.cores = 1, 3
        counts: list[int] = []
        sources = texts(9 * BATCH_SIZE + 5)
        for _ in range(3):  # the first calls measure one thread layout after another
            expected, found = single.predict(sources), parallel.predict(sources, on_progress=counts.append)
            assert [each.text for each in expected] == [each.text for each in found]
            assert [each.source for each in found] == sources
        assert counts == [*[BATCH_SIZE] * 9, 5] * 3
        assert len(parallel.engine.pool.throughputs) == (2 if native else 1)

    def test_with_fewer_than_a_thousand_sources_no_other_layout_is_measured(self, monkeypatch):
        monkeypatch.setattr(loading.TorchEngine, "_is_exact", lambda engine: True)
        model = open_model(stored())
        model.engine.pool.cores = 3
        for _ in range(3):
            model.predict(texts(999))
        assert len(model.engine.pool.throughputs) == 1

    def test_sources_of_similar_length_share_a_batch(self, monkeypatch):
        batch_lengths: list[list[int]] = []
        decode = TorchEngine._decode

        def record(engine: TorchEngine, model: Any, request: Any, batch: list[int]) -> Any:
            batch_lengths.append([len(request.sources[index]) for index in batch])
            return decode(engine, model, request, batch)

        monkeypatch.setattr(TorchEngine, "_decode", record)
        open_model(stored()).predict(texts(3 * BATCH_SIZE))
        lengths = [length for batch in batch_lengths for length in batch]
        assert lengths == sorted(lengths)
        assert [len(batch) for batch in batch_lengths] == [BATCH_SIZE] * 3

    def test_settings_that_need_much_memory_have_smaller_batches(self):
        counts: list[int] = []
        open_model(stored()).predict(
            texts(5), num_beams=100, early_stopping=True, max_new_tokens=1250, on_progress=counts.append
        )
        assert counts == [2, 2, 1]


class TestCt2:
    def test_it_gives_the_outputs_of_our_engine(self):
        pytest.importorskip("ctranslate2")
        torch_model, ct2_model = open_model(stored()), open_model(stored(), engine="ct2")
        counts: list[int] = []
        found = ct2_model.predict(texts(70), on_progress=counts.append)
        assert [each.text for each in found] == [each.text for each in torch_model.predict(texts(70))]
        assert sum(counts) == 70
        assert ct2_model("ba be bi").outputs[0].score == pytest.approx(
            torch_model("ba be bi").outputs[0].score, abs=1e-4
        )

    def test_it_is_used_for_streaming_too(self, monkeypatch):
        pytest.importorskip("ctranslate2")
        model = open_model(stored(), engine="ct2")
        calls: list[int] = []
        generate = model.engine.generate
        monkeypatch.setattr(model.engine, "generate", lambda *arguments: calls.append(1) or generate(*arguments))
        assert "".join(model.stream("ba ce")) == open_model(stored())("ba ce").text
        assert calls

    def test_it_supports_no_prefix(self):
        pytest.importorskip("ctranslate2")
        with pytest.raises(UserError, match="supports no prefix"):
            open_model(stored(), engine="ct2")("ba", prefix="be")

    def test_it_supports_no_ensemble(self):
        pytest.importorskip("ctranslate2")
        with pytest.raises(UserError, match="supports no ensembles"):
            open_model(stored(members=2), engine="ct2")

    def test_without_its_package_the_remedy_is_named(self, monkeypatch):
        monkeypatch.setattr(loading, "find_spec", lambda name: None)
        with pytest.raises(UserError, match=r'pip install "seq2see\[ct2\]"'):
            open_model(stored(), engine="ct2")

    def test_another_engine_does_not_exist(self):
        with pytest.raises(UserError, match=r"There is no engine 'ct3'. Did you mean 'ct2'"):
            open_model(stored(), engine="ct3")


@pytest.mark.parametrize("text", ["", " ", "\u200b"], ids=ascii)
def test_an_empty_or_invisible_text_is_refused(text: str):
    with pytest.raises(UserError, match="The text is empty"):
        open_model(stored())(text)


def test_an_empty_list_has_no_predictions():
    assert open_model(stored()).predict([]) == []
