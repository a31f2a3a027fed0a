"""CTranslate2 says what our own loop says, for every shape of model it can hold and every setting it can follow."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from trained_models import (
    assert_same_answers,
    best_tokens,
    encode_texts,
    held_out_sentences,
    logits,
    make_tokenizers,
    own_answers,
    random_model,
    small_settings,
    stored_model,
    trained_translator,
)

from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decoding
from seq2see.interop.ctranslate2 import Ct2Engine, translate_options, write_ct2
from seq2see.models.build import build_model

ctranslate2 = pytest.importorskip("ctranslate2")
FEW = 50
POSITIONS = ["sinusoidal", "learned", "none"]
AVERAGE, GNMT = {"kind": "average"}, {"kind": "gnmt"}


@cache
def engine(order: str) -> Ct2Engine:
    return Ct2Engine(trained_translator(order), "float32", 1)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_200_sentences_get_the_same_answers(order, num_beams):
    decoding = Decoding(max_new_tokens=40, num_beams=num_beams)
    reference = engine(order).translate(encode_texts(trained_translator(order), held_out_sentences()), decoding)
    assert_same_answers(trained_translator(order), best_tokens(own_answers(order, decoding)), best_tokens(reference))


SETTINGS = [
    {"length_penalty": AVERAGE},
    {"length_penalty": GNMT},  # greedy decoding compares nothing, so that any penalty will do
    {"max_new_tokens": 3},
    {"min_new_tokens": 9},
    {"no_repeat_ngram_size": 2},
    {"num_beams": 3, "num_return_sequences": 3},
    {"num_beams": 3, "num_return_sequences": 2, "early_stopping": True},
    {"num_beams": 2, "early_stopping": True},
    {"num_beams": 4, "num_return_sequences": 4, "length_penalty": AVERAGE},
    {"num_beams": 4, "num_return_sequences": 2, "length_penalty": AVERAGE | {"alpha": 0.4}, "early_stopping": True},
    {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 5, "length_penalty": AVERAGE},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting_means_the_same_in_both(settings):
    model, decoding = trained_translator("post"), Decoding(**{"max_new_tokens": 20} | settings)
    actual = own_answers("post", decoding, FEW)
    reference = engine("post").translate(encode_texts(model, held_out_sentences(FEW)), decoding)
    assert [len(answers) for answers in reference] == [decoding.num_return_sequences] * len(actual)
    forbids = decoding.min_new_tokens or decoding.no_repeat_ngram_size
    for own, other in zip(actual, reference, strict=True):
        assert [each.tokens for each in own] == [each.tokens for each in other]
        assert [each.finished for each in own] == [each.finished for each in other]
        if not forbids:  # what is forbidden before the softmax raises the scores of the rest
            for left, right in zip(own, other, strict=True):
                assert right.score == pytest.approx(left.score, abs=1e-3)
                assert right.log_probability == pytest.approx(left.log_probability, abs=2e-3)


@pytest.mark.parametrize(
    "settings, penalty, patience",
    [
        ({}, 0, 1),  # the first answer that beats all others is the best there is
        ({"num_return_sequences": 2}, 1e-30, 10),  # but not the second best: the search must go on to the end
        ({"early_stopping": True}, 1e-30, 1),
        ({"length_penalty": AVERAGE}, 1, 10),
        ({"length_penalty": AVERAGE, "early_stopping": True}, 1, 1),
    ],
    ids=str,
)
def test_stopping_rules_map_to_patience_and_length_penalty(settings, penalty, patience):
    options = translate_options(Decoding(max_new_tokens=9, num_beams=2, **settings))
    assert (options["length_penalty"], options["patience"]) == (penalty, patience)


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"do_sample": True}, "do_sample"),
        ({"num_beams": 4, "length_penalty": GNMT}, "length_penalty.kind=gnmt"),
        ({"num_beams": 4, "length_penalty": AVERAGE | {"alpha": -1}}, "length_penalty.alpha=-1"),
        ({"repetition_penalty": 1.2}, "repetition_penalty=1.2"),
        ({"num_beams": 4, "min_new_tokens": 2}, "min_new_tokens=2"),
        ({"num_beams": 4, "no_repeat_ngram_size": 3}, "no_repeat_ngram_size=3"),
    ],
    ids=str,
)
def test_what_it_cannot_follow_is_refused(settings, named):
    with pytest.raises(UserError, match=named):
        translate_options(Decoding(max_new_tokens=5, **settings))


def test_int8_gives_mostly_the_same_answers():
    decoding = Decoding(max_new_tokens=40)
    reference = Ct2Engine(trained_translator("post"), "int8", 1).translate(
        encode_texts(trained_translator("post"), held_out_sentences()), decoding
    )
    same = sum(a == b for a, b in zip(best_tokens(own_answers("post", decoding)), best_tokens(reference), strict=True))
    assert 100 < same < 200  # it is another arithmetic, so that not all can be the same


def test_a_precision_without_hardware_is_refused():
    if "bfloat16" in ctranslate2.get_supported_compute_types("cpu"):
        pytest.skip("this processor has it")
    with pytest.raises(UserError, match="bf16"):
        Ct2Engine(trained_translator("post"), "bf16", 1)


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(UserError, match="1024 tokens, but 1025"):
        engine("post").translate([[5, 2]], Decoding(max_new_tokens=1025))
    with pytest.raises(UserError, match="1030 are"):
        engine("post").translate([[5] * 1029 + [2]], Decoding(max_new_tokens=5))


def test_answers_come_in_the_order_of_the_sources():
    decoding, sources = Decoding(max_new_tokens=12), encode_texts(trained_translator("post"), held_out_sentences()[:90])
    together = engine("post").translate(sources, decoding)
    alone = [engine("post").translate([source], decoding)[0] for source in sources[::9]]
    assert best_tokens(together)[::9] == best_tokens(alone)


def ct2_logits(folder: Path, source: list[str], steps: int) -> tuple[list[str], torch.Tensor]:
    """The greedy output of CTranslate2, and its scores at every step."""
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    options = {"beam_size": 1, "min_decoding_length": 0, "max_decoding_length": steps, "return_end_token": True}
    result = translator.translate_batch([source], return_logits_vocab=True, **options)[0]
    return result.hypotheses[0], torch.from_numpy(np.array([np.array(each) for each in result.logits[0]]))


def assert_same_logits(model, tmp_path: Path) -> None:
    folder = tmp_path / "ct2"
    write_ct2(model, folder)
    text = held_out_sentences()[0]
    sides = ["shared"] * 2 if model.tokenizers.shared else ["source", "target"]
    source, target = (json.loads((folder / f"{side}_vocabulary.json").read_text(encoding="utf-8")) for side in sides)
    generated, scores = ct2_logits(folder, [source[number] for number in model.tokenizers.source.encode(text)], 7)
    tokens = [target.index(token) for token in generated]
    actual = logits(model, encode_texts(model, [text])[0], tokens[:-1])
    actual[:, :2] = -1e9  # <pad> and <bos> are never generated
    torch.testing.assert_close(scores, actual, rtol=0, atol=1e-4)
    assert tokens == actual.argmax(-1).tolist()


@pytest.mark.parametrize(
    "order, norm, positions, head, shared",
    list(
        product(["pre", "post"], ["layer", "rms"], ["sinusoidal", "learned", "none"], ["tied", "untied"], [True, False])
    ),
)
def test_logits_of_every_shape_agree(order, norm, positions, head, shared, tmp_path):
    both = make_tokenizers("bpe") if shared else make_tokenizers("characters", "words")
    settings = small_settings(both, positions, head, norm_order=order, norm=norm, width=16, heads=2)
    assert_same_logits(random_model(settings, both), tmp_path)


def test_the_two_halves_may_differ(tmp_path):
    both = make_tokenizers("characters", "words")
    changes = {"encoder.width": 24, "encoder.depth": 3, "encoder.heads": 4, "encoder.norm_order": "post"}
    changes |= {"source.embedding.positions": "learned"}
    settings = small_settings(both, width=16, heads=2).with_(**changes)
    assert_same_logits(random_model(settings, both), tmp_path)


def test_learned_positions_beyond_the_last_repeat_it(tmp_path):
    both = make_tokenizers("bpe")
    model = random_model(small_settings(both, "learned", width=8, heads=2, depth=1), both)
    write_ct2(model, tmp_path / "ct2")
    long = [both.source.encode("a")[0]] * 600
    vocabulary = json.loads((tmp_path / "ct2" / "shared_vocabulary.json").read_text(encoding="utf-8"))
    _, scores = ct2_logits(tmp_path / "ct2", [vocabulary[number] for number in long], 1)
    actual = logits(model, [*long, 2], [])
    torch.testing.assert_close(scores[0, 2:], actual[0, 2:], rtol=0, atol=1e-4)


def test_the_folder_opens_with_what_lies_in_it(tmp_path):
    write_ct2(trained_translator("pre"), tmp_path / "ct2")
    names = sorted(path.name for path in (tmp_path / "ct2").iterdir())
    assert names == [
        "config.json", "model.bin", "source_tokenizer.json", "source_vocabulary.json", "target_tokenizer.json",
        "target_vocabulary.json",
    ]  # fmt: skip
    config = json.loads((tmp_path / "ct2" / "config.json").read_text())
    assert (config["decoder_start_token"], config["eos_token"], config["add_source_eos"]) == ("<bos>", "<eos>", True)


def test_a_model_in_half_precision_is_written_in_full(tmp_path):
    both = make_tokenizers("bpe")
    settings = small_settings(both, width=16, heads=2)
    module = build_model(settings, *both.sizes).to(torch.bfloat16)
    write_ct2(stored_model(settings, both, module), tmp_path / "ct2")
    assert ctranslate2.Translator(str(tmp_path / "ct2")).translate_batch([["a"]])
