"""Every built-in recipe by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seq2see.core.errors import UserError, no_file, unknown
from seq2see.core.settings import read_toml
from seq2see.recipes import (
    caption,
    classify,
    classify_image,
    count,
    fill,
    g2p,
    multi30k,
    pocket,
    ptb,
    puzzles,
    tag,
    tatoeba,
    translate,
    waves,
    write,
)
from seq2see.workbench.recipe import Recipe

RECIPES: dict[str, Callable[[], Recipe]] = {
    "translate": translate.translate,
    "write": write.write,
    "shakespeare": write.shakespeare,
    "shakespeare-large": write.shakespeare_large,
    "write-gpt2": write.write_gpt2,
    "write-llama": write.write_llama,
    "write-alibi": write.write_alibi,
    "write-lstm": write.write_lstm,
    "write-window": write.write_window,
    "write-linear": write.write_linear,
    "write-gru": write.write_gru,
    "write-rnn": write.write_rnn,
    "write-rnn-relu": write.write_rnn_relu,
    "count": count.count,
    "count-back-off": count.count_back_off,
    "ptb-counting": count.ptb_counting,
    "ptb-lstm": ptb.ptb_lstm,
    "ptb-awd-lstm": ptb.ptb_awd_lstm,
    "ptb-gpt": ptb.ptb_gpt,
    "fill": fill.fill,
    "fill-characters": fill.fill_characters,
    "fill-bert": fill.fill_bert,
    "classify-text": classify.classify_text,
    "classify-text-gru": classify.classify_text_gru,
    "classify-text-windows": classify.classify_text_windows,
    "classify-text-zh": classify.classify_text_zh,
    "sst2-windows": classify.sst2_windows,
    "sst2-lstm": classify.sst2_lstm,
    "sst2-transformer": classify.sst2_transformer,
    "sst2-minilm": classify.sst2_minilm,
    "chnsenticorp-windows": classify.chnsenticorp_windows,
    "classify-image": classify_image.classify_image,
    "classify-image-mean": classify_image.classify_image_mean,
    "classify-image-hybrid": classify_image.classify_image_hybrid,
    "classify-image-resnet": classify_image.classify_image_resnet,
    "caption": caption.caption,
    "flickr8k": caption.flickr8k,
    "caption-film": caption.caption_film,
    "cifar10-vit": classify_image.cifar10_vit,
    "cifar10-hybrid": classify_image.cifar10_hybrid,
    "cifar10-resnet": classify_image.cifar10_resnet,
    "fashion-mnist-hybrid": classify_image.fashion_mnist_hybrid,
    "waves": waves.waves,
    "waves-linear": waves.waves_linear,
    "waves-gru": waves.waves_gru,
    "tag": tag.tag,
    "tag-zh": tag.tag_zh,
    "ud-english-ewt": tag.ud_english_ewt,
    "ud-chinese-gsd": tag.ud_chinese_gsd,
    "pocket-transformer": pocket.pocket_transformer,
    "pocket-rnn": pocket.pocket_rnn,
    "pocket-gru": pocket.pocket_gru,
    "pocket-notes-gru": pocket.pocket_notes_gru,
    "pocket-lstm": pocket.pocket_lstm,
    "pocket-gru-attention": pocket.pocket_gru_attention,
    "pocket-lstm-attention": pocket.pocket_lstm_attention,
    "pocket-convolution": pocket.pocket_convolution,
    "pocket-scheduled-sampling": pocket.pocket_scheduled_sampling,
    "pocket-free-running": pocket.pocket_free_running,
    "pocket-post-norm": pocket.pocket_post_norm,
    "pocket-rms-norm": pocket.pocket_rms_norm,
    "pocket-batch-norm": pocket.pocket_batch_norm,
    "pocket-power-norm": pocket.pocket_power_norm,
    "pocket-he-start": pocket.pocket_he_start,
    "pocket-zero-start": pocket.pocket_zero_start,
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
    """The recipe a user means: a built-in name, or a TOML file."""
    text = str(name)
    if text.endswith(".toml"):
        if not Path(text).is_file():
            raise no_file(Path(text))
        return read_toml(Recipe, Path(text))
    if text not in RECIPES and "ensemble" in text:
        made_of = "An ensemble is not trained, but put together of finished runs: `seq2see ensemble RUN RUN`."
        raise UserError(f"There is no recipe '{text}'.", remedy=made_of)
    if text not in RECIPES:
        raise unknown("recipe", text, RECIPES)
    return RECIPES[text]()
