"""Training steps of Transformer-base on one GPU, compared with Hugging Face's Marian and torch's nn.Transformer.

python benchmarks/train_gpu.py        writes results/train_gpu.json; needs a GPU, `transformers` and Multi30k

All models have the same size (6 + 6 layers, 512 wide, 32,000 tokens, tied), bf16, dropout 0.1, clipping, fused AdamW.
The peers are compiled by torch.compile, and run the whole step in one CUDA graph as well; seq2see is measured with and
without torch.compile, because uncompiled blocks compute weight gradients on a side stream. There are two batches:

full sequences     256 pairs of 32 tokens, so 8,192 target tokens without padding
real sentences     random pairs of Multi30k, about 7,500 target tokens: the peers pad them to the longest, seq2see packs
                   them into sequences of 128 tokens. Only target tokens without padding are counted.
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

from seq2see.acceleration.cuda_graphs import GraphedCallable
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.packed import PackedSampler
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.recipes.registry import recipe
from seq2see.runs.prepare import prepare
from seq2see.training.objectives import NextToken, Objective
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "train_gpu.json"
ROWS, TIMES, WIDTH, DEPTH, HEADS, VOCABULARY = 256, 32, 512, 6, 8, 32_000
MAX_TOKENS = 128
ROUNDS, STEPS = 7, 20

GRAPH = "compiled, one CUDA graph"

Step = Callable[[Batch], Tensor]


BatchPair = tuple[Batch, Batch]
"""The same examples in padded rows, and packed as in seq2see's trainer."""


def full_sequences() -> BatchPair:
    """Random tokens, without padding."""
    rng = torch.Generator().manual_seed(1)
    source, target = torch.randint(4, VOCABULARY, (2, ROWS, TIMES + 1), generator=rng)
    lengths = torch.full((ROWS,), TIMES)
    source, inputs, labels = source[:, :TIMES], target[:, :TIMES], target[:, 1:].contiguous()
    batch = Batch(Sequences(source, lengths), Sequences(inputs, lengths), labels, torch.arange(ROWS))
    return batch, batch


def real_sentences() -> BatchPair:
    """Pairs of Multi30k in the order of an epoch, with the recipe's subword tokenizer."""
    pairs = prepare(recipe("multi30k-transformer"), log=lambda line: None).train
    packs = PackedSampler(pairs.lengths, ROWS * TIMES, seed=1)
    indices = packs.indices_at(0)
    return pairs.batch(indices), packs.batch(pairs, indices)


BATCHES = {"full sequences": full_sequences, "real sentences": real_sentences}


def is_full(side: Sequences) -> bool:
    """Whether there is no padding, so that no mask is needed: only `full_sequences` has this shape."""
    return tuple(side.values.shape) == (ROWS, TIMES)


class TorchTransformer(nn.Module):
    """nn.Transformer with an embedding and a tied output layer."""

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
        causal_mask = torch.ones(times, times, dtype=torch.bool, device=embedded[1].device).triu(1)
        padding = None if is_full(batch.source) else ~batch.source.valid
        masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        hidden = self.stack(*embedded, tgt_mask=causal_mask, tgt_is_causal=True, **masks)
        logits = hidden @ self.table.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


class Marian(nn.Module):
    """Hugging Face's Marian of the same size."""

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
        inputs = {"input_ids": batch.source.values, "decoder_input_ids": batch.target.values}
        if not is_full(batch.source):
            inputs["attention_mask"] = batch.source.valid.long()
        return self.model(**inputs, labels=batch.labels, use_cache=False).loss


def peer(model: Any) -> tuple[Step, Step]:
    """The usual training step (autocast, compiled forward, clipping, fused AdamW), and the step as a CUDA graph."""
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
"""seq2see without and with torch.compile; uncompiled, weight gradients are computed on a side stream."""


