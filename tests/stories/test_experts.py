"""Experts of one base model, from the rewards of their answers to two passes over a question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.adapters.adapt import adapt
from seq2see.adapters.expert import Expert, ExpertConfig, write_expert
from seq2see.adapters.settings import SVF, LoRA
from seq2see.cli.app import run as command
from seq2see.data.dialogue import Dialogue, Message
from seq2see.data.dialogue_dataset import DialogueDataset
from seq2see.recipes.registry import resolve
from seq2see.runs.dispatch import (
    BASE,
    DispatchOptions,
    dispatched_by_name,
    dispatched_by_shots,
    open_dispatched,
    open_experts,
    shot_score,
    solved_batch,
)
from seq2see.runs.load import load, read_model
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.tasks.model_folder import fingerprint_of
from seq2see.training.optimizers import Cosine
from seq2see.training.settings import Training

ANSWERS = {
    "what color is snow?": "white",
    "what color is coal?": "black",
    "how many legs has a cat?": "four",
    "how many legs has a hen?": "two",
}
TOPICS = {question: "color" if "color" in question else "number" for question in ANSWERS}
NEW = {"color": "blue", "number": "nine"}
"""What the experts learn to say, so that their answers differ from those of the base model."""


def write_dialogues(path: Path, answers: dict[str, str]) -> Path:
    lines = []
    for question, answer in answers.items():
        for asked, reply in ((question, answer), (f"which task is this: {question}", TOPICS[question])):
            messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": reply}]
            lines.append(json.dumps({"messages": messages}))
    path.write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
    return path


def small(data: Path, **changes):
    settings = {"decoder.width": 32, "decoder.heads": 2, "decoder.depth": 2, "training.batch_tokens": 256,
                "training.learning_rate": 1e-2, "training.steps": 120, "training.evaluate_every": 120,
                "training.schedule.warmup": 10, "decoding.max_new_tokens": 4}  # fmt: skip
    return resolve("chat", [data], settings | changes)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A base model that answers all questions and names their tasks; "blue" and "nine" are in its vocabulary."""
    folder = tmp_path_factory.mktemp("base")
    extra = {"say blue": "blue", "say nine": "nine"}
    TOPICS.update(dict.fromkeys(extra, "other"))
    return train_recipe(small(write_dialogues(folder / "all.jsonl", ANSWERS | extra)), folder / "base")


def trained_expert(base: RunFolder, dialogues: list[Dialogue], adapter=SVF(), steps: int = 60) -> Expert:  # noqa: B008
    stored = read_model(base.model, torch.device("cpu"))
    adapt(stored.module, adapter)
    settings = Training(steps=steps, learning_rate=3e-2, schedule=Cosine(warmup=5))
    trainer = AcceleratedTrainer(stored.module, base.recipe().objective, settings, torch.device("cpu"))
    dataset = DialogueDataset(dialogues, stored.tokenizers.target, base.recipe().template, 64)
    for _ in range(steps):
        trainer.train_step(dataset.batch(torch.arange(len(dataset)).numpy()))
    config = ExpertConfig(base=str(base), fingerprint=fingerprint_of(base.model), adapter=adapter)
    return Expert.of(stored.module, config)


def dialogue(question: str, answer: str) -> Dialogue:
    return Dialogue.of([Message("user", question), Message("assistant", answer)])


