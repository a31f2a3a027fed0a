"""Pocket recipes, from RNN to Transformer on a small generated corpus, and puzzles; training takes a minute or two.

Chinese tokens are characters, English tokens are words. The recipes share the corpus, and the recurrent ones also width
and number of steps, so that only the architectures differ: see `seq2see diff pocket-gru pocket-gru-attention`.
"""

from __future__ import annotations

from typing import Any, Literal

from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.generated.puzzle_corpus import PuzzleCorpus
from seq2see.data.tokenizers.tokenizer import Characters, WordLevel
from seq2see.decoding.engine import Decoding
from seq2see.models.convolutional import GatedCNNSettings
from seq2see.models.recurrent import AttentionName, CellName, RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.text_scores import Metric
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import SGD, Constant, Cosine
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling
from seq2see.training.settings import Training

SCORES: tuple[Metric, ...] = ("bleu", "chrf", "exact_match", "d2l-bleu", "alignment")
WITHOUT_ATTENTION: tuple[Metric, ...] = ("bleu", "chrf", "exact_match", "d2l-bleu")


def pocket_transformer() -> TranslateRecipe:
    """A small Transformer, Chinese to English: the recipe to start with."""
    stack = TransformerSettings(width=96, depth=2, heads=4, dropout=0.0)
    return TranslateRecipe(
        name="pocket-transformer",
        corpus=PocketCorpus(),
        source=Text(tokenizer=Characters()),
        target=TextTarget(tokenizer=WordLevel()),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=1000, learning_rate=3e-3, batch_tokens=1024, evaluate_every=200, schedule=Cosine(warmup=100)
        ),
        decoding=Decoding(max_new_tokens=40),
        metrics=SCORES,
    )


def pocket_rnn() -> TranslateRecipe:
    """Vanilla RNN; the only information about the source is the decoder's initial state."""
    training = Training(
        steps=2000,
        learning_rate=0.3,
        batch_tokens=1024,
        max_grad_norm=0.5,
        evaluate_every=400,
        optimizer=SGD(momentum=0.9),
        schedule=Constant(),
    )
    return _recurrent("pocket-rnn", "rnn", "none", bidirectional=False).model_copy(update={"training": training})


def pocket_gru() -> TranslateRecipe:
    """GRU, with the context vector as input of every step; still one vector for the whole source."""
    return _recurrent("pocket-gru", "gru", "context-vector", bidirectional=False)


def pocket_gru_reset_before() -> TranslateRecipe:
    """The GRU of the course notes: the reset gate acts before the matrix product."""
    return _recurrent("pocket-gru-reset-before", "gru-reset-before", "context-vector", bidirectional=False)


def pocket_lstm() -> TranslateRecipe:
    """LSTM of two layers, with the context vector as initial state (Sutskever et al. 2014)."""
    return _recurrent("pocket-lstm", "lstm", "none", bidirectional=False).with_(
        **{"encoder.depth": 2, "decoder.depth": 2}
    )


def pocket_gru_attention() -> TranslateRecipe:
    """GRU with additive attention (Bahdanau et al. 2015)."""
    return _recurrent("pocket-gru-attention", "gru", "additive")


def pocket_lstm_attention() -> TranslateRecipe:
    """LSTM with bilinear attention (Luong et al. 2015)."""
    return _recurrent("pocket-lstm-attention", "lstm", "bilinear")


def pocket_gated_cnn() -> TranslateRecipe:
    """A gated CNN as encoder and a GRU as decoder: every encoder can be combined with every decoder."""
    base = _recurrent("pocket-gated-cnn", "gru", "scaled-dot")
    encoder = GatedCNNSettings(width=128, depth=3, dropout=0.1)
    learned = Text(tokenizer=Characters(), embedding=TokenEmbeddingSettings(positions="learned"))
    return base.model_copy(update={"encoder": encoder, "source": learned})


def pocket_scheduled_sampling() -> TranslateRecipe:
    """The attention GRU with scheduled sampling (Bengio et al. 2015)."""
    return _change(pocket_gru_attention(), "pocket-scheduled-sampling", feeding=ScheduledSampling(final_ratio=0.5))


