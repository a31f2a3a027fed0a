"""Dialogues from a file to a conversation: train, kill, resume, evaluate, predict, chat, report, explore, export."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.acceleration.packed_weights import PackedLinear, PackedLinearBfloat16, PackedLinearInt8
from seq2see.cli.app import run as command
from seq2see.cli.chat import HELP
from seq2see.core.errors import UserError
from seq2see.core.settings import walk
from seq2see.data.chat_templates import RoleTemplate
from seq2see.data.dialogue import Dialogue, Message
from seq2see.decoding.engine import Decoding
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.workspace import Workspace
from seq2see.metrics.dialogue import TfIdf
from seq2see.recipes.registry import recipe
from seq2see.runs.chat import nearest_reply, open_chat, training_replies
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.make_ensemble import make_ensemble
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.tasks.chat_model import _batches
from seq2see.tasks.chat_retrieval import RetrievalIndex
from seq2see.tasks.conversation import SAME_REPLY, SEED_STRIDE, Conversation, PromptedModel, choice_of
from seq2see.tasks.task import task_of

NAMES = ("chat", "chat-seq2seq", "chat-retrieve", "chat-retrieve-generate")
QUESTIONS = {"what color is snow?": "snow is white.", "what color is coal?": "coal is black.", "hello": "hi there."}


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three questions with their answers, in all orders."""
    path = tmp_path_factory.mktemp("data") / "mine.jsonl"
    lines = []
    for first in QUESTIONS:
        for second in QUESTIONS:
            for third in QUESTIONS:
                messages = [
                    {"role": role, "content": text}
                    for question in (first, second, third)
                    for role, text in (("user", question), ("assistant", QUESTIONS[question]))
                ]
                lines.append(json.dumps({"messages": messages}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def small(data: Path, name: str, **changes):
    paths = {path for path, _, _ in walk(recipe(name))}
    wanted = {"encoder.width": 32, "decoder.width": 32, "encoder.heads": 2, "decoder.heads": 2, "decoder.depth": 2,
              "encoder.dropout": 0.0, "decoder.dropout": 0.0, "training.batch_tokens": 256,
              "training.learning_rate": 1e-2, "training.schedule.warmup": 10,
              "decoding.max_new_tokens": 12}  # fmt: skip
    return tiny_recipe(data, name, **{path: value for path, value in wanted.items() if path in paths} | changes)


@pytest.fixture(scope="module")
def runs(dialogues: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A trained and evaluated run of each kind, all of which have memorized the three answers."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for name in NAMES:
        changes = {"training.steps": 150, "training.evaluate_every": 75}
        found[name] = train_recipe(small(dialogues, name, **changes), folder / name)
        evaluate(found[name])
        write_report(found[name])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_training_resumes_to_the_same_bytes(dialogues: Path, tmp_path: Path, name: str):
    stop_and_resume(small(dialogues, name), tmp_path)


def test_after_a_training_the_next_command_is_a_conversation(dialogues: Path, tmp_path: Path, capsys):
    out = tmp_path / "run"
    small_steps = ["--set", "training.steps=1", "--set", "training.evaluate_every=1", "--set", "decoder.width=16"]
    assert command(["train", "chat", str(dialogues), "--out", str(out), *small_steps]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"chat {out}")


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_the_answers(runs: dict[str, RunFolder], name: str):
    model = load(runs[name].path)
    assert [each.text for each in model.predict(list(QUESTIONS))] == list(QUESTIONS.values())
    history = "<user> hello <assistant> hi there. <user> what color is coal?"
    assert model(history).text == "coal is black."
    assert "".join(model.stream(history)) == "coal is black."


@pytest.mark.parametrize("name", NAMES)
def test_an_evaluation_has_every_metric_with_an_interval_and_the_human_value(runs: dict[str, RunFolder], name: str):
    test = json.loads((runs[name].evaluation / "scores.json").read_text())["test"]
    assert set(test["model"]) == set(test["human"])
    assert test["model"]["copied"]["value"] == 100
    for metric in (*test["model"].values(), *test["hits_at_1"].values()):
        if isinstance(metric, dict):
            assert metric["low"] <= metric["value"] <= metric["high"]
    header, *rows = (runs[name].evaluation / "test.tsv").read_text().splitlines()
    assert header.split("\t") == ["history", "reference", "output", "chrf", "score"]
    assert len(rows) == test["replies"]
    page = (runs[name].path / "report.html").read_text(encoding="utf-8")
    assert "hits@1" in page
    assert "distinct-2" in page


def test_perplexity_by_token_and_by_byte_follow_from_one_loss(runs: dict[str, RunFolder]):
    scores = json.loads((runs["chat"].evaluation / "scores.json").read_text())["perplexity"]
    assert 1 < scores["per_byte"]["value"] < scores["per_token"]["value"] < 1.5
    assert "perplexity" not in json.loads((runs["chat-retrieve"].evaluation / "scores.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_by_a_pipe(runs: dict[str, RunFolder], name: str, tmp_path: Path, capsys, monkeypatch):
    saved = tmp_path / "saved.jsonl"
    lines = ["hello", "", "what color is snow?", "/undo", "/again", "/nothing", "/help", f"/save {saved}", "/quit", "x"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert command(["chat", str(runs[name].path)]) == 0
    output = capsys.readouterr()
    replies = output.out.splitlines()
    assert replies[:4] == ["hi there.", "snow is white.", "(2 messages are left)", "hi there."]
    assert "There is no command 'nothing'" in output.err
    messages = json.loads(saved.read_text())["messages"]
    assert messages[-2:] == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi there."}]


def test_a_saved_conversation_is_a_file_to_train_on(runs: dict[str, RunFolder], tmp_path: Path, capsys, monkeypatch):
    saved = tmp_path / "saved.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"hello\n/save {saved}\n"))
    assert command(["chat", str(runs["chat"].path), "--system", "be brief"]) == 0
    assert json.loads(saved.read_text())["messages"][0] == {"role": "system", "content": "be brief"}
    assert command(["data", "check", str(saved), "--task", "chat"]) == 0
    assert "1 dialogues read = 1 kept" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_does_not_end_the_conversation(runs, tmp_path: Path, capsys, monkeypatch):
    missing = tmp_path / "none" / "saved.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"hello\n/save {missing}\n/save\nwhat color is snow?\n"))
    assert command(["chat", str(runs["chat"].path)]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == ["hi there.", "snow is white."]
    error, no_name = output.err.splitlines()
    assert error.endswith("saved.jsonl: The dialogue cannot be written (No such file or directory). Write /save FILE.")
    assert "no file name" in no_name


def test_each_reply_processes_only_the_new_tokens(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    conversation, tokenizer = model.conversation(), model.tokenizers.target
    for question in [*QUESTIONS, *QUESTIONS]:
        reply = "".join(conversation.reply(question))
        read = len(tokenizer.encode(question)) + 3  # the role, the end, and the role of the reply
        read += 1  # <bos>, or later the end of the last reply
        assert conversation.tokens_read == read + len(tokenizer.encode(reply))
    assert conversation.past.length == len(model.prompt_ids(conversation.messages[:-1])) + len(
        tokenizer.encode(conversation.messages[-1].content)
    )


def test_a_conversation_with_a_cache_equals_reading_everything_anew(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    conversation, settings = model.conversation(), {"do_sample": True, "temperature": 3.0}
    sampled = model.conversation(seed=5, **settings)
    for question in [*QUESTIONS, "what color is hello?", "snow", *QUESTIONS]:
        reply = "".join(conversation.reply(question))
        assert reply.strip() == model.replies([conversation.messages[:-1]], lambda count: None)[0].text
        "".join(sampled.reply(question))
    assert len({each.content for each in sampled.messages[1::2]}) > 3


def test_a_cut_reply_is_read_to_its_end_before_the_next_message(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    template, tokenizer = model.template, model.tokenizers.target
    conversation = model.conversation(max_new_tokens=2)
    for question in ("what color is snow?", "what color is coal?"):
        "".join(conversation.reply(question))
        encoded = template.encode(tokenizer, conversation.history)
        ids = [*template.start_ids(tokenizer), *(each for message in encoded for each in message.ids)]
        assert conversation.past.length + len(conversation.past.unread) == len(ids)
        assert conversation.past.unread == ids[conversation.past.length :]
    assert conversation.notices == ["The reply was cut after 2 tokens."]


def test_the_end_of_a_reply_becomes_eos_and_is_no_token_of_its_text():
    read: list[list[int]] = []

    class Counting:
        """A model whose logits are the ids of the tokens."""

        def step(self, tokens, state):
            read.append(tokens[0].tolist())
            return torch.arange(8.0).expand(1, tokens.size(1), 8), state

    model = PromptedModel(Counting(), torch.tensor([[1, 4, 7]]), 10, state="past")
    model.end_id, model.forbidden = 5, [6]
    logits, _ = model.step(torch.tensor([[1]]), model.start(None, 1, 5))
    assert logits[0, 0].tolist() == [0, 1, 5, 3, 4, -torch.inf, -torch.inf, 7]
    model.step(torch.tensor([[3]]), "past")
    assert (read, model.tokens_read) == ([[1, 4, 7], [3]], 4)


def test_each_reply_has_its_own_seed():
    seeds: list[int] = []
    model = SimpleNamespace(
        config=SimpleNamespace(decoding=Decoding(max_new_tokens=7)),
        template=RoleTemplate(),
        stream_reply=lambda history, decoding, seed: seeds.append(seed) or iter(["x"]),
        warnings=lambda text: (),
        is_truncated=lambda history: False,
    )
    conversation = Conversation(model, seed=5)
    for action in (lambda: conversation.reply("a"), conversation.again, conversation.again):
        assert "".join(action()) == "x"
    assert "".join(conversation.reply("b")) == "x"
    assert seeds == [5 + 1, 5 + SEED_STRIDE + 1, 5 + 2 * SEED_STRIDE + 1, 5 + 3]
    assert [each.content for each in conversation.messages] == ["a", "x", "b", "x"]


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_conversation_and_a_prediction_are_in_the_precision_that_is_set(
    runs: dict[str, RunFolder], precision: str, monkeypatch
):
    model = open_chat(str(runs["chat"].path))
    layers = {type(each) for each in model.module_for(precision).modules()}
    assert {"bf16": PackedLinearBfloat16, "int8": PackedLinearInt8}[precision] in layers
    assert not any(isinstance(each, PackedLinear) for each in model.module.modules())
    conversation = model.conversation(precision=precision)
    for question, answer in QUESTIONS.items():
        assert "".join(conversation.reply(question)) == answer
    assert model("hello", precision=precision).text == "hi there."
    monkeypatch.setenv("SEQ2SEE_PLAIN", "1")
    with pytest.raises(UserError, match="decoded in float32"):
        model("hello", precision=precision)


def test_an_ensemble_holds_a_conversation(runs: dict[str, RunFolder], tmp_path: Path):
    ensemble = make_ensemble([runs["chat"], runs["chat"]], tmp_path / "both")
    conversation = open_chat(str(ensemble.path)).conversation()
    for question, answer in QUESTIONS.items():
        assert "".join(conversation.reply(question)) == answer


def test_undo_restores_the_state_before_a_message(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    conversation = model.conversation()
    "".join(conversation.reply("hello"))
    before = conversation.past
    for question in ("what color is snow?", "what color is coal?"):
        "".join(conversation.reply(question))
    conversation.undo()
    conversation.undo()
    assert conversation.past is before
    assert [each.content for each in conversation.messages] == ["hello", "hi there."]
    assert "".join(conversation.reply("what color is coal?")) == "coal is black."
    with pytest.raises(UserError, match="no message yet"):
        model.conversation().undo()


def test_an_interrupted_reply_is_a_part_of_the_dialogue(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    conversation = model.conversation()
    chunks = conversation.reply("what color is snow?")
    assert next(chunks) == "snow"
    chunks.close()
    assert conversation.messages[-1] == Message("assistant", "snow")
    assert "".join(conversation.reply("what color is coal?")) == "coal is black."


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_names_unknown_words_and_a_reply_that_is_the_same(runs: dict[str, RunFolder], name: str):
    conversation = open_chat(str(runs[name].path)).conversation()
    "".join(conversation.reply("hello"))
    assert conversation.notices == []
    "".join(conversation.again())
    assert conversation.notices == [SAME_REPLY]
    "".join(conversation.reply("hello zebra"))
    assert conversation.notices == ["unknown tokens zebra, replaced by <unk>"]


@pytest.mark.parametrize("name", ["chat-seq2seq", "chat-retrieve", "chat-retrieve-generate"])
def test_without_a_cache_a_full_context_is_reported_as_well(runs: dict[str, RunFolder], name: str):
    conversation = open_chat(str(runs[name].path)).conversation()
    "".join(conversation.reply("snow " * 300))
    assert conversation.notices == ["The context is full: the oldest messages were left out."]


def test_the_lines_of_the_help_fit_into_80_columns():
    assert max(map(len, HELP.splitlines())) < 80


def test_a_full_context_loses_the_oldest_whole_exchanges(dialogues: Path, tmp_path: Path):
    run = train_recipe(small(dialogues, "chat", **{"target.max_tokens": 40}), tmp_path / "short")
    conversation = open_chat(str(run.path)).conversation(max_new_tokens=6)
    notices = []
    for _ in range(4):
        "".join(conversation.reply("what color is snow?"))
        notices += [each for each in conversation.notices if "left out" in each]
        assert conversation.past.length <= 40
    assert notices
    assert "the oldest 2 messages were left out" in notices[0]
    with pytest.raises(UserError, match="Send a shorter one"):
        "".join(conversation.reply("snow " * 60))
    assert conversation.messages[-1].role == "assistant"


def test_a_history_is_truncated_exactly_if_messages_are_left_out(runs: dict[str, RunFolder], monkeypatch):
    model = open_chat(str(runs["chat"].path))
    history = [Message("user", "hello"), Message("assistant", "hi there."), Message("user", "hello")]
    length = len(model.prompt_ids(history))
    for max_tokens, is_truncated in ((length, False), (length - 1, True)):
        monkeypatch.setattr(type(model), "max_tokens", max_tokens)
        assert model.is_truncated(history) == is_truncated
        assert (len(model.prompt_ids(history)) < length) == is_truncated


def test_no_more_of_the_oldest_exchanges_than_necessary_are_left_out(runs: dict[str, RunFolder], monkeypatch):
    model = open_chat(str(runs["chat"].path))
    exchange = [Message("user", "hello"), Message("assistant", "hi there.")]
    history = [*exchange, *exchange, *exchange, Message("user", "what color is coal?")]
    lengths = [len(model.prompt_ids(history[begin:])) for begin in (0, 2, 4, 6)]
    for max_tokens, kept in (
        (lengths[0], 0),
        (lengths[0] - 1, 1),
        (lengths[1], 1),
        (lengths[1] - 1, 2),
        (lengths[3], 3),
    ):
        monkeypatch.setattr(type(model), "max_tokens", max_tokens)
        assert len(model.prompt_ids(history)) == lengths[kept]


def test_prompts_of_a_batch_have_equal_lengths_and_are_64_at_most():
    lengths = [7] * 130 + [5] * 3
    order = sorted(range(133), key=lambda index: lengths[index])
    assert [(len(rows), {lengths[row] for row in rows}) for rows in _batches(order, lengths)] == [
        (3, {5}), (64, {7}), (64, {7}), (2, {7})
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["chat", "chat-seq2seq"])
def test_a_candidate_scores_higher_if_it_is_less_probable_after_other_histories(runs: dict[str, RunFolder], name: str):
    """The score is log p(reply | history) - log p(reply): of the mean of p(reply | other history)."""
    model = load(runs[name].path)
    history, text = [Message("user", "hello")], "hi there."
    ((plain,),) = model.candidate_scores([history], [[text]])
    assert plain == pytest.approx(model.score("hello", text), abs=1e-3)
    others = ["what color is snow?", "what color is coal?"]
    model.learn_prior([Dialogue.of([Message("user", each), Message("assistant", "hi")]) for each in others])
    ((score, other),) = model.candidate_scores([history], [[text, "snow is white."]])
    mean = np.mean(np.exp([model.score(each, text) for each in others]))
    assert score == pytest.approx(plain - np.log(mean), abs=1e-3)
    assert score > 1 > other


def test_shared_words_add_to_the_score_of_a_reply(runs: dict[str, RunFolder], monkeypatch):
    model = load(runs["chat-retrieve"].path)
    history, replies = [Message("user", "is coal white?")], list(model.tokenizers.labels)
    alone = model.candidate_scores([history], [replies])[0]
    monkeypatch.setattr(type(model), "tfidf_weight", 2.0)
    tfidf = TfIdf(replies)
    shared = [tfidf.similarity(tfidf.vector("is coal white?"), tfidf.vector(each)) for each in replies]
    expected = [first + 2 * second for first, second in zip(alone, shared, strict=True)]
    assert model.candidate_scores([history], [replies])[0] == pytest.approx(expected, abs=1e-5)
    best = model.best_replies([history], 3)[0]
    assert [each.text for each in best] == sorted(replies, key=lambda text: -expected[replies.index(text)])
    scale = float(model.encoder.head.scale.detach())
    assert best[0].score - best[2].score == pytest.approx(scale * (max(expected) - min(expected)), abs=1e-3)


def test_tfidf_weighs_the_newest_message_most(runs: dict[str, RunFolder]):
    model = load(runs["chat-retrieve"].path)
    words = model.tfidf_vector([Message("user", "snow"), Message("assistant", "coal"), Message("user", "coal")])
    assert words["snow"] / words["coal"] == pytest.approx(0.7**2 / (1 + 0.7))


def test_a_retrieved_reply_stands_before_each_reply_and_has_no_labels(dialogues: Path):
    """The pair of "a b" occurs once, so its own reply is not found: in the prediction it would not be, either."""
    settings = small(dialogues, "chat-retrieve-generate")
    texts = ("c a", "x", "a d", "y", "a b", "z")
    once = Dialogue.of([Message("assistant" if number % 2 else "user", each) for number, each in enumerate(texts)])
    twice = Dialogue.of(once.messages[:4])
    task = task_of(settings)
    tokenizers = task.fit(settings, [once, twice])
    assert tokenizers.labels == ("a b\tz\t1", "a d\ty\t2", "c a\tx\t2")
    first, second = task.dataset(settings, tokenizers, [once, twice]).rows
    tokens = tokenizers.target.tokens
    assert " ".join(each for each in tokens(first.ids) if each != "<eos>") == (
        "<bos> <user> c a <system> x <assistant> x <user> a d <system> y <assistant> y "
        "<user> a b <system> y <assistant> z"
    )
    labels = [each for each, is_label in zip(first.ids, first.label_mask, strict=True) if is_label]
    assert tokens(labels) == ["x", "<eos>", "y", "<eos>", "z", "<eos>"]
    assert [first.dialogue, second.dialogue] == [0, 1]


def test_equally_similar_messages_take_turns():
    index = RetrievalIndex([("who am i", "you are Ann"), ("who am i", "you are Ben"), ("hello", "hi")])
    assert index.search(["who am i", "hello", "who am i", "who am i"], [None] * 4) == [
        "you are Ann", "hi", "you are Ben", "you are Ann"
    ]  # fmt: skip
    assert index.search(["who am i"] * 2, [("who am i", "you are Ann")] * 2) == ["you are Ben"] * 2
    assert RetrievalIndex([("a", "b")]).search(["a"], [("a", "b")]) == ["b"]


def test_a_prediction_reads_the_retrieved_replies_of_all_messages(runs: dict[str, RunFolder], monkeypatch):
    model = open_chat(str(runs["chat-retrieve-generate"].path))
    history = [Message("user", "hello"), Message("assistant", "snow"), Message("user", "what color is coal?")]
    tokens = model.tokenizers.target.tokens
    text = " ".join(tokens(model.prompt_ids(history))).replace(" <eos>", "")
    whole = "<bos> <user> hello <system> hi there . <assistant> snow"
    last = "<user> what color is coal ? <system> coal is black . <assistant>"
    assert text == f"{whole} {last}"
    monkeypatch.setattr(type(model), "max_tokens", len(model.prompt_ids(history)) - 1)
    assert " ".join(tokens(model.prompt_ids(history))).replace(" <eos>", "") == f"<bos> {last}"
    assert model.is_truncated(history)


def test_the_explorer_gets_the_alternatives_and_the_attention_of_a_token(runs: dict[str, RunFolder]):
    model = open_chat(str(runs["chat"].path))
    conversation = model.conversation()
    "".join(conversation.reply("what color is coal?"))
    choice = choice_of(model, conversation.history, 2, count=3)
    assert choice.token == "black"
    assert choice.alternatives[0] == ("black", pytest.approx(choice.probability))
    assert len(choice.alternatives) == 3
    assert sum(weight for _, weight in choice.attention) == pytest.approx(1, abs=1e-5)
    assert [token for token, _ in choice.attention][-2:] == ["coal", "is"]
    with pytest.raises(UserError, match="no token 9"):
        choice_of(model, conversation.history, 9)


class LongerHeader(RoleTemplate):
    """A template that, as that of Llama 2, has more text before a reply of the history than before a new reply."""

    def message(self, messages, index):
        rendered = super().message(messages, index)
        more = ("hello",) if messages[index].role == "assistant" else ()
        return replace(rendered, header=(*rendered.header, *more))


def test_the_tokens_of_a_reply_are_counted_after_its_header(runs: dict[str, RunFolder], monkeypatch):
    model = open_chat(str(runs["chat"].path))
    messages = [Message("user", "what color is coal?"), Message("assistant", "coal is black.")]
    monkeypatch.setattr(type(model), "template", LongerHeader())
    assert [choice_of(model, messages, position).token for position in range(3)] == ["coal", "is", "black"]


def test_the_nearest_training_reply_shows_what_is_memorized(runs: dict[str, RunFolder]):
    replies = training_replies(str(runs["chat"].path))
    assert sorted(replies) == sorted(QUESTIONS.values())
    assert nearest_reply("coal is black.", replies).distance == 0
    near = nearest_reply("coal is blank.", replies)
    assert near.text == "coal is black."
    assert near.distance == pytest.approx(1 / 14)


@pytest.mark.parametrize("name", NAMES)
def test_the_explorer_shows_it(runs: dict[str, RunFolder], name: str, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "explorer"))
    from tiny_workspace import Client, make_app, required_fields

    client = Client(make_app(Workspace.open([str(runs[name].path)])))
    (described,) = client.send("GET", "/api/runs").json()["runs"]
    assert described["task"] == name
    answers = {}
    for route, each in ROUTES.items():
        more = {"text": "hello", "target": "hi there.", "parts": ["surprisal"], "texts": ["hello"], "step": 75}
        fields = required_fields(route) | {
            field: value for field, value in more.items() if field in each.request_model.model_fields
        }
        answers[route] = client.post(route, run="r1", **fields)
        assert answers[route].status_code < 500, route
    shown = ["attention/layers", "attention/head", "architecture/blocks", "runs/metrics", "predict", "mistakes/splits"]
    shown += ["compare/sides"] if "compare" in described["views"] else []
    for route in shown:
        assert answers[route].status_code == 200, (route, answers[route].text)
    (prediction,) = answers["predict"].json()["predictions"]
    assert prediction["outputs"][0]["text"] == "hi there."


def test_an_exported_chat_generates_the_same_in_transformers(runs: dict[str, RunFolder], tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    out = tmp_path / "hf"
    assert command(["export", str(runs["chat"].path), "--to", "hf", "--out", str(out)]) == 0
    model = load(runs["chat"].path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out)
    import torch

    ids = torch.tensor([model.encode("what color is coal?")])
    generated = theirs.generate(ids, do_sample=False, max_new_tokens=12)[0, ids.size(1) :].tolist()
    assert model.tokenizers.target.decode(generated) == "coal is black."


def test_a_chat_is_fine_tuned_from_a_run_of_write(tmp_path: Path, dialogues: Path):
    book = tmp_path / "book.txt"
    book.write_text("snow is white. coal is black. hi there.\n" * 60, encoding="utf-8")
    text = {"target.tokenizer.kind": "words", "target.max_tokens": 48, "decoder.heads": 2}
    base = train_recipe(tiny_recipe(book, "write", **text), tmp_path / "base")
    tuned = small(
        dialogues, "chat", pretrained=str(base.path), **{"decoder.width": 16, "decoder.depth": 1, "training.steps": 8}
    )
    assert tuned.template.kind == "plain"
    assert tuned.target == base.recipe().target
    first = train_recipe(tuned, tmp_path / "tuned")
    assert load(first.path).tokenizers.target.fingerprint == load(base.path).tokenizers.target.fingerprint


def test_a_chat_is_continued_from_a_chat(runs: dict[str, RunFolder], tmp_path: Path, dialogues: Path):
    changes = {"pretrained": str(runs["chat"].path), "training.steps": 1, "training.learning_rate": 1e-9}
    keep = {"training.evaluate_every": 1}
    same = {"decoder.width": 32, "decoder.depth": 2, "decoder.dropout": 0.0}
    tuned = train_recipe(small(dialogues, "chat", **changes, **keep, **same), tmp_path / "tuned")
    assert load(tuned.path)("what color is coal?").text == "coal is black."  # the weights are those of the first run


def test_other_runs_have_no_conversation(tmp_path: Path, dialogues: Path):
    book = tmp_path / "book.txt"
    book.write_text("the cat sat on the mat.\n" * 60, encoding="utf-8")
    run = train_recipe(tiny_recipe(book, "write", **{"target.max_tokens": 16}), tmp_path / "write")
    with pytest.raises(UserError, match="has no conversation"):
        open_chat(str(run.path))
