"""Decoding with Transformer-base on one GPU, compared with Hugging Face `generate`.

python benchmarks/decode_gpu.py       writes results/decode_gpu.json; needs a GPU and `transformers`

All have the same random weights (exported in Marian's layout), the same sources and bf16; each output has 32 tokens.
Hugging Face runs with its defaults, and with a static cache, for which it compiles its decoding step. Tokens per second
count the tokens of the outputs, from source ids to output ids.
"""

from __future__ import annotations

import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from seq2see.acceleration.inference import optimize_for_inference
from seq2see.core.batch import Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.tokenizers.tokenizer import EOS, WordLevel, train_tokenizer
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Decoding, Limits, decode
from seq2see.decoding.samplers import Average, GreedySampler
from seq2see.interop.hugging_face_seq2seq import write_seq2seq
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

RESULTS = Path(__file__).parent / "results" / "decode_gpu.json"
VOCABULARY, TIMES, NEW = 32_000, 32, 32
WARM_UP, ROUNDS = 3, 9

CASES: list[tuple[int, int, float | None, float | None]] = [
    (1, 1, 15.0, 6.0), (64, 1, 8.0, 3.0), (64, 4, None, 6.5), (1, 4, None, None),
]  # fmt: skip
"""Rows, beams, and the target ratios: to the defaults of Hugging Face, and to its faster form."""
DEFAULT, STATIC, OWN = "Hugging Face generate", "Hugging Face generate, static cache", "seq2see"

Decode = Callable[[Sequences, int], list[list[int]]]


def model() -> StoredModel:
    """Transformer-base with random weights and a vocabulary of made-up words."""
    stack = TransformerSettings(width=512, depth=6, heads=8, norm_order="post")
    words = train_tokenizer(WordLevel(), [" ".join(f"w{number}" for number in range(VOCABULARY - 4))])
    text = {"tokenizer": WordLevel(), "max_tokens": 128}
    settings = ModelSettings(
        encoder=stack, decoder=stack, source=Text(**text), target=TextTarget(**text, vocabulary="shared")
    )
    module = fresh_model(settings, (VOCABULARY, VOCABULARY), "xavier", seed=1).eval()
    config = ModelConfig(
        task=pretrained_task(settings), name="random", step=0, model=settings, decoding=Decoding(max_new_tokens=NEW)
    )
    return StoredModel(config=config, module=module, tokenizers=Tokenizers(words, words))


def seq2see_decoder(stored: StoredModel, dtype: torch.dtype) -> Decode:
    """seq2see's decoding loop with steps in a CUDA graph."""
    module = copy.deepcopy(stored.module).to("cuda")
    graphed = optimize_for_inference(module, "bf16" if dtype == torch.bfloat16 else "float32")

    def run(source: Sequences, beams: int) -> list[list[int]]:
        sampler = GreedySampler() if beams == 1 else BeamSampler(beams, Average(), stop_when_full, 1)
        outputs = decode(graphed, source, sampler, Limits(NEW))
        return [list(output[0].tokens) for output in outputs]

    return run


def hugging_face_decoder(stored: StoredModel, dtype: torch.dtype, cache: str | None = None) -> Decode:
    """`generate` with the same weights; with the "static" cache it compiles its step."""
    from transformers import AutoModelForSeq2SeqLM

    with tempfile.TemporaryDirectory() as folder:
        write_seq2seq(stored, Path(folder) / "hf")
        peer = AutoModelForSeq2SeqLM.from_pretrained(Path(folder) / "hf", dtype=dtype).to("cuda").eval()

    def run(source: Sequences, beams: int) -> list[list[int]]:
        with torch.inference_mode():
            tokens = peer.generate(
                input_ids=source.values, attention_mask=source.valid.long(), num_beams=beams, do_sample=False,
                max_new_tokens=NEW, length_penalty=1.0, early_stopping=True, cache_implementation=cache,
            )  # fmt: skip
        return [[token for token in row[1:] if token > EOS] for row in tokens.tolist()]

    return run


def sources(rows: int) -> Sequences:
    """Random sentences of 20 to 32 tokens."""
    draws = torch.Generator().manual_seed(rows)
    values = torch.randint(4, VOCABULARY, (rows, TIMES), generator=draws)
    lengths = torch.randint(20, TIMES + 1, (rows,), generator=draws)
    lengths[0] = TIMES
    values[torch.arange(TIMES) >= lengths[:, None]] = 0
    return Sequences(values, lengths).to("cuda")


def tokens_per_second(runs: dict[str, Decode], rows: int, beams: int) -> dict[str, tuple[float, float]]:
    """Median and relative range of each decoder; rounds alternate, so that drift affects all equally."""
    source = sources(rows)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(WARM_UP + ROUNDS):
        for name, run in runs.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            outputs = run(source, beams)
            torch.cuda.synchronize()
            if turn >= WARM_UP:
                rates[name].append(sum(map(len, outputs)) / (time.perf_counter() - began))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    return {name: (medians[name], (max(each) - min(each)) / medians[name]) for name, each in rates.items()}


def main() -> None:
    stored, rows = model(), []
    for dtype in (torch.float32, torch.bfloat16):
        runs = {DEFAULT: hugging_face_decoder(stored, dtype), OWN: seq2see_decoder(stored, dtype)}
        if dtype == torch.bfloat16:
            runs = {STATIC: hugging_face_decoder(stored, dtype, "static"), **runs}
        for count, beams, target, target_to_best in CASES:
            if dtype == torch.float32:  # in float32 the outputs must be equal
                outputs = [run(sources(count), beams) for run in runs.values()]
                same = sum(a == b for a, b in zip(*outputs, strict=True)) / count
                rows.append({"rows": count, "beams": beams, "precision": "float32", "same_outputs": same})
                print(json.dumps(rows[-1]), flush=True)
                continue
            measured = tokens_per_second(runs, count, beams)
            own, default = measured[OWN][0], measured[DEFAULT][0]
            best = max(rate for name, (rate, _) in measured.items() if name != OWN)
            for name, (rate, relative_range) in measured.items():
                row = {"rows": count, "beams": beams, "precision": "bf16", "name": name, "value": round(rate)}
                rows.append({**row, "relative_range": round(relative_range, 3)})
            rows[-1] |= {"ratio": round(own / default, 2), "target": target}
            rows[-1] |= {"ratio_to_best": round(own / best, 2), "target_to_best": target_to_best}
            print(json.dumps(rows[-len(measured) :]), flush=True)
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/decode_gpu.py", "rows": rows})


if __name__ == "__main__":
    main()