def pocket_free_running() -> TranslateRecipe:
    """The attention GRU, free running: training without teacher forcing."""
    return _change(pocket_gru_attention(), "pocket-free-running", feeding=FreeRunning())


def pocket_post_norm() -> TranslateRecipe:
    """The Transformer with post-norm, as in the paper."""
    return pocket_transformer().with_(
        **{
            "name": "pocket-post-norm",
            "encoder.norm_order": "post",
            "decoder.norm_order": "post",
            "training.learning_rate": 1e-3,
        }
    )


def pocket_rms_norm() -> TranslateRecipe:
    """The Transformer with RMS norm."""
    return _norm("rms")


def pocket_batch_norm() -> TranslateRecipe:
    """The Transformer with masked batch norm in place of layer norm."""
    return _norm("batch")


def pocket_power_norm() -> TranslateRecipe:
    """The Transformer with power norm (Shen et al. 2020)."""
    return _norm("power")


def pocket_zero_init() -> TranslateRecipe:
    """The Transformer with all matrices initialized to zero: it cannot learn, and shows why."""
    return pocket_transformer().with_(**{"name": "pocket-zero-init", "training.init": "zero"})


def pocket_he_init() -> TranslateRecipe:
    """The Transformer with the initialization of He et al. 2015 for ReLU networks."""
    return pocket_transformer().with_(**{"name": "pocket-he-init", "training.init": "he"})


def pocket_en_zh() -> TranslateRecipe:
    """A small Transformer, English to Chinese."""
    base = pocket_transformer()
    return base.model_copy(
        update={
            "name": "pocket-en-zh",
            "corpus": PocketCorpus(source="en", target="zh"),
            "source": Text(tokenizer=WordLevel()),
            "target": TextTarget(tokenizer=Characters()),
        }
    )


def _recurrent(name: str, cell: CellName, attention: AttentionName, bidirectional: bool = True) -> TranslateRecipe:
    """The pocket recipe with recurrent encoder and decoder: cheaper steps, and twice as many."""
    without_attention = attention in ("none", "context-vector")
    base = pocket_transformer().with_(
        **{"training.steps": 2000, "training.learning_rate": 4e-3, "training.evaluate_every": 400}
    )
    return base.model_copy(
        update={
            "name": name,
            "source": Text(tokenizer=Characters(), embedding=TokenEmbeddingSettings(positions="none")),
            "target": TextTarget(
                tokenizer=WordLevel(), embedding=TokenEmbeddingSettings(positions="none"), head="untied"
            ),
            "encoder": RecurrentEncoderSettings(width=128, cell=cell, bidirectional=bidirectional, dropout=0.0),
            "decoder": RecurrentDecoderSettings(width=128, cell=cell, attention=attention, dropout=0.0),
            "metrics": WITHOUT_ATTENTION if without_attention else SCORES,
        }
    )


def _norm(norm: str) -> TranslateRecipe:
    changes = {"name": f"pocket-{norm}-norm", "encoder.norm": norm, "decoder.norm": norm}
    return pocket_transformer().with_(**changes)


def _change(base: TranslateRecipe, name: str, feeding: Any) -> TranslateRecipe:
    return base.with_(**{"name": name, "objective.feeding": feeding})


# --- Puzzles: synthetic tasks with exact solutions, which show the limits of a model. ---


def puzzle_copy() -> TranslateRecipe:
    """Copy the source: the identity function, hardest for a model with a single context vector."""
    return _puzzle("copy")


def puzzle_reverse() -> TranslateRecipe:
    """Reverse the source."""
    return _puzzle("reverse")


def puzzle_sort() -> TranslateRecipe:
    """Sort the source."""
    return _puzzle("sort")


def puzzle_add() -> TranslateRecipe:
    """Add two numbers, digit by digit."""
    return _puzzle("add")


def _puzzle(name: Literal["copy", "reverse", "sort", "add"]) -> TranslateRecipe:
    tokenizer = Characters() if name == "add" else WordLevel()
    return pocket_transformer().model_copy(
        update={
            "name": f"puzzle-{name}",
            "corpus": PuzzleCorpus(puzzle=name),
            "source": Text(tokenizer=tokenizer),
            "target": TextTarget(tokenizer=tokenizer, vocabulary="shared"),
            "metrics": ("exact_match", "bleu"),
        }
    )
