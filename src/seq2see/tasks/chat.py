"""chat: reply to the messages of a dialogue, by a language model that is trained on the replies of dialogues.

`chat` reads the whole dialogue as one text, by a template with a token for each role (compare `write.py`).
`chat-seq2seq` has an encoder of the last messages, and a decoder of the reply (Vinyals & Le 2015; compare
`translate.py`). The models that choose a reply of the training dialogues are in `chat_retrieval.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from seq2see.core.batch import IGNORE_INDEX, Batch
from seq2see.core.devices import device_of
from seq2see.core.settings import Settings, default_kind
from seq2see.data.catalogue.dialogue_corpora import CatalogueDialogues
from seq2see.data.chat_templates import BaseTemplate, ChatTemplate, RoleTemplate, add_role_tokens
from seq2see.data.dialogue import Dialogue
from seq2see.data.dialogue_dataset import DialogueDataset, encoded_rows
from seq2see.data.examples import Example
from seq2see.data.generated.pocket_talk import PocketTalk
from seq2see.data.generated.puzzle_talk import PuzzleTalk
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.readers.dialogues import UserDialogues
from seq2see.data.tokenizers.tokenizer import BPE, Tokenizer, Whitespace, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.answers import AnswerGenerator
from seq2see.tasks.chat_model import ChatModel, ChatSeq2seqModel, history_ids
from seq2see.tasks.dialogue_scores import (
    LikelihoodSums,
    cases_of,
    evaluate_replies,
    reply_headline,
    reply_score_lines,
    reply_sections,
    reply_tiles,
)
from seq2see.tasks.generative import GenerativeTask, evaluation_split
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.report_parts import ReportSection, ReportTable, RunResults, Tree, Words
from seq2see.tasks.task import Comparison, Evaluation, SplitProgress, Splits, Task, split_sizes
from seq2see.tasks.token_context import GenerationContext
from seq2see.training.objectives import NextToken
from seq2see.training.reinforce import Reinforce

DialogueCorpus = Annotated[PocketTalk | PuzzleTalk | CatalogueDialogues | UserDialogues, Field(discriminator="kind")]
"""Corpora of dialogues."""
ReplyDecoder = Annotated[TransformerSettings | RecurrentDecoderSettings, Field(discriminator="kind")]
EVALUATION_ROWS = 32
"""Rows per batch of an evaluation with teacher forcing."""


class HistoryText(Text):
    """The last messages of a dialogue as the source text."""

    embedding: TokenEmbeddingSettings = TokenEmbeddingSettings()
    """How tokens are embedded."""
    messages: int = Field(4, ge=1)
    """The number of messages that the encoder reads, the newest included."""


class ChatModelSettings(ModelSettings):
    """A language model of dialogues."""

    template: ChatTemplate = RoleTemplate()
    """How the messages of a dialogue become token ids."""


class ChatSeq2seqModelSettings(ModelSettings):
    """An encoder of the last messages and a decoder of the reply."""

    source: HistoryText
    """The last messages of the dialogue."""


class ChatRecipe(Recipe):
    """A recipe of the task chat: a decoder of dialogues."""

    task: Literal["chat"] = "chat"
    corpus: DialogueCorpus
    """The source of the dialogues."""
    target: TextTarget = TextTarget()
    decoder: ReplyDecoder
    """The decoder of the dialogue."""
    template: ChatTemplate = RoleTemplate()
    """How the messages of a dialogue become token ids."""
    objective: Annotated[NextToken | Reinforce, Field(discriminator="kind"), default_kind("next-token")] = NextToken()
    """How the decoder learns: from the tokens of the replies, or from the rewards of its own answers."""
    decoding: Decoding = Decoding(max_new_tokens=40)

    model_settings: ClassVar[type[ModelSettings]] = ChatModelSettings

    @model_validator(mode="after")
    def check_dialogues(self) -> ChatRecipe:
        """Refuse settings that have no effect on dialogues."""
        check_dialogue_settings(self.training.batches, self.target.tokenizer)
        if isinstance(self.objective, Reinforce) and self.decoder.dropout:
            raise ValueError("answers are drawn without dropout, so their loss has none: set decoder.dropout=0")
        return self


class ChatSeq2seqRecipe(Recipe):
    """A recipe of the task chat-seq2seq: an encoder of the last messages and a decoder of the reply."""

    task: Literal["chat-seq2seq"] = "chat-seq2seq"
    corpus: DialogueCorpus
    """The source of the dialogues."""
    source: HistoryText = HistoryText()
    target: TextTarget = TextTarget()
    encoder: TextEncoder
    """The encoder of the last messages."""
    decoder: ReplyDecoder
    """The decoder of the reply."""
    objective: NextToken = NextToken()
    decoding: Decoding = Decoding(max_new_tokens=40)

    model_settings: ClassVar[type[ModelSettings]] = ChatSeq2seqModelSettings

    @model_validator(mode="after")
    def check_dialogues(self) -> ChatSeq2seqRecipe:
        """Refuse settings that have no effect on dialogues."""
        check_dialogue_settings(self.training.batches, self.target.tokenizer)
        if self.target.vocabulary != "shared":
            raise ValueError("a reply has the vocabulary of its history: set target.vocabulary=shared")
        return self


def check_dialogue_settings(batches: str, tokenizer: Settings) -> None:
    """Raise an error for settings without effect, and for a tokenizer that turns the name of a role into its token."""
    if batches != "bucketed":
        raise ValueError("dialogues are in batches of similar length: set training.batches=bucketed")
    if isinstance(tokenizer, BPE) and tokenizer.dropout:
        raise ValueError("dialogues are tokenized once: set target.tokenizer.dropout=0")
    if isinstance(tokenizer, Whitespace):
        raise ValueError("in whitespace tokens the text <user> would be a role: set target.tokenizer.kind=words")


def message_texts(dialogues: Iterable[Any]) -> list[str]:
    """All messages of dialogues, from which a vocabulary is learned."""
    return [message.content for each in dialogues for message in each.messages]


class DialogueTask(GenerativeTask):
    """The base class of the tasks of dialogues: their data, their evaluation, and its presentation."""

    command: ClassVar[str] = "chat"
    input_name: ClassVar[str] = "a message"
    default_input: ClassVar[str] = "hello"
    comparison: ClassVar[Comparison] = "scores"
    fixed_order: ClassVar[str] = "The tokens of the roles have their places in a dialogue."
    views: ClassVar[tuple[str, ...]] = (*Task.views, "next-token")

    def corpus(self, paths: tuple[str, ...]) -> UserDialogues:
        """The user's own dialogues."""
        return UserDialogues(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary with a token for each role, or take that of a pretrained model."""
        if pretrained is not None:
            return pretrained.tokenizers
        tokenizer = add_role_tokens(train_tokenizer(recipe.target.tokenizer, message_texts(train)))
        return Tokenizers(tokenizer, tokenizer)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of dialogues, and the size of the vocabulary."""
        return f"{split_sizes(splits)} dialogues; vocabulary {len(tokenizers.target):,}"

    def size(self, splits: Splits) -> int:
        """The number of replies that are generated."""
        dialogues: Any = splits[evaluation_split(splits)]
        return sum(len(each.replies) for each in dialogues)

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """The replies of the test dialogues, and the perplexity of the true ones."""
        split = evaluation_split(splits)
        test, train = list[Any](splits[split]), list[Any](splits["train"])
        model.learn_prior(train)
        evaluation = evaluate_replies(model, test, train, partial(on_progress, split), settings)
        if sums := self.likelihood(model, recipe, test):
            evaluation.scores["perplexity"] = sums.scores(split)
        return evaluation

    def likelihood(self, model: Any, recipe: Any, dialogues: Sequence[Dialogue]) -> LikelihoodSums | None:
        """The loss of the true replies of each dialogue; None for a model without probabilities of tokens."""
        dataset = self.dataset(recipe, model.tokenizers, dialogues)
        return likelihood_sums(model.module, dataset, self.dialogue_indices(dataset), dialogues)

    def first_row(self, batch: Batch, tokenizers: Tokenizers) -> Iterator[tuple[str, str]]:
        """The inputs and the labels of the first row of a batch; a dot marks a position without a label."""
        if batch.source is not None:
            yield self.first_input(batch, tokenizers)
        if batch.target is not None:
            length = int(batch.target.lengths[0])
            yield "decoder input", " ".join(tokenizers.target.tokens(batch.target.values[0, :length].tolist()))
            labels = batch.labels[0, :length].tolist()
            names = ["·" if each == IGNORE_INDEX else tokenizers.target.tokens([each])[0] for each in labels]
            yield "labels", " ".join(names)

    def dialogue_indices(self, dataset: Any) -> Sequence[int]:
        """The index of the dialogue of each row of a dataset."""
        return [row.dialogue for row in dataset.rows]

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        rows = self.dialogue_indices(dataset)
        return "dialogues", super().describe_examples(dataset, examples, [rows[index] for index in indices])[1]

    def sample_outputs(self, model: Any, examples: Any, should_stop: Callable[[], bool]) -> list[str]:
        """The replies at the ends of some validation dialogues."""
        histories = [each.messages[:-1] for each in examples]
        return [each.text for each in model.replies(histories, lambda count: None)]

    def tiles(self, scores: Tree) -> list[tuple[Words, str]]:
        """The most important metrics of the test split."""
        return reply_tiles(scores)

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, recall by distance, and some replies."""
        return reply_sections(results)

    def score_lines(self, scores: Tree) -> Iterable[str | ReportTable]:
        """The scores on the terminal."""
        return reply_score_lines(scores)

    def headline(self, scores: Tree) -> str:
        """Recall of facts, or hits@1."""
        return reply_headline(scores)


class Chat(DialogueTask):
    """Continue a dialogue with a language model."""

    name: ClassVar[str] = "chat"
    recipe: ClassVar[type[Recipe]] = ChatRecipe
    pretrained_parts: ClassVar[tuple[str, ...]] = ("target", "decoder", "head")

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> DialogueDataset:
        """Dialogues as rows, with labels for the replies."""
        template: BaseTemplate = recipe.template
        dialogues: Any = examples
        return DialogueDataset(dialogues, tokenizers.target, template, recipe.target.max_tokens)

    def answers(self, recipe: Any, dataset: Any, open_model: Callable[[], Model]) -> AnswerGenerator | None:
        """Own answers for REINFORCE."""
        if not isinstance(recipe.objective, Reinforce):
            return None
        return AnswerGenerator(open_model(), dataset, recipe.objective, recipe.training.seed)

    def token_context(self, model: Any, raw: Any, target: str, token_ids: Sequence[int]) -> GenerationContext:
        """The history and the tokens of the reply so far."""
        context: GenerationContext = model.reply_context(raw, target, token_ids)
        return context

    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The Python interface of the model."""
        return ChatModel(stored, engine, self)


class ReplyDataset(PairDataset):
    """The last messages as source and the reply as target, for each reply of the dialogues."""

    def __init__(self, dialogues: Sequence[Dialogue], tokenizer: Tokenizer, source: HistoryText, max_tokens: int):
        cases = cases_of(dialogues)
        self.examples = [Dialogue.of(dialogues[each.dialogue].messages) for each in cases]
        self.dialogues = [each.dialogue for each in cases]
        self.max_tokens_by_side = {"source": source.max_tokens, "target": max_tokens}
        self.tokenizers = {"source": tokenizer, "target": tokenizer}
        histories = [history_ids(tokenizer, each.history, source.messages) for each in cases]
        self.sides = {
            "source": encoded_rows(histories, source.max_tokens, keep_end=True),
            "target": encoded_rows(tokenizer.encode_many([each.text for each in cases]), max_tokens),
        }

    def warnings(self) -> list[str]:
        """A warning for the user about replies that were cut."""
        count = len(self.sides["target"].truncated)
        return (
            [f"{count} replies are longer than {self.max_tokens_by_side['target']} tokens and were cut."]
            if count
            else []
        )


class ChatSeq2seq(DialogueTask):
    """Reply to the last messages with an encoder and a decoder."""

    name: ClassVar[str] = "chat-seq2seq"
    recipe: ClassVar[type[Recipe]] = ChatSeq2seqRecipe

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> ReplyDataset:
        """A pair for each reply."""
        dialogues: Any = examples
        return ReplyDataset(dialogues, tokenizers.target, recipe.source, recipe.target.max_tokens)

    def dialogue_indices(self, dataset: Any) -> Sequence[int]:
        """The index of the dialogue of each pair."""
        indices: list[int] = dataset.dialogues
        return indices

    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The Python interface of the model."""
        return ChatSeq2seqModel(stored, engine, self)


@torch.inference_mode()
def likelihood_sums(
    module: nn.Module, dataset: Any, dialogue_of_row: Sequence[int], dialogues: Sequence[Dialogue]
) -> LikelihoodSums:
    """The loss of the replies of each dialogue with teacher forcing."""
    losses, tokens = Counter[int](), Counter[int]()
    order = np.argsort(dataset.lengths.max(axis=1), kind="stable")
    for start in range(0, len(order), EVALUATION_ROWS):
        batch = dataset.batch(order[start : start + EVALUATION_ROWS]).to(device_of(module))
        logits = module(batch).float()
        loss = nn.functional.cross_entropy(logits.mT, batch.labels, ignore_index=IGNORE_INDEX, reduction="none")
        rows = zip(batch.indices.tolist(), loss.sum(1).tolist(), batch.label_mask.sum(1).tolist(), strict=True)
        for row, total, count in rows:
            losses[dialogue_of_row[row]] += total
            tokens[dialogue_of_row[row]] += count
    numbers = sorted(tokens)
    sizes = [
        sum(len(dialogues[number].messages[index].content.encode()) for index in dialogues[number].replies)
        for number in numbers
    ]
    return LikelihoodSums([losses[each] for each in numbers], [tokens[each] for each in numbers], sizes)
