"""Stock Hugging Face `transformers` opens our folders and says what our own loop says."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
import tokenizers
import torch
from safetensors.torch import load_file
from trained_models import (
    assert_same_answers,
    best_tokens,
    decode_answers,
    encode_texts,
    held_out_sentences,
    make_tokenizers,
    own_answers,
    random_model,
    small_settings,
    stored_model,
    trained_translator,
    without_specials,
)

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, Characters, WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.interop.hugging_face_files import generation_json, write_tokenizer
from seq2see.interop.hugging_face_seq2seq import seq2seq_layout, write_seq2seq
from seq2see.models.settings import TokenEmbeddingSettings
from seq2see.tasks.model_folder import Tokenizers

transformers = pytest.importorskip("transformers")
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def opened(folder: Path):
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report  # every weight has its place, and every place its weight
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@cache
def exported(order: str):
    folder = Path(mkdtemp()) / "hf"
    write_seq2seq(trained_translator(order), folder)
    return opened(folder)


def shift_of(model) -> int:
    return 0 if model.tokenizers.shared else len(model.tokenizers.source)


def reference_answers(order: str, **settings) -> list[tuple[int, ...]]:
    model, tokenizer = exported(order)
    inputs = tokenizer(held_out_sentences(), return_tensors="pt", padding=True)
    found = model.generate(**inputs, **settings)
    return [without_specials(row[1:], shift_of(trained_translator(order))) for row in found.tolist()]


def test_each_order_has_its_layout():
    assert type(exported("pre")[0]).__name__ == "PegasusForConditionalGeneration"
    assert type(exported("post")[0]).__name__ == "MarianMTModel"


@pytest.mark.parametrize("order", ["pre", "post"])
def test_200_sentences_get_the_same_answers_greedily(order):
    actual = own_answers(order, Decoding(max_new_tokens=40))
    assert_same_answers(trained_translator(order), best_tokens(actual), reference_answers(order))


@pytest.mark.parametrize(
    "order, settings",
    [
        ("pre", {}),
        pytest.param("post", {"early_stopping": True, "length_penalty": {"kind": "average"}}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_200_sentences_get_the_same_answers_by_beam_search(order, settings):
    decoding = Decoding(max_new_tokens=40, num_beams=4, **settings)
    generation = generation_json(decoding, shift_of(trained_translator(order)))
    reference = reference_answers(order, **{name: value for name, value in generation.items() if value is not None})
    assert_same_answers(trained_translator(order), best_tokens(own_answers(order, decoding)), reference)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_tokenizer_encodes_like_the_original(order):
    tokenizer = exported(order)[1]
    texts = [*held_out_sentences()[:40], "一 x <eos> <pad>", "\ue000a"]
    assert tokenizer(texts)["input_ids"] == encode_texts(trained_translator(order), texts)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_tokenizer_decodes_like_the_original(order):
    tokenizer, model = exported(order)[1], trained_translator(order)
    answers = best_tokens(own_answers(order, Decoding(max_new_tokens=40)))[:60]
    shift = shift_of(model)
    shown = tokenizer.batch_decode(
        [[shift + BOS, *(shift + token for token in answer), shift + 2, 0] for answer in answers],
        skip_special_tokens=True,
    )
    assert shown == [model.tokenizers.target.decode(answer) for answer in answers]


def test_tokens_of_two_vocabularies_are_never_confused():
    source = train_tokenizer(Characters(), ["\ue000a", "\ue001b"])
    target = train_tokenizer(WordLevel(), ["a b \ue000"])
    both = Tokenizers(source, target)
    with TemporaryDirectory() as scratch:
        write_tokenizer(both, Path(scratch), 9)
        joined = tokenizers.Tokenizer.from_file(f"{scratch}/tokenizer.json")
    assert joined.get_vocab_size() == len(source) + len(target)
    assert joined.encode("\ue000ab").ids == [*source.encode("\ue000ab"), 2]
    assert joined.decode([len(source) + number for number in target.encode("b a \ue000")]) == "b a \ue000"


def assert_same_logits(model, folder: Path) -> str:
    write_seq2seq(model, folder)
    reference, tokenizer = opened(folder)
    inputs = tokenizer(held_out_sentences()[:3], return_tensors="pt", padding=True)
    source = Sequences.of(encode_texts(model, held_out_sentences()[:3]))
    assert torch.equal(inputs["input_ids"], source.values)
    decoder_inputs = torch.randint(3, len(model.tokenizers.target), (3, 7))
    batch = Batch(
        source, Sequences(decoder_inputs, torch.full((3,), 7)), torch.zeros_like(decoder_inputs), torch.arange(3)
    )
    with torch.inference_mode():
        actual = model.module(batch)
        scores = reference(**inputs, decoder_input_ids=decoder_inputs + shift_of(model)).logits
    assert scores[..., : shift_of(model)].lt(-1e8).all()  # the source's tokens are never generated
    torch.testing.assert_close(scores[..., shift_of(model) :], actual, rtol=0, atol=1e-4)
    assert_same_words(model, reference, inputs)
    return type(reference).__name__


def assert_same_words(model, reference, inputs) -> None:
    """A model that learned nothing would say <pad> and <bos> at any time; neither engine lets it."""
    actual = best_tokens(decode_answers(model.module, model, model.config.decoding, 3))
    generated = reference.generate(**inputs).tolist()
    assert [without_specials(row[1:], shift_of(model)) for row in generated] == actual


SHAPES = [("pre", positions) for positions in ("sinusoidal", "learned", "none")] + [("post", "sinusoidal")]
LAYOUTS = {
    ("pre", "sinusoidal"): "PegasusForConditionalGeneration",
    ("pre", "learned"): "BlenderbotForConditionalGeneration",
    ("pre", "none"): "BlenderbotForConditionalGeneration",
    ("post", "sinusoidal"): "MarianMTModel",
}


@pytest.mark.parametrize(
    "shape, head, kinds",
    list(product(SHAPES, ["tied", "untied"], [("bpe",), ("characters", "words"), ("bpe", "characters")])),
)
def test_logits_of_every_shape_agree(shape, head, kinds, tmp_path):
    order, positions = shape
    both = make_tokenizers(*kinds)
    settings = small_settings(both, positions, head, norm_order=order, width=16, heads=2)
    settings = settings.with_(**{"encoder.depth": 3, "encoder.heads": 4, "decoder.mlp_ratio": 3})
    assert assert_same_logits(random_model(settings, both), tmp_path / "hf") == LAYOUTS[shape]


def test_sides_with_different_positions_agree(tmp_path):
    both = make_tokenizers("bpe")
    settings = small_settings(both, width=16, heads=2)
    settings = settings.with_(**{"target.embedding": TokenEmbeddingSettings(positions="learned")})
    assert assert_same_logits(random_model(settings, both), tmp_path / "hf") == "BlenderbotForConditionalGeneration"


@pytest.mark.parametrize("order", ["pre", "post"])
def test_saved_by_transformers_and_opened_again_it_is_the_same(order, tmp_path):
    model, _ = exported(order)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    ids = torch.tensor([[5, 6, 7, 2]])
    with torch.inference_mode():
        torch.testing.assert_close(
            again(input_ids=ids, decoder_input_ids=ids).logits, model(input_ids=ids, decoder_input_ids=ids).logits
        )


def test_a_tied_table_is_stored_once(tmp_path):
    both = make_tokenizers("bpe")
    write_seq2seq(random_model(small_settings(both, width=16, heads=2), both), tmp_path / "hf")
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    assert [name for name, weight in weights.items() if weight.size(0) == len(both.source)] == ["model.shared.weight"]


def test_the_way_of_decoding_goes_along(tmp_path):
    both = make_tokenizers("bpe")
    module = random_model(small_settings(both, width=16, heads=2), both).module
    how = {
        "num_beams": 3,
        "length_penalty": {"kind": "average", "alpha": 0.7},
        "max_new_tokens": 9,
        "min_new_tokens": 2,
    }
    write_seq2seq(stored_model(small_settings(both, width=16, heads=2), both, module, **how), tmp_path / "hf")
    generation = transformers.GenerationConfig.from_pretrained(tmp_path / "hf")
    assert (generation.num_beams, generation.length_penalty, generation.early_stopping) == (3, 0.7, "never")
    assert (generation.max_new_tokens, generation.min_new_tokens, generation.suppress_tokens) == (9, 2, [0, 1])
    assert generation.forced_eos_token_id is None


def test_sampling_goes_along():
    generation = generation_json(Decoding(max_new_tokens=9, do_sample=True, temperature=0.5, top_k=7, top_p=0.9), 0)
    names = ("do_sample", "temperature", "top_k", "top_p")
    assert tuple(generation[name] for name in names) == (True, 0.5, 7, 0.9)


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"encoder.norm": "rms"}, "encoder.norm=rms"),
        ({"decoder.norm": "batch"}, "decoder.norm=batch"),
        ({"encoder.norm_order": "post"}, "encoder.norm_order=post and decoder.norm_order=pre"),
        ({"encoder.width": 32}, "encoder.width=32 and decoder.width=16"),
        (
            {"encoder.norm_order": "post", "decoder.norm_order": "post", "target.embedding.positions": "learned"},
            "target.embedding.positions=learned",
        ),
    ],
    ids=str,
)
def test_what_no_layout_holds_is_refused(changes, named):
    settings = small_settings(make_tokenizers("characters", "words"), width=16, heads=2).with_(**changes)
    with pytest.raises(UserError, match=named):
        seq2seq_layout(settings)


def test_config_names_the_layout_and_the_start(tmp_path):
    write_seq2seq(trained_translator("pre"), tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    size = len(trained_translator("pre").tokenizers.source)
    assert config["model_type"] == "pegasus"
    assert (config["decoder_start_token_id"], config["eos_token_id"]) == (size + 1, size + 2)
