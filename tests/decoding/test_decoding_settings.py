import pytest

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree, walk
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.engine import Decoding, Limits, make_limits, make_logits_processors, make_sampler
from seq2see.decoding.samplers import (
    GNMT,
    Average,
    GreedySampler,
    MinNewTokens,
    NoPenalty,
    NoRepeatNGram,
    RandomSampler,
    RepetitionPenalty,
)

DEFAULT = Decoding(max_new_tokens=9)


def test_the_default_settings_are_greedy_without_logits_processors():
    assert make_sampler(DEFAULT) == GreedySampler(NoPenalty())
    assert make_logits_processors(DEFAULT) == ()
    assert make_limits(DEFAULT) == Limits(9)


def test_beams_sampling_and_logits_processors_follow_the_settings():
    beams = DEFAULT.with_(num_beams=4, num_return_sequences=2, length_penalty=GNMT(alpha=0.7))
    assert make_sampler(beams) == BeamSampler(4, GNMT(alpha=0.7), stop_when_unbeatable, 2)
    assert make_sampler(beams.with_(early_stopping=True)).stopping_rule is stop_when_full
    sampling = DEFAULT.with_(do_sample=True, temperature=0.5, top_k=7, top_p=0.9, num_return_sequences=3)
    assert make_sampler(sampling, seed=11) == RandomSampler(11, 0.5, 7, 0.9, 3, NoPenalty())
    processed = DEFAULT.with_(min_new_tokens=2, no_repeat_ngram_size=3, repetition_penalty=1.2)
    assert make_logits_processors(processed) == (RepetitionPenalty(1.2), MinNewTokens(2), NoRepeatNGram(3))


def test_a_length_penalty_is_selected_by_its_kind():
    settings = DEFAULT.with_(**{"length_penalty.kind": "average", "length_penalty.alpha": 0.5})
    assert settings.length_penalty == Average(alpha=0.5)
    assert read_tree(Decoding, settings.model_dump()) == settings


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"do_sample": True, "num_beams": 2}, "do_sample"),
        ({"num_return_sequences": 2}, "num_beams"),
        ({"min_new_tokens": 10}, "min_new_tokens"),
        ({"temperature": 0.0}, "do_sample = false"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": float("nan")}, "repetition_penalty"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": 10**9}, "There is no memory for 1,000,000,000 tokens: at most 250,000 in all"),
        ({"max_new_tokens": 1001, "num_beams": 250}, "There is no memory for 250 times 1,001 tokens"),
        ({"max_new_tokens": 1001, "do_sample": True, "num_return_sequences": 250}, "250 times 1,001 tokens"),
        ({"num_beams": 100_000}, "num_beams.*1000"),
        ({"do_sample": True, "num_return_sequences": 100_000}, "num_return_sequences.*1000"),
        ({"num_beam": 2}, "num_beams"),
        ({"length_penalty.kind": "averige"}, "average"),
    ],
    ids=str,
)
def test_invalid_settings_are_explained(changes, word):
    with pytest.raises(UserError, match=word):
        DEFAULT.with_(**changes)


def test_every_setting_has_a_help_text():
    assert all(explanation for path, _, explanation in walk(DEFAULT) if not path.endswith("kind"))
