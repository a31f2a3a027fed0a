"""Every built-in recipe by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seq2see.core.errors import UserError, missing_file, unknown_name
from seq2see.recipes import (
    caption,
    classify,
    classify_image,
    fill,
    forecast,
    g2p,
    multi30k,
    ngram,
    pocket,
    ptb,
    puzzles,
    tag,
    tatoeba,
    translate,
    write,
)
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.registry import read_recipe

RECIPES: dict[str, Callable[[], Recipe]] = {
    "translate": translate.translate,
    "write": write.write,
    "shakespeare": write.shakespeare,
    "shakespeare-large": write.shakespeare_large,
    "write-gpt2": write.write_gpt2,
    "write-llama": write.write_llama,
    "write-alibi": write.write_alibi,
    "write-lstm": write.write_lstm,
    "write-mlp": write.write_mlp,
    "write-linear": write.write_linear,
    "write-gru": write.write_gru,
    "write-rnn": write.write_rnn,
    "write-rnn-relu": write.write_rnn_relu,
    "ngram": ngram.ngram,
    "ngram-back-off": ngram.ngram_back_off,
    "ptb-ngram": ngram.ptb_ngram,
    "ptb-lstm": ptb.ptb_lstm,
    "ptb-awd-lstm": ptb.ptb_awd_lstm,
    "ptb-gpt": ptb.ptb_gpt,
    "fill": fill.fill,
    "fill-characters": fill.fill_characters,
    "fill-bert": fill.fill_bert,
    "classify-text": classify.classify_text,
    "classify-text-gru": classify.classify_text_gru,
    "classify-text-cnn": classify.classify_text_cnn,
    "classify-text-zh": classify.classify_text_zh,
    "sst2-text-cnn": classify.sst2_text_cnn,
    "sst2-lstm": classify.sst2_lstm,
    "sst2-transformer": classify.sst2_transformer,
    "sst2-minilm": classify.sst2_minilm,
    "chnsenticorp-text-cnn": classify.chnsenticorp_text_cnn,
    "classify-image": classify_image.classify_image,
    "classify-image-mean": classify_image.classify_image_mean,
    "classify-image-hybrid": classify_image.classify_image_hybrid,
    "classify-image-resnet": classify_image.classify_image_resnet,
    "caption": caption.caption,
    "flickr8k": caption.flickr8k,
    "caption-video": caption.caption_video,
    "cifar10-vit": classify_image.cifar10_vit,
    "cifar10-hybrid": classify_image.cifar10_hybrid,
    "cifar10-resnet": classify_image.cifar10_resnet,
    "fashion-mnist-hybrid": classify_image.fashion_mnist_hybrid,
    "forecast": forecast.forecast,
    "forecast-autoregressive": forecast.forecast_autoregressive,
    "forecast-gru": forecast.forecast_gru,
    "tag": tag.tag,
    "tag-zh": tag.tag_zh,
    "ud-english-ewt": tag.ud_english_ewt,
    "ud-chinese-gsd": tag.ud_chinese_gsd,
    "pocket-transformer": pocket.pocket_transformer,
    "pocket-rnn": pocket.pocket_rnn,
    "pocket-gru": pocket.pocket_gru,
    "pocket-gru-reset-before": pocket.pocket_gru_reset_before,
    "pocket-lstm": pocket.pocket_lstm,
    "pocket-gru-attention": pocket.pocket_gru_attention,
    "pocket-lstm-attention": pocket.pocket_lstm_attention,
    "pocket-gated-cnn": pocket.pocket_gated_cnn,
    "pocket-scheduled-sampling": pocket.pocket_scheduled_sampling,
    "pocket-free-running": pocket.pocket_free_running,
    "pocket-post-norm": pocket.pocket_post_norm,
    "pocket-rms-norm": pocket.pocket_rms_norm,
    "pocket-batch-norm": pocket.pocket_batch_norm,
    "pocket-power-norm": pocket.pocket_power_norm,
    "pocket-he-init": pocket.pocket_he_init,
    "pocket-zero-init": pocket.pocket_zero_init,
    "pocket-en-zh": pocket.pocket_en_zh,
    "puzzle-copy": puzzles.puzzle_copy,
    "puzzle-reverse": puzzles.puzzle_reverse,
    "puzzle-sort": puzzles.puzzle_sort,
    "puzzle-add": puzzles.puzzle_add,
    "tatoeba-zh-en": tatoeba.tatoeba_zh_en,
    "tatoeba-zh-en-bpe": tatoeba.tatoeba_zh_en_bpe,
    "tatoeba-zh-en-lstm": tatoeba.tatoeba_zh_en_lstm,
    "g2p": g2p.g2p,
    "g2p-gru": g2p.g2p_gru,
    "multi30k-rnn": multi30k.multi30k_rnn,
    "multi30k-gru": multi30k.multi30k_gru,
    "multi30k-gru-attention": multi30k.multi30k_gru_attention,
    "multi30k-lstm-attention": multi30k.multi30k_lstm_attention,
    "multi30k-transformer": multi30k.multi30k_transformer,
    "transformer-base": translate.transformer_base,
}


def recipe(name: str | Path) -> Recipe:
    """The recipe of this name, or of this TOML file."""
    text = str(name)
    if text.endswith(".toml"):
        if not Path(text).is_file():
            raise missing_file(Path(text))
        return read_recipe(Path(text))
    if text not in RECIPES and "ensemble" in text:
        hint = "An ensemble is not trained, but made of finished runs: `seq2see ensemble RUN RUN`."
        raise UserError(f"There is no recipe '{text}'.", hint=hint)
    if text not in RECIPES:
        raise unknown_name("recipe", text, RECIPES)
    return RECIPES[text]()
