"""A trained GRU encoder-decoder of other people, run by our layers: spelling to sound, 500 words.

The wheel g2p_en 2.1.0 (Kyubyong Park and Jongseok Kim, Apache-2.0) holds the weights of a real sequence to
sequence model: a GRU reads the letters, its last state is handed over unchanged to a second GRU, and
that one names the phonemes. Nothing of the wheel is run or imported: the weights are read straight from
the zip, and what the package computes is written down here once more, in numpy.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.files import sha256
from seq2see.core.seeds import generator
from seq2see.layers.gru_lstm import GRUCell
from seq2see.layers.recurrent_cells import StackedRNN, UnidirectionalRNN
from seq2see.models.decoder_attention import CopyBridge, NoAttention
from seq2see.models.recurrent import RecurrentDecoder, RecurrentEncoder

pytestmark = pytest.mark.weights

WHEEL = Path(__file__).parents[2] / ".cache" / "weights" / "g2p_en-2.1.0-py3-none-any.whl"
SHA256 = "2a7aabf1fc7f270fcc3349881407988c9245173c2413debbe5432f4a4f31319f"


def listed(words: str) -> list[str]:
    return words.split()


LETTERS = ["<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz"]
VOWELS = listed("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW")
CONSONANTS = listed("B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH")
# Vowels come unstressed (0), stressed (1) and half stressed (2); UW stands there once without a number too.
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>"]
PHONEMES += sorted([*CONSONANTS, "UW", *(vowel + stress for vowel in VOWELS for stress in "012")])
BEGIN, END, MOST = 2, 3, 20

REAL_WORDS = listed("""
    attention recurrent encoder decoder sequence translation grammar alphabet memory gradient network
    learning language sentence image music morse shape puzzle wave copy reverse sort add the of and
    through though thought tough cough bough knight psychology yacht colonel rhythm queue island debt
    salmon wednesday february choir isle castle whistle honest hour gnome pneumonia xylophone zebra
    quick brown fox jumps over lazy dog a i banana strengths mississippi onomatopoeia
    pneumonoultramicroscopicsilicovolcanoconiosis
""")


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    if not WHEEL.exists():
        pytest.fail(f"{WHEEL.name} is not in {WHEEL.parent}. Run `make weights` to fetch it.")
    assert sha256(WHEEL) == SHA256, "This is not the wheel that was published. Run `make weights` again."
    with zipfile.ZipFile(WHEEL) as wheel:
        content = io.BytesIO(wheel.read("g2p_en/checkpoint20.npz"))
    with np.load(content, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def words() -> list[str]:
    """500 different words: the real ones above, and made up ones that can be pronounced."""
    draw = generator(0, "pronounceable words")
    onsets = listed("b c ch d f g h j k l m n p qu r s sh st str t th tr v w y z")
    hearts = listed("a ai e ea ee i ie o oa oo ou u y")
    codas = ["", "", "", *listed("b ck d g l m n ng p r rd s st t th x")]
    found = dict.fromkeys(REAL_WORDS)
    while len(found) < 500:
        syllables = ("".join(map(draw.choice, (onsets, hearts, codas))) for _ in range(draw.integers(1, 5)))
        found["".join(syllables)] = None
    return list(found)


# What the package computes, one word at a time, in numpy


def numpy_gru(inputs, hidden, weights, side):
    """The package's cell: one product for all three gates, reset after the product."""
    from_input = inputs @ weights[f"{side}_w_ih"].T + weights[f"{side}_b_ih"]
    from_state = hidden @ weights[f"{side}_w_hh"].T + weights[f"{side}_b_hh"]
    (reset_in, update_in, new_in), (reset, update, new) = np.split(from_input, 3), np.split(from_state, 3)
    reset = 1 / (1 + np.exp(-(reset_in + reset)))
    update = 1 / (1 + np.exp(-(update_in + update)))
    return (1 - update) * np.tanh(new_in + reset * new) + update * hidden