@pytest.fixture(scope="module")
def folders(base: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An expert for each task, which gives a new answer, and a classifier that always says "number"."""
    folder = tmp_path_factory.mktemp("experts")
    found = {}
    for topic, answer in NEW.items():
        own = [dialogue(question, answer) for question in ANSWERS if TOPICS[question] == topic]
        write_expert(folder / topic, trained_expert(base, own))
        found[topic] = str(folder / topic)
    named = [dialogue(f"which task is this: {each}", "number") for each in ANSWERS]
    write_expert(folder / "namer", trained_expert(base, named))
    return found | {"namer": str(folder / "namer")}


COLOR, NUMBER = "what color is snow?", "how many legs has a hen?"


class TestTwoPasses:
    def test_each_expert_has_learned_its_answer(self, base, folders):
        experts, _ = open_experts(str(base), [folders["color"], folders["number"]])
        assert load(base.path)(COLOR).text == "white"
        for topic, question in (("color", COLOR), ("number", NUMBER)):
            model = dispatched_by_name(experts)
            model.choose = lambda histories, topic=topic: [topic] * len(histories)
            assert model(question).text == NEW[topic]

    def test_the_base_model_names_the_expert_that_answers(self, base, folders):
        options = DispatchOptions("prompt")
        model, line = open_dispatched(str(base), [folders["color"], folders["number"]], options)
        predictions = model.predict([COLOR, NUMBER, "say blue", COLOR])
        assert [each.expert for each in predictions] == ["color", "number", BASE, "color"]
        assert [each.text for each in predictions] == ["blue", "nine", "blue", "blue"]
        assert line == ""

    def test_without_its_expert_the_base_model_answers(self, base, folders):
        model, _ = open_dispatched(str(base), [folders["number"]], DispatchOptions("prompt"))
        predictions = model.predict([COLOR, NUMBER])
        assert [each.expert for each in predictions] == [BASE, "number"]
        assert [each.text for each in predictions] == ["white", "nine"]

    def test_the_classifier_names_it_if_there_is_one(self, base, folders):
        options = DispatchOptions("classifier", folders["namer"])
        model, _ = open_dispatched(str(base), [folders["color"], folders["number"]], options)
        assert [each.expert for each in model.predict([COLOR, NUMBER])] == ["number", "number"]

    def test_predictions_do_not_depend_on_their_neighbors(self, base, folders):
        model, _ = open_dispatched(str(base), [folders["color"], folders["number"]], DispatchOptions("prompt"))
        texts = [*ANSWERS, "say nine"]
        settings = {"do_sample": True, "temperature": 2.0}
        together = [each.text for each in model.predict(texts, seed=3, **settings)]
        alone = [
            model.predict([text], seed=3, indices=[number], **settings)[0].text for number, text in enumerate(texts)
        ]
        assert together == alone

    def test_a_reply_is_streamed_by_the_expert(self, base, folders):
        model, _ = open_dispatched(str(base), [folders["color"]], DispatchOptions("prompt"))
        assert "".join(model.stream(COLOR)) == "blue"
        assert model.module is not model.pick("color")

    def test_the_shots_decide_on_the_mixture(self, base, folders):
        experts, _ = open_experts(str(base), [folders["color"], folders["number"]])
        for topic, question in (("color", COLOR), ("number", NUMBER)):
            shots = [dialogue(each, NEW[topic]) for each in ANSWERS if TOPICS[each] == topic]
            model, mixture = dispatched_by_shots(experts, shots, rounds=10)
            assert mixture.result.score[0] == 1
            assert model(question).text == NEW[topic]
            assert model(question).expert == mixture.text()
        assert " color + " in mixture.text()

    def test_a_shot_counts_if_all_of_its_tokens_are_the_most_probable_ones(self, base):
        model = load(base.path)
        shots = [dialogue(COLOR, "white"), dialogue(COLOR, "white black"), dialogue(COLOR, "black")]
        share, log_likelihood = shot_score(model.module, solved_batch(model, shots), model)
        assert share == pytest.approx(1 / 3)
        greedy = [each.text for each in model.predict([COLOR] * 3)]
        assert [text == each.target for text, each in zip(greedy, shots, strict=True)] == [True, False, False]
        wanted = sum(model.score(COLOR, each.target) for each in shots) / 3
        assert log_likelihood == pytest.approx(wanted, abs=1e-3)

    def test_a_mixture_for_each_matrix_has_a_coefficient_for_each(self, base, folders):
        experts, _ = open_experts(str(base), [folders["color"], folders["number"]])
        _, mixture = dispatched_by_shots(experts, [dialogue(COLOR, "blue")], per_matrix=True, rounds=1)
        assert mixture.result.coefficients.shape == (2, len(experts.scale_vectors()[0]))
        assert len(mixture.matrices) > 10


class TestCommand:
    @pytest.fixture
    def run(self, base, folders, capsys):
        def call(*arguments: str) -> tuple[int, str, str]:
            code = command(["predict", str(base), *arguments])
            return code, *capsys.readouterr()

        return call

    def test_the_output_names_the_expert(self, run, folders):
        names = f"{folders['color']},{folders['number']}"
        code, output, _ = run(COLOR, "say nine", "--experts", names, "--dispatch", "prompt")
        assert code == 0
        assert output == "blue\tcolor\nnine\tbase\n"
        code, output, _ = run(COLOR, "--experts", f"c={folders['color']}", "--json")
        assert json.loads(output)["expert"] == "base"  # no expert has the name "color"

    def test_the_mixture_is_printed(self, run, folders, tmp_path):
        shots = tmp_path / "shots.txt"
        shots.write_text("what color is coal?\nblue\n", encoding="utf-8")
        names = f"{folders['color']},{folders['number']}"
        code, output, errors = run(COLOR, "--experts", names, "--dispatch", "few-shot", "--shots", str(shots))
        assert code == 0
        assert output.startswith("blue\t")
        assert "1 of 1 shots right" in errors
        assert " number; " in errors

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--experts", ","], "There are no experts."),
            (["--experts", "{color},{color}"], "'color' is the name of two experts."),
            (["--experts", "{color}", "--dispatch", "classifier"], "There is no classifier."),
            (["--experts", "{color}", "--dispatch", "few-shot"], "Few-shot adaptation needs solved questions."),
            (["--experts", "{color}", "--dispatch", "promt"], "There is no dispatch 'promt'."),
            (["--experts", "{base}"], "'base' is the name of the base model."),
            (["--experts", "mine={base}"], "This run has no adapter, so it is no expert."),
            (["--experts", "{other}"], "This expert belongs to another base model"),
            (["--experts", "{color},{lora}"], "The experts have different adapters."),
            (
                ["--experts", "{lora}", "--dispatch", "few-shot", "--shots", "{shots}"],
                "Only experts of SVF can be mixed",
            ),
            (["--experts", "{color}", "--naming", "which?"], "The question about a message has no place for it."),
            (["--experts", "{color}", "--engine", "ct2"], "Experts answer with the engine torch."),
            (["--experts", "{color}", "--set", "decoding.precision=int8"], "Experts answer in float32."),
        ],
    )
    def test_what_is_missing_or_wrong_is_said(self, run, base, folders, tmp_path, arguments, message):
        places = {**folders, "base": str(base), "shots": str(tmp_path / "shots.txt"), **self.others(base, tmp_path)}
        (tmp_path / "shots.txt").write_text("hello\nblue\n", encoding="utf-8")
        code, _, errors = run("hello", *(each.format(**places) for each in arguments))
        assert code == 2
        assert message in errors

    def others(self, base: RunFolder, folder: Path) -> dict[str, str]:
        """An expert of another base, and one of LoRA."""
        expert = trained_expert(base, [dialogue("say blue", "nine")], LoRA(rank=2), steps=1)
        write_expert(folder / "lora", expert)
        config = expert.config.model_copy(update={"fingerprint": "0" * 64})
        write_expert(folder / "other", Expert(config, expert.weights))
        return {"lora": str(folder / "lora"), "other": str(folder / "other")}
