"""REINFORCE on a whole model: the answers, their gradient, the log, and a stop in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_recipes import stop_and_resume

from seq2see.core.batch import IGNORE_INDEX, AnswerBatch, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.recipes.registry import resolve
from seq2see.runs.dispatch import DispatchOptions, open_dispatched
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import open_model
from seq2see.runs.prepare import prepare
from seq2see.runs.train import NullListener, batches, new_trainer, train_recipe, training_batches
from seq2see.tasks.model_folder import ModelConfig, StoredModel
from seq2see.tasks.task import task_of
from seq2see.training.loop import read_metrics
from seq2see.training.objectives import NextToken, batch_loss

TINY = {"decoder.width": 16, "decoder.heads": 2, "decoder.depth": 1, "corpus.size": 40, "training.steps": 12,
        "training.evaluate_every": 4, "training.batch_tokens": 160, "decoding.max_new_tokens": 3,
        "objective.kind": "reinforce"}  # fmt: skip
FORMAT = {"kind": "format", "pattern": r"\w"}
"""A reward for answers of one letter or digit, which random weights give now and then."""


def tiny(**changes: Any):
    """A model of puzzle talk that is trained by REINFORCE from random weights."""
    return resolve("chat-puzzles", [], TINY | {"objective.reward": FORMAT} | changes)


@pytest.fixture(scope="module")
def prepared():
    return prepare(tiny(), lambda text: None)


def first_batch(prepared, step: int = 1, **changes: Any) -> tuple[Any, AnswerBatch]:
    recipe = tiny(**changes)
    trainer = new_trainer(recipe, prepared)
    return trainer, training_batches(recipe, prepared, trainer)(step)


class TestAnswers:
    def test_rows_are_the_questions_with_drawn_answers(self, prepared):
        _, batch = first_batch(prepared, **{"objective.answers.count": 3})
        questions = batches(tiny(), prepared)(1)
        assert batch.indices.tolist() == questions.indices.repeat_interleave(3).tolist()
        tokenizer = prepared.tokenizers.target
        for row, index in enumerate(batch.indices.tolist()):
            dialogue = prepared.splits["train"][prepared.train.rows[index].dialogue]
            ids = batch.target.values[row, : batch.target.lengths[row]].tolist()
            labels = batch.labels[row, : len(ids)].tolist()
            first = next(position for position, each in enumerate(labels) if each != IGNORE_INDEX)
            names = tokenizer.tokens(ids)
            assert names[: first + 1] == ["<bos>", "<user>", *tokenizer.tokens(tokenizer.encode(
                dialogue.messages[0].content)), "<eos>", "<assistant>"]  # fmt: skip
            assert labels[:first] == [IGNORE_INDEX] * first
            assert labels[first:-1] == ids[first + 1 :]
            assert len(labels) - first <= 3
            assert labels[-1] == EOS or len(labels) - first == 3
            assert not set(labels[first:]) & set(batch.forbidden)

    def test_questions_with_several_answers_have_different_ones(self, prepared):
        _, batch = first_batch(prepared)
        answers = {tuple(row) for row in batch.labels.tolist()}
        assert len(answers) > len(batch.labels) / 2

    def test_they_depend_on_seed_and_step_alone(self, prepared):
        first, again = (first_batch(prepared)[1] for _ in range(2))
        assert torch.equal(first.labels, again.labels)
        _, other_step = first_batch(prepared, step=2)
        _, other_seed = first_batch(prepared, **{"training.seed": 2})
        assert first.labels.shape != other_step.labels.shape or not torch.equal(first.labels, other_step.labels)
        assert first.labels.shape != other_seed.labels.shape or not torch.equal(first.labels, other_seed.labels)

    def test_greedy_answers_are_the_replies_of_the_model(self, prepared):
        recipe = tiny(**{"objective.answers.kind": "greedy"})
        trainer = new_trainer(recipe, prepared)
        batch = training_batches(recipe, prepared, trainer)(1)
        found = set(batch.labels[batch.label_mask].tolist())
        trainer.model.eval()
        with torch.no_grad():
            logits = trainer.model(batch)
        logits[..., list(batch.forbidden)] = -torch.inf
        assert torch.equal(logits.argmax(-1)[batch.label_mask], batch.labels[batch.label_mask])
        assert found

    def test_an_answer_without_an_end_is_wrong(self, prepared):
        _, batch = first_batch(
            prepared,
            **{
                "objective.reward": {"kind": "format", "pattern": ".*"},
                "objective.baseline.kind": "none",
                "objective.answers.count": 64,
            },
        )
        ends = torch.tensor([EOS in row for row in batch.labels.tolist()])
        assert torch.equal(batch.advantages > 0, ends)
        assert 0 < int(ends.sum()) < len(ends)

    def test_the_base_model_stays_what_it_was(self, prepared):
        recipe = tiny(**{"training.learning_rate": 0.05, "training.schedule.kind": "constant",
                         "objective.baseline.kind": "none"})  # fmt: skip
        trainer = new_trainer(recipe, prepared)
        batch_at = training_batches(recipe, prepared, trainer)
        before = batch_at(1)
        assert before.metrics["kl"] == pytest.approx(0, abs=1e-5)
        for step in range(1, 6):
            trainer.train_step(batch_at(step))
        after = batch_at(6)
        assert after.metrics["kl"] > 0.01
        fresh = first_batch(prepared)[0]
        with torch.no_grad():
            wanted = fresh.model.eval()(after)
        wanted[..., list(after.forbidden)] = -1e9
        stored = after.base_log_probabilities[after.label_mask.sum(1) > 0][:, 0]
        first = after.label_mask.float().argmax(1)
        rows = torch.arange(len(first))
        assert torch.allclose(stored, wanted[rows, first].log_softmax(-1), atol=1e-5)


def all_answers(logits_of, prompt: list[int], allowed: list[int], longest: int) -> Iterator[tuple[list[int], Any]]:
    """Every answer up to a length, with its log-probability."""

    def extend(answer: list[int], total: Any) -> Iterator[tuple[list[int], Any]]:
        if answer[-1:] == [EOS] or len(answer) == longest:
            yield answer, total
            return
        scores = logits_of([*prompt, *answer])[allowed].log_softmax(-1)
        for number, token in enumerate(allowed):
            yield from extend([*answer, token], total + scores[number])

    yield from extend([], torch.zeros(()))


class TestGradient:
    def test_drawn_answers_have_the_gradient_of_the_expected_reward(self):
        """All answers of at most two tokens can be listed, so the expected reward is known."""
        recipe = tiny(**{"decoding.max_new_tokens": 2, "training.batch_tokens": 24, "objective.answers.count": 256,
                         "corpus.puzzles": ("name",), "training.learning_rate": 0.01, "training.schedule.warmup": 1,
                         "objective.reward": {"kind": "format", "pattern": "add|sort"}})  # fmt: skip
        prepared = prepare(recipe, lambda text: None)
        trainer = new_trainer(recipe, prepared)
        for step in range(1, 12):  # one word and its end become probable answers
            batch = batches(recipe, prepared)(step)
            loss = batch_loss(NextToken(), trainer.model.hidden(batch), trainer.model.head, batch) / batch.loss_count
            loss.backward()
            with torch.no_grad():
                for each in trainer.model.parameters():
                    each -= 0.3 * each.grad
                    each.grad = None
        stored = StoredModel(ModelConfig.of(recipe, 0), trainer.model, prepared.tokenizers)
        answers = task_of(recipe).answers(recipe, prepared.train, lambda: open_model(stored))
        questions, weights = batches(recipe, prepared)(1), list(trainer.model.parameters())
        drawn = torch.zeros(sum(each.numel() for each in weights))
        for step in range(8):
            batch = answers(questions, step)
            loss = batch_loss(recipe.objective, trainer.model.hidden(batch), trainer.model.head, batch)
            drawn += flat(torch.autograd.grad(loss / batch.loss_count, weights)) / 8
        exact = flat(torch.autograd.grad(-self.expected_reward(trainer.model, batch, prepared), weights))
        assert float(torch.cosine_similarity(drawn, exact, dim=0)) > 0.95
        assert float(drawn.norm() / exact.norm()) == pytest.approx(1, abs=0.15)

    def expected_reward(self, model, batch: AnswerBatch, prepared) -> torch.Tensor:
        """The mean over the questions of Σ p(y) r(y)."""
        tokenizer, total = prepared.tokenizers.target, torch.zeros(())
        allowed = [each for each in range(len(tokenizer)) if each not in batch.forbidden]
        firsts = batch.label_mask.float().argmax(1).tolist()
        rows = zip(batch.indices.tolist(), batch.target.values.tolist(), firsts, strict=True)
        prompts = {index: ids[: first + 1] for index, ids, first in rows}
        for prompt in prompts.values():
            for answer, score in all_answers(lambda ids: model(row_of(ids))[0, -1], prompt, allowed, 2):
                is_right = answer[-1] == EOS and tokenizer.decode(answer[:-1]) in ("add", "sort")
                total = total + score.exp() * (1.0 if is_right else -1.0)
        return total / len(prompts)


def flat(tensors) -> torch.Tensor:
    return torch.cat([each.flatten() for each in tensors])


def row_of(ids: list[int]) -> Batch:
    return Batch(
        None, Sequences.of([ids]), torch.zeros(1, len(ids), dtype=torch.long), torch.zeros(1, dtype=torch.long)
    )


class TestRun:
    @pytest.mark.parametrize("divergence", ["policy-to-base", "base-to-policy"])
    def test_a_stopped_run_continues_bit_for_bit(self, tmp_path: Path, divergence):
        stop_and_resume(tiny(**{"objective.kl_weight": 0.1, "objective.divergence.kind": divergence}), tmp_path)

    def test_an_expert_that_is_trained_by_rewards_is_stopped_and_used(self, tmp_path: Path):
        """From the base model to two passes, with the recipes and commands of a user."""
        shape = {each: TINY[each] for each in ("decoder.width", "decoder.heads", "decoder.depth", "corpus.size")}
        quick = {"training.steps": 12, "training.evaluate_every": 4, "training.batch_tokens": 160,
                 "decoding.max_new_tokens": 3}  # fmt: skip
        base = train_recipe(resolve("chat-puzzles", [], shape | quick), tmp_path / "base")
        changes = {"pretrained": str(base), "adapter.kind": "svf", "corpus.size": 40, "objective.reward": FORMAT}
        stop_and_resume(resolve("chat-puzzles-reinforce", [], changes | quick), tmp_path)
        options = DispatchOptions("prompt")
        model, _ = open_dispatched(str(base), [f"sort={tmp_path / 'whole'}"], options)
        (prediction,) = model.predict(["sort 3 2 1 4"])
        assert prediction.expert in ("sort", "base")

    def test_micro_batches_have_the_gradient_of_the_whole_batch(self, prepared):
        norms = []
        for accumulate in (1, 3):
            trainer, batch = first_batch(prepared, **{"training.accumulate": accumulate, "objective.kl_weight": 0.3})
            trainer.model.decoder.blocks[0].feed_forward.up_proj.weight.data.mul_(2)  # so that KL is not 0
            norms.append(trainer.train_step(batch)["grad_norm"])
        assert norms[0] == pytest.approx(norms[1], rel=1e-4)

    def test_rewards_divergence_and_lengths_are_logged(self, tmp_path: Path):
        run = train_recipe(tiny(), tmp_path / "run")
        lines = [each for each in read_metrics(run.metrics) if "reward" in each]
        assert [each["step"] for each in lines] == list(range(1, 13))
        assert all(-1 <= each["reward_min"] <= each["reward"] <= each["reward_max"] <= 1 for each in lines)
        assert all(1 <= each["answer_tokens"] <= 3 for each in lines)
        assert lines[0]["kl"] == pytest.approx(0, abs=1e-5)

    @pytest.mark.long
    def test_a_reward_that_is_learned_increases(self, tmp_path: Path):
        changes = {"training.steps": 60, "training.evaluate_every": 60, "training.learning_rate": 1e-2,
                   "training.schedule.warmup": 5}  # fmt: skip
        rewards = [each["reward"] for each in read_metrics(train_recipe(tiny(**changes), tmp_path / "run").metrics)
                   if "reward" in each]  # fmt: skip
        assert sum(rewards[-10:]) / 10 > sum(rewards[:10]) / 10 + 0.5

    @pytest.mark.long
    def test_rewards_that_never_vary_are_reported(self, tmp_path: Path):
        class Listener(NullListener):
            lines: list[str] = []  # noqa: RUF012

            def log(self, text: str) -> None:
                self.lines.append(text)

        changes = {"objective.reward": {"kind": "exact"}, "training.steps": 101, "training.batch_tokens": 40,
                   "training.evaluate_every": 101, "decoding.max_new_tokens": 1}  # fmt: skip
        train_recipe(tiny(**changes), tmp_path / "run", Listener())
        (warning,) = [each for each in Listener.lines if "WARNING" in each]
        assert "every answer of 100 steps had the reward -1" in warning

    def test_dropout_is_refused(self):
        with pytest.raises(UserError, match="answers are drawn without dropout"):
            tiny(**{"decoder.dropout": 0.1})

    def test_a_question_without_a_calculation_is_an_error_of_the_user(self, tmp_path: Path):
        changes = {
            "objective.reward": {"kind": "arithmetic"},
            "decoding.max_new_tokens": 20,
            "training.batch_tokens": 400,
        }
        with pytest.raises(UserError, match="There is no calculation in the question"):
            train_recipe(tiny(**changes), tmp_path / "run")

    def test_the_scores_are_the_right_answers_by_task(self, tmp_path: Path):
        run = train_recipe(tiny(**{"training.steps": 2, "training.evaluate_every": 2}), tmp_path / "run")
        evaluate(run)
        exact = json.loads((run.evaluation / "scores.json").read_text(encoding="utf-8"))["test"]["exact"]
        assert exact["by_topic"].keys() == {"add", "reverse", "sort", "name"}
