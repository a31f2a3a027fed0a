"""Our Transformers in CTranslate2, a fast engine for processors and graphics cards that needs no torch.

The folder holds CTranslate2's own `model.bin`, `config.json` and vocabularies, and our tokenisers beside
them. <eos> is put behind each source by CTranslate2 itself. Positions go along as a table. <pad> and <bos>,
which our decoding never says, get a bias so low that this engine never says them either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.files import sync_folder
from seq2see.interop.folders import need, new_folder
from seq2see.interop.position_tables import position_table, rows_needed
from seq2see.interop.stored import Stored, cannot, one_translator, tokeniser_files, transformer_pair, vocabulary
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.norms import EPSILON
from seq2see.models.frontends import TokenFrontend
from seq2see.models.heads import FreeHead, TiedHead
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import BOS, BOS_TEXT, EOS_TEXT, PAD, UNK_TEXT

ENGINE = "CTranslate2"
NEVER = -1e9
"""A bias that makes a token impossible."""


def check_ct2(settings: ModelSettings) -> None:
    """Refuse what CTranslate2 has no form for."""
    parts = transformer_pair(settings, ENGINE)
    for side, part in zip(("encoder", "decoder"), parts, strict=True):
        if part.norm not in ("layer", "rms"):
            raise cannot(ENGINE, f"{side}.norm={part.norm}", "it has layer norm and rms norm only")
    if parts[0].norm != parts[1].norm:
        raise cannot(ENGINE, f"encoder.norm={parts[0].norm}", f"the decoder has {parts[1].norm} norm")


def write_ct2(stored: Stored, folder: Path) -> None:
    """Write a folder that `ctranslate2.Translator(folder)` opens."""
    module = one_translator(stored, ENGINE)
    check_ct2(stored.config.model)
    need("ct2", "ctranslate2")
    with new_folder(folder) as temporary:
        source, target = tokeniser_files(stored.tokenisers, temporary)
        spec = _spec(stored, module)
        spec.register_source_vocabulary(vocabulary(source))
        spec.register_target_vocabulary(vocabulary(target))
        spec.validate()
        spec.optimize()
        spec.save(str(temporary))
        sync_folder(temporary)


def _spec(stored: Stored, module: Any) -> Any:
    """The whole model in CTranslate2's words."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    encoder, decoder = transformer_pair(stored.config.model, ENGINE)
    spec = TransformerSpec(
        TransformerEncoderSpec(encoder.depth, encoder.heads, **_shape(encoder)),
        TransformerDecoderSpec(decoder.depth, decoder.heads, **_shape(decoder)),
    )
    rows = rows_needed(stored)
    _frontend(spec.encoder.embeddings[0], spec.encoder, module.source, rows)
    _frontend(spec.decoder.embeddings, spec.decoder, module.target, rows)
    for half, stack in ((spec.encoder, module.encoder), (spec.decoder, module.decoder)):
        if stack.ending is not None:
            _norm(half.layer_norm, stack.ending)
    for layer, block in zip(spec.encoder.layer, module.encoder.blocks, strict=True):
        _self_attention(layer.self_attention, block.look, block.around_look.norm)
        _feed_forward(layer.ffn, block.think, block.around_think.norm)
    for layer, block in zip(spec.decoder.layer, module.decoder.blocks, strict=True):
        _self_attention(layer.self_attention, block.look_back, block.around_back.norm)
        _cross_attention(layer.attention, block.look_across, block.around_across.norm)
        _feed_forward(layer.ffn, block.think, block.around_think.norm)
    _head(spec.decoder.projection, module.head)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = UNK_TEXT, BOS_TEXT, EOS_TEXT
    spec.config.decoder_start_token, spec.config.add_source_eos = BOS_TEXT, True
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def _shape(part: TransformerSettings) -> dict[str, Any]:
    return {"pre_norm": part.order == "pre", "rms_norm": part.norm == "rms"}


def _frontend(embeddings: Any, half: Any, frontend: TokenFrontend, rows: int) -> None:
    embeddings.weight = _array(frontend.table.weight)
    half.position_encodings.encodings = _array(position_table(frontend, rows))


def _self_attention(spec: Any, part: SelfAttention, norm: nn.Module) -> None:
    _linear(spec.linear[0], part.queries_keys_values)
    _linear(spec.linear[1], part.output)
    _norm(spec.layer_norm, norm)


def _cross_attention(spec: Any, part: CrossAttention, norm: nn.Module) -> None:
    _linear(spec.linear[0], part.queries)
    _linear(spec.linear[1], part.keys_values)
    _linear(spec.linear[2], part.output)
    _norm(spec.layer_norm, norm)


def _feed_forward(spec: Any, part: FeedForward, norm: nn.Module) -> None:
    _linear(spec.linear_0, part.widen)
    _linear(spec.linear_1, part.narrow)
    _norm(spec.layer_norm, norm)


def _head(spec: Any, head: TiedHead | FreeHead) -> None:
    weight, bias = head.matrix()
    spec.weight = _array(weight)
    spec.bias = np.zeros(weight.size(0), dtype=np.float32) if bias is None else _array(bias).copy()
    spec.bias[[PAD, BOS]] = NEVER


def _linear(spec: Any, part: nn.Linear) -> None:
    spec.weight, spec.bias = _array(part.weight), _array(part.bias)


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _array(norm.weight)
    if hasattr(norm, "bias"):  # an rms norm has none
        spec.beta = _array(norm.bias)


def _array(tensor: Any) -> NDArray[np.float32]:
    assert isinstance(tensor, Tensor)
    return tensor.detach().float().cpu().contiguous().numpy()
