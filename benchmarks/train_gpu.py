"""Training steps of Transformer-base on one GPU, beside Hugging Face's Marian and torch's nn.Transformer.

python benchmarks/train_gpu.py        writes results/train_gpu.json; needs a GPU, `transformers` and Multi30k

Everyone has the same shape (6 + 6 layers, 512 wide, 32,000 tokens, tied), bf16, dropout 0.1, clipping and fused AdamW.
The others are compiled by torch.compile, and take their whole step as one CUDA graph as well; we are measured both
compiled and not, for what is not compiled can compute the slopes of its weights beside the rest. There are two batches:

full rows          256 pairs of 32 tokens, so 8,192 target tokens and nothing to save
real sentences     pairs of Multi30k as they come, about 7,500 target tokens: the others pad each to the longest, we
                   string them together on lines of 128 tokens. Only real target tokens are counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.recipes.registry import recipe
from seq2see.runs.prepare import prepare
from seq2see.sequences.packed import PackedSampler
from seq2see.training.cuda_graphs import GraphedCallable
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken, Objective
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "train_gpu.json"
ROWS, TIMES, WIDTH, DEPTH, HEADS, VOCABULARY = 256, 32, 512, 6, 8, 32_000
MAX_TOKENS = 128
ROUNDS, STEPS = 7, 20

GRAPH = "compiled, one CUDA graph"

Step = Callable[[Batch], Tensor]


BatchPair = tuple[Batch, Batch]
"""The same examples in rows, and as our trainer lays them."""


def full_rows() -> BatchPair:
    """Random tokens, every row full."""
    draws = torch.Generator().manual_seed(1)
    source, target = torch.randint(4, VOCABULARY, (2, ROWS, TIMES + 1), generator=draws)
    lengths = torch.full((ROWS,), TIMES)
    source, fed, labels = source[:, :TIMES], target[:, :TIMES], target[:, 1:].contiguous()
    batch = Batch(Sequences(source, lengths), Sequences(fed, lengths), labels, torch.arange(ROWS))
    return batch, batch


def real_sentences() -> BatchPair:
    """Pairs of Multi30k in the order of an epoch, cut by the recipe's subwords."""
    pairs = prepare(recipe("multi30k-transformer"), say=lambda line: None).train
    packs = PackedSampler(pairs.lengths, ROWS * TIMES, seed=1)
    indices = packs.indices_at(0)
    return pairs.batch(indices), packs.batch(pairs, indices)


BATCHES = {"full rows": full_rows, "real sentences": real_sentences}


def is_full(side: Sequences) -> bool:
    """Whether there is no padding, so that nobody needs a mask: known from the shape, which is that of `full_rows`."""
    return tuple(side.values.shape) == (ROWS, TIMES)


class TorchTransformer(nn.Module):
    """nn.Transformer with the table of vectors and the tied output that it leaves to its users."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(MAX_TOKENS, WIDTH)
        self.stack = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, 4 * WIDTH, dropout=0.1, batch_first=True)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        embedded = []
        for side in (batch.source, batch.target):
            embedded.append(self.table(side.values) * WIDTH**0.5 + self.positions.weight[: side.values.size(1)])
        times = batch.target.values.size(1)
        future = torch.ones(times, times, dtype=torch.bool, device=embedded[1].device).triu(1)
        hidden_source = None if is_full(batch.source) else ~batch.source.valid
        masks = {"src_key_padding_mask": hidden_source, "memory_key_padding_mask": hidden_source}
        hidden = self.stack(*embedded, tgt_mask=future, tgt_is_causal=True, **masks)
        logits = hidden @ self.table.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


class Marian(nn.Module):
    """Hugging Face's Marian of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        shape = {
            "d_model": WIDTH,
            "encoder_layers": DEPTH,
            "decoder_layers": DEPTH,
            "max_position_embeddings": MAX_TOKENS,
        }
        heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
        inner = {"encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH, "activation_function": "relu"}
        tokens = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
        self.model = MarianMTModel(MarianConfig(**shape, **heads, **inner, **tokens, dropout=0.1, scale_embedding=True))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        fed = {"input_ids": batch.source.values, "decoder_input_ids": batch.target.values}
        if not is_full(batch.source):
            fed["attention_mask"] = batch.source.valid.long()
        return self.model(**fed, labels=batch.labels, use_cache=False).loss


def peer(model: Any) -> tuple[Step, Step]:
    """A training step as people write it: autocast, compiled forward, clip, fused AdamW; and the same as one graph."""
    model = model.cuda().train()
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=torch.tensor(1e-4, device="cuda"), fused=True, capturable=True)
    compiled = torch.compile(model.loss)

    def step(batch: Batch) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, GraphedCallable(step, nullcontext)


