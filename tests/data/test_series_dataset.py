"""Series as windows: scaled and restored, and every value a label once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.series_dataset import SeriesDataset, StandardScaler, parse_numbers
from seq2see.data.windows import WindowSampler

SCALER = StandardScaler(mean=10.0, std=2.0)


def series(values, width: int = 5, context: int = 0) -> SeriesDataset:
    return SeriesDataset([Example("", "".join(f"{value}\n" for value in values))], SCALER, width, context)


class TestStandardScaler:
    def test_its_training_values_get_mean_0_and_standard_deviation_1(self):
        scaler = StandardScaler.of(["1 2\n", "3,6"])
        values = np.array(scaler.encode("1 2 3 6"))
        assert values.mean() == pytest.approx(0)
        assert values.std() == pytest.approx(1)
        assert scaler.decode(values) == "1 2 3 6"

    def test_a_constant_series_is_refused(self):
        with pytest.raises(UserError, match="All training values are 7"):
            StandardScaler.of(["7 7 7"])

    def test_it_can_be_saved_and_loaded(self, tmp_path: Path):
        SCALER.save(tmp_path / "scaler.json")
        loaded = StandardScaler.load(tmp_path / "scaler.json")
        assert (loaded.mean, loaded.std) == (10.0, 2.0)
        assert loaded.fingerprint == SCALER.fingerprint != StandardScaler(10.0, 2.1).fingerprint
        (tmp_path / "scaler.json").write_text("[]")
        with pytest.raises(UserError, match="has no scaler"):
            StandardScaler.load(tmp_path / "scaler.json")

    @pytest.mark.parametrize("text", ["1 two 3", "1 nan", "1 inf"])
    def test_a_word_that_is_no_number_is_named(self, text):
        with pytest.raises(UserError, match=r"'(two|nan|inf)' is not a"):
            parse_numbers(text)

    def test_a_position_without_a_label_is_displayed_as_such(self):
        assert SCALER.tokens([1.0, float("nan")]) == ["12", "·"]


class TestSeriesDataset:
    @pytest.mark.parametrize("context", [0, 1, 3])
    @pytest.mark.parametrize("size", [7, 11, 16, 23])
    def test_every_value_that_can_be_predicted_is_a_label_once(self, size, context):
        dataset = series(range(size), context=context)
        batch = dataset.batch(np.arange(len(dataset)))
        labels = batch.labels[batch.label_mask].numpy() * 2 + 10
        assert sorted(labels.round().astype(int)) == list(range(context + 1, size))
        assert batch.label_mask.any(dim=1).all()
        assert (dataset.lengths > context).all()

    def test_a_window_is_at_most_half_as_wide_as_the_series_is_long(self):
        assert series(range(11), width=64).width == 5
        WindowSampler(series(range(11), width=64), batch_tokens=5, seed=1)  # reads two windows at any offset
        assert series(range(11), width=4).width == 4

    def test_the_label_is_the_value_after_the_input(self):
        dataset = series(range(20), context=2)
        batch = dataset.batch(np.array([1, 2]))
        inputs = batch.target.values[batch.label_mask].numpy()
        np.testing.assert_allclose(batch.labels[batch.label_mask].numpy() - inputs, 0.5, rtol=1e-6)
        assert not batch.label_mask[:, :2].any()

    def test_a_series_that_is_shorter_than_the_window_is_refused(self):
        with pytest.raises(UserError, match=r"There are 4 values .* too few for a model with a context of 4"):
            series(range(4), context=3)
        assert len(series(range(5), context=3)) == 1

    def test_every_step_of_training_has_labels(self):
        dataset = series(range(40), width=4, context=31)
        windows = WindowSampler(dataset, 8, seed=1)
        assert all(windows.batch_at(step).label_mask.any(dim=1).all() for step in range(40))
        assert dataset.warnings() == []
