"""Replies from the training dialogues: chosen as they are, or as an additional input of a language model.

`chat-retrieve` chooses the reply whose vector has the highest dot product with that of the history
(`models/dual_encoder.py`): every reply is a text of the training dialogues. With `tfidf_weight`, rare words that both
contain add to the score, even words that no training dialogue contains. `chat-retrieve-generate` finds the training
message that is most similar to a message by tf-idf; the reply to it follows the message in the input of a language
model, which generates (Weston et al. 2018, "Retrieve and Refine").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import cycle
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.data.chat_templates import BaseTemplate, RoleTemplate, add_role_tokens
from seq2see.data.dialogue import Dialogue, Message, parse_history
from seq2see.data.dialogue_dataset import DialogueDataset
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, EOS, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.metrics.dialogue import TfIdf
from seq2see.models.build import build_encoder, build_model
from seq2see.models.dual_encoder import DualEncoder
from seq2see.models.settings import EmbeddingTarget, ModelSettings
from seq2see.tasks.chat import (
    Chat,
    ChatRecipe,
    ChatSeq2seqModelSettings,
    DialogueCorpus,
    DialogueTask,
    HistoryText,
    ReplyDataset,
    message_texts,
)
from seq2see.tasks.chat_model import ChatModel, check_history, history_ids, message_warnings
from seq2see.tasks.conversation import Conversation
from seq2see.tasks.dialogue_scores import LikelihoodSums, ReplyOutput, cases_of
from seq2see.tasks.model import Model, NamedBatch, Output, Prediction, ScoredText, reject_settings
from seq2see.tasks.model_folder import Candidates, Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.task import Splits, Task, one_line, split_sizes
from seq2see.training.in_batch_softmax import InBatchSoftmax
from seq2see.training.objectives import NextToken

MAX_REPLIES = 50_000
"""The maximum number of training replies from which a model chooses; the most frequent ones."""
BATCH_ROWS = 256
VALIDATION_ROWS = 64
"""Rows per batch of a validation, and so the number of candidates for each history."""
TFIDF_DECAY = 0.7
"""The factor by which tf-idf weighs each message less than the next one; chosen by the validation dialogues of
xdailydialog and chitchat."""


class ChatRetrieveModelSettings(ChatSeq2seqModelSettings):
    """An encoder of histories and of replies, and the share of tf-idf in the score."""

    tfidf_weight: float = Field(0.0, ge=0)
    """The factor of the tf-idf similarity, which is added to the cosine of the vectors of history and reply."""


class ChatRetrieveRecipe(Recipe):
    """A recipe of the task chat-retrieve: an encoder of histories and of replies."""

    task: Literal["chat-retrieve"] = "chat-retrieve"
    corpus: DialogueCorpus
    """The source of the dialogues."""
    source: HistoryText = HistoryText()
    target: EmbeddingTarget = EmbeddingTarget()
    encoder: TextEncoder
    """The encoder of histories and replies."""
    tfidf_weight: float = Field(0.0, ge=0)
    """The factor of the tf-idf similarity, which is added to the cosine of the vectors of history and reply."""
    objective: InBatchSoftmax = InBatchSoftmax()
    prediction: Candidates = Candidates(top_k=5)

    model_settings: ClassVar[type[ModelSettings]] = ChatRetrieveModelSettings


class CandidateDataset(ReplyDataset):
    """The last messages and the reply for each reply of the dialogues; the label is the number of the reply."""

    def __init__(self, dialogues: Sequence[Dialogue], tokenizers: Tokenizers, source: HistoryText):
        super().__init__(dialogues, tokenizers.source, source, source.max_tokens)
        numbers = {text: number for number, text in enumerate(tokenizers.labels)}
        texts = [each.text for each in cases_of(dialogues)]
        # A reply that does not occur in training gets a new number.
        self.numbers = [numbers.setdefault(text, len(numbers)) for text in texts]

    def batch(self, indices: Any) -> Batch:
        """The history as source, the reply as target, and the number of the reply as label."""
        batch = super().batch(indices)
        labels = torch.tensor([[self.numbers[int(index)]] for index in indices])
        return replace(batch, labels=labels)


class TfIdfMatrix:
    """The tf-idf vectors of texts as a sparse matrix (text, word), for the similarity of a query to all of them."""

    def __init__(self, texts: Sequence[str]):
        self.tfidf = TfIdf(texts)
        self.columns = {word: column for column, word in enumerate(self.tfidf.idf)}
        self.matrix = self._matrix([self.tfidf.vector(each) for each in texts])

    def _matrix(self, vectors: Sequence[dict[str, float]]) -> Tensor:
        cells = [
            (row, self.columns[word], weight)
            for row, vector in enumerate(vectors)
            for word, weight in vector.items()
            if word in self.columns
        ]
        rows, columns, weights = zip(*cells, strict=True) if cells else ((), (), ())
        return torch.sparse_coo_tensor(
            torch.tensor([rows, columns], dtype=torch.long),
            torch.tensor(weights),
            (len(vectors), len(self.columns)),
            check_invariants=True,
        ).coalesce()

    def similarities(self, queries: Sequence[dict[str, float]]) -> Float[Tensor, "query text"]:
        """The cosine of the vector of each query with that of each text."""
        return (self.matrix @ self._matrix(queries).to_dense().T).T


class ChatRetrieveModel(Model):
    """A dual encoder that replies with a reply of the training dialogues."""

    template: BaseTemplate = RoleTemplate()
    """The names of the roles; the token ids of the last messages are those of `history_ids`."""

    @property
    def encoder(self) -> DualEncoder:
        """The model."""
        module: Any = self.module
        return module

    def conversation(self, system: str = "", seed: int = 0, **settings: Any) -> Conversation:
        """A new conversation; it has no settings of decoding."""
        reject_settings((), "", settings, "A chosen reply is not decoded")
        return Conversation(self, system, seed)

    def learn_prior(self, dialogues: Sequence[Dialogue]) -> None:
        """Do nothing: the scores of a dual encoder are not probabilities, which a prior could correct."""

    @cached_property
    def vectors(self) -> Tensor:
        """(reply, width): the vectors of all training replies."""
        return self.vectors_of(self.tokenizers.labels)

    @torch.inference_mode()
    def vectors_of(self, texts: Sequence[str]) -> Tensor:
        """(text, width): the vectors of replies, computed in batches of similar length."""
        max_tokens = self.config.model.source_text.max_tokens
        rows = [[BOS, *ids[: max_tokens - 1]] for ids in self.tokenizers.source.encode_many(list(texts))]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        found: list[Tensor] = [torch.zeros(0)] * len(rows)
        for start in range(0, len(order), BATCH_ROWS):
            indices = order[start : start + BATCH_ROWS]
            vectors = self.encoder.reply_vectors(Sequences.of([rows[index] for index in indices]).to(self.device))
            for index, vector in zip(indices, vectors, strict=True):
                found[index] = vector
        return torch.stack(found)

    def source_ids(self, history: Sequence[Message]) -> list[int]:
        """The token ids of the last messages."""
        source: Any = self.config.model.source
        ids = history_ids(self.tokenizers.source, check_history(history), source.messages)
        return [*ids[-source.max_tokens :], EOS]

    def is_truncated(self, history: Sequence[Message]) -> bool:
        """Whether the last messages are too long for the encoder, so that the oldest tokens are left out."""
        source: Any = self.config.model.source
        return len(history_ids(self.tokenizers.source, history, source.messages)) > int(source.max_tokens)

    @torch.inference_mode()
    def history_vectors(self, histories: Sequence[Sequence[Message]]) -> Tensor:
        """(history, width): the vectors of histories."""
        rows = [self.source_ids(each) for each in histories]
        parts = [
            self.encoder.history_vectors(Sequences.of(rows[start : start + BATCH_ROWS]).to(self.device))
            for start in range(0, len(rows), BATCH_ROWS)
        ]
        return torch.cat(parts)

    @property
    def tfidf_weight(self) -> float:
        """The factor of the tf-idf similarity in the score."""
        settings: Any = self.config.model
        return float(settings.tfidf_weight)

    @cached_property
    def tfidf_matrix(self) -> TfIdfMatrix:
        """The words of all training replies."""
        return TfIdfMatrix(self.tokenizers.labels)

    def tfidf_vector(self, history: Sequence[Message]) -> dict[str, float]:
        """The words of the messages that the encoder reads, of which the newest count most."""
        source: Any = self.config.model.source
        newest_first = [message.content for message in reversed(history[-source.messages :])]
        factors = [TFIDF_DECAY**age for age in range(len(newest_first))]
        return self.tfidf_matrix.tfidf.weighted_vector(newest_first, factors)

    @torch.inference_mode()
    def best_replies(self, histories: Sequence[Sequence[Message]], count: int) -> list[list[ReplyOutput]]:
        """The replies with the highest scores for each history, the best first."""
        labels = self.tokenizers.labels
        found = []
        for history, vector in zip(histories, self.history_vectors(histories), strict=True):
            similarities = self.vectors @ vector
            if self.tfidf_weight:
                shared = self.tfidf_matrix.similarities([self.tfidf_vector(history)])[0]
                similarities = similarities + self.tfidf_weight * shared.to(self.device)
            log_probabilities = (self.encoder.head.scale * similarities).detach().log_softmax(-1)
            best = log_probabilities.topk(min(count, len(labels)))
            rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            found.append([ReplyOutput(labels[index], value) for index, value in rows])
        return found

    def replies(
        self, histories: Sequence[Sequence[Message]], on_progress: Callable[[int], Any], **settings: Any
    ) -> list[ReplyOutput]:
        """The best reply to each history."""
        on_progress(len(histories))
        return [each[0] for each in self.best_replies(histories, 1)]

    def candidate_scores(
        self, histories: Sequence[Sequence[Message]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """For each history the score of each candidate."""
        vectors, texts = self.history_vectors(histories), [text for each in candidates for text in each]
        replies = iter(self.vectors_of(texts).split([len(each) for each in candidates]))
        scores = [(vector @ next(replies).mT).tolist() for vector in vectors]
        if not self.tfidf_weight:
            return scores
        tfidf = self.tfidf_matrix.tfidf
        rows = zip(scores, map(self.tfidf_vector, histories), candidates, strict=True)
        return [
            [
                score + self.tfidf_weight * tfidf.similarity(words, tfidf.vector(text))
                for score, text in zip(row, texts, strict=True)
            ]
            for row, words, texts in rows
        ]

    def stream_reply(self, history: Sequence[Message], decoding: Decoding, seed: int = 0) -> Iterator[str]:
        """The best reply to a history, as one chunk."""
        yield self.best_replies([history], 1)[0][0].text

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The best reply to one input, as one chunk."""
        yield self.predict([text], **settings)[0].text

    def predict(self, texts: Sequence[str], **settings: Any) -> list[Prediction]:
        """The best replies to many messages or histories."""
        prefix = settings.pop("prefix", "")
        for name in ("seed", "indices", "large_batch"):
            settings.pop(name, None)
        on_progress = settings.pop("on_progress", lambda count: None)
        reject_settings(("top_k",), prefix, settings, "A chosen reply is not decoded", "prediction")
        top_k = settings.get("top_k", self.config.prediction.top_k) or 1
        found = self.best_replies([parse_history(text) for text in texts], top_k) if texts else []
        on_progress(len(texts))
        return [self._chosen(text, each) for text, each in zip(texts, found, strict=True)]

    def _chosen(self, text: str, best: list[ReplyOutput]) -> Prediction:
        first = best[0]
        output = Output(first.text, first.score, first.score, True, 1)
        candidates = tuple(ScoredText(each.text, math.exp(each.score)) for each in best)
        return Prediction(text, (output,), False, self._attention_of, (candidates,), self.warnings(text))

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an input, for example unknown characters."""
        return message_warnings(self.tokenizers.source, parse_history(text))

    def encode(self, text: str) -> list[int]:
        """The token ids of an input, as the model receives them."""
        return self.source_ids(parse_history(text))

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A history as a batch of one."""
        ids = self.encode(source)
        batch = Batch(Sequences.of([ids]), None, torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long))
        return NamedBatch.of(batch.to(self.device), {"source": (self.tokenizers.source, ids)})


