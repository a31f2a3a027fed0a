"""REINFORCE: its gradient is that of the expected reward, on a model whose answers can all be listed."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import IGNORE_INDEX, AnswerBatch, Sequences, pick_rows
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.training.objectives import batch_loss
from seq2see.training.reinforce import (
    WATCHED_STEPS,
    BaseToPolicy,
    BatchMean,
    GroupMean,
    NoBaseline,
    PolicyToBase,
    Reinforce,
    RewardWatch,
    SampledAnswers,
    answer_log_probabilities,
)

VOCABULARY, PROMPT, LONGEST = 6, [BOS, 4], 2
FORBIDDEN = (PAD, BOS)
WORDS = [each for each in range(VOCABULARY) if each not in FORBIDDEN]


class Bigrams(nn.Module):
    """p(next | previous): a table of logits, one row for each previous token."""

    def __init__(self, seed: int):
        super().__init__()
        self.head = nn.Linear(VOCABULARY, VOCABULARY, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed)))

    def hidden(self, batch: AnswerBatch) -> Sequences:
        return Sequences(nn.functional.one_hot(batch.target.values, VOCABULARY).float(), batch.target.lengths)

    def log_probability(self, answer: tuple[int, ...]) -> torch.Tensor:
        """log p(answer), step by step."""
        table = self.head.weight.T[:, WORDS].log_softmax(-1)
        return sum(table[last, WORDS.index(each)] for last, each in itertools.pairwise([PROMPT[-1], *answer]))

    def divergence(self, other: Bigrams) -> torch.Tensor:
        """KL(p ‖ other) over whole answers."""
        logs = [(self.log_probability(each), other.log_probability(each).detach()) for each in answers()]
        return sum(own.exp() * (own - base) for own, base in logs)


def answers() -> list[tuple[int, ...]]:
    """All answers: they end with <eos>, or are cut after two tokens."""
    words = [each for each in WORDS if each != EOS]
    return [(EOS,), *((first, second) for first in words for second in WORDS)]


def reward(answer: tuple[int, ...]) -> float:
    return 1.0 if answer[:1] == (5,) or answer == (4, 5) else -1.0


def batch_of(found: list[tuple[int, ...]], base: Bigrams, advantages: list[float]) -> AnswerBatch:
    rows = [[*PROMPT, *each[:-1]] for each in found]
    labels = [[*[IGNORE_INDEX] * (len(PROMPT) - 1), *each] for each in found]
    batch = AnswerBatch(
        None,
        Sequences.of(rows),
        Sequences.of(labels, padding=IGNORE_INDEX).values,
        torch.arange(len(found)),
        torch.tensor(advantages),
        torch.zeros(len(found), 0, 0),
        FORBIDDEN,
    )
    with torch.no_grad():
        base_logs = answer_log_probabilities(base.hidden(batch), base.head, batch)
    return AnswerBatch(*(getattr(batch, name) for name in ("source", "target", "labels", "indices", "advantages")),
                       base_logs, FORBIDDEN)  # fmt: skip


def gradient(model: Bigrams, base: Bigrams, objective: Reinforce, offset: float = 0.0) -> torch.Tensor:
    """The mean gradient over all answers, each weighted by its probability: the expectation without sampling."""
    total = torch.zeros(VOCABULARY, VOCABULARY)
    for answer in answers():
        batch = batch_of([answer], base, [reward(answer) - offset])
        (found,) = torch.autograd.grad(batch_loss(objective, model.hidden(batch), model.head, batch), model.head.weight)
        total += model.log_probability(answer).exp().detach() * found
    return total


def exact(model: Bigrams, base: Bigrams, weight: float) -> torch.Tensor:
    """∇ of -(E[r] - λ KL(p ‖ p_0)), by differentiating the sum over all answers."""
    expected = sum(model.log_probability(each).exp() * reward(each) for each in answers())
    return torch.autograd.grad(-(expected - weight * model.divergence(base)), model.head.weight)[0]


class TestGradient:
    def test_the_probabilities_of_all_answers_sum_to_one(self):
        assert_close(sum(Bigrams(1).log_probability(each).exp() for each in answers()), torch.tensor(1.0))

    @pytest.mark.parametrize("weight", [0.0, 0.7])
    def test_it_is_that_of_the_expected_reward_minus_the_divergence(self, weight):
        model, base = Bigrams(1), Bigrams(2)
        assert_close(
            gradient(model, base, Reinforce(kl_weight=weight)), exact(model, base, weight), rtol=1e-4, atol=1e-6
        )

    def test_a_baseline_does_not_change_the_mean_gradient(self):
        model, base = Bigrams(1), Bigrams(2)
        assert_close(gradient(model, base, Reinforce(), offset=0.4), exact(model, base, 0.0), rtol=1e-4, atol=1e-6)

    def test_a_step_against_it_increases_the_expected_reward(self):
        model, base = Bigrams(1), Bigrams(2)

        def expected() -> float:
            return sum(float(model.log_probability(each).detach().exp()) * reward(each) for each in answers())

        before, found = expected(), gradient(model, base, Reinforce())
        with torch.no_grad():
            model.head.weight -= 0.1 * found
        assert expected() > before + 0.01

    def test_drawn_answers_have_this_gradient_up_to_the_noise_of_drawing(self):
        model, base, all_answers = Bigrams(1), Bigrams(2), answers()
        probabilities = torch.stack([model.log_probability(each).exp() for each in all_answers]).detach()
        generator = torch.Generator().manual_seed(3)
        drawn = [all_answers[each] for each in torch.multinomial(probabilities, 20_000, True, generator=generator)]
        rewards = torch.tensor([[reward(each) for each in drawn]])
        batch = batch_of(drawn, base, BatchMean().advantages(rewards)[0].tolist())
        loss = batch_loss(Reinforce(kl_weight=0.7), model.hidden(batch), model.head, batch) / batch.loss_count
        found = torch.autograd.grad(loss, model.head.weight)[0]
        wanted = exact(model, base, 0.7)
        assert float((found - wanted).norm() / wanted.norm()) < 0.05

    def test_an_answer_that_is_better_than_its_baseline_becomes_more_probable(self):
        model, base, good = Bigrams(1), Bigrams(2), (5, EOS)
        batch = batch_of([good], base, [1.0])
        (found,) = torch.autograd.grad(
            batch_loss(Reinforce(), model.hidden(batch), model.head, batch), model.head.weight
        )
        before = float(model.log_probability(good).detach())
        with torch.no_grad():
            model.head.weight -= 0.1 * found
        assert float(model.log_probability(good).detach()) > before

    def test_tokens_of_the_question_have_no_gradient(self):
        model, base = Bigrams(1), Bigrams(2)
        batch = batch_of([(5, EOS)], base, [1.0])
        (found,) = torch.autograd.grad(
            batch_loss(Reinforce(kl_weight=1.0), model.hidden(batch), model.head, batch), model.head.weight
        )
        used = found.abs().sum(0).nonzero().flatten().tolist()
        assert used == [4, 5]  # the last token of the question, and the first of the answer; not <bos>
        assert not found[list(FORBIDDEN)].any()

    def test_rows_are_independent_of_padding_and_of_each_other(self):
        model, base = Bigrams(1), Bigrams(2)
        objective = Reinforce(kl_weight=0.5)
        together = batch_of([(EOS,), (4, 5)], base, [1.0, -2.0])
        alone = [pick_rows(together, torch.tensor([row])) for row in (0, 1)]
        losses = [batch_loss(objective, model.hidden(each), model.head, each) for each in (together, *alone)]
        assert_close(losses[0], losses[1] + losses[2])


def uniform_logs(*probabilities: float) -> torch.Tensor:
    return torch.tensor([[probabilities]]).log()


class TestDivergence:
    def test_both_directions_by_hand(self):
        policy, base = uniform_logs(0.5, 0.5), uniform_logs(0.9, 0.1)
        forward = 0.5 * torch.log(torch.tensor(0.5 / 0.9)) + 0.5 * torch.log(torch.tensor(0.5 / 0.1))
        backward = 0.9 * torch.log(torch.tensor(0.9 / 0.5)) + 0.1 * torch.log(torch.tensor(0.1 / 0.5))
        assert_close(PolicyToBase().of(policy, base).squeeze(), forward)
        assert_close(BaseToPolicy().of(policy, base).squeeze(), backward)
        assert float(forward) == pytest.approx(0.5108, abs=1e-4)
        assert float(backward) == pytest.approx(0.3681, abs=1e-4)

    def test_the_published_direction_is_that_of_kl_div(self):
        policy, base = torch.randn(2, 3, 5).log_softmax(-1), torch.randn(2, 3, 5).log_softmax(-1)
        wanted = nn.functional.kl_div(policy, base, log_target=True, reduction="none").sum(-1)
        assert_close(BaseToPolicy().of(policy, base), wanted)

    @pytest.mark.parametrize("divergence", [PolicyToBase(), BaseToPolicy()])
    def test_its_gradient_leads_back_to_the_base_model(self, divergence):
        model, base = Bigrams(1), Bigrams(2)
        objective = Reinforce(kl_weight=1.0, divergence=divergence)
        batch = batch_of(answers(), base, [0.0] * len(answers()))
        before = float(model.divergence(base).detach())
        for _ in range(200):
            (found,) = torch.autograd.grad(
                batch_loss(objective, model.hidden(batch), model.head, batch), model.head.weight
            )
            with torch.no_grad():
                model.head.weight -= 0.02 * found
        assert float(model.divergence(base).detach()) < 0.2 * before


class TestBaselines:
    REWARDS = torch.tensor([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]])

    def test_by_hand(self):
        assert NoBaseline().advantages(self.REWARDS).equal(self.REWARDS)
        assert_close(GroupMean().advantages(self.REWARDS)[0], torch.tensor([1.0, 1.0, -2.0]))
        assert not GroupMean().advantages(self.REWARDS)[1].any()
        # Of six rewards the sum is -2: the others of a right answer sum to -3, those of a wrong one to -1.
        wanted = torch.where(self.REWARDS > 0, 1 + 3 / 5, -1 + 1 / 5)
        assert_close(BatchMean().advantages(self.REWARDS), wanted)

    def test_equal_rewards_have_no_advantage(self):
        assert not BatchMean().advantages(torch.ones(3, 4)).any()

    def test_a_group_of_one_answer_is_refused(self):
        tree = {"answers": {"kind": "greedy"}, "baseline": {"kind": "group"}}
        with pytest.raises(UserError, match="a group of one answer has no other answers"):
            read_tree(Reinforce, tree)
        assert Reinforce(answers=SampledAnswers(count=2), baseline=GroupMean()).answers.count == 2


class TestRewardWatch:
    def test_rewards_that_are_all_equal_are_reported_once_with_a_remedy(self):
        watch = RewardWatch()
        messages = []
        for step in range(1, WATCHED_STEPS + 50):
            watch.see({"reward_min": -1.0, "reward_max": -1.0})
            messages.append(watch.message(step))
        assert [step for step, each in enumerate(messages, 1) if each] == [WATCHED_STEPS]
        assert "had the reward -1, so nothing was learned" in messages[WATCHED_STEPS - 1]
        assert "objective.kind=next-token" in messages[WATCHED_STEPS - 1]

    def test_one_other_reward_is_enough(self):
        watch = RewardWatch([{"reward_min": -1.0, "reward_max": 1.0}])  # of a run before it was stopped
        watch.see({"reward_min": -1.0, "reward_max": -1.0})
        assert watch.message(WATCHED_STEPS) is None

    def test_a_solved_task_has_another_remedy(self):
        watch = RewardWatch()
        watch.see({"reward_min": 1.0, "reward_max": 1.0})
        assert "solves these questions already" in watch.message(WATCHED_STEPS)

    def test_other_objectives_have_no_rewards(self):
        assert RewardWatch([{"loss": 1.0}]).message(WATCHED_STEPS) is None