def seq2see_step(compiled: bool) -> tuple[Step, Step]:
    """The step of seq2see's Transformer of the same size."""
    stack = TransformerSettings(width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.1, norm_order="post")
    settings = ModelSettings(source=Text(), encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    return seq2see_steps(fresh_model(settings, (VOCABULARY, VOCABULARY), "xavier", seed=1), NextToken(), compiled)


def seq2see_steps(model: nn.Module, objective: Objective, compiled: bool = False) -> tuple[Step, Step]:
    """The step of seq2see's trainer: without a CUDA graph, and by default."""
    training = Training(precision="bf16", compile=compiled, max_grad_norm=1.0, steps=10_000, learning_rate=1e-4)
    trainer = AcceleratedTrainer(model, objective, training, torch.device("cuda"))
    trainer.model.train()

    def graphed_step(batch: Batch) -> Tensor:
        trainer.enqueue(batch)
        return trainer.pending_steps.pop().metrics

    return trainer.uncaptured_step, graphed_step


def tokens_per_second(step: Step, data: Batch) -> tuple[float, float]:
    """Median and relative range of tokens per second over rounds of steps."""
    tokens = int(data.label_mask.sum())
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
    """The measured modes of a step: one CUDA graph, and for the peers also without a graph."""
    seq2see_modes = {"seq2see": ("one CUDA graph",), "seq2see, compiled": (GRAPH,)}
    return seq2see_modes.get(name, (GRAPH, "compiled"))


def measure(about: dict[str, Any], steps: tuple[Step, Step], data: Batch) -> None:
    """The process of one model on one batch: compile, print "ready", read a line, and print the speed of all modes."""
    plain, graphed = steps
    # The graph first: torch accumulates a gradient on the stream of its first use, and captures on another stream.
    steps_by_mode = dict(zip(modes_of(about["name"]), (graphed, plain), strict=False))
    for mode in list(steps_by_mode):
        try:
            steps_by_mode[mode](data)
        except Exception as error:  # a peer may not support CUDA graphs, which is a result, too
            print(about, mode, repr(error)[:300], file=sys.stderr)
            del steps_by_mode[mode]
    print("ready", flush=True)
    input()
    rows = []
    for mode, step in steps_by_mode.items():
        rate, relative_range = tokens_per_second(step, data)
        rows.append({**about, "mode": mode, "value": round(rate), "relative_range": round(relative_range, 3)})
    print(json.dumps(rows), flush=True)


def run_in_turns(cases: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """The rows of all cases (a script and its arguments), each in a new process, so that no compiler state is shared.

    All processes compile concurrently; then they are measured one after another while the others wait.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, *case], **pipes) for case in cases]
    for process in running:
        while process.stdout.readline().strip() not in ("ready", ""):
            pass
    rows = []
    for process in running:
        output, _ = process.communicate("go\n")
        rows += json.loads(output.splitlines()[-1]) if process.returncode == 0 else []
        print(json.dumps(rows[-2:]), flush=True)
    return rows


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """The speed of seq2see in each mode, relative to the fastest peer in each of its modes."""
    for row in [row for row in rows if row["name"] in SEQ2SEE]:
        for key, mode in (("to_compiled", "compiled"), ("to_graphed", GRAPH)):
            peers = [each for each in rows if each["name"] not in SEQ2SEE and each["mode"] == mode]
            values = [each["value"] for each in peers if each["benchmark"] == row["benchmark"]]
            row[key] = round(row["value"] / max(values), 2) if values else None


def main() -> None:
    rows = run_in_turns([(__file__, name, benchmark) for benchmark in BATCHES for name in (*PEERS, *SEQ2SEE)])
    add_ratios(rows)
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/train_gpu.py", "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:]:
        name, benchmark = sys.argv[1:]
        steps = peer(PEERS[name]()) if name in PEERS else seq2see_step(SEQ2SEE[name])
        measure({"benchmark": benchmark, "name": name}, steps, BATCHES[benchmark]()[name not in PEERS].to("cuda"))
    else:
        main()
