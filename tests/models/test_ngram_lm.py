"""N-gram models: tables as a decoder, stored and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.ngrams import count_ngrams
from seq2see.data.tokenizers.tokenizer import BOS, PAD
from seq2see.models.build import build_model, load_named_tensors, named_tensors
from seq2see.models.ngram_lm import UNSEEN, NgramSettings, NgramTable
from seq2see.models.settings import ModelSettings
from seq2see.training.ngram_smoothing import SMOOTHINGS, load_levels
from tiny_models import TARGET_SIZE, ngram_model, recurrent_decoder, recurrent_encoder, seq2seq_settings

MODELS = pytest.mark.parametrize(
    ("order", "smoothing"),
    [(1, "back-off"), (1, "kneser-ney"), (2, "kneser-ney"), (3, "back-off"), (5, "modified-kneser-ney")],
)


def batch_of(tokens: torch.Tensor) -> Batch:
    lengths = torch.full((len(tokens),), tokens.size(1))
    return Batch(None, Sequences(tokens, lengths), tokens, torch.arange(len(tokens)))


def random_tokens(rows: int, time: int) -> torch.Tensor:
    return torch.randint(2, TARGET_SIZE, (rows, time), generator=torch.Generator().manual_seed(3))


@MODELS
def test_every_prediction_is_a_distribution_over_the_possible_tokens(order, smoothing):
    log_probabilities = ngram_model(order, smoothing)(batch_of(random_tokens(5, 11)))
    assert log_probabilities.isfinite().all()
    probabilities = log_probabilities.exp()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(5, 11))
    assert (probabilities[..., [PAD, BOS]] < 1e-37).all()
    assert (probabilities[..., 2:] > 1e-9).all()


@MODELS
def test_score_text_equals_the_probabilities_of_the_forward_pass(order, smoothing):
    """`score_text` looks up one token at each position; the forward pass computes the whole distribution."""
    model = ngram_model(order, smoothing)
    ids = random_tokens(1, 50)
    inputs = torch.nn.functional.pad(ids, (1, -1), value=BOS)
    expected = model(batch_of(inputs)).exp()[0].gather(1, ids[0][:, None]).squeeze(1)
    probabilities, _ = model.decoder.score_text(ids[0])
    torch.testing.assert_close(probabilities, expected)


def test_score_text_returns_the_length_of_the_longest_known_ngram():
    model = ngram_model(7, "kneser-ney")
    _, lengths = model.decoder.score_text(random_tokens(1, 300)[0])
    assert lengths.min() >= 1
    assert set(lengths.tolist()) >= {3, 4, 5}
    assert (lengths[1:] <= lengths[:-1] + 1).all()  # the prefix of a known n-gram is known


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_a_text_shorter_than_the_longest_ngrams_can_be_counted(smoothing, length):
    """The tables of some orders are empty then; an untrained model has no counts at all."""
    settings = ModelSettings(decoder=NgramSettings(order=5, smoothing=smoothing))
    model = build_model(settings, TARGET_SIZE, TARGET_SIZE)
    ids = random_tokens(1, 7)
    if length:
        ngrams = count_ngrams(ids[0, :length].numpy(), TARGET_SIZE, 5)
        load_levels(model.decoder, SMOOTHINGS[smoothing]().levels(list(ngrams)))
    distributions = model(batch_of(torch.nn.functional.pad(ids, (1, -1), value=BOS))).exp()
    torch.testing.assert_close(distributions.sum(-1), torch.ones(1, 7))
    probabilities, lengths = model.decoder.score_text(ids[0])
    torch.testing.assert_close(probabilities, distributions[0].gather(1, ids[0][:, None]).squeeze(1))
    assert lengths[:length].tolist() == list(range(2, length + 2))


def test_a_table_finds_its_ngrams_and_no_others():
    table = NgramTable(vocabulary=10)
    contexts, tokens = torch.tensor([0, 1, 2, UNSEEN]), torch.tensor([3, 3, 4, 9])
    assert table.find(contexts, tokens).tolist() == [UNSEEN] * 4
    table.assign(torch.tensor([3, 5, 24]), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 1.0, 0.6]))
    assert table.find(contexts, tokens).tolist() == [0, UNSEEN, 2, UNSEEN]
    assert table.backoff_weight(contexts).tolist() == pytest.approx([0.4, 1, 0.6, 1])
    positions, ngrams = table.followers(torch.tensor([2, 0, UNSEEN, 1]))
    assert (positions.tolist(), ngrams.tolist()) == ([0, 1, 1], [2, 0, 1])


def test_stored_tensors_are_loaded_into_an_empty_model(tmp_path: Path):
    model = ngram_model(4, "modified-kneser-ney")
    safetensors.torch.save_file(named_tensors(model), tmp_path / "model.safetensors")
    settings = ModelSettings(decoder=NgramSettings(order=4))
    again = build_model(settings, TARGET_SIZE, TARGET_SIZE)
    load_named_tensors(again, safetensors.torch.load_file(tmp_path / "model.safetensors"))
    batch = batch_of(random_tokens(3, 8))
    assert torch.equal(again(batch), model(batch))


def test_tables_of_another_model_are_refused():
    stored = named_tensors(ngram_model(4, "kneser-ney"))
    with pytest.raises(UserError, match="is unexpected"):
        load_named_tensors(build_model(ModelSettings(decoder=NgramSettings(order=3)), 9, TARGET_SIZE), stored)
    with pytest.raises(UserError, match="missing"):
        load_named_tensors(build_model(ModelSettings(decoder=NgramSettings(order=5)), 9, TARGET_SIZE), stored)
    with pytest.raises(UserError, match=r"decoder\.unigrams"):
        load_named_tensors(build_model(ModelSettings(decoder=NgramSettings(order=4)), 9, 9), stored)
    wrong = stored | {"decoder.tables.0.keys": stored["decoder.tables.0.keys"].float()}
    with pytest.raises(UserError, match="of float32"):
        load_named_tensors(build_model(ModelSettings(decoder=NgramSettings(order=4)), 9, TARGET_SIZE), wrong)


def test_a_source_is_refused():
    tree = seq2seq_settings(recurrent_encoder("gru"), recurrent_decoder("gru", "additive"), "none").model_dump()
    with pytest.raises(UserError, match="cannot attend to a source"):
        read_tree(ModelSettings, tree | {"decoder": {"kind": "ngram"}})
