"""The diary of a run: what is written when, what a resumed run keeps of it, and what a kill leaves behind."""

from __future__ import annotations

from seq2see.training.journal import Journal, read_journal


def steps(path) -> list[int]:
    return [note["step"] for note in read_journal(path)]


def test_notes_reach_the_file_when_they_are_flushed_and_speeds_another(tmp_path):
    journal = Journal(tmp_path, 0)
    journal.note(1, loss=0.5, tokens=30)
    journal.note(2, loss=0.25, tokens=12)
    assert read_journal(journal.metrics_path) == []
    journal._clock -= 2  # as if two seconds had passed
    journal.flush(2)
    assert read_journal(journal.metrics_path) == [
        {"step": 1, "loss": 0.5, "tokens": 30},
        {"step": 2, "loss": 0.25, "tokens": 12},
    ]
    (speed,) = read_journal(journal.timing_path)
    assert (speed["step"], speed["tokens_per_second"]) == (2, 21)
    assert 2 <= speed["seconds"] < 3


def test_a_speed_is_that_of_the_steps_since_the_last_one(tmp_path):
    journal = Journal(tmp_path, 0)
    journal.note(1, tokens=30)
    journal._clock -= 100
    journal.flush(1)
    journal.note(1, perplexity=7.0)  # no step was taken since, so there is no speed to tell
    journal.flush(1)
    journal.note(2, tokens=30)
    journal._clock -= 1
    journal.flush(2)
    assert steps(journal.timing_path) == [1, 2]
    assert read_journal(journal.timing_path)[1]["seconds"] < 2


def test_what_is_forgotten_is_never_written(tmp_path):
    journal = Journal(tmp_path, 0)
    journal.note(1, tokens=30)
    journal.forget()
    journal.flush(1)
    assert (steps(journal.metrics_path), steps(journal.timing_path)) == ([], [])


def test_a_resumed_run_keeps_what_was_noted_up_to_its_step(tmp_path):
    journal = Journal(tmp_path, 0)
    for step in (1, 2, 3):
        journal.note(step, tokens=1)
        journal.flush(step)
    again = Journal(tmp_path, 2)
    assert (steps(again.metrics_path), steps(again.timing_path)) == ([1, 2], [1, 2])
    again.note(3, tokens=1)
    again.flush(3)
    assert steps(again.metrics_path) == [1, 2, 3]


def test_a_line_that_a_kill_left_unfinished_is_passed_over_and_then_removed(tmp_path):
    journal = Journal(tmp_path, 0)
    journal.note(1, tokens=1)
    journal.flush(1)
    whole = journal.metrics_path.read_bytes()
    journal.metrics_path.write_bytes(whole + b'{"step": 2, "lo')
    assert steps(journal.metrics_path) == [1]
    journal.metrics_path.write_bytes(whole + b"no JSON\n" + b'["step"]\n' + b'{"step": 2, "lo')
    Journal(tmp_path, 5)
    assert journal.metrics_path.read_bytes() == whole
