"""BLEU and chrF equal those of sacrebleu and have signatures."""

from __future__ import annotations

import pytest
import sacrebleu

from seq2see.core.errors import UserError
from seq2see.metrics.bleu import Score, corpus_bleu, corpus_chrf, sentence_chrf

OUTPUTS = ["The cat sat on the mat.", "A dog runs through deep snow today."]
REFERENCES = ["The cat sat on a mat.", "A dog runs through the snow."]


def test_corpus_bleu_equals_sacrebleu_and_its_signature_names_tokenizer_and_version():
    score = corpus_bleu(OUTPUTS, REFERENCES)
    assert score.value == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert "tok:13a" in score.signature
    assert "case:mixed" in score.signature
    assert f"version:{sacrebleu.__version__}" in score.signature


def test_chinese_is_tokenized_into_characters():
    outputs, references = ["我有一支红笔在家。"], ["我有一支蓝笔在家。"]
    # Nine characters, one wrong: 8/9, 6/8, 4/7, 2/6 of the n-grams match.
    by_hand = 100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** (1 / 4)
    assert corpus_bleu(outputs, references, "zh").value == pytest.approx(by_hand)
    assert "tok:zh" in corpus_bleu(outputs, references, "zh").signature
    assert corpus_bleu(outputs, references, "13a").value < 20


def test_corpus_chrf_equals_sacrebleu():
    score = corpus_chrf(OUTPUTS, REFERENCES)
    assert score.value == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert score.signature.startswith("nrefs:1")


def test_row_scores_keep_the_order_of_the_rows():
    assert sentence_chrf(OUTPUTS, OUTPUTS[::-1]) != sentence_chrf(OUTPUTS, REFERENCES)
    assert sentence_chrf(["same", "other"], ["same", "xyz"]) == [pytest.approx(100), 0]


def test_a_score_prints_with_its_signature():
    assert str(Score("BLEU", 12.25, "tok:13a")) == "BLEU 12.25 (tok:13a)"


@pytest.mark.parametrize("score", [corpus_bleu, corpus_chrf, sentence_chrf])
def test_outputs_without_references_are_an_error(score):
    with pytest.raises(UserError, match="2 outputs but 1 references"):
        score(OUTPUTS, REFERENCES[:1])
    with pytest.raises(UserError, match="no outputs"):
        score([], [])


def test_an_output_is_compared_with_all_of_its_references():
    outputs = ["a dog runs on the grass", "two cats sit on a wall"]
    first = ["the animal is outside now", "two cats sit on a wall"]
    all_references = [(first[0], outputs[0], "a brown dog runs"), (first[1],)]
    alone, together = corpus_bleu(outputs, first), corpus_bleu(outputs, first, all_references=all_references)
    assert alone.value < 80
    assert together.value == pytest.approx(100)
    assert corpus_bleu(outputs, first, all_references=[(each,) for each in first]) == alone
    with pytest.raises(UserError, match="2 outputs but 1 references"):
        corpus_bleu(outputs, first, all_references=all_references[:1])
