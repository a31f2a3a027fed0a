"""The files of a Hugging Face folder: `config.json`, `generation_config.json` and the single `tokenizer.json`.

A shared tokenizer is written with a post-processor that appends <eos> to each text. Two tokenizers become one that
encodes as the source's and decodes as the target's: its vocabulary is that of the source followed by that of the
target. The tokens of the target have a prefix that no token of the source begins with, and decoding removes it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seq2see.core.documents import load_json
from seq2see.core.files import write_json
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap
from seq2see.data.tokenizers.tokenizer import BOS, BOS_TEXT, EOS, EOS_TEXT, PAD, PAD_TEXT, UNK, UNK_TEXT, Tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import Average, NoPenalty
from seq2see.interop.exportable import (
    TokenizerPair,
    require_transformers,
    save_tokenizers,
    vocabulary,
)
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

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


PRIVATE_USE_AREA = range(0xE000, 0xF900)
"""Unicode's private-use characters, which have no meaning by the standard."""
UNLIKELY_SCORE = -1e6
"""The score of a token that encoding never produces."""


def write_tokenizer(tokenizers: TokenizerPair, folder: Path, max_length: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`."""
    with TemporaryDirectory() as scratch:
        source, target = save_tokenizers(tokenizers, Path(scratch))
    document = source if tokenizers.shared else concatenate_tokenizers(source, target)
    write_json(
        folder / "tokenizer.json", document | {"post_processor": template_processing(EOS_TEXT, EOS, first=False)}
    )
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD_TEXT,
            "bos_token": BOS_TEXT,
            "eos_token": EOS_TEXT,
            "unk_token": UNK_TEXT,
            "model_max_length": max_length + 1,
            "padding_side": "right",
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,  # the name of a special token in a text is plain text
        },
    )


def write_causal_tokenizer(text: Tokenizer, folder: Path, max_length: int, specials: dict[str, int | None]) -> None:
    """Write a language model's tokenizer; one that seq2see trained adds <bos>, a pretrained one is unchanged."""
    text.save(folder / "tokenizer.json")
    if not isinstance(text, PretrainedTokenizer):
        document = load_json(folder / "tokenizer.json")
        write_json(
            folder / "tokenizer.json", document | {"post_processor": template_processing(BOS_TEXT, BOS, first=True)}
        )
    special_tokens = {
        name.removesuffix("_id"): text.token_name(number) for name, number in specials.items() if number is not None
    }
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **special_tokens,
            "model_max_length": max_length,
            "padding_side": "left",  # generated tokens follow the prompt directly
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        },
    )


def concatenate_tokenizers(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """One `tokenizer.json` that encodes as the source's tokenizer and decodes as the target's."""
    tokens = vocabulary(source)
    prefix = _unused_prefix(tokens)
    prefixed = [prefix + token for token in vocabulary(target)]
    specials = [
        special | {"id": len(tokens) + special["id"], "content": prefix + special["content"]}
        for special in target["added_tokens"]
        if special["id"] != UNK  # decoding keeps <unk> as text, as in seq2see
    ]
    remove_prefix = {"type": "Replace", "pattern": {"String": prefix}, "content": ""}
    decoder = target["decoder"]
    return source | {
        "added_tokens": source["added_tokens"] + specials,
        "model": source["model"] | {"vocab": _concatenate_vocabularies(source["model"]["vocab"], prefixed)},
        "decoder": {"type": "Sequence", "decoders": [remove_prefix, *decoder.get("decoders", [decoder])]},
    }


def _concatenate_vocabularies(source: Any, target_tokens: list[str]) -> Any:
    if isinstance(source, list):
        return source + [[token, UNLIKELY_SCORE] for token in target_tokens]
    return source | {token: len(source) + number for number, token in enumerate(target_tokens)}


def _unused_prefix(tokens: list[str]) -> str:
    first_characters = {token[0] for token in tokens}
    return next(chr(code) for code in PRIVATE_USE_AREA if chr(code) not in first_characters)


def template_processing(name: str, number: int, first: bool) -> dict[str, Any]:
    """A post-processor that adds a special token before or after each text."""
    text, other = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    special = [{"SpecialToken": {"id": name, "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": [*special, text] if first else [text, *special],
        "pair": [*special, text, other] if first else [text, other, *special],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }


def identity_ids(size: int) -> TokenIdMap:
    """The token ids of a vocabulary that seq2see trained, which stay unchanged."""
    return TokenIdMap.of(size, bos_id=BOS, eos_id=EOS, pad_id=PAD, unk_id=UNK)
