"""The Python interface of models of dialogues: replies to a message or to a history, and conversations.

An input is a message of the user, or a history with its roles on one line (see `data/dialogue.py`). The output is the
reply alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.chat_templates import BaseTemplate, RoleTemplate, Special, special_id, text_ids
from seq2see.data.dialogue import Dialogue, Message, history_text, parse_history
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2see.decoding.engine import Decoding, decode, make_limits, make_logits_processors, make_sampler, stream
from seq2see.decoding.samplers import Hypothesis
from seq2see.metrics.dialogue import CANDIDATES
from seq2see.tasks.conversation import MAX_CACHE, CachedConversation, Conversation, PromptedModel
from seq2see.tasks.dialogue_scores import ReplyOutput, evenly
from seq2see.tasks.model import INCOMPLETE_CHARACTER, GenerationRequest, Model, NamedBatch, Output, Prediction
from seq2see.tasks.model_folder import Tokenizers, unknown_token_warnings
from seq2see.tasks.token_context import GenerationContext, check_token_ids

PRIOR_HISTORIES = 4
"""The number of training histories for the estimate of p(reply)."""
BATCH_ROWS = 64
"""Prompts per batch; those of one batch have equal lengths."""


@dataclass(frozen=True)
class ScoredRow:
    """A reply with its history as token ids; labels outside of the reply are ignored."""

    source: list[int] | None
    inputs: list[int]
    labels: list[int]


class ReplyScoring:
    """Scores of candidate replies: how much more probable each is after its history than after other histories.

    The score is log p(reply | history) - log p(reply), the pointwise mutual information: without the second term, short
    and frequent replies would have the highest scores everywhere (Li et al. 2016, "A Diversity-Promoting Objective
    Function"). p(reply) is estimated by the mean of p(reply | history) over some histories of the training dialogues.
    """

    device: torch.device
    module: nn.Module
    tokenizers: Tokenizers
    prior_histories: Sequence[Sequence[Message]] = ()

    def candidate_rows(self, history: Sequence[Message], candidates: Sequence[str]) -> list[ScoredRow]:
        """The token ids of replies to one history."""
        raise NotImplementedError

    def learn_prior(self, dialogues: Sequence[Dialogue]) -> None:
        """Take the histories for log p(reply) from dialogues."""
        usable = [each for each in dialogues if each.replies]
        chosen = [usable[index] for index in evenly(len(usable), PRIOR_HISTORIES)]
        self.prior_histories = [each.messages[: each.replies[-1]] for each in chosen]

    def candidate_scores(
        self, histories: Sequence[Sequence[Message]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """For each history the score of each candidate."""
        priors = self._priors(list(dict.fromkeys(text for texts in candidates for text in texts)))
        return [
            [own - priors[text] for own, text in zip(self._log_probabilities(history, texts), texts, strict=True)]
            for history, texts in zip(histories, candidates, strict=True)
        ]

    def _priors(self, texts: list[str]) -> dict[str, float]:
        """log p(reply) of each text: the logarithm of its mean probability; 0 without histories."""
        if not self.prior_histories:
            return dict.fromkeys(texts, 0.0)
        parts = [texts[start : start + CANDIDATES] for start in range(0, len(texts), CANDIDATES)]
        rows = [
            [each for part in parts for each in self._log_probabilities(history, part)]
            for history in self.prior_histories
        ]
        means = torch.tensor(rows).logsumexp(0) - math.log(len(rows))
        return dict(zip(texts, means.tolist(), strict=True))

    @torch.inference_mode()
    def _log_probabilities(self, history: Sequence[Message], texts: Sequence[str]) -> list[float]:
        """log p(reply | history) of each text, its end included."""
        rows = self.candidate_rows(history, texts)
        source = Sequences.of([row.source for row in rows if row.source is not None]) if rows[0].source else None
        labels = Sequences.of([row.labels for row in rows], padding=IGNORE_INDEX).values
        batch = Batch(source, Sequences.of([row.inputs for row in rows]), labels, torch.arange(len(rows)))
        batch = batch.to(self.device)
        logits = self.module(batch).float()
        losses = nn.functional.cross_entropy(logits.mT, batch.labels, ignore_index=IGNORE_INDEX, reduction="none")
        found: list[float] = (-losses.sum(1)).tolist()
        return found


class ChatModel(ReplyScoring, Model):
    """A language model that is trained on dialogues: it continues a history with a reply."""

    conversation_class: type[Conversation] = CachedConversation
    """The class of a conversation with this model."""
    messages_per_exchange: int = 2
    """The number of messages from one message of the user to the next one."""

    @property
    def template(self) -> BaseTemplate:
        """How messages become token ids."""
        settings: Any = self.config.model
        return settings.template

    @property
    def has_source(self) -> bool:
        """True: a reply is a separate text, not printed as the continuation of its history."""
        return True

    @property
    def max_tokens(self) -> int:
        """The maximum number of tokens of a history: some space remains for the reply."""
        return self.context_length - min(self.config.decoding.max_new_tokens, self.context_length // 4)

    @property
    def context_length(self) -> int:
        """The maximum number of tokens of a history with its reply."""
        return min(self.config.model.target_text.max_tokens, MAX_CACHE)

    @property
    def header_length(self) -> int:
        """The number of tokens in the header of a reply."""
        return len(self.template.reply_ids(self.tokenizers.target))

    def conversation(self, system: str = "", seed: int = 0, **settings: Any) -> Conversation:
        """A new conversation; the settings are those of decoding, such as temperature=0.7."""
        return self.conversation_class(self, system, seed, **settings)

    # --- token ids ---

    def input_messages(self, history: Sequence[Message]) -> list[Message]:
        """The messages that the model reads for a reply to a history."""
        return list(history)

    def prompt_ids(self, history: Sequence[Message]) -> list[int]:
        """The token ids of a history with the header of its reply; the oldest exchanges are left out if needed."""
        template, tokenizer = self.template, self.tokenizers.target
        messages = template.with_system(self.input_messages(check_history(history)))
        first = int(messages[0].role == "system")
        encoded = template.encode(tokenizer, messages)
        start, header = template.start_ids(tokenizer), template.reply_ids(tokenizer)
        sizes, begin = [len(each.ids) for each in encoded], first
        fixed = len(start) + len(header) + sum(sizes[:first])
        while begin + self.messages_per_exchange < len(sizes) and fixed + sum(sizes[begin:]) > self.max_tokens:
            begin += self.messages_per_exchange
        ids = [each for message in (*encoded[:first], *encoded[begin:]) for each in message.ids]
        space = self.max_tokens - len(start) - len(header)
        return [*start, *ids[-space:], *header]

    def module_for(self, precision: str, is_conversation: bool = False) -> Any:
        """The module that generates in this precision; for a conversation, a copy that is fast for single rows."""
        if not self.engine.streams or (precision == "float32" and not is_conversation):
            return self.module
        engine: Any = self.engine
        return engine.model_for_steps(precision)

    def prompted(self, prompts: list[list[int]], capacity: int, state: Any = None, module: Any = None) -> PromptedModel:
        """The model (or this copy of it) with prompts of equal lengths, for the decoding loop."""
        tokenizer, template = self.tokenizers.target, self.template
        model = PromptedModel(module or self.module, torch.tensor(prompts, device=self.device), capacity, state)
        model.end_id = template.end_id(tokenizer)
        names = ["<user>", "<system>", "<assistant>"] if isinstance(template, RoleTemplate) else []
        names += [each for each in template.reply_header() if isinstance(each, Special)]
        model.forbidden = [special_id(tokenizer, name) for name in dict.fromkeys(names)]
        return model

    def batch_of(self, inputs: list[int], labels: list[int]) -> Batch:
        """One row of input ids and their labels."""
        batch = Batch(None, Sequences.of([inputs]), torch.tensor([labels]), torch.zeros(1, dtype=torch.long))
        return batch.to(self.device)

    def encode(self, text: str) -> list[int]:
        """The token ids of an input, as the model receives them."""
        return self.prompt_ids(parse_history(text))

    def token_ids(self, text: Any) -> list[int]:
        """The token ids of an input, as the model receives them."""
        return self.encode(text)

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    # --- replies ---

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """The replies to many messages or histories, in their order."""
        if prefix:
            raise UserError("A reply cannot be forced to start with a prefix.", hint="Leave out the prefix.")
        decoding = self.config.decoding.with_(**settings)
        histories = [parse_history(text) for text in texts]
        hypotheses = self.reply_hypotheses(histories, decoding, seed, indices, on_progress)
        return [self._reply_prediction(*each) for each in zip(texts, histories, hypotheses, strict=True)]

    def reply_hypotheses(
        self,
        histories: Sequence[Sequence[Message]],
        decoding: Decoding,
        seed: int = 0,
        indices: Sequence[int] | None = None,
        on_progress: Callable[[int], Any] = lambda count: None,
    ) -> list[list[Hypothesis]]:
        """The replies to histories; prompts of equal lengths share a batch."""
        prompts, module = [self.prompt_ids(each) for each in histories], self.module_for(decoding.precision)
        found: dict[int, list[Hypothesis]] = {}
        by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        for rows in _batches(by_length, [len(each) for each in prompts]):
            space = max(1, self.context_length - len(prompts[rows[0]]) + 1)
            limited = decoding.with_(max_new_tokens=min(decoding.max_new_tokens, space))
            results = decode(
                self.prompted([prompts[row] for row in rows], self.context_length + 1, module=module),
                None,
                make_sampler(limited, seed),
                make_limits(limited),
                make_logits_processors(limited),
                prefix=Sequences.of([[] for _ in rows]).to(self.device),
                indices=torch.tensor([row if indices is None else indices[row] for row in rows]),
            )
            found |= zip(rows, results, strict=True)
            on_progress(len(rows))
        return [found[row] for row in range(len(prompts))]

    def replies(
        self, histories: Sequence[Sequence[Message]], on_progress: Callable[[int], Any], **settings: Any
    ) -> list[ReplyOutput]:
        """The replies to histories."""
        found = self.reply_hypotheses(histories, self.config.decoding.with_(**settings), on_progress=on_progress)
        return [ReplyOutput(self.tokenizers.target.decode(each[0].tokens).strip(), each[0].score) for each in found]

    def _reply_prediction(self, text: str, history: Sequence[Message], hypotheses: list[Hypothesis]) -> Prediction:
        outputs = tuple(
            Output(
                self.tokenizers.target.decode(each.tokens).strip(),
                each.score,
                each.log_probability,
                each.finished,
                len(each.tokens) + each.finished,
                self._token_probabilities(each),
            )
            for each in hypotheses
        )
        return Prediction(text, outputs, self.is_truncated(history), self._attention_of, warnings=self.warnings(text))

    def is_truncated(self, history: Sequence[Message]) -> bool:
        """Whether a history is too long for the context, so that its oldest messages are left out."""
        template, tokenizer = self.template, self.tokenizers.target
        encoded = template.encode(tokenizer, template.with_system(self.input_messages(history)))
        around = len(template.start_ids(tokenizer)) + self.header_length
        return around + sum(len(each.ids) for each in encoded) > self.max_tokens

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an input, for example unknown characters."""
        return message_warnings(self.tokenizers.target, parse_history(text))

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The reply to one input, chunk by chunk."""
        settings.pop("prefix", None)
        return self.stream_reply(parse_history(text), self.config.decoding.with_(**settings), seed)

    def stream_reply(self, history: Sequence[Message], decoding: Decoding, seed: int = 0) -> Iterator[str]:
        """The reply to a history, chunk by chunk."""
        prompt = self.prompt_ids(history)
        space = max(1, self.context_length - len(prompt) + 1)
        limited = decoding.with_(max_new_tokens=min(decoding.max_new_tokens, space))
        model = self.prompted([prompt], self.context_length + 1, module=self.module_for(decoding.precision))
        yield from reply_chunks(model, None, limited, seed, self.tokenizers.target)

    # --- scores and activations of a given reply ---

    def score(self, source: str, target: str) -> float:
        """The log-probability of a reply, its end included."""
        prompt, reply = self.encode(source), self._reply_label_ids(target)
        batch = self.batch_of([*prompt, *reply[:-1]], [*prompt[1:], *reply])
        with torch.inference_mode():
            scores = self.module(batch)[0].float().log_softmax(-1)
        return float(scores.gather(-1, batch.labels[0][:, None])[len(prompt) - 1 :].sum())

    def _reply_label_ids(self, text: str) -> list[int]:
        """The ids of a reply with its end."""
        encoded = self.template.encode(self.tokenizers.target, [Message("user", "a"), Message("assistant", text)])[1]
        return [each for each, is_label in zip(encoded.ids, encoded.label_mask, strict=True) if is_label]

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A history with a reply (default: the model's own) as a batch of one, with teacher forcing."""
        reply = self._reply_label_ids(self(source).text if target is None else target)
        prompt, tokenizer = self.encode(source), self.tokenizers.target
        inputs, labels = [*prompt, *reply[:-1]], [*prompt[1:], *reply]
        return NamedBatch.of(
            self.batch_of(inputs, labels), {"target": (tokenizer, inputs), "labels": (tokenizer, labels)}
        )

    def reply_context(self, source: Any, target: str = "", token_ids: Sequence[int] = ()) -> ReplyContext:
        """The history and the tokens of the reply so far."""
        check_token_ids(self.tokenizers.target, token_ids)
        reply = [*(self._reply_label_ids(target)[:-1] if target else ()), *token_ids]
        ids = [*self.encode(source)[1:], *reply]  # without the first token, which `_batch` adds
        return ReplyContext(self, None, ids, self.is_truncated(parse_history(source)))

    def candidate_rows(self, history: Sequence[Message], candidates: Sequence[str]) -> list[ScoredRow]:
        """The input and label ids of replies to one history."""
        prompt = self.prompt_ids(history)
        replies = [self._reply_label_ids(each) for each in candidates]
        return [
            ScoredRow(None, [*prompt, *reply[:-1]], [*[IGNORE_INDEX] * (len(prompt) - 1), *reply]) for reply in replies
        ]


class ChatSeq2seqModel(ReplyScoring, Model):
    """An encoder of the last messages, and a decoder of the reply."""

    conversation_class: type[Conversation] = Conversation
    """The class of a conversation with this model: without a cache, the messages are encoded again for every reply."""
    template: BaseTemplate = RoleTemplate()
    """The names of the roles; the token ids of the last messages are those of `history_ids`."""

    def conversation(self, system: str = "", seed: int = 0, **settings: Any) -> Conversation:
        """A new conversation; the settings are those of decoding, such as temperature=0.7."""
        return self.conversation_class(self, system, seed, **settings)

    @property
    def history_length(self) -> int:
        """The number of messages that the encoder reads."""
        source: Any = self.config.model.source
        return int(source.messages)

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.source_ids(parse_history(text)) for text in texts]

    def _truncate(self, ids: list[int]) -> list[int]:
        """The newest tokens of a history."""
        return [*ids[-self.max_tokens :], EOS]

    def source_ids(self, history: Sequence[Message]) -> list[int]:
        """The token ids of the last messages, without <eos>."""
        return history_ids(self.tokenizers.source, check_history(history), self.history_length)

    def is_truncated(self, history: Sequence[Message]) -> bool:
        """Whether the last messages are too long for the encoder, so that the oldest tokens are left out."""
        return len(self.source_ids(history)) > self.max_tokens

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an input, for example unknown characters."""
        return message_warnings(self.tokenizers.target, parse_history(text))

    def _prediction(self, text: str, prompt: str, ids: list[int], hypotheses: list[Hypothesis]) -> Prediction:
        outputs = self._outputs(prompt, self._truncate(ids), hypotheses)
        return Prediction(text, outputs, len(ids) > self.max_tokens, self._attention_of, warnings=self.warnings(text))

    def replies(
        self, histories: Sequence[Sequence[Message]], on_progress: Callable[[int], Any], **settings: Any
    ) -> list[ReplyOutput]:
        """The replies to histories."""
        decoding = self.config.decoding.with_(**settings)
        sources = [self._truncate(self.source_ids(each)) for each in histories]
        request = GenerationRequest(sources, range(len(sources)), decoding)
        found = self.engine.generate(request, on_progress)
        return [ReplyOutput(self.tokenizers.target.decode(each[0].tokens), each[0].score) for each in found]

    def stream_reply(self, history: Sequence[Message], decoding: Decoding, seed: int = 0) -> Iterator[str]:
        """The reply to a history, chunk by chunk."""
        source = Sequences.of([self._truncate(self.source_ids(history))]).to(self.device)
        yield from reply_chunks(self.module, source, decoding, seed, self.tokenizers.target)

    def candidate_rows(self, history: Sequence[Message], candidates: Sequence[str]) -> list[ScoredRow]:
        """The source, input and label ids of replies to one history."""
        source = self._truncate(self.source_ids(history))
        replies = [[*self.tokenizers.target.encode(each), EOS] for each in candidates]
        return [ScoredRow(source, [BOS, *reply[:-1]], reply) for reply in replies]


class ReplyContext(GenerationContext):
    """A history and a reply so far; the first token is that of the template, not always <bos>."""

    def _batch(self, ids: Sequence[int]) -> Batch:
        inputs = [self.model.encode("a")[0], *ids]
        labels = torch.full((1, len(inputs)), IGNORE_INDEX)
        indices = torch.zeros(1, dtype=torch.long)
        return Batch(None, Sequences.of([inputs]), labels, indices).to(self.model.device)


def history_ids(tokenizer: Tokenizer, history: Sequence[Message], count: int) -> list[int]:
    """The last `count` messages as token ids, each after the token of its role."""
    ids: list[int] = []
    for message in history[-count:]:
        ids += [special_id(tokenizer, f"<{message.role}>"), *text_ids(tokenizer, message.content)]
    return ids


def message_warnings(tokenizer: Tokenizer, messages: Sequence[Message]) -> tuple[str, ...]:
    """Warnings about the messages of an input, for example unknown characters."""
    found = [
        warning
        for message in messages
        for warning in unknown_token_warnings(message.content, text_ids(tokenizer, message.content), tokenizer)
    ]
    return tuple(dict.fromkeys(found))


def reply_chunks(
    model: Any, source: Sequences | None, decoding: Decoding, seed: int, tokenizer: Tokenizer
) -> Iterator[str]:
    """The text of a reply, chunk by chunk as its tokens are generated."""
    ids, length = list[int](), 0
    prefix = Sequences.of([[]]).to(model.prompts.device if source is None else source.values.device)
    for step in stream(
        model, source, make_sampler(decoding, seed), make_limits(decoding), make_logits_processors(decoding), prefix
    ):
        ids.append(int(step.tokens[0]))
        if ids[-1] in (EOS, PAD):
            return
        text = tokenizer.decode(ids)
        if len(text) > length and not text.endswith(INCOMPLETE_CHARACTER):
            yield text[length:]
            length = len(text)


def check_history(history: Sequence[Message]) -> list[Message]:
    """The history, which must end with a message of the user."""
    if not history or history[-1].role != "user" or not history[-1].content.strip():
        text = history_text(history)[-60:]
        raise UserError(f"There is no message to reply to: {text!r}.", hint="End with a message of the user.")
    return list(history)


def _batches(order: list[int], lengths: list[int]) -> Iterator[list[int]]:
    """Groups of at most `BATCH_ROWS` prompts of equal length; `order` is sorted by length."""
    group: list[int] = []
    for index in order:
        if group and (lengths[index] != lengths[group[0]] or len(group) == BATCH_ROWS):
            yield group
            group = []
        group.append(index)
    if group:
        yield group
