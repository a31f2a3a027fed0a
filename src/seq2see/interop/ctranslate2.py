"""Export of Transformers to CTranslate2, a fast inference engine for CPUs and GPUs that needs no torch.

The folder holds CTranslate2's own `model.bin`, `config.json` and vocabularies, and the tokenizers of seq2see.
CTranslate2 itself appends <eos> to each source. Positions are stored as a table. <pad> and <bos>, which seq2see
suppresses in decoding, get a large negative bias, so that CTranslate2 never generates them either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.files import sync_folder
from seq2see.interop.exportable import (
    ExportableModel,
    require_seq2seq,
    require_transformers,
    save_tokenizers,
    unsupported,
    vocabulary,
)
from seq2see.interop.folders import atomic_folder, require_packages
from seq2see.interop.position_embeddings import position_table, positions_needed
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.norms import EPSILON
from seq2see.models.heads import TiedHead, UntiedHead
from seq2see.models.settings import ModelSettings
from seq2see.models.token_embeddings import TokenEmbedding
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenizers import BOS, BOS_TEXT, EOS_TEXT, PAD, UNK_TEXT

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