class ChatRetrieve(DialogueTask):
    """Choose the reply among those of the training dialogues."""

    name: ClassVar[str] = "chat-retrieve"
    recipe: ClassVar[type[Recipe]] = ChatRetrieveRecipe
    generates: ClassVar[bool] = False
    settings_slot: ClassVar[str] = "prediction"
    views: ClassVar[tuple[str, ...]] = ("runs", "tokenize", "attention", "mistakes", "architecture")
    predicted_unit: ClassVar[str] = "predictions"

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary with a token for each role; the labels are the training replies, by frequency."""
        tokenizer = (
            pretrained.tokenizers.source
            if pretrained
            else add_role_tokens(train_tokenizer(recipe.source.tokenizer, message_texts(train)))
        )
        dialogues: Any = train
        counts = Counter(each.messages[index].content for each in dialogues for index in each.replies)
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        return Tokenizers(tokenizer, tokenizer, tuple(ranked[:MAX_REPLIES]))

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of dialogues, and the sizes of the vocabulary and of the set of replies."""
        size, replies = tokenizers.sizes[0], len(tokenizers.labels)
        return f"{split_sizes(splits)} dialogues; vocabulary {size:,}, {replies:,} replies"

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> CandidateDataset:
        """The history and the reply for each reply."""
        dialogues: Any = examples
        return CandidateDataset(dialogues, tokenizers, recipe.source)

    def dialogue_indices(self, dataset: Any) -> Sequence[int]:
        """The index of the dialogue of each row."""
        indices: list[int] = dataset.dialogues
        return indices

    def build(self, settings: ModelSettings, tokenizers: Tokenizers) -> DualEncoder:
        """The model; its weights are initialized by the caller."""
        source, encoder = build_encoder(settings, len(tokenizers.source))
        assert settings.encoder is not None
        return DualEncoder(source, encoder, settings.encoder.width)

    def first_row(self, batch: Batch, tokenizers: Tokenizers) -> Iterator[tuple[str, str]]:
        """The history and the reply of the first row of a batch."""
        yield self.first_input(batch, tokenizers)
        assert batch.target is not None
        ids = batch.target.values[0, : int(batch.target.lengths[0])]
        yield "reply", " ".join(tokenizers.target.tokens(ids.tolist()))

    @torch.inference_mode()
    def validate(self, module: nn.Module, valid: Any, check: Callable[[], Any]) -> tuple[float, dict[str, float]]:
        """The mean loss, and how often the own reply is the best of its batch."""
        loss, hits, objective, model = 0.0, 0, InBatchSoftmax(), cast("DualEncoder", module)
        for start in range(0, len(valid), VALIDATION_ROWS):
            check()
            indices = np.arange(start, min(start + VALIDATION_ROWS, len(valid)))
            batch = valid.batch(indices).to(device_of(module))
            hidden = model.hidden(batch)
            loss += float(objective.loss(hidden, model.head, batch.labels))
            best = model.head(hidden.values[:, 0], hidden.values[:, 1]).argmax(1)
            hits += int((batch.labels[best, 0] == batch.labels[:, 0]).sum())
        return loss / len(valid), {"valid_accuracy": hits / len(valid)}

    def token_context(self, model: Any, raw: Any, target: str, token_ids: Sequence[int]) -> Any:
        """An error: a chosen reply is not generated token by token."""
        return Task.token_context(self, model, raw, target, token_ids)

    def likelihood(self, model: Any, recipe: Any, dialogues: Sequence[Dialogue]) -> LikelihoodSums | None:
        """None: a dual encoder has no probabilities of tokens."""
        return None

    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The Python interface of the model."""
        return ChatRetrieveModel(stored, engine, self)


# --- a retrieved reply for a language model ---

SIMILAR = 1e-5
"""The largest difference of two cosines that is a rounding error."""
MAX_PAIRS = 4000
"""The maximum number of pairs of a training message and its reply in the index; of more, every n-th is used."""


class ChatRetrieveGenerateRecipe(ChatRecipe):
    """A recipe of the task chat-retrieve-generate: a language model that reads a retrieved reply."""

    task: Literal["chat-retrieve-generate"] = "chat-retrieve-generate"  # type: ignore[assignment]
    objective: NextToken = NextToken()


Pair = tuple[str, str]
"""A message and the reply to it."""


class RetrievalIndex:
    """Messages of the training dialogues and the replies to them, searched by the cosine of tf-idf vectors."""

    def __init__(self, pairs: Sequence[Pair]):
        self.pairs = list(pairs)
        self.numbers = {pair: number for number, pair in enumerate(self.pairs)}
        self.matrix = TfIdfMatrix([message for message, _ in self.pairs])

    def search(self, messages: Sequence[str], excluded: Sequence[Pair | None]) -> list[str]:
        """For each message the reply to the most similar message of the index, except that of an excluded pair.

        The same question has many replies, which are equally similar. They take turns, so that in training a model does
        not always read the same one, and learns that its facts may be wrong.
        """
        queries = list(zip(messages, excluded, strict=True))
        different = list(dict.fromkeys(queries))  # many dialogues have the same messages
        replies: dict[tuple[str, Pair | None], Iterator[str]] = {}
        for start in range(0, len(different), BATCH_ROWS):
            part = different[start : start + BATCH_ROWS]
            scores = self.matrix.similarities([self.matrix.tfidf.vector(message) for message, _ in part])
            replies |= {query: cycle(self._best(row, query[1])) for row, query in zip(scores, part, strict=True)}
        return [next(replies[each]) for each in queries]

    def _best(self, scores: Float[Tensor, "pair"], own: Pair | None) -> list[str]:
        """The replies with the highest score."""
        if own in self.numbers and len(self.pairs) > 1:
            scores[self.numbers[own]] = -math.inf
        best = (scores >= scores.max() - SIMILAR).nonzero().flatten().tolist()
        return [self.pairs[number][1] for number in best]


SEPARATOR = "\t"
"""Separates a message, its reply, and the number of training dialogues with both in the stored list."""


def stored_pairs(labels: Sequence[str]) -> Counter[Pair]:
    """The pairs of a stored list, each with the number of its occurrences in the training dialogues."""
    cells = [label.split(SEPARATOR) for label in labels]
    return Counter({(message, reply): int(count) for message, reply, count in cells})


def pairs_of(messages: Sequence[Message]) -> list[Pair]:
    """Each message of the user with its reply; the reply to the last one may be missing."""
    following = [*messages[1:], Message("assistant", "")]
    return [
        (one_line(each.content), one_line(reply.content))
        for each, reply in zip(messages, following, strict=True)
        if each.role == "user"
    ]


def with_retrieved(messages: Sequence[Message], retrieved: Sequence[str]) -> list[Message]:
    """The messages with a retrieved reply after each message of the user, as a message of the system.

    >>> [each.content for each in with_retrieved([Message("user", "hi"), Message("assistant", "hello")], ["hey"])]
    ['hi', 'hey', 'hello']
    """
    found, texts = list[Message](), iter(retrieved)
    for each in messages:
        found += [each, Message("system", next(texts))] if each.role == "user" else [each]
    return found


class ChatRetrieveGenerateModel(ChatModel):
    """A language model that reads a retrieved reply before it generates."""

    conversation_class: type[Conversation] = Conversation
    """The class of a conversation with this model: without a cache, whose tokens are those of the messages alone."""
    messages_per_exchange: int = 3
    """A message of the user, the retrieved reply and the reply."""

    @cached_property
    def index(self) -> RetrievalIndex:
        """The messages and replies of the training dialogues."""
        return RetrievalIndex(list(stored_pairs(self.tokenizers.labels)))

    def input_messages(self, history: Sequence[Message]) -> list[Message]:
        """The history with a retrieved reply after each message of the user."""
        texts = [message for message, _ in pairs_of(history)]
        return with_retrieved(history, self.index.search(texts, [None] * len(texts)))


class ChatRetrieveGenerate(Chat):
    """Generate a reply from the history and a retrieved reply."""

    name: ClassVar[str] = "chat-retrieve-generate"
    recipe: ClassVar[type[Recipe]] = ChatRetrieveGenerateRecipe

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary, and store messages with their replies."""
        tokenizers = super().fit(recipe, train, pretrained)
        dialogues: Any = train
        counts = Counter(pair for each in dialogues for pair in pairs_of(each.messages))
        kept = sorted(counts)[:: -(-len(counts) // MAX_PAIRS)]
        labels = [SEPARATOR.join((*pair, str(counts[pair]))) for pair in kept]
        return Tokenizers(tokenizers.source, tokenizers.target, tuple(labels))

    def build(self, settings: ModelSettings, tokenizers: Tokenizers) -> nn.Module:
        """The language model; the stored pairs are not labels of a classifier."""
        return build_model(settings, len(tokenizers.source), len(tokenizers.target))

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> DialogueDataset:
        """Dialogues with a retrieved reply before each reply."""
        dialogues: Any = examples
        own = [pair for each in dialogues for pair in pairs_of(each.messages)]
        counts = stored_pairs(tokenizers.labels)
        # A pair of one training dialogue is excluded from its own search: the index has no pair of a new dialogue.
        excluded = [pair if counts[pair] == 1 else None for pair in own]
        searched = RetrievalIndex(list(counts)).search([message for message, _ in own], excluded)
        found = iter(searched)
        rows = [
            Dialogue.of(with_retrieved(each.messages, [next(found) for _ in pairs_of(each.messages)]), each.location)
            for each in dialogues
        ]
        return DialogueDataset(rows, tokenizers.target, recipe.template, recipe.target.max_tokens)

    def samples(self, dataset: Any, examples: Sequence[Example], count: int) -> Sequence[Example]:
        """A few validation dialogues, without retrieved replies."""
        return examples[:count]

    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The Python interface of the model."""
        return ChatRetrieveGenerateModel(stored, engine, self)
