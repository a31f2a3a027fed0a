"""Training steps on a CPU, compared with Hugging Face's Marian and torch's nn.Transformer.

python benchmarks/train_cpu.py            writes results/train_cpu.json; needs `transformers`
python benchmarks/train_cpu.py small      one size; the other rows stay as they are

All models have the same architecture (post-norm, one embedding for source, target and output), the same 64 pairs of 5
to 40 tokens from Multi30k (SEQ2SEE_DATA; from the pocket corpus without it), dropout 0.1, clipping and fused AdamW.
There are two batches: pairs in random order, and pairs of similar length with little padding. The measurements of all
models alternate in short rounds, so that background load affects all equally.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from processors import replace_rows
from torch import Tensor, nn

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import IGNORE_INDEX, Batch
from seq2see.core.devices import autocast, describe_machine, processor_name
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.seeds import generator
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.tokenizers.tokenizer import BPE, train_tokenizer
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "train_cpu.json"
CPU, PAIRS, MIN_TOKENS, MAX_TOKENS, VOCABULARY = torch.device("cpu"), 64, 5, 40, 8000

Step = Callable[[Batch], Any]


@dataclass(frozen=True)
class Size:
    """The size of a model, and the number of measured rounds and steps."""

    width: int
    depth: int
    heads: int
    vocabulary: int
    rounds: int
    steps: int


SIZES = {"small": Size(256, 3, 4, 8000, 9, 4), "base": Size(512, 6, 8, 32_000, 3, 1)}


def batches() -> dict[str, Batch]:
    """64 pairs in random order, and 64 of similar length."""
    try:
        corpus = CatalogueCorpus(name="multi30k", languages="en-de").splits()["train"]
    except UserError:
        corpus = PocketCorpus(size=20_000).splits()["train"]
    texts = [text for example in corpus for text in (example.source, example.target)]
    tokenizer = train_tokenizer(BPE(vocab_size=VOCABULARY), texts)
    pairs = PairDataset(corpus, tokenizer, tokenizer, MAX_TOKENS)
    fitting = np.flatnonzero((pairs.lengths >= MIN_TOKENS).all(1) & (pairs.lengths < MAX_TOKENS).all(1))
    some = generator(1, "benchmark").choice(fitting, PAIRS, replace=False)
    by_length = fitting[np.argsort(pairs.lengths[fitting].max(1), kind="stable")]
    middle = len(by_length) // 2
    return {"random order": pairs.batch(some), "similar length": pairs.batch(by_length[middle : middle + PAIRS])}


class TorchTransformer(nn.Module):
    """nn.Transformer with an embedding and a tied output layer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.table = nn.Embedding(size.vocabulary, size.width)
        nn.init.normal_(self.table.weight, std=size.width**-0.5)
        self.positions = nn.Embedding(MAX_TOKENS + 1, size.width)
        shape = (size.width, size.heads, size.depth, size.depth, 4 * size.width)
        self.stack = nn.Transformer(*shape, dropout=0.1, batch_first=True)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        times = batch.target.values.size(1)
        hidden = self.stack(
            self._embed(batch.source.values),
            self._embed(batch.target.values),
            tgt_mask=torch.ones(times, times, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            src_key_padding_mask=~batch.source.valid,
            memory_key_padding_mask=~batch.source.valid,
        )
        logits = hidden @ self.table.weight.T
        labels = batch.labels.flatten()
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels, ignore_index=IGNORE_INDEX)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.table(tokens) * self.table.embedding_dim**0.5 + self.positions.weight[: tokens.size(1)]