def numpy_pronounce(word, weights):
    """Greedy, at most 20 phonemes: those chosen, and the scores of every step."""
    hidden = np.zeros(256, np.float32)
    for letter in [*map(LETTERS.index, word), LETTERS.index("</s>")]:
        hidden = numpy_gru(weights["enc_emb"][letter], hidden, weights, "enc")
    chosen, scores, token = [], [], BEGIN
    for _ in range(MOST):
        hidden = numpy_gru(weights["dec_emb"][token], hidden, weights, "dec")
        scores.append(weights["fc_w"] @ hidden + weights["fc_b"])
        token = int(scores[-1].argmax())
        if token == END:
            break
        chosen.append(token)
    return chosen, np.stack(scores)


# What our layers compute, all words at once


class Pronouncer(nn.Module):
    """The same model from our parts."""

    def __init__(self, weights: dict[str, np.ndarray]):
        super().__init__()
        tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
        self.letters = nn.Embedding.from_pretrained(tensors["enc_emb"])
        self.phonemes = nn.Embedding.from_pretrained(tensors["dec_emb"])
        self.encoder = RecurrentEncoder(UnidirectionalRNN([gru(tensors, "enc")]))
        self.decoder = RecurrentDecoder(StackedRNN([gru(tensors, "dec")]), CopyBridge(), NoAttention())
        self.head = nn.Linear(256, len(PHONEMES))
        self.head.load_state_dict({"weight": tensors["fc_w"], "bias": tensors["fc_b"]})

    def encode(self, spelt: list[str]):
        end = LETTERS.index("</s>")
        ids = Sequences.of([[*map(LETTERS.index, word), end] for word in spelt])
        return self.encoder(Sequences(self.letters(ids.values), ids.lengths))

    @torch.no_grad()
    def pronounce(self, spelt: list[str]) -> tuple[list[list[int]], torch.Tensor]:
        """Greedy, all words together: the phonemes before the end of each, and all scores."""
        memory = self.encode(spelt)
        state = self.decoder.start(memory, rows=len(spelt), max_length=MOST)
        tokens, chosen, scores = torch.full((len(spelt), 1), BEGIN), [], []
        for _ in range(MOST):
            hidden, state = self.decoder.step(self.phonemes(tokens), state)
            scores.append(self.head(hidden))
            tokens = scores[-1].argmax(-1)
            chosen.append(tokens)
        rows = torch.cat(chosen, dim=1).tolist()
        return [row[: row.index(END)] if END in row else row for row in rows], torch.cat(scores, dim=1)


def gru(tensors: dict[str, torch.Tensor], side: str) -> GRUCell:
    cell = GRUCell(256, 256)
    for parameter, name in zip(cell.rnn.all_weights[0], ("w_ih", "w_hh", "b_ih", "b_hh"), strict=True):
        assert parameter.shape == tensors[f"{side}_{name}"].shape
        parameter.data.copy_(tensors[f"{side}_{name}"])
    return cell


def test_the_letters_and_phonemes_are_those_of_the_weights(weights):
    assert len(weights["enc_emb"]) == len(LETTERS) == 29
    assert len(weights["dec_emb"]) == len(PHONEMES) == 74


def test_real_weights_pronounce_500_words_as_their_package_does(weights):
    spelt = words()
    assert len(spelt) == 500
    pronounced, scores = Pronouncer(weights).pronounce(spelt)
    for row, word in enumerate(spelt):
        expected, steps = numpy_pronounce(word, weights)
        assert pronounced[row] == expected, word
        assert_close(scores[row, : len(steps)], torch.from_numpy(steps), rtol=0, atol=1e-4)


def test_teacher_forcing_gives_the_same_scores_as_greedy_steps(weights):
    model, spelt = Pronouncer(weights), REAL_WORDS[:20]
    pronounced, scores = model.pronounce(spelt)
    targets = Sequences.of([[BEGIN, *row] for row in pronounced])
    with torch.no_grad():
        vectors = Sequences(model.phonemes(targets.values), targets.lengths)
        whole = model.head(model.decoder(vectors, model.encode(spelt)))
    assert_close(whole[targets.valid], scores[:, : whole.size(1)][targets.valid], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "word, sound",
    [
        ("activationist", "AE2 K T IH0 V EY1 SH AH0 N IH0 S T"),
        ("attention", "AH0 T EH1 N SH AH0 N"),
    ],
)
def test_a_word_sounds_as_english_does(weights, word, sound):
    (row,), _ = Pronouncer(weights).pronounce([word])
    assert " ".join(PHONEMES[token] for token in row) == sound
