"""Tokenized BLEU: the tokenization of Multi30k, and a signature that differs from that of cased BLEU."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.catalogue.corpus_files import find_entry, locate
from seq2see.metrics import bleu
from seq2see.metrics.bleu import INSTALL_HINT, corpus_bleu, corpus_bleu_tokenized, has_moses, moses_tokens

needs_moses = pytest.mark.skipif(not has_moses(), reason="the extra `moses` is not installed")


@needs_moses
class TestTokens:
    def test_text_is_lower_cased_before_it_is_tokenized(self):
        # With its capital, "Bart." would stay one token, because it is in the list of German abbreviations.
        assert moses_tokens(["Ein Mann rasiert seinen Bart."], "de") == ["ein mann rasiert seinen bart ."]

    def test_quotes_are_normalized_and_nothing_is_escaped(self):
        assert moses_tokens(["Er sagt „Hallo“ & geht"], "de") == ['er sagt " hallo " & geht']

    def test_words_with_a_hyphen_are_one_token(self):
        assert moses_tokens(["Saftig-grünes Gras"], "de") == ["saftig-grünes gras"]

    def test_the_german_references_of_test_2016_have_the_published_number_of_tokens(self):
        if locate(find_entry("multi30k")) is None:
            pytest.skip("Multi30k is not on this machine")
        examples = CatalogueCorpus(name="multi30k", languages="en-de").splits()["test"]
        texts = moses_tokens([example.target for example in examples], "de")
        assert sum(len(text.split()) for text in texts) == 12_103


@needs_moses
class TestScore:
    def test_case_and_spaces_have_no_effect(self):
        outputs, references = ["ein mann , der singt ."], ["Ein Mann, der singt."]
        assert corpus_bleu_tokenized(outputs, references, "de").value == pytest.approx(100)
        assert corpus_bleu(outputs, references).value < 80

    def test_a_score_by_hand(self):
        # Six tokens, the last one wrong: 5/6 · 4/5 · 3/4 · 2/3 = 1/3 of the n-grams.
        score = corpus_bleu_tokenized(["a b c d e ."], ["A B C D e!"], "en")
        assert score.value == pytest.approx(100 * (1 / 3) ** 0.25)

    def test_its_signature_names_case_and_tokenization(self):
        signature = corpus_bleu_tokenized(["a"], ["a"], "de").signature
        for part in ("case:lc", "tok:none", "moses:lower+normalize+tokenize", "lang:de", "sacremoses:"):
            assert part in signature

    def test_there_is_no_warning(self, caplog):
        corpus_bleu_tokenized(["a b ."] * 200, ["a b ."] * 200, "de")
        assert not caplog.records

    def test_outputs_without_references_are_an_error(self):
        with pytest.raises(UserError, match="2 outputs but 1 references"):
            corpus_bleu_tokenized(["a", "b"], ["a"], "de")


def test_without_the_package_the_error_contains_the_installation_command(monkeypatch):
    monkeypatch.setattr(bleu, "has_moses", lambda: False)
    with pytest.raises(UserError, match="cannot be tokenized") as error:
        moses_tokens(["a"], "de")
    assert error.value.hint == INSTALL_HINT
