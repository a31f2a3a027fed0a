"""The metrics log of a run: when entries are written, which a resumed run keeps, and what a kill leaves behind."""

from __future__ import annotations

from seq2see.training.loop import MetricsLogger, read_metrics


def steps(path) -> list[int]:
    return [entry["step"] for entry in read_metrics(path)]


def test_metrics_reach_the_file_when_they_are_flushed_and_speeds_another(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, 0)
    metrics_logger.log(1, loss=0.5, tokens=30)
    metrics_logger.log(2, loss=0.25, tokens=12)
    assert read_metrics(metrics_logger.metrics_path) == []
    metrics_logger._clock -= 2  # as if two seconds had passed
    metrics_logger.flush(2)
    assert read_metrics(metrics_logger.metrics_path) == [
        {"step": 1, "loss": 0.5, "tokens": 30},
        {"step": 2, "loss": 0.25, "tokens": 12},
    ]
    (speed,) = read_metrics(metrics_logger.timing_path)
    assert (speed["step"], speed["tokens_per_second"]) == (2, 21)
    assert 2 <= speed["seconds"] < 3


def test_a_speed_is_that_of_the_steps_since_the_last_one(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, 0)
    metrics_logger.log(1, tokens=30)
    metrics_logger._clock -= 100
    metrics_logger.flush(1)
    metrics_logger.log(1, perplexity=7.0)  # no step since the last flush, so there is no speed
    metrics_logger.flush(1)
    metrics_logger.log(2, tokens=30)
    metrics_logger._clock -= 1
    metrics_logger.flush(2)
    assert steps(metrics_logger.timing_path) == [1, 2]
    assert read_metrics(metrics_logger.timing_path)[1]["seconds"] < 2


def test_what_is_discarded_is_never_written(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, 0)
    metrics_logger.log(1, tokens=30)
    metrics_logger.discard()
    metrics_logger.flush(1)
    assert (steps(metrics_logger.metrics_path), steps(metrics_logger.timing_path)) == ([], [])


def test_a_resumed_run_keeps_what_was_logged_up_to_its_step(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, 0)
    for step in (1, 2, 3):
        metrics_logger.log(step, tokens=1)
        metrics_logger.flush(step)
    again = MetricsLogger(tmp_path, 2)
    assert (steps(again.metrics_path), steps(again.timing_path)) == ([1, 2], [1, 2])
    again.log(3, tokens=1)
    again.flush(3)
    assert steps(again.metrics_path) == [1, 2, 3]


def test_a_line_that_a_kill_left_unfinished_is_skipped_and_then_removed(tmp_path):
    metrics_logger = MetricsLogger(tmp_path, 0)
    metrics_logger.log(1, tokens=1)
    metrics_logger.flush(1)
    whole = metrics_logger.metrics_path.read_bytes()
    metrics_logger.metrics_path.write_bytes(whole + b'{"step": 2, "lo')
    assert steps(metrics_logger.metrics_path) == [1]
    metrics_logger.metrics_path.write_bytes(whole + b"no JSON\n" + b'["step"]\n' + b'{"step": 2, "lo')
    MetricsLogger(tmp_path, 5)
    assert metrics_logger.metrics_path.read_bytes() == whole