class Marian(nn.Module):
    """Hugging Face's Marian of the same size."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        shape = {"d_model": size.width, "encoder_layers": size.depth, "decoder_layers": size.depth}
        heads = {"encoder_attention_heads": size.heads, "decoder_attention_heads": size.heads}
        inner = {"encoder_ffn_dim": 4 * size.width, "decoder_ffn_dim": 4 * size.width, "activation_function": "relu"}
        tokens = {"vocab_size": size.vocabulary, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
        other = {"max_position_embeddings": 128, "dropout": 0.1, "scale_embedding": True}
        self.model = MarianMTModel(MarianConfig(**shape, **heads, **inner, **tokens, **other))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        inputs = {"input_ids": batch.source.values, "attention_mask": batch.source.valid.long()}
        return self.model(**inputs, decoder_input_ids=batch.target.values, labels=batch.labels, use_cache=False).loss


def peer(model: Any, precision: str) -> tuple[Step, nn.Module]:
    """The usual training step in PyTorch."""
    weights = list(model.train().parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def step(batch: Batch) -> None:
        with autocast(CPU, precision):
            loss = model.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, model


def seq2see_step(size: Size, precision: Any) -> tuple[Step, nn.Module]:
    """The training step of seq2see's trainer."""
    stack = TransformerSettings(width=size.width, depth=size.depth, heads=size.heads, dropout=0.1, norm_order="post")
    settings = ModelSettings(source=Text(), encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    model = fresh_model(settings, (size.vocabulary, size.vocabulary), "xavier", seed=1)
    training = Training(precision=precision, max_grad_norm=1.0, steps=10_000, learning_rate=1e-4)
    return AcceleratedTrainer(model, NextToken(), training, CPU).train_step, model


MAKERS: dict[str, Callable[[Size], tuple[Step, nn.Module]]] = {
    "HF Marian, float32": lambda size: peer(Marian(size), "float32"),
    "nn.Transformer, float32": lambda size: peer(TorchTransformer(size), "float32"),
    "seq2see, float32": lambda size: seq2see_step(size, "float32"),
    "HF Marian, bf16": lambda size: peer(Marian(size), "bf16"),
    "nn.Transformer, bf16": lambda size: peer(TorchTransformer(size), "bf16"),
    "seq2see, bf16": lambda size: seq2see_step(size, "bf16"),
}


def measure(name: str, data: dict[str, Batch]) -> list[dict[str, Any]]:
    """Rows of one size: target tokens per second, and their ratio to those of Marian in the same precision."""
    size = SIZES[name]
    steps = {peer_name: make(size) for peer_name, make in MAKERS.items()}
    rates: dict[tuple[str, str], list[float]] = {}
    for number in range(size.rounds + 1):
        for kind, batch in data.items():
            for peer_name, (step, _) in steps.items():
                began = time.perf_counter()
                for _ in range(size.steps):
                    step(batch)
                if number:  # the first round warms up
                    rate = size.steps * int(batch.label_mask.sum()) / (time.perf_counter() - began)
                    rates.setdefault((kind, peer_name), []).append(rate)
    rows = []
    for (kind, peer_name), each in rates.items():
        marian = statistics.median(rates[kind, f"HF Marian, {peer_name.split(', ')[1]}"])
        weights = sum(weight.numel() for weight in steps[peer_name][1].parameters())
        tokens = int(data[kind].label_mask.sum())
        rows.append(
            {"size": name, "batch": kind, "name": peer_name, "value": round(statistics.median(each))}
            | {"ratio": round(statistics.median(each) / marian, 2), "tokens": tokens, "weights": weights}
            | {"all": [round(rate) for rate in each]}
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """The rows as a table of 80 columns."""
    print(f"{'size':6}{'batch':16}{'name':25}{'tokens/s':>9}{'min':>8}{'max':>8}{'ratio':>7}")
    for row in rows:
        numbers = f"{row['value']:9,}{min(row['all']):8,}{max(row['all']):8,}{row['ratio']:7.2f}"
        print(f"{row['size']:6}{row['batch']:16}{row['name']:25}{numbers}")


def main(names: list[str]) -> None:
    """Measure these sizes, or all, and store the rows."""
    torch.set_num_threads(min(2, torch.get_num_threads()))
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    sizes, data, measured = names or list(SIZES), batches(), list[dict[str, Any]]()
    for name in sizes:
        measured += measure(name, data)
        show([row for row in measured if row["size"] == name])
    own = [row for row in stored if row.get("processor") == processor_name() and row["size"] not in sizes]
    about = {"environment": describe_machine(), "command": "python benchmarks/train_cpu.py"}
    write_json(RESULTS, about | {"rows": replace_rows(stored, own + measured)})


if __name__ == "__main__":
    main(sys.argv[1:])
