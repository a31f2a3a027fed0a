"""CTranslate2, a fast inference engine for CPUs and GPUs that needs no torch: export of Transformers, and decoding.

The exported folder holds CTranslate2's own `model.bin`, `config.json` and vocabularies, and the tokenizers of seq2see.
CTranslate2 itself appends <eos> to each source. Positions are stored as a table. <pad> and <bos>, which seq2see
suppresses in decoding, get a large negative bias, so that CTranslate2 never generates them either.

`Ct2Engine` decodes with CTranslate2 instead of seq2see's own decoding loop, with the same decoding settings.
Settings with the same meaning in both engines are passed on; settings that CTranslate2 does not support raise an error.
Three settings need care:

* Its length penalty is `average`. It counts the tokens that it returns, so it must return <eos>, too.
* It stops when `num_beams * patience` hypotheses are finished. A patience of 1 is `early_stopping`; with a patience
  above the possible number of hypotheses it searches to the end, which finds what the exact stopping rule finds.
  Without a length penalty it may stop at the best finished hypothesis without a loss.
* It masks suppressed tokens before the softmax, seq2see after it: the other tokens share their probability.
  Greedy decoding is not affected, but a beam search with `min_new_tokens` or `no_repeat_ngram_size` would
  compare other scores and return other hypotheses. So this combination raises an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.errors import UserError, require_packages
from seq2see.core.files import atomic_folder, sync_folder
from seq2see.data.tokenizers.tokenizer import BOS, BOS_TEXT, EOS, EOS_TEXT, PAD, UNK_TEXT
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import Average, Hypothesis, NoPenalty
from seq2see.interop.exportable import (
    ExportableModel,
    position_table,
    positions_needed,
    require_seq2seq,
    require_transformers,
    save_tokenizers,
    unsupported,
    vocabulary,
)
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.norms_and_dropout import EPSILON
from seq2see.models.embeddings_and_heads import TiedHead, TokenEmbedding, UntiedHead
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

ENGINE = "CTranslate2"
SUPPRESSED_BIAS = -1e9
"""A logit bias with which a token is never generated."""


def check_ct2(settings: ModelSettings) -> None:
    """Raise an error for settings that CTranslate2 does not support."""
    parts = require_transformers(settings, ENGINE)
    for side, part in zip(("encoder", "decoder"), parts, strict=True):
        if part.norm not in ("layer", "rms"):
            raise unsupported(ENGINE, f"{side}.norm={part.norm}", "it supports layer norm and RMS norm only")
    if parts[0].norm != parts[1].norm:
        raise unsupported(ENGINE, f"encoder.norm={parts[0].norm}", f"the decoder has {parts[1].norm} norm")


def write_ct2(stored: ExportableModel, folder: Path) -> None:
    """Write a folder that `ctranslate2.Translator(folder)` opens."""
    module = require_seq2seq(stored, ENGINE)
    check_ct2(stored.config.model)
    require_packages("ct2", "ctranslate2")
    with atomic_folder(folder) as temporary:
        source, target = save_tokenizers(stored.tokenizers, temporary)
        spec = _spec(stored, module)
        spec.register_source_vocabulary(vocabulary(source))
        spec.register_target_vocabulary(vocabulary(target))
        spec.validate()
        spec.optimize()
        spec.save(str(temporary))
        sync_folder(temporary)


def _spec(stored: ExportableModel, module: Any) -> Any:
    """The whole model as a CTranslate2 specification."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    encoder, decoder = require_transformers(stored.config.model, ENGINE)
    spec = TransformerSpec(
        TransformerEncoderSpec(encoder.depth, encoder.heads, **_shape(encoder)),
        TransformerDecoderSpec(decoder.depth, decoder.heads, **_shape(decoder)),
    )
    rows = positions_needed(stored)
    _embeddings(spec.encoder.embeddings[0], spec.encoder, module.source, rows)
    _embeddings(spec.decoder.embeddings, spec.decoder, module.target, rows)
    for half, stack in ((spec.encoder, module.encoder), (spec.decoder, module.decoder)):
        if stack.final_norm is not None:
            _norm(half.layer_norm, stack.final_norm)
    for layer, block in zip(spec.encoder.layer, module.encoder.blocks, strict=True):
        _self_attention(layer.self_attention, block.self_attention, block.self_attention_residual.norm)
        _feed_forward(layer.ffn, block.feed_forward, block.feed_forward_residual.norm)
    for layer, block in zip(spec.decoder.layer, module.decoder.blocks, strict=True):
        _self_attention(layer.self_attention, block.self_attention, block.self_attention_residual.norm)
        _cross_attention(layer.attention, block.cross_attention, block.cross_attention_residual.norm)
        _feed_forward(layer.ffn, block.feed_forward, block.feed_forward_residual.norm)
    _head(spec.decoder.projection, module.head)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = UNK_TEXT, BOS_TEXT, EOS_TEXT
    spec.config.decoder_start_token, spec.config.add_source_eos = BOS_TEXT, True
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def _shape(part: TransformerSettings) -> dict[str, Any]:
    return {"pre_norm": part.norm_order == "pre", "rms_norm": part.norm == "rms"}