SEQ2SEE = {"seq2see": False, "seq2see, compiled": True}
"""Ourselves, and whether blocks are compiled; if they are not, the slopes of weights are computed beside the rest."""


def seq2see_step(compiled: bool) -> tuple[Step, Step]:
    """Our own Transformer of the same shape."""
    stack = TransformerSettings(width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.1, norm_order="post")
    settings = ModelSettings(source=Text(), encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    return seq2see_steps(fresh_model(settings, (VOCABULARY, VOCABULARY), "xavier", seed=1), NextToken(), compiled)


def seq2see_steps(model: nn.Module, objective: Objective, compiled: bool = False) -> tuple[Step, Step]:
    """A model's step by our own trainer: launched kernel by kernel, and as it runs by default."""
    training = Training(precision="bf16", compile=compiled, max_grad_norm=1.0, steps=10_000, learning_rate=1e-4)
    trainer = Trainer(model, objective, training, torch.device("cuda"))
    trainer.model.train()

    def launch(batch: Batch) -> Tensor:
        trainer.enqueue(batch)
        return trainer.pending_steps.pop().metrics

    return trainer._step, launch


def tokens_per_second(step: Step, data: Batch) -> tuple[float, float]:
    """Median and spread (largest less smallest, as a share) over rounds of steps."""
    tokens = int(data.asked.sum())
    rates = []
    for number in range(1 + ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            step(data)
        torch.cuda.synchronize()
        if number:  # the first round warms up
            rates.append(STEPS * tokens / (time.perf_counter() - began))
    return statistics.median(rates), (max(rates) - min(rates)) / statistics.median(rates)


PEERS = {"Hugging Face Marian": Marian, "nn.Transformer": TorchTransformer}


def modes_of(name: str) -> tuple[str, ...]:
    """How a step is taken: as one graph, and kernel by kernel, which nobody does who need not."""
    seq2see_step = {"seq2see": ("one CUDA graph",), "seq2see, compiled": (GRAPH,)}
    return seq2see_step.get(name, (GRAPH, "compiled"))


def measure(about: dict[str, Any], steps: tuple[Step, Step], data: Batch) -> None:
    """The process of one of us on one batch: compile, say so, wait for one's turn, and say how fast both ways are."""
    plain, graphed = steps
    # The graph first: torch remembers on which stream a gradient was first added up, and records on another.
    steps_by_mode = dict(zip(modes_of(about["name"]), (graphed, plain), strict=False))
    for mode in list(steps_by_mode):
        try:
            steps_by_mode[mode](data)
        except Exception as error:  # a peer may not take graphs: that is a result too
            print(about, mode, repr(error)[:300], file=sys.stderr)
            del steps_by_mode[mode]
    print("ready", flush=True)
    input()
    rows = []
    for mode, step in steps_by_mode.items():
        rate, relative_range = tokens_per_second(step, data)
        rows.append({**about, "how": mode, "value": round(rate), "spread": round(relative_range, 3)})
    print(json.dumps(rows), flush=True)


def run_in_turns(cases: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """The rows of all cases (a script and its words), each in a process of its own: nobody inherits the compiler's
    state. All compile at once, and then one after the other is measured while the rest sleep."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, *case], **pipes) for case in cases]
    for process in running:
        while process.stdout.readline().strip() not in ("ready", ""):
            pass
    rows = []
    for process in running:
        said, _ = process.communicate("go\n")
        rows += json.loads(said.splitlines()[-1]) if process.returncode == 0 else []
        print(json.dumps(rows[-2:]), flush=True)
    return rows


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """How many times faster we are, each way, than the best of the others in each of theirs."""
    for row in [row for row in rows if row["name"] in SEQ2SEE]:
        for key, mode in (("to_compiled", "compiled"), ("to_graphed", GRAPH)):
            others = [o for o in rows if o["name"] not in SEQ2SEE and (o["cell"], o["how"]) == (row["cell"], mode)]
            row[key] = round(row["value"] / max(other["value"] for other in others), 2) if others else None


def main() -> None:
    rows = run_in_turns([(__file__, name, cell) for cell in BATCHES for name in (*PEERS, *SEQ2SEE)])
    add_ratios(rows)
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/train_gpu.py", "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:]:
        name, cell = sys.argv[1:]
        steps = peer(PEERS[name]()) if name in PEERS else seq2see_step(SEQ2SEE[name])
        measure({"cell": cell, "name": name}, steps, BATCHES[cell]()[name not in PEERS].to("cuda"))
    else:
        main()
