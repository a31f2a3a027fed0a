"""Training on streams is what everybody writes in plain torch: the same weights give the same losses, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, Characters, train_tokenizer
from seq2see.data.windows import ContiguousSampler, TextDataset
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import BETAS, EPSILON, SGD, AdamW, Constant
from seq2see.training.settings import Training

ROWS, MEAN_STRETCH, EMBEDDING_WIDTH, WIDTH, CLIP = 5, 14, 12, 20, 0.1
TEXT = "".join(np.random.default_rng(1).choice(list("abcdefg \n甲乙"), 1200))


class TorchLSTM(nn.Module):
    """Embedding, two layers of nn.LSTM with times first, a matrix back to the embedding's width, tied scores."""

    def __init__(self, words: int):
        super().__init__()
        self.table, self.projection = (
            nn.Embedding(words, EMBEDDING_WIDTH),
            nn.Linear(WIDTH, EMBEDDING_WIDTH, bias=False),
        )
        self.cells = nn.LSTM(EMBEDDING_WIDTH, WIDTH, num_layers=2)

    def forward(self, fed: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        read, state = self.cells(self.table(fed), state)
        hidden = self.projection(read)
        return hidden, hidden @ self.table.weight.T, state

    @torch.no_grad()
    def copy(self, weights: dict[str, Tensor]) -> None:
        self.table.weight.copy_(weights["target.table.weight"])
        self.projection.weight.copy_(weights["decoder.output_projection.0.weight"])
        for layer in range(2):
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                theirs = getattr(self.cells, f"{part}_l{layer}")
                theirs.copy_(weights[f"decoder.stack.cells.{layer}.rnn.{part}_l0"])


OPTIMIZERS = {
    "adamw": (
        AdamW(weight_decay=0.0),
        0.01,
        lambda weights: torch.optim.AdamW(weights, 0, BETAS, EPSILON, weight_decay=0),
    ),
    "sgd": (SGD(), 1.0, lambda weights: torch.optim.SGD(weights, 0)),
}


def plain_losses(
    model: TorchLSTM, ids: np.ndarray, streams: ContiguousSampler, steps: int, optimizer, learning_rate: float
) -> list[float]:
    """The textbook's loop over columns of text; it asks ours how long a step is, and where an epoch begins."""
    losses, state, begin, length = [], None, 0, len(ids) // ROWS
    for step in range(steps):
        actual = streams.batch_at(step)
        times = actual.labels.size(1)
        if begin + times > length or not step:  # what is left of the text fills no stretch: an epoch is over
            shift = next(at for at in range(len(ids)) if (np.roll(ids, -at)[:times] == actual.labels[0].numpy()).all())
            columns = torch.from_numpy(
                np.stack([np.roll(ids, -shift - row * length)[:length] for row in range(ROWS)], 1)
            )
            fed = torch.cat([torch.full((1, ROWS), BOS), columns])
            state, begin = None, 0
        hidden, scores, state = model(fed[begin : begin + times], state)
        answers = columns[begin : begin + times]
        loss = functional.cross_entropy(scores.flatten(0, 1), answers.flatten())
        tokens = answers.numel()
        loss = loss + 2 * hidden.pow(2).mean() + (hidden[1:] - hidden[:-1]).pow(2).mean(-1).sum() / tokens
        state, begin = tuple(part.detach() for part in state), begin + times
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * times / MEAN_STRETCH
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_contiguous_training_matches_plain_torch(name):
    tokenizer = train_tokenizer(Characters(), [TEXT])
    texts = TextDataset([Example("", TEXT)], tokenizer, MEAN_STRETCH)
    cells = RecurrentDecoderSettings(
        cell="lstm", attention="none", width=WIDTH, depth=2, embedding_width=EMBEDDING_WIDTH, dropout=0.0
    )
    settings = ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="none", scale=False)), decoder=cells
    )
    model, theirs = (
        fresh_model(settings, (len(tokenizer),) * 2, "xavier", seed=1).double(),
        TorchLSTM(len(tokenizer)).double(),
    )
    theirs.copy(dict(model.named_parameters()))
    optimizer, learning_rate, other = OPTIMIZERS[name]
    training = Training(
        learning_rate=learning_rate,
        batch_tokens=ROWS * MEAN_STRETCH,
        max_grad_norm=CLIP,
        batches="contiguous",
        optimizer=optimizer,
        schedule=Constant(),
    )
    trainer, streams = (
        Trainer(model, NextToken(ar=2, tar=1), training, torch.device("cpu")),
        ContiguousSampler(texts, ROWS * MEAN_STRETCH, 1),
    )
    steps = 60  # three epochs
    figures = [trainer.train_step(streams.batch_at(step)) for step in range(steps)]
    assert sum(bool(streams.batch_at(step).reset.all()) for step in range(steps)) >= 3
    assert any(each["grad_norm"] > CLIP for each in figures)
    expected = plain_losses(
        theirs, texts.ids.astype(np.int64), streams, steps, other(theirs.parameters()), learning_rate
    )
    assert [each["loss"] for each in figures] == pytest.approx(expected, rel=1e-6)
