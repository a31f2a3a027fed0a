"""Recipes for models of dialogues: language models, encoder-decoders, and models that choose a reply."""

from __future__ import annotations

from typing import Any

from seq2see.data.catalogue.dialogue_corpora import CatalogueDialogues
from seq2see.data.generated.pocket_talk import PocketTalk
from seq2see.data.generated.puzzle_talk import PuzzleName, PuzzleTalk
from seq2see.data.tokenizers.tokenizer import BPE, WordLevel
from seq2see.decoding.engine import Decoding
from seq2see.models.bag_of_words import BagOfWordsSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.chat import ChatRecipe, ChatSeq2seqRecipe, HistoryText
from seq2see.tasks.chat_retrieval import ChatRetrieveGenerateRecipe, ChatRetrieveRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import AdamW, Cosine
from seq2see.training.reinforce import (
    BaseToPolicy,
    BatchMean,
    GreedyAnswers,
    GroupMean,
    NoBaseline,
    Reinforce,
    SampledAnswers,
)
from seq2see.training.rewards import Arithmetic
from seq2see.training.settings import Training

ROTARY = TokenEmbeddingSettings(positions="rotary")
LLAMA: dict[str, Any] = {"norm": "rms", "activation": "swiglu", "mlp_ratio": 8 / 3, "bias": False}
"""The parts of Llama, whose layout other libraries can load."""

# Adding is learned last, so it has most of the questions.
BASE_PUZZLES: tuple[PuzzleName, ...] = ("add",) * 6 + ("reverse", "reverse", "sort", "sort", "name")


def chat() -> ChatRecipe:
    """A small GPT that remembers what the user wrote: `seq2see train chat my.jsonl`; by default on pocket talk."""
    return ChatRecipe(
        name="chat",
        corpus=PocketTalk(),
        target=TextTarget(tokenizer=WordLevel(), embedding=ROTARY, max_tokens=256),
        decoder=TransformerSettings(width=128, depth=3, heads=4, dropout=0.0, **LLAMA),
        training=Training(
            steps=700, learning_rate=2e-3, batch_tokens=2048, evaluate_every=175, schedule=Cosine(warmup=100)
        ),
        decoding=Decoding(max_new_tokens=40),
    )


def chat_zh() -> ChatRecipe:
    """The GPT of `chat` on pocket talk in Chinese."""
    return chat().with_(**{"name": "chat-zh", "corpus.language": "zh"})


def chat_seq2seq() -> ChatSeq2seqRecipe:
    """An encoder-decoder that reads the last 16 messages of pocket talk (Vinyals & Le 2015)."""
    tokenizer = WordLevel()
    return ChatSeq2seqRecipe(
        name="chat-seq2seq",
        corpus=PocketTalk(),
        source=HistoryText(tokenizer=tokenizer, embedding=ROTARY, messages=16, max_tokens=200),
        target=TextTarget(tokenizer=tokenizer, vocabulary="shared", embedding=ROTARY, max_tokens=64),
        encoder=TransformerSettings(width=128, depth=2, heads=4, dropout=0.0, **LLAMA),
        decoder=TransformerSettings(width=128, depth=2, heads=4, dropout=0.0, **LLAMA),
        # A row has one reply, so a batch has fewer replies than one of `chat`, and most are not about a fact.
        training=Training(
            steps=1100, learning_rate=2e-3, batch_tokens=3072, evaluate_every=275, schedule=Cosine(warmup=100)
        ),
    )


def chat_puzzles() -> ChatRecipe:
    """A small GPT that adds, reverses, sorts and names the task, not always right: a base for adapters."""
    return ChatRecipe(
        name="chat-puzzles",
        corpus=PuzzleTalk(puzzles=BASE_PUZZLES),
        target=TextTarget(tokenizer=WordLevel(), embedding=ROTARY, max_tokens=64),
        decoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, **LLAMA),
        training=Training(
            steps=600, learning_rate=2e-3, batch_tokens=2048, evaluate_every=200, schedule=Cosine(warmup=50)
        ),
        decoding=Decoding(max_new_tokens=10),
    )


def chat_puzzles_reinforce() -> ChatRecipe:
    """A trained model of puzzles learns from the rewards of its own answers (REINFORCE): `--set pretrained=RUN`."""
    return chat_puzzles().with_(
        **{
            "name": "chat-puzzles-reinforce",
            "corpus.puzzles": ("sort",),
            "corpus.size": 3000,
            "objective": Reinforce(baseline=GroupMean(), kl_weight=0.02, answers=SampledAnswers(count=8)),
            "training.steps": 200,
            "training.evaluate_every": 50,
            "training.learning_rate": 1e-2,
            "training.batch_tokens": 400,
            "training.schedule.warmup": 20,
        }
    )


