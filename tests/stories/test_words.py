"""Word embeddings of trained models: neighbors, analogies, and one word in several sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_recipes import tiny_recipe

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.runs.word_embeddings import WordEmbeddings

MOLES = [
    "a small mole digs in the garden",
    "one mole of carbon has many atoms",
    "the doctor cuts the mole from the skin",
]
ZH = ["他打开门", "一打鸡蛋", "我打电话"]
SMALL = {"source.max_tokens": 24, "training.batch_tokens": 192, "training.steps": 8, "training.evaluate_every": 4}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text("".join(f"{line}\n" for line in [*MOLES, *ZH] * 40), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    changes = SMALL | {"source.tokenizer.kind": "words", "encoder.depth": 2}
    return train_recipe(tiny_recipe(text, "fill", **changes), tmp_path_factory.mktemp("runs") / "fill")


def words(run: RunFolder) -> WordEmbeddings:
    return WordEmbeddings(read_model(run.model, torch.device("cpu")))


@pytest.mark.parametrize("word, sentences", [("mole", MOLES), ("打", ZH)])
def test_a_word_has_equal_vectors_before_attention_and_different_ones_after_it(run: RunFolder, word, sentences):
    found = words(run).contexts(word, sentences)
    assert list(found.layers) == ["table", "input", "block 1", "block 2"]
    assert found.pairs == [(0, 1), (0, 2), (1, 2)]
    for layer in ("table", "input"):
        first, *others = found.layers[layer]
        assert all(torch.equal(first, other) for other in others)
        assert found.cosines[layer] == pytest.approx([1, 1, 1])
    for layer in ("block 1", "block 2"):
        assert max(found.cosines[layer]) < 0.9999


def test_byte_tokens_are_no_neighbors(text: Path, tmp_path: Path):
    made = train_recipe(tiny_recipe(text, "fill", **SMALL | {"source.tokenizer.vocab_size": 300}), tmp_path / "run")
    found = words(made)
    tokens = found.tokenizer.tokens(range(len(found.tokenizer)))
    assert "<0x90>" in tokens
    nearest = [*found.neighbors("mole", 999), *found.analogy(["mole", "打", "garden"], 999)[0]]
    assert nearest
    assert not [each for each in nearest if each.token.startswith("<0x")]


def test_the_same_sentence_twice_gives_the_same_vectors_in_every_layer(run: RunFolder):
    cosines = words(run).contexts("mole", [MOLES[0], MOLES[0]]).cosines
    assert all(value == pytest.approx([1], abs=1e-5) for value in cosines.values())


def test_the_vectors_are_those_of_the_word(run: RunFolder):
    found = words(run)
    table = found.embeddings
    (number,) = found.ids("mole")
    assert table.tokens[number] == "mole"
    torch.testing.assert_close(found.contexts("mole", MOLES).layers["table"][0], table.vectors[number])
    torch.testing.assert_close(found.vector("mole"), table.vectors[number])


def test_neighbors_are_the_nearest_other_tokens(run: RunFolder):
    found = words(run)
    near = found.neighbors("mole", 3)
    vectors, tokens = found.embeddings.vectors, list(found.embeddings.tokens)
    cosines = torch.nn.functional.cosine_similarity(vectors, found.vector("mole"), dim=-1)
    included = [n for n in range(4, len(tokens)) if tokens[n] not in ("mole", "[MASK]")]
    best = sorted(included, key=lambda number: -cosines[number])[:3]
    assert [each.token for each in near] == [tokens[number] for number in best]
    assert len(found.neighbors("mole", 999)) == len(included)


def test_an_analogy_has_results_with_and_without_the_input_words(run: RunFolder):
    found = words(run)
    with torch.no_grad():  # an embedding table with a known analogy
        table = found.embedding.table.weight
        table.zero_()
        for word, vector in {"small": (1, 1, 0), "the": (0, 1, 0), "one": (0, 0, 1), "many": (1, -0.2, 1)}.items():
            table[found.ids(word)[0], :3] = torch.tensor(vector, dtype=torch.float)
    all_words, others = found.analogy(("small", "the", "one"), 2)
    assert others[0].token == "many"
    assert all_words[0].token == "many"
    assert [each.token for each in all_words][1] in ("small", "one")
    assert not {"small", "the", "one"} & {each.token for each in others}


def test_a_language_model_and_a_translator_have_word_embeddings_too(text: Path, tmp_path: Path):
    write = train_recipe(
        tiny_recipe(text, "write", **{"target.max_tokens": 24, "training.batch_tokens": 192}), tmp_path / "write"
    )
    found = words(write)
    assert len(found.neighbors("打", 2)) == 2
    layers = found.contexts("打", ["他打开", "电话打"]).cosines
    assert layers["table"] == pytest.approx([1])
    assert layers["input"][0] < 0.9999  # a sinusoidal position encoding was added
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"红猫{n}\ta red cat {n}\n" for n in range(60)), encoding="utf-8")
    translator = train_recipe(tiny_recipe(pairs, **{"source.tokenizer.kind": "characters"}), tmp_path / "pairs")
    assert words(translator).contexts("猫", ["红猫", "猫红猫"]).cosines["table"] == pytest.approx([1])


def test_the_commands_print_and_draw(run: RunFolder, capsys):
    assert command(["neighbors", str(run.path), "mole", "打", "--count", "2"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["mole", "打"]
    assert command(["analogy", str(run.path), "mole", "skin", "garden"]) == 0
    assert "without the three" in capsys.readouterr().out
    assert command(["contexts", str(run.path), "打", *ZH]) == 0
    printed = capsys.readouterr().out
    assert "1.000" in printed
    assert "block 2" in printed
    assert (run.path / "contexts" / "打.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["neighbors", "RUN", "unheard"], "The word 'unheard' is not in the vocabulary"),
        (["contexts", "RUN", "mole", "a mole"], "two sentences or more"),
        (["contexts", "RUN", "mole", "a mole", "two moles"], "The word 'mole' is not in 'two moles'"),
    ],
)
def test_unknown_words_and_single_sentences_are_refused(run: RunFolder, capsys, arguments, message):
    assert command([str(run.path) if word == "RUN" else word for word in arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_embeddings_is_refused(text: Path, tmp_path: Path):
    from seq2see.recipes.registry import resolve

    counted = train_recipe(resolve("ngram", [text], {"decoder.order": 2}), tmp_path / "count")
    with pytest.raises(UserError, match="no embedding table"):
        words(counted)
