"""Tiny random BERT models of `transformers`, saved as folders, for the tests of import and export."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    PreTrainedModel,
)

from causal_folders import perturb_weights

SPECIAL_TOKENS = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "the cat sat on the mat, and purred",
    "a dog ran after the cats",
    "我有一支笔，你有一本书",
    "Where were Zoë's 1234?",
]

SHAPES: dict[str, tuple[type[PreTrainedModel], dict]] = {
    "body": (BertModel, {}),
    "fill": (BertForMaskedLM, {}),
    "fill, tanh, other epsilon, few positions, rows without a token": (
        BertForMaskedLM,
        {"hidden_act": "gelu_new", "layer_norm_eps": 1e-2, "max_position_embeddings": 29, "more": 5},
    ),
    "fill, relu, narrow": (BertForMaskedLM, {"hidden_act": "relu", "intermediate_size": 19}),
    "fill and pairs": (BertForPreTraining, {}),
    "label": (BertForSequenceClassification, {"id2label": {0: "good", 1: "坏", 2: "so-so"}}),
    "tags": (BertForTokenClassification, {"id2label": {0: "O", 1: "B-NAME", 2: "I-NAME", 3: "B-地"}}),
}


def word_piece_file(path: Path, lower: bool = True) -> list[str]:
    """Train a WordPiece tokenizer in a few milliseconds; returns its vocabulary in order."""
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=lower)
    library.pre_tokenizer, library.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIAL_TOKENS, show_progress=False)
    library.train_from_iterator(TEXTS * 3, trainer)
    token_ids = {name: library.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(token_ids.items())
    )
    library.save(str(path))
    return [library.id_to_token(token_id) for token_id in range(library.get_vocab_size())]


def bert_folder(folder: Path, name: str) -> PreTrainedModel:
    """Write the folder of one shape; returns the written model."""
    model_class, changes = SHAPES[name]
    folder.mkdir(parents=True)
    size = len(word_piece_file(folder / "tokenizer.json"))
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 37}
    options = {**shape, "max_position_embeddings": 40, "pad_token_id": 0, "vocab_size": size + changes.get("more", 0)}
    torch.manual_seed(0)
    model = perturb_weights(
        model_class(BertConfig(**options | {key: each for key, each in changes.items() if key != "more"}))
    )
    model.save_pretrained(folder)
    return model
