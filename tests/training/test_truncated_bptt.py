"""A state that is carried from step to step: the hidden states are those of one pass, but gradients are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import Batch, ContiguousBatch, Sequences, tensors_of
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.training.checkpoints import resume, save_trainer
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import SGD, Constant
from seq2see.training.settings import Training

CPU = torch.device("cpu")
CELLS = pytest.mark.parametrize("cell", ["rnn", "rnn-relu", "gru", "lstm", "gru-reset-before"])
VOCABULARY = 11


def model(cell: str = "lstm", dropout: float = 0.0):
    decoder = RecurrentDecoderSettings(cell=cell, attention="none", width=6, depth=2, dropout=dropout)
    settings = ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")), decoder=decoder)
    return fresh_model(settings, (VOCABULARY, VOCABULARY), "xavier", seed=1)


def trainer(cell: str = "lstm", learning_rate: float = 0.5, dropout: float = 0.0, **changes) -> Trainer:
    plain = {"optimizer": SGD(), "schedule": Constant(), "max_grad_norm": 0.0, "batches": "contiguous"}
    return AcceleratedTrainer(
        model(cell, dropout), NextToken(), Training(steps=10, learning_rate=learning_rate, **plain, **changes), CPU
    )


def segments(rows: int = 3, times: tuple[int, ...] = (5, 2, 4), seed: int = 1) -> list[ContiguousBatch]:
    """A text for each row, in segments."""
    rng = torch.Generator().manual_seed(seed)
    text = torch.randint(3, VOCABULARY, (rows, sum(times) + 1), generator=rng)
    batches, begin = [], 0
    for count in times:
        inputs, labels = text[:, begin : begin + count], text[:, begin + 1 : begin + count + 1]
        target = Sequences(inputs, torch.full((rows,), count))
        batches.append(ContiguousBatch(None, target, labels, torch.arange(rows), torch.full((rows,), begin == 0)))
        begin += count
    return batches


def joined(parts: list[ContiguousBatch]) -> Batch:
    """The text as a single batch."""
    values = torch.cat([each.target.values for each in parts], dim=1)
    target = Sequences(values, torch.full((len(values),), values.size(1)))
    return Batch(None, target, torch.cat([each.labels for each in parts], dim=1), parts[0].indices)


@CELLS
def test_reading_segment_by_segment_is_reading_the_whole_text_at_once(cell):
    one, parts = trainer(cell), segments()
    one.carried_state.allocate(parts[0])
    hidden = []
    for part in parts:
        hidden.append(one.carried_state.hidden(one.carried_state.attach_state(part)).values)
        one.carried_state.commit()
    expected = one.model.hidden(joined(parts)).values
    assert_close(torch.cat(hidden, dim=1), expected, rtol=0, atol=1e-5)
    assert (one.model.hidden(parts[1]).values - hidden[1]).abs().max() > 1e-3  # without the state it would differ


@CELLS
def test_the_gradient_of_a_step_ends_where_its_segment_begins(cell):
    """Two steps of a trainer against one pass over both segments, whose graph is cut by hand."""
    one, parts = trainer(cell), segments(times=(4, 3))
    # The weights do not change: only the gradient is compared.
    one.settings = one.settings.model_copy(update={"learning_rate": 0.0})
    one.train_step(parts[0])
    norm = one.train_step(parts[1])["grad_norm"]

    def by_hand(cut: bool) -> float:
        language_model = model(cell)
        state = language_model.start(None, 3, 0)
        _, state = language_model.step_hidden(parts[0].target.values, state)
        decoder = state.decoder
        if cut:
            detached = None if decoder.cell is None else decoder.cell.detach()
            state = replace(state, decoder=replace(decoder, hidden=decoder.hidden.detach(), cell=detached))
        logits, _ = language_model.step(parts[1].target.values, state)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), parts[1].labels.flatten())
        gradients = torch.autograd.grad(loss, list(language_model.parameters()))
        return float(sum(each.square().sum() for each in gradients)) ** 0.5

    assert norm == pytest.approx(by_hand(cut=True), rel=1e-4)
    assert abs(norm - by_hand(cut=False)) > 1e-4


def test_a_stream_that_starts_anew_has_no_state():
    one, parts = trainer(learning_rate=1e-9), segments()
    first = one.train_step(parts[0])["loss"]
    one.train_step(parts[1])
    assert one.train_step(parts[0])["loss"] == pytest.approx(first, rel=1e-5)
    not_reset = replace(parts[0], reset=torch.zeros(3, dtype=torch.bool))
    assert one.train_step(not_reset)["loss"] != pytest.approx(first, rel=1e-4)


def test_only_rows_that_start_anew_are_reset():
    one, parts = trainer(learning_rate=1e-9), segments()
    one.train_step(parts[0])
    before = one.carried_state.state_dict()["1"].clone()
    reset = torch.tensor([False, True, False])
    state = one.carried_state.attach_state(replace(parts[1], reset=reset)).state
    hidden = state.decoder.hidden
    assert_close(hidden[[0, 2]], before[[0, 2]])
    assert hidden[1].abs().max() == 0
    assert state.position.tolist() == [5, 0, 5]


def test_micro_batches_of_a_step_carry_their_own_rows():
    whole, split = trainer(), trainer(accumulate=2)
    for part in segments():
        assert split.train_step(part)["loss"] == pytest.approx(whole.train_step(part)["loss"], rel=1e-5)
    for one, other in zip(tensors_of(whole.carried_state.state), tensors_of(split.carried_state.state), strict=True):
        assert_close(one, other)


def test_a_short_segment_has_a_lower_learning_rate():
    one, part = trainer(learning_rate=0.5), segments()[0]
    assert one.train_step(replace(part, lr_scale=0.25))["learning_rate"] == 0.125


def test_a_warmup_run_leaves_no_trace_in_the_state():
    one, parts = trainer(), segments()
    one.train_step(parts[0])
    before = {name: tensor.clone() for name, tensor in one.carried_state.state_dict().items()}
    with one._warmup():
        one.uncaptured_step(parts[1])
        assert not torch.equal(one.carried_state.state_dict()["1"], before["1"])
    for name, tensor in one.carried_state.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_resumed_trainer_continues_with_its_state(tmp_path):
    whole, first, second = (trainer(dropout=0.3) for _ in range(3))
    parts = segments()
    metrics = [whole.train_step(part) for part in parts]
    first.train_step(parts[0])
    save_trainer(first, tmp_path, {})
    assert resume(second, tmp_path, {}, print)
    assert [second.train_step(part) for part in parts[1:]] == metrics[1:]
    for name, weight in whole.weights.items():
        assert torch.equal(weight, second.weights[name])


def test_other_batches_carry_nothing(tmp_path):
    one = trainer()
    one.train_step(joined(segments()))
    assert one.carried_state.state is None
    save_trainer(one, tmp_path, {})
    assert not list(tmp_path.rglob("carried*"))