def _embeddings(embeddings: Any, half: Any, embedding: TokenEmbedding, rows: int) -> None:
    embeddings.weight = _array(embedding.table.weight)
    half.position_encodings.encodings = _array(position_table(embedding, rows))


def _self_attention(spec: Any, part: SelfAttention, norm: nn.Module) -> None:
    _linear(spec.linear[0], part.qkv_proj)
    _linear(spec.linear[1], part.out_proj)
    _norm(spec.layer_norm, norm)


def _cross_attention(spec: Any, part: CrossAttention, norm: nn.Module) -> None:
    _linear(spec.linear[0], part.q_proj)
    _linear(spec.linear[1], part.kv_proj)
    _linear(spec.linear[2], part.out_proj)
    _norm(spec.layer_norm, norm)


def _feed_forward(spec: Any, part: FeedForward, norm: nn.Module) -> None:
    _linear(spec.linear_0, part.up_proj)
    _linear(spec.linear_1, part.down_proj)
    _norm(spec.layer_norm, norm)


def _head(spec: Any, head: TiedHead | UntiedHead) -> None:
    weight, bias = head.weight_and_bias()
    spec.weight = _array(weight)
    spec.bias = np.zeros(weight.size(0), dtype=np.float32) if bias is None else _array(bias).copy()
    spec.bias[[PAD, BOS]] = SUPPRESSED_BIAS


def _linear(spec: Any, part: nn.Linear) -> None:
    spec.weight, spec.bias = _array(part.weight), _array(part.bias)


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _array(norm.weight)
    if hasattr(norm, "bias"):  # an RMS norm has none
        spec.beta = _array(norm.bias)


def _array(tensor: Any) -> NDArray[np.float32]:
    assert isinstance(tensor, Tensor)
    return tensor.detach().float().cpu().contiguous().numpy()


COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8_float32"}
MAX_BATCH_SIZE = 64
"""Sources per batch."""
TINY_LENGTH_PENALTY = 1e-30
"""A length penalty that changes no score, but is not 0: at 0 another stopping rule applies."""


class Ct2Engine:
    """A model converted to CTranslate2, which runs on the CPU."""

    def __init__(self, stored: ExportableModel, precision: str, threads: int):
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "ct2"
            write_ct2(stored, folder)
            self.translator = _translator(folder, precision, threads)
            self.source_tokens, self.target_tokens = _vocabularies(folder)
        self.token_ids = {token: token_id for token_id, token in enumerate(self.target_tokens)}
        self.max_positions = positions_needed(stored)

    def translate(self, sources: list[list[int]], decoding: Decoding) -> list[list[Hypothesis]]:
        """The hypotheses of each source (token ids that end with <eos>), best first."""
        options = translate_options(decoding)
        max_length = max([decoding.max_new_tokens, *map(len, sources)])
        if max_length > self.max_positions:
            message = (
                f"The CTranslate2 model has positions for {self.max_positions} tokens, but {max_length} are needed."
            )
            hint = f"Set decoding.max_new_tokens={self.max_positions} or less, or leave out --engine."
            raise UserError(message, hint=hint)
        # CTranslate2 appends <eos> to each source.
        tokens = [[self.source_tokens[number] for number in _without_eos(source)] for source in sources]
        results = self.translator.translate_batch(tokens, **options)
        return [
            [self._hypothesis(*pair, decoding) for pair in zip(result.hypotheses, result.scores, strict=True)]
            for result in results
        ]

    def _hypothesis(self, tokens: list[str], score: float, decoding: Decoding) -> Hypothesis:
        ids = [self.token_ids[token] for token in tokens]
        finished = ids[-1:] == [EOS]
        total = score * max(len(ids), 1) ** _exponent(decoding)
        if decoding.num_beams == 1:
            score = float(decoding.length_penalty(torch.tensor(total), max(len(ids), 1)))
        # CTranslate2 does not return the probability of each token.
        return Hypothesis(tuple(ids[: len(ids) - finished]), score, total, (), finished)


