"""A conversation with a model: the history of messages, and a cache, so that only new tokens are processed.

`Conversation` has the history and the actions of a user: send a message, undo the last exchange (a message and its
reply), or request another reply. With a language model the keys and values of the past stay in the cache
(`CachedConversation`). After an undo, the conversation continues from the state before the exchange; the mask hides the
cache entries after that state, which are overwritten later. If the context is full, the oldest whole exchanges are left
out, and the rest is processed again, because all positions change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.core.batch import Images, Sequences
from seq2see.core.errors import UserError
from seq2see.data.dialogue import Dialogue, Message
from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.engine import PREFILL_CHUNK, Decoding, make_limits, make_logits_processors, make_sampler, stream
from seq2see.inspection.trace import ATTENTION, trace
from seq2see.models.language_model import LanguageModel
from seq2see.tasks.model import INCOMPLETE_CHARACTER

SEED_STRIDE = 7_368_787
"""The difference between the seeds of two replies, so that their samples differ."""
REPLY_SHARE = 0.25
"""The largest share of the context that is reserved for a reply; decoding.max_new_tokens may need less."""
SAME_REPLY = "Without sampling (decoding.do_sample), every reply to a message is the same."
MAX_CACHE = 2048
"""The largest capacity of a cache in tokens; on a GPU, each step computes attention over the whole capacity."""


class PromptedModel:
    """A generative model whose decoding begins with prompts in place of <bos>, from a state that may have a past.

    The prompts of a batch have equal lengths. They may contain special tokens, which a forced prefix may not. The token
    that ends a reply becomes <eos>, at which every decoding loop stops, and `forbidden` tokens are never generated.
    """

    def __init__(self, model: Any, prompts: Int[Tensor, "row time"], capacity: int, state: Any = None):
        self.model, self.prompts, self.capacity, self.state = model, prompts, capacity, state
        self.end_id, self.forbidden = EOS, list[int]()
        self.tokens_read = 0
        """The number of tokens that the model has processed, for each row."""

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """The state before the prompts."""
        return self.model.start(source, rows, self.capacity) if self.state is None else self.state

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """In the first step, process the prompts instead of <bos>; later, process the tokens."""
        parts = [tokens] if self.tokens_read else list(self.prompts.split(PREFILL_CHUNK, dim=1))
        for part in parts:
            logits, state = self._last_logits(part, state)
        self.tokens_read += sum(part.size(1) for part in parts)
        self.state = state
        logits = logits.clone()
        if self.end_id != EOS:
            logits[..., EOS] = logits[..., self.end_id]
            logits[..., self.end_id] = -torch.inf
        logits[..., self.forbidden] = -torch.inf
        return logits, state

    def _last_logits(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row 1 vocab"], Any]:
        """The logits after the last token: those after the other tokens of a prompt are never used."""
        if not isinstance(self.model, LanguageModel):  # an ensemble
            logits, state = self.model.step(tokens, state)
            return logits[:, -1:], state
        hidden, state = self.model.step_hidden(tokens, state)
        return self.model.head(hidden[:, -1:]), state


class Conversation:
    """A dialogue with a model without a cache: the messages are processed again for every reply."""

    def __init__(self, model: Any, system: str = "", seed: int = 0, **settings: Any):
        self.model, self.seed = model, seed
        self.decoding: Decoding = model.config.decoding.with_(**settings)
        if self.decoding.num_beams > 1 or self.decoding.num_return_sequences > 1:
            raise UserError(
                "A reply is generated token by token.", hint="Leave out num_beams and num_return_sequences."
            )
        self.first = [Message("system", system)] if system else model.template.with_system([])
        """The message of the system, if there is one."""
        self.messages: list[Message] = []
        self.notices: list[str] = []
        """Messages for the user about the last reply, for example that the oldest messages were left out."""
        self.tokens_read = 0
        """The number of tokens that the model processed for the last reply."""
        self._tries = 0

    @property
    def history(self) -> list[Message]:
        """All messages, that of the system included."""
        return [*self.first, *self.messages]

    def reply(self, text: str) -> Iterator[str]:
        """Send a message of the user; yield the reply chunk by chunk, and add both to the history."""
        if not text.strip():
            raise UserError("The message is empty.", hint="Enter a text.")
        return self._exchange(text, 0)

    def again(self) -> Iterator[str]:
        """Another reply to the last message, with other random numbers."""
        self._require_exchange()
        text, tries = self.messages[-2].content, self._tries + 1
        self.undo()
        return self._exchange(text, tries)

    def undo(self) -> None:
        """Remove the last message and its reply."""
        self._require_exchange()
        del self.messages[-2:]

    def to_dialogue(self) -> Dialogue:
        """The conversation so far."""
        return Dialogue.of(self.history)

    def _exchange(self, text: str, tries: int) -> Iterator[str]:
        is_same = tries > 0 and not self.decoding.do_sample
        self.notices, self._tries = [*self.model.warnings(text), *([SAME_REPLY] if is_same else [])], tries
        self.messages.append(Message("user", text))
        chunks: list[str] = []
        complete = False
        try:
            for chunk in self._generate(self.seed + SEED_STRIDE * tries + len(self.messages)):
                chunks.append(chunk)
                yield chunk
            complete = True
        finally:  # an interrupted reply is stored; after an error, the message without a reply is removed
            if complete or chunks:
                self.messages.append(Message("assistant", "".join(chunks).strip()))
            else:
                del self.messages[-1:]

    def _generate(self, seed: int) -> Iterator[str]:
        """The chunks of the reply to the history."""
        yield from self.model.stream_reply(self.history, self.decoding, seed)
        if self.model.is_truncated(self.history):
            self.notices.append("The context is full: the oldest messages were left out.")

    def _require_exchange(self) -> None:
        if not self.messages:
            raise UserError("There is no message yet.", hint="Enter one first.")


@dataclass(frozen=True)
class CachedPast:
    """The cache of a dialogue, and which tokens and messages it contains."""

    state: Any = None
    length: int = 0
    """The number of tokens in the cache."""
    unread: list[int] = field(default_factory=list)
    """The tokens after those in the cache: the end of the last reply."""
    begin: int = 0
    """The index of the first message in the cache; earlier ones were left out."""


class CachedConversation(Conversation):
    """A dialogue with a language model: for a reply it processes only the new tokens."""

    def __init__(self, model: Any, system: str = "", seed: int = 0, **settings: Any):
        super().__init__(model, system, seed, **settings)
        self.past = CachedPast()
        self._pasts: list[CachedPast] = []  # before each exchange
        self.reply_ids: list[int] = []
        """The token ids of the last reply, with the end if it was generated."""

    @property
    def capacity(self) -> int:
        """The capacity of the cache in tokens."""
        return min(self.model.config.model.target_text.max_tokens, MAX_CACHE)

    def undo(self) -> None:
        """Remove the last message and its reply: continue from the state before the message."""
        super().undo()
        self.past = self._pasts.pop()

    def _exchange(self, text: str, tries: int) -> Iterator[str]:
        before, count = self.past, len(self.messages)
        try:
            yield from super()._exchange(text, tries)
        finally:
            if len(self.messages) > count:
                self._pasts.append(before)
            else:
                self.past = before

    def _generate(self, seed: int) -> Iterator[str]:
        model, template, tokenizer = self.model, self.model.template, self.model.tokenizers.target
        prompt = [*self.past.unread, *self._new_ids()]
        reserved = min(self.decoding.max_new_tokens, int(REPLY_SHARE * self.capacity))
        if self.past.length + len(prompt) > self.capacity - reserved:
            prompt = self._drop_oldest(self.capacity - reserved)
        module = model.module_for(self.decoding.precision, is_conversation=True)
        prompted = model.prompted([prompt], self.capacity, self.past.state, module)
        space = self.capacity - self.past.length - len(prompt)
        decoding = self.decoding.with_(max_new_tokens=max(1, min(self.decoding.max_new_tokens, space)))
        self.reply_ids, length = [], 0
        try:
            steps = stream(
                prompted, None, make_sampler(decoding, seed), make_limits(decoding), make_logits_processors(decoding),
                Sequences.of([[]]).to(model.device),
            )  # fmt: skip
            for step in steps:
                self.reply_ids.append(int(step.tokens[0]))
                if self.reply_ids[-1] in (EOS, PAD):
                    break
                text = tokenizer.decode(self.reply_ids)
                if len(text) > length and not text.endswith(INCOMPLETE_CHARACTER):
                    yield text[length:]
                    length = len(text)
            else:
                self.notices.append(f"The reply was cut after {len(self.reply_ids)} tokens.")
        finally:
            self.tokens_read = prompted.tokens_read
            self._remember(prompted, template.tail_ids(tokenizer))

    def _remember(self, prompted: PromptedModel, tail: list[int]) -> None:
        """Store the state. The last token and the end of the reply are not in the cache: they are the unread tokens."""
        last = self.reply_ids[-1:] if self.reply_ids and self.reply_ids[-1] not in (EOS, PAD) else []
        length = self.past.length + prompted.tokens_read
        self.past = CachedPast(prompted.state, length, [*last, *tail], self.past.begin)

    def _new_ids(self) -> list[int]:
        """The ids of the last message and of the header of its reply; with an empty cache, of all messages."""
        begin = self.past.begin if self.past.length == 0 else len(self.messages) - 1
        return self._ids_from(begin, with_start=self.past.length == 0)

    def _ids_from(self, begin: int, with_start: bool) -> list[int]:
        template, tokenizer = self.model.template, self.model.tokenizers.target
        messages = [*self.first, *self.messages[begin:]]
        encoded = template.encode(tokenizer, messages)
        if not with_start:
            encoded = encoded[-(len(self.messages) - begin) :]
        ids = [each for message in encoded for each in message.ids]
        return [*(template.start_ids(tokenizer) if with_start else ()), *ids, *template.reply_ids(tokenizer)]

    def _drop_oldest(self, limit: int) -> list[int]:
        """Leave out the oldest exchanges until the rest fits; return the ids of the rest, which is processed again."""
        begin = self.past.begin
        while len(ids := self._ids_from(begin, with_start=True)) > limit:
            begin += 2
            if begin >= len(self.messages):
                raise UserError(
                    f"The message has {len(ids)} tokens, and there is space for {limit}.", hint="Send a shorter one."
                )
        if begin > self.past.begin:
            count = begin - self.past.begin
            self.notices.append(f"The context is full: the oldest {count} messages were left out.")
        self.past = CachedPast(begin=begin)
        return ids


@dataclass(frozen=True)
class TokenChoice:
    """One token of a reply, its alternatives, and the attention to earlier tokens."""

    token: str
    probability: float
    alternatives: list[tuple[str, float]]
    """The most probable tokens with their probabilities, the best first."""
    attention: list[tuple[str, float]]
    """Every earlier token of the dialogue, with its mean weight over the heads of the last layer."""


@dataclass(frozen=True)
class NearestReply:
    """The reply of the training dialogues that is most similar to a text."""

    text: str
    distance: float
    """The edit distance in characters, divided by the longer length: 0 for a copy, near 1 for nothing in common."""


def choice_of(model: Any, messages: Sequence[Message], position: int, count: int = 8) -> TokenChoice:
    """The token at a position of the last reply, computed in one forward pass over the dialogue."""
    *history, reply = messages
    prompt = model.prompt_ids(history)
    encoded = model.template.encode(model.tokenizers.target, messages)[-1]
    ids = [*prompt, *(each for each, is_label in zip(encoded.ids, encoded.label_mask, strict=True) if is_label)]
    if reply.role != "assistant" or not 0 <= position < len(ids) - len(prompt):
        raise UserError(f"The last reply has no token {position}.", hint="Count its tokens from 0.")
    time, tokens = len(prompt) + position, model.tokenizers.target.tokens(ids)
    with torch.inference_mode(), trace(model.module, ATTENTION) as activations:
        logits = model.module(model.batch_of(ids[:time], ids[1 : time + 1]))[0, -1]
    probabilities = logits.float().softmax(-1).cpu()
    best = probabilities.topk(min(count, probabilities.numel()))
    names = model.tokenizers.target.tokens(best.indices.tolist())
    weights = [each.values[0, :, -1].mean(dim=0).tolist() for each in activations.of("attention")][-1:]
    return TokenChoice(
        tokens[time],
        float(probabilities[ids[time]]),
        list(zip(names, best.values.tolist(), strict=True)),
        list(zip(tokens[:time], weights[0], strict=True)) if weights else [],
    )
