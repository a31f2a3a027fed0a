"""The content of `config.json` and `generation_config.json` for Hugging Face `transformers`."""

from __future__ import annotations

from typing import Any

from seq2see.decoding.length_penalties import Average, NoPenalty
from seq2see.decoding.settings import Decoding
from seq2see.interop.exportable import require_transformers
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenizers import BOS, EOS, PAD

ENGINE = "Hugging Face transformers"
ARCHITECTURES = {
    "marian": "MarianMTModel",
    "pegasus": "PegasusForConditionalGeneration",
    "blenderbot": "BlenderbotForConditionalGeneration",
}


def config_json(settings: ModelSettings, layout: str, size: int, shift: int, rows: int) -> dict[str, Any]:
    """`config.json` of an encoder-decoder; the token ids of the target begin at `shift`."""
    encoder, decoder = require_transformers(settings, ENGINE)
    shape: dict[str, Any] = {"d_model": decoder.width, "vocab_size": size, "max_position_embeddings": rows}
    for half, part in (("encoder", encoder), ("decoder", decoder)):
        shape[f"{half}_layers"] = part.depth
        shape[f"{half}_attention_heads"] = part.heads
        shape[f"{half}_ffn_dim"] = part.feed_forward_width
    if layout == "marian":
        shape |= {"decoder_vocab_size": size, "share_encoder_decoder_embeddings": True}
    return {
        "architectures": [ARCHITECTURES[layout]],
        "model_type": layout,
        **shape,
        "activation_function": "relu",
        "dropout": decoder.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "tie_word_embeddings": settings.target_text.head == "tied",
        "is_encoder_decoder": True,
        "dtype": "float32",
        **_special_ids(shift),
    }


def stack_json(stack: TransformerSettings) -> dict[str, Any]:
    """The encoder settings that BERT and ViT share in `transformers`."""
    return {
        "hidden_size": stack.width,
        "num_hidden_layers": stack.depth,
        "num_attention_heads": stack.heads,
        "intermediate_size": stack.feed_forward_width,
        "hidden_act": {"gelu-tanh": "gelu_new"}.get(stack.activation, stack.activation),
        "layer_norm_eps": stack.norm_eps,
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
    }


def labels_json(labels: tuple[str, ...]) -> dict[str, Any]:
    """`id2label` and `label2id`; empty without labels."""
    id2label = dict(enumerate(labels))
    return {"id2label": id2label, "label2id": {label: number for number, label in id2label.items()}} if labels else {}


def generation_json(decoding: Decoding, shift: int) -> dict[str, Any]:
    """`generation_config.json` of an encoder-decoder."""
    return decoding_json(decoding, [shift + PAD, shift + BOS], decoding.max_new_tokens) | _special_ids(shift)


def decoding_json(decoding: Decoding, suppress_tokens: list[int], max_new_tokens: int) -> dict[str, Any]:
    """The decoding settings under the same names, the suppressed tokens, and a limit of new tokens."""
    sampling: dict[str, Any] = {}
    if decoding.do_sample:
        sampling = {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
    searching: dict[str, Any] = {}
    if decoding.num_beams > 1:
        # early_stopping=False of `transformers` stops a little earlier than here; "never" is the exact stopping rule.
        early = True if decoding.early_stopping else "never"
        searching = {"length_penalty": length_exponent(decoding), "early_stopping": early}
    return {
        "max_new_tokens": min(decoding.max_new_tokens, max_new_tokens),
        "min_new_tokens": decoding.min_new_tokens,
        "num_beams": decoding.num_beams,
        "num_return_sequences": decoding.num_return_sequences,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "repetition_penalty": decoding.repetition_penalty,
        "do_sample": decoding.do_sample,
        **sampling,
        **searching,
        "suppress_tokens": suppress_tokens or None,
    }


def length_exponent(decoding: Decoding) -> float:
    """The exponent of the length: that of `average`; alpha of the GNMT penalty, which `transformers` does not have."""
    penalty = decoding.length_penalty
    if isinstance(penalty, NoPenalty):
        return 0.0
    assert isinstance(penalty, Average) or penalty.kind == "gnmt"
    return penalty.alpha


def _special_ids(shift: int) -> dict[str, Any]:
    # forced_eos_token_id is None because these layouts would force <eos> at the maximum length by default.
    return {
        "pad_token_id": PAD,
        "bos_token_id": shift + BOS,
        "eos_token_id": shift + EOS,
        "decoder_start_token_id": shift + BOS,
        "forced_eos_token_id": None,
    }