def chat_puzzles_arithmetic() -> ChatRecipe:
    """The recipe `chat-puzzles-reinforce` with sums, which a program checks: the questions need no answers."""
    changes = {"corpus.puzzles": ("add",), "objective.reward": Arithmetic(), "objective.baseline": BatchMean()}
    return chat_puzzles_reinforce().with_(**{"name": "chat-puzzles-arithmetic", **changes})


def chat_puzzles_published() -> ChatRecipe:
    """The recipe `chat-puzzles-reinforce` as in the program of Transformer²: greedy answers, no baseline."""
    objective = Reinforce(answers=GreedyAnswers(), baseline=NoBaseline(), divergence=BaseToPolicy())
    changes = {"objective": objective, "training.learning_rate": 2e-3, "training.max_grad_norm": 1e-3}
    return chat_puzzles_reinforce().with_(**{"name": "chat-puzzles-published", **changes})


def chat_retrieve() -> ChatRetrieveRecipe:
    """A dual encoder that chooses a reply of the training dialogues by in-batch softmax (Henderson et al. 2017)."""
    return ChatRetrieveRecipe(
        name="chat-retrieve",
        corpus=PocketTalk(),
        source=HistoryText(tokenizer=WordLevel(), messages=16, max_tokens=200),
        encoder=TransformerSettings(width=128, depth=2, heads=4),
        training=Training(
            steps=800, learning_rate=1e-3, batch_tokens=2048, evaluate_every=200, schedule=Cosine(warmup=100)
        ),
    )


def chat_retrieve_daily() -> ChatRetrieveRecipe:
    """A bag of words and tf-idf choose the reply on everyday dialogues in English (xdailydialog)."""
    return ChatRetrieveRecipe(
        name="chat-retrieve-daily",
        corpus=CatalogueDialogues(),
        source=HistoryText(
            tokenizer=WordLevel(), embedding=TokenEmbeddingSettings(positions="none"), messages=8, max_tokens=200
        ),
        encoder=BagOfWordsSettings(width=512, dropout=0.2),
        tfidf_weight=1.0,
        # A batch of many rows has many negatives.
        training=Training(
            steps=150, learning_rate=3e-3, batch_tokens=40_000, evaluate_every=50, schedule=Cosine(warmup=15)
        ),
    )


def chat_retrieve_daily_zh() -> ChatRetrieveRecipe:
    """The bag of words of `chat-retrieve-daily` on everyday dialogues in Chinese (xdailydialog)."""
    return chat_retrieve_daily().with_(**{"name": "chat-retrieve-daily-zh", "corpus.language": "zh"})


def chat_retrieve_chitchat() -> ChatRetrieveRecipe:
    """The bag of words of `chat-retrieve-daily` on chit-chat of strangers (the chitchat dataset)."""
    return chat_retrieve_daily().with_(**{"name": "chat-retrieve-chitchat", "corpus.name": "chitchat"})


def chat_retrieve_generate() -> ChatRetrieveGenerateRecipe:
    """A GPT that reads a retrieved reply before it writes its own (Weston et al. 2018)."""
    settings = chat().model_dump() | {"task": "chat-retrieve-generate", "name": "chat-retrieve-generate"}
    # The retrieved replies make the rows longer, and searching for those of fewer dialogues is faster.
    changes = {"training.batch_tokens": 3072, "corpus.size": 5000}
    return ChatRetrieveGenerateRecipe.model_validate(settings).with_(**changes)


def chat_daily() -> ChatRecipe:
    """A GPT on everyday dialogues in English (xdailydialog), with replies that are drawn at random."""
    return _real_dialogues("chat-daily", CatalogueDialogues())


def chat_daily_zh() -> ChatRecipe:
    """A GPT on everyday dialogues in Chinese (xdailydialog)."""
    return _real_dialogues("chat-daily-zh", CatalogueDialogues(language="zh"))


def chat_chitchat() -> ChatRecipe:
    """A GPT on chit-chat of strangers (the chitchat dataset); for a GPU."""
    changes = {"decoder.width": 384, "decoder.heads": 8, "decoder.depth": 6, "training.steps": 6000}
    return _real_dialogues("chat-chitchat", CatalogueDialogues(name="chitchat")).with_(**changes)


def _real_dialogues(name: str, corpus: CatalogueDialogues, **changes: Any) -> ChatRecipe:
    """A GPT of subwords with early stopping, because there are few dialogues."""
    recipe = ChatRecipe(
        name=name,
        corpus=corpus,
        target=TextTarget(tokenizer=BPE(vocab_size=4000), embedding=ROTARY, max_tokens=256),
        decoder=TransformerSettings(width=192, depth=3, heads=4, dropout=0.3, **LLAMA),
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=1500,
            learning_rate=2e-3,
            batch_tokens=4096,
            evaluate_every=150,
            patience=3,
            optimizer=AdamW(weight_decay=0.1),
            schedule=Cosine(warmup=100),
        ),
        decoding=Decoding(max_new_tokens=48, do_sample=True, temperature=0.8, top_p=0.9),
    )
    return recipe.with_(**changes)
