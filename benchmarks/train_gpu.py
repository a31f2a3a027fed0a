"""Training steps of Transformer-base on one GPU, beside Hugging Face's Marian and torch's nn.Transformer.

python benchmarks/train_gpu.py        writes results/train_gpu.json; needs a GPU and `transformers`

Everyone has the same shape (6 + 6 layers, 512 wide, 32,000 tokens, tied), the same batch (256 pairs of
32 tokens, so 8,192 target tokens and no padding), bf16 autocast, dropout 0.1, clipping and fused AdamW,
is compiled by torch.compile, and takes its whole step as one CUDA graph as well.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.training.graphs import GraphedStep
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "train_gpu.json"
ROWS, TIMES, WIDTH, DEPTH, HEADS, VOCABULARY = 256, 32, 512, 6, 8, 32_000
WARM, ROUNDS, STEPS = 12, 7, 20

Step = Callable[[Batch], Tensor]


def batch() -> Batch:
    """Random tokens, every row full."""
    draws = torch.Generator().manual_seed(1)
    source, target = torch.randint(4, VOCABULARY, (2, ROWS, TIMES + 1), generator=draws)
    lengths = torch.full((ROWS,), TIMES)
    return Batch(
        Sequences(source[:, :TIMES], lengths), Sequences(target[:, :TIMES], lengths), target[:, 1:], torch.arange(ROWS)
    ).to("cuda")


class TorchTransformer(nn.Module):
    """nn.Transformer with the table of vectors and the tied output that it leaves to its users."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(TIMES, WIDTH)
        self.stack = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, 4 * WIDTH, dropout=0.1, batch_first=True)
        self.register_buffer("hidden_future", torch.ones(TIMES, TIMES, dtype=torch.bool).triu(1))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        places = self.places.weight
        source, target = (self.table(side.values) * WIDTH**0.5 + places for side in (batch.source, batch.target))
        hidden = self.stack(source, target, tgt_mask=self.hidden_future, tgt_is_causal=True)
        logits = hidden @ self.table.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


class Marian(nn.Module):
    """Hugging Face's Marian of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        shape = {"d_model": WIDTH, "encoder_layers": DEPTH, "decoder_layers": DEPTH, "max_position_embeddings": 128}
        heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
        inner = {"encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH, "activation_function": "relu"}
        tokens = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
        self.model = MarianMTModel(MarianConfig(**shape, **heads, **inner, **tokens, dropout=0.1, scale_embedding=True))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        fed = {"input_ids": batch.source.values, "decoder_input_ids": batch.target.values}
        return self.model(**fed, labels=batch.labels, use_cache=False).loss


def peer(model: Any) -> Step:
    """A training step as one would write it: autocast, compiled forward, clip, fused AdamW."""
    model = model.cuda().train()
    weights = list(model.parameters())
    optimiser = torch.optim.AdamW(weights, lr=torch.tensor(1e-4, device="cuda"), fused=True, capturable=True)
    compiled = torch.compile(model.loss)

    def step(batch: Batch) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def ours() -> tuple[Step, Step]:
    """Our own trainer's step: launched kernel by kernel, and as it runs by default."""
    stack = TransformerSettings(width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.1, order="post")
    settings = ModelSettings(encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    model = fresh_model(settings, (VOCABULARY, VOCABULARY), "xavier", seed=1)
    training = Training(precision="bf16", compile=True, clip=1.0, steps=10_000, rate=1e-4)
    trainer = Trainer(model, NextToken(), training, torch.device("cuda"))
    trainer.model.train()

    def launch(batch: Batch) -> Tensor:
        trainer.launch(batch)
        return trainer.launched.pop().figures

    return trainer._step, launch


def tokens_per_second(step: Step) -> tuple[float, float]:
    """Median and spread (largest less smallest, as a share) over rounds of steps."""
    data = batch()
    for _ in range(WARM):
        step(data)
    rates = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            step(data)
        torch.cuda.synchronize()
        rates.append(STEPS * ROWS * TIMES / (time.perf_counter() - began))
    return statistics.median(rates), (max(rates) - min(rates)) / statistics.median(rates)


def main(names: list[str]) -> None:
    rows = []
    makers = {"Hugging Face Marian": lambda: peer(Marian()), "nn.Transformer": lambda: peer(TorchTransformer())}
    for name, make in {**makers, "seq2see": None}.items():
        if names and name.split()[0] not in names:
            continue
        began = time.monotonic()
        torch._dynamo.reset()
        plain, graphed = ours() if make is None else (make(), None)
        graphed = graphed or GraphedStep(plain, nullcontext)
        for how, step in (("compiled", plain), ("compiled, one CUDA graph", graphed)):
            try:
                rate, spread = tokens_per_second(step)
            except Exception as error:  # a peer may not take graphs: that is a result too
                print(name, how, repr(error)[:300], file=sys.stderr)
                continue
            rows.append({"name": name, "how": how, "value": round(rate), "spread": round(spread, 3)})
            print(json.dumps({**rows[-1], "seconds": round(time.monotonic() - began)}), flush=True)
    peers = [row["value"] for row in rows if row["name"] != "seq2see"]
    for row in rows:
        row["ratio"] = round(row["value"] / max(peers), 2) if peers else None
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/train_gpu.py", "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