def translate_options(decoding: Decoding) -> dict[str, Any]:
    """The decoding settings as options of CTranslate2; an unsupported setting raises an error."""
    if decoding.do_sample:
        raise _unsupported(
            "do_sample=true", "its random numbers do not follow the seed", "Sample with the default engine."
        )
    if decoding.num_beams > 1 and not isinstance(decoding.length_penalty, NoPenalty | Average):
        setting = f"length_penalty.kind={decoding.length_penalty.kind}"
        raise _unsupported(setting, "it divides by length ** alpha only", "Set decoding.length_penalty.kind=average.")
    if decoding.repetition_penalty != 1:
        setting = f"repetition_penalty={decoding.repetition_penalty:g}"
        raise _unsupported(setting, "it applies the penalty before the softmax", "Use the default engine for that.")
    for name in ("min_new_tokens", "no_repeat_ngram_size"):
        if decoding.num_beams > 1 and getattr(decoding, name):
            setting = f"num_beams={decoding.num_beams} and {name}={getattr(decoding, name)}"
            raise _unsupported(setting, "it renormalizes the other tokens' probabilities", "Set decoding.num_beams=1.")
    exponent = _exponent(decoding)
    if exponent < 0:
        raise _unsupported(f"length_penalty.alpha={exponent}", "alpha must be 0 or more")
    may_stop_first = exponent == 0 and not decoding.early_stopping and decoding.num_return_sequences == 1
    return {
        "beam_size": decoding.num_beams,
        "num_hypotheses": decoding.num_return_sequences,
        "length_penalty": 0 if may_stop_first else max(exponent, TINY_LENGTH_PENALTY),
        "patience": 1 if decoding.early_stopping or may_stop_first else decoding.max_new_tokens + 1,
        "max_decoding_length": decoding.max_new_tokens,
        "min_decoding_length": decoding.min_new_tokens,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "max_input_length": 0,
        "max_batch_size": MAX_BATCH_SIZE,
        "return_end_token": True,
        "return_scores": True,
    }


def _exponent(decoding: Decoding) -> float:
    """The exponent of the length by which CTranslate2 divides a score; greedy decoding needs none."""
    penalty = decoding.length_penalty
    return penalty.alpha if decoding.num_beams > 1 and isinstance(penalty, Average) else 0.0


def _unsupported(setting: str, reason: str, hint: str = "") -> UserError:
    return UserError(f"CTranslate2 cannot decode with decoding.{setting}: {reason}.", hint=hint)


def _translator(folder: Path, precision: str, threads: int) -> Any:
    import ctranslate2

    kind = COMPUTE_TYPES[precision]
    if kind not in ctranslate2.get_supported_compute_types("cpu"):
        raise UserError(
            f"CTranslate2 cannot compute in {precision} on this CPU.",
            hint="Set decoding.precision=float32, or decoding.precision=int8.",
        )
    # One thread per batch, several batches at a time: the matmuls of a small model are too small for several threads.
    return ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=threads, intra_threads=1)


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The vocabularies of source and target in the order of their ids, as CTranslate2 stores them."""
    shared = folder / "shared_vocabulary.json"
    paths = [shared] * 2 if shared.exists() else [folder / f"{side}_vocabulary.json" for side in ("source", "target")]
    source, target = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return source, target


def _without_eos(source: list[int]) -> list[int]:
    assert source[-1:] == [EOS], "a source ends with <eos>"
    return source[:-1]
