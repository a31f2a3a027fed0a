"""Every built-in recipe by name; and a recipe with your own data and changed settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, missing_file, unknown_name
from seq2see.recipes import adapters, chat, images, language_models, pocket, series, speech, text_encoders, translation
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import default_recipe, own_tasks, read_recipe, task_of

RECIPES: dict[str, Callable[[], Recipe]] = {
    "translate": translation.translate,
    "write": language_models.write,
    "shakespeare": language_models.shakespeare,
    "shakespeare-large": language_models.shakespeare_large,
    "write-gpt2": language_models.write_gpt2,
    "write-llama": language_models.write_llama,
    "write-alibi": language_models.write_alibi,
    "write-lstm": language_models.write_lstm,
    "write-mlp": language_models.write_mlp,
    "write-linear": language_models.write_linear,
    "write-gru": language_models.write_gru,
    "write-rnn": language_models.write_rnn,
    "write-rnn-relu": language_models.write_rnn_relu,
    "chat": chat.chat,
    "chat-zh": chat.chat_zh,
    "chat-puzzles": chat.chat_puzzles,
    "chat-puzzles-reinforce": chat.chat_puzzles_reinforce,
    "chat-puzzles-arithmetic": chat.chat_puzzles_arithmetic,
    "chat-puzzles-published": chat.chat_puzzles_published,
    "chat-seq2seq": chat.chat_seq2seq,
    "chat-retrieve": chat.chat_retrieve,
    "chat-retrieve-generate": chat.chat_retrieve_generate,
    "chat-retrieve-daily": chat.chat_retrieve_daily,
    "chat-retrieve-daily-zh": chat.chat_retrieve_daily_zh,
    "chat-retrieve-chitchat": chat.chat_retrieve_chitchat,
    "chat-daily": chat.chat_daily,
    "chat-daily-zh": chat.chat_daily_zh,
    "chat-chitchat": chat.chat_chitchat,
    "ngram": language_models.ngram,
    "ngram-back-off": language_models.ngram_back_off,
    "ptb-ngram": language_models.ptb_ngram,
    "ptb-lstm": language_models.ptb_lstm,
    "ptb-awd-lstm": language_models.ptb_awd_lstm,
    "ptb-gpt": language_models.ptb_gpt,
    "fill": text_encoders.fill,
    "fill-characters": text_encoders.fill_characters,
    "fill-bert": text_encoders.fill_bert,
    "classify-text": text_encoders.classify_text,
    "classify-text-gru": text_encoders.classify_text_gru,
    "classify-text-cnn": text_encoders.classify_text_cnn,
    "classify-text-zh": text_encoders.classify_text_zh,
    "sst2-text-cnn": text_encoders.sst2_text_cnn,
    "sst2-lstm": text_encoders.sst2_lstm,
    "sst2-transformer": text_encoders.sst2_transformer,
    "sst2-minilm": text_encoders.sst2_minilm,
    "chnsenticorp-text-cnn": text_encoders.chnsenticorp_text_cnn,
    "classify-image": images.classify_image,
    "classify-image-mean": images.classify_image_mean,
    "classify-image-hybrid": images.classify_image_hybrid,
    "classify-image-resnet": images.classify_image_resnet,
    "caption": images.caption,
    "flickr8k": images.flickr8k,
    "caption-video": images.caption_video,
    "cifar10-vit": images.cifar10_vit,
    "cifar10-hybrid": images.cifar10_hybrid,
    "cifar10-resnet": images.cifar10_resnet,
    "fashion-mnist-hybrid": images.fashion_mnist_hybrid,
    "forecast": series.forecast,
    "forecast-autoregressive": series.forecast_autoregressive,
    "forecast-gru": series.forecast_gru,
    "transcribe": speech.transcribe,
    "transcribe-attention": speech.transcribe_attention,
    "transcribe-joint": speech.transcribe_joint,
    "transcribe-transducer": speech.transcribe_transducer,
    "transcribe-transducer-attention": speech.transcribe_transducer_attention,
    "transcribe-digits": speech.transcribe_digits,
    "transcribe-digits-gru": speech.transcribe_digits_gru,
    "transcribe-digits-transformer": speech.transcribe_digits_transformer,
    "transcribe-tones": speech.transcribe_tones,
    "transcribe-mandarin": speech.transcribe_mandarin,
    "tag": text_encoders.tag,
    "tag-zh": text_encoders.tag_zh,
    "ud-english-ewt": text_encoders.ud_english_ewt,
    "ud-chinese-gsd": text_encoders.ud_chinese_gsd,
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
    "puzzle-copy": pocket.puzzle_copy,
    "puzzle-reverse": pocket.puzzle_reverse,
    "puzzle-sort": pocket.puzzle_sort,
    "puzzle-add": pocket.puzzle_add,
    "adapt-lora": adapters.adapt_lora,
    "adapt-svf": adapters.adapt_svf,
    "adapt-svf-normalized": adapters.adapt_svf_normalized,
    "tatoeba-zh-en": translation.tatoeba_zh_en,
    "tatoeba-zh-en-bpe": translation.tatoeba_zh_en_bpe,
    "tatoeba-zh-en-lstm": translation.tatoeba_zh_en_lstm,
    "g2p": translation.g2p,
    "g2p-gru": translation.g2p_gru,
    "multi30k-rnn": translation.multi30k_rnn,
    "multi30k-gru": translation.multi30k_gru,
    "multi30k-gru-attention": translation.multi30k_gru_attention,
    "multi30k-lstm-attention": translation.multi30k_lstm_attention,
    "multi30k-transformer": translation.multi30k_transformer,
    "transformer-base": translation.transformer_base,
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
    if text in own_tasks():
        return default_recipe(text)
    if text not in RECIPES:
        raise unknown_name("recipe", text, [*RECIPES, *own_tasks()])
    return RECIPES[text]()


def resolve(name: str | Path | Recipe, data: Sequence[str | Path], changes: Mapping[str, Any]) -> Recipe:
    """The recipe with the given name, data files and changed settings."""
    base = name if isinstance(name, Recipe) else recipe(name)
    if data:
        base = task_of(base).with_data(base, tuple(map(str, data)))
    is_fine_tuned = changes.get("pretrained") or base.slot("pretrained") is not None
    base = _fine_tuned(base, changes) if is_fine_tuned else base.with_(**changes)
    corpus = base.slot("corpus")
    if "paths" in type(corpus).model_fields:
        base = base.model_copy(update={"corpus": _with_absolute_paths(corpus)})
    return base


def _fine_tuned(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe of a fine-tuning with changed settings; some parts are those of the pretrained model."""
    from seq2see.runs.prepare import (  # imported here, because the formats of pretrained models are rarely used
        check_pretrained,
        with_pretrained_parts,
    )

    name = changes.get("pretrained") or recipe.slot("pretrained")
    if not Path(name).is_absolute() or "pretrained" in changes:  # a stored recipe has the settings already
        if Path(name).name in RECIPES and not Path(name).exists() and name == f"runs/{Path(name).name}":
            message = f"This recipe begins with the run {name}, which is not there."
            raise UserError(message, hint=f"Train it first: `seq2see train {Path(name).name}`.")
        recipe = with_pretrained_parts(recipe.with_(pretrained=name))
        changes = {path: value for path, value in changes.items() if path != "pretrained"}
    recipe = recipe.with_(**changes)
    if any(path.partition(".")[0] in recipe.model_settings.model_fields for path in changes):
        check_pretrained(recipe)
    return recipe


def _with_absolute_paths(corpus: Any) -> Any:
    """The corpus with absolute paths, so that the stored recipe can be trained from any folder."""
    absolute = {}
    for name in ("paths", "valid", "test"):
        paths = [Path(path) for path in getattr(corpus, name)]
        for path in paths:
            if not path.exists():
                raise missing_file(path)
        absolute[name] = tuple(str(path.absolute()) for path in paths)
    return corpus.model_copy(update=absolute)
