"""Series as windows: scaled and back, and every value asked for once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2see.core.errors import UserError
from seq2see.sequences.series_dataset import SeriesDataset, StandardScaler, parse_numbers
from seq2see.sequences.windows import WindowSampler
from seq2see.sources.examples import Example

SCALE = StandardScaler(mean=10.0, std=2.0)


def series(values, width: int = 5, shown: int = 0) -> SeriesDataset:
    return SeriesDataset([Example("", "".join(f"{value}\n" for value in values))], SCALE, width, shown)


class TestScale:
    def test_what_it_is_made_from_gets_mean_0_and_spread_1(self):
        scale = StandardScaler.of(["1 2\n", "3,6"])
        found = np.array(scale.encode("1 2 3 6"))
        assert found.mean() == pytest.approx(0)
        assert found.std() == pytest.approx(1)
        assert scale.decode(found) == "1 2 3 6"

    def test_a_constant_series_is_refused(self):
        with pytest.raises(UserError, match="All values to learn from are 7"):
            StandardScaler.of(["7 7 7"])

    def test_it_survives_the_journey_through_a_file(self, tmp_path: Path):
        SCALE.save(tmp_path / "scaler.json")
        found = StandardScaler.load(tmp_path / "scaler.json")
        assert (found.mean, found.std) == (10.0, 2.0)
        assert found.fingerprint == SCALE.fingerprint != StandardScaler(10.0, 2.1).fingerprint
        (tmp_path / "scaler.json").write_text("[]")
        with pytest.raises(UserError, match="not a scale"):
            StandardScaler.load(tmp_path / "scaler.json")

    @pytest.mark.parametrize("text", ["1 two 3", "1 nan", "1 inf"])
    def test_what_is_no_number_is_named(self, text):
        with pytest.raises(UserError, match=r"'(two|nan|inf)' is not a"):
            parse_numbers(text)

    def test_a_place_where_nothing_is_asked_is_shown_as_such(self):
        assert SCALE.pieces([1.0, float("nan")]) == ["12", "·"]


class TestSeriesSet:
    @pytest.mark.parametrize("shown", [0, 1, 3])
    @pytest.mark.parametrize("size", [7, 11, 16, 23])
    def test_every_value_that_can_be_guessed_is_asked_for_once(self, size, shown):
        found = series(range(size), context=shown)
        batch = found.batch(np.arange(len(found)))
        asked = batch.labels[batch.label_mask].numpy() * 2 + 10
        assert sorted(asked.round().astype(int)) == list(range(shown + 1, size))
        assert batch.label_mask.any(dim=1).all()
        assert (found.lengths > shown).all()

    def test_a_window_is_at_most_half_as_wide_as_the_series_is_long(self):
        assert series(range(11), width=64).width == 5
        WindowSampler(series(range(11), width=64), tokens=5, seed=1)  # which reads two of them, begun anywhere
        assert series(range(11), width=4).width == 4

    def test_what_is_asked_for_is_the_value_behind_what_is_fed(self):
        found = series(range(20), context=2)
        batch = found.batch(np.array([1, 2]))
        fed = batch.target.values[batch.label_mask].numpy()
        np.testing.assert_allclose(batch.labels[batch.label_mask].numpy() - fed, 0.5, rtol=1e-6)
        assert not batch.label_mask[:, :2].any()

    def test_a_series_that_is_shorter_than_the_window_is_refused(self):
        with pytest.raises(UserError, match=r"There are 4 values .* too few for a model that sees 4"):
            series(range(4), context=3)
        assert len(series(range(5), context=3)) == 1

    def test_every_step_of_training_asks_for_something(self):
        found = series(range(40), width=4, context=31)
        windows = WindowSampler(found, 8, seed=1)
        assert all(windows.batch_at(step).label_mask.any(dim=1).all() for step in range(40))
        assert found.warnings() == []
