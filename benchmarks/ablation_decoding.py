"""Ablation of decoding: how much slower a token is with one fast form left out.

python benchmarks/ablation_decoding.py cpu     writes the table of a CPU in results/ablation.json
python benchmarks/ablation_decoding.py gpu     that of a GPU

A cell is a model with a number of rows and beams: the translator of `train_cpu.py`, and a language model with rotary
positions and gates. `optimize_for_inference` (`seq2see/acceleration/inference.py`) puts fast forms around each other,
so each entry is left out by building the copy without it. All copies of a cell take turns in short rounds; the number
is the median over rounds of time without the entry divided by time with everything, minus 1, in percent.
"""

from __future__ import annotations

import copy
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parent))

import ablation
import train_cpu

from seq2see.acceleration.inference import optimize_for_inference, to_bf16, with_fast_search
from seq2see.acceleration.packed_weights import make_packed_model
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.core.batch import Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import Average, GreedySampler

ROUNDS, NEW, TIMES, VOCABULARY = 7, 24, 24, 2000
CASES = [(1, 1), (1, 4), (32, 1), (32, 4)]
"""Rows, beams."""
TRANSLATOR, LLAMA = "translator", "Llama"
MODELS: dict[str, Callable[[], Any]] = {
    TRANSLATOR: lambda: ablation.translator(train_cpu.SIZES["small"]),
    LLAMA: ablation.language_model,
}

Copies = dict[str, Any]
"""Copies of a model for `decode`, by the name of the entry that is left out."""


def fast_layers(model: Any, device: torch.device) -> Any:
    """A copy with fast layers and nothing else."""
    return accelerate(copy.deepcopy(model), Conditions(device.type))


def cpu_copies(model: Any, precision: Any) -> Copies:
    """The copies on a CPU; without C++ code, a model has packed weights and the fast search."""
    everything = optimize_for_inference(model, precision)
    packed = make_packed_model(fast_layers(model, torch.device("cpu")), precision)
    copies = {ablation.EVERYTHING: everything}
    if type(everything).__name__ == "NativeModel":
        copies["C++"] = with_fast_search(packed)
    else:
        copies["packed weights"] = with_fast_search(fast_layers(model, torch.device("cpu")))
        copies["fast search"] = packed
    return copies | {ablation.DEFINITION: model}


def gpu_copies(model: Any, precision: Any) -> Copies:
    """The copies on a GPU."""
    from seq2see.acceleration.graphed_decoding import GraphedModel
    from seq2see.acceleration.small_batch import make_small_batch_model

    device = torch.device("cuda")
    model = model.to(device)
    fast = to_bf16(fast_layers(model, device))
    return {
        ablation.EVERYTHING: optimize_for_inference(model, precision),
        "small-batch kernels": GraphedModel(fast),
        "CUDA graphs": with_fast_search(make_small_batch_model(fast), device),
        ablation.DEFINITION: to_bf16(copy.deepcopy(model)),
    }


def sources(rows: int, device: torch.device) -> Sequences:
    """Random tokens."""
    tokens = torch.randint(4, VOCABULARY, (rows, TIMES), generator=torch.Generator().manual_seed(rows))
    return Sequences(tokens, torch.full((rows,), TIMES)).to(device)


def seconds_of(model: Any, source: Sequences, beams: int, is_prompt: bool) -> float:
    """The seconds to decode NEW tokens after a source, or after the same tokens as a prompt."""
    sampler = GreedySampler() if beams == 1 else BeamSampler(beams, Average(), stop_when_full, 1)
    if source.values.is_cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    if is_prompt:
        decode(model, None, sampler, Limits(TIMES + NEW), prefix=source)
    else:
        decode(model, source, sampler, Limits(NEW))
    if source.values.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(copies: Copies, source: Sequences, beams: int, is_prompt: bool) -> dict[str, float]:
    """For each entry, the percentage by which a token is slower without it."""
    seconds: dict[str, list[float]] = {name: [] for name in copies}
    for number in range(ROUNDS + 1):
        for name, model in copies.items():
            elapsed = seconds_of(model, source, beams, is_prompt)
            if number:  # the first round warms up
                seconds[name].append(elapsed)
    everything = seconds.pop(ablation.EVERYTHING)
    return {
        name: round(100 * statistics.median(map(ablation.ratio, each, everything)), 1) for name, each in seconds.items()
    }


def main(arguments: Sequence[str]) -> None:
    """Measure the cells of one device, and store their table beside the others."""
    device = torch.device({"cpu": "cpu", "gpu": "cuda"}[arguments[0]])
    make_copies, precisions = (cpu_copies, ("float32", "int8")) if device.type == "cpu" else (gpu_copies, ("bf16",))
    columns = {}
    for name, create in MODELS.items():
        for precision in precisions:
            copies = make_copies(create().eval(), precision)
            for rows, beams in CASES:
                title = f"{name}, {precision}, {rows} x {'greedy' if beams == 1 else f'beam {beams}'}"
                columns[title] = measure(copies, sources(rows, device), beams, is_prompt=name == LLAMA)
                print(title, columns[title], flush=True)
    keys = [{"key": title, "digits": 1, "sign": True} for title in (*columns, "best")]
    part = {"rows": ablation.table(columns), "columns": [{"key": "name", "title": "without"}, *keys]}
    about = {"command": f"python benchmarks/ablation_decoding.py {arguments[0]}", "environment": describe_machine()}
    path = ablation.RESULTS
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    write_json(path, {"tables": stored["tables"] | {f"{arguments[0]}-decoding": part | about}})


if __name__ == "__main__":
    main(sys.argv[1:])
