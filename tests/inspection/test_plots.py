"""Plots: they show the logged values, and every label is readable."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread
from PIL import Image

from seq2see.inspection import attention_plots, plotting
from seq2see.inspection.attention_plots import Alignment, draw_alignments
from seq2see.inspection.plotting import (
    ADVICE,
    BLUE,
    ORANGE,
    draw_curves,
    draw_lengths,
    draw_mixtures,
    save_figure,
    use_chinese_font,
)

METRICS = [
    {"step": 1, "loss": 4.0, "learning_rate": 0.1, "grad_norm": 3.0, "tokens": 11},
    {"step": 2, "loss": 2.0, "learning_rate": 0.2, "grad_norm": 1.0, "tokens": 13},
    {"step": 2, "valid_loss": 2.5, "valid_accuracy": 0.25},
    {"step": 3, "loss": 1.0, "learning_rate": 0.1, "grad_norm": 2.0, "tokens": 17},
    {"step": 4, "loss": 1.5, "learning_rate": 0.0, "grad_norm": 2.0, "tokens": 17},
    {"step": 4, "valid_loss": 3.0, "valid_accuracy": 0.75},
]
TIMING = [{"step": 2, "tokens_per_second": 48}, {"step": 4, "tokens_per_second": 68}]

SOURCE, TARGET = ["我", "有", "笔"], ["I", "have", "a", "pen"]
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7], [0.0, 0.2, 0.8]])


@pytest.fixture
def figures(monkeypatch):
    """Every figure that is saved; the files are written as usual."""
    drawn = []

    def save(figure, path, *description):
        drawn.append(figure)
        save_figure(figure, path, *description)

    for module in (attention_plots, plotting):
        monkeypatch.setattr(module, "save_figure", save)
    return drawn


@pytest.fixture
def chinese():
    if not use_chinese_font():
        pytest.skip("no Chinese font on this machine")


@pytest.fixture
def no_font(monkeypatch):
    for module in (attention_plots, plotting):
        monkeypatch.setattr(module, "use_chinese_font", lambda: False)


def panel(figure, title):
    return next(axes for axes in figure.axes if title in axes.get_title("left"))


def lines(axes):
    return [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.get_lines()]


def texts_of(figure):
    """All texts of a figure's captions and panels."""
    texts = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]
        texts += [label.get_text() for label in (*labels, axes.xaxis.label, axes.yaxis.label)]
        texts += [axes.get_title(side) for side in ("left", "right")]
    return texts


def test_every_panel_shows_the_logged_metrics(tmp_path, figures):
    draw_curves(METRICS, TIMING, tmp_path / "curves.png")
    (figure,) = figures
    assert ([2, 4], [2.5, 3.0]) in lines(panel(figure, "loss"))
    assert ([1, 2, 3, 4], [4.0, 2.0, 1.0, 1.5]) in lines(panel(figure, "loss"))
    assert lines(panel(figure, "accuracy")) == [([2, 4], [0.25, 0.75])]
    assert lines(panel(figure, "learning rate")) == [([1, 2, 3, 4], [0.1, 0.2, 0.1, 0.0])]
    assert ([1, 2, 3, 4], [3.0, 1.0, 2.0, 2.0]) in lines(panel(figure, "gradient"))
    assert lines(panel(figure, "tokens")) == [([2, 4], [48, 68])]
    assert panel(figure, "loss").get_title("right") == "best valid 2.5 at step 2"
    assert panel(figure, "accuracy").get_title("right") == "75.0%"


def test_the_training_plot_is_a_png_of_fixed_size(tmp_path, chinese):
    draw_curves(METRICS, TIMING, tmp_path / "deep" / "curves.png")
    image = imread(tmp_path / "deep" / "curves.png")
    assert image.shape[:2] == (980, 1960)
    assert image[..., :3].std() > 0.05  # the image is not empty


def test_no_title_overlaps_the_value_in_the_corner(tmp_path, figures, chinese):
    draw_curves(METRICS, [{"step": 4, "tokens_per_second": 1_234_567}], tmp_path / "curves.png", clip=1.0)
    (figure,) = figures
    for each in figure.axes:
        title, corner = each._left_title.get_window_extent(), each._right_title.get_window_extent()
        assert title.x1 < corner.x0, each.get_title("left")
        assert corner.x1 <= figure.bbox.x1


def test_the_unit_of_the_speed_is_that_of_the_task(tmp_path, figures):
    draw_curves(METRICS, TIMING, tmp_path / "curves.png", unit="predictions")
    (figure,) = figures
    assert lines(panel(figure, "predictions/s")) == [([2, 4], [48, 68])]
    assert not any("tokens" in text for text in texts_of(figure))


def test_the_names_of_train_and_valid_do_not_overlap_even_if_the_lines_end_together(tmp_path, figures):
    metrics = [{"step": 7, "loss": 1.0}, {"step": 7, "valid_loss": 1.0}]
    draw_curves(metrics, [], tmp_path / "curves.png")
    names = {text.get_text(): text for text in panel(figures[0], "loss").texts}
    assert (to_hex(names["train"].get_color()).upper(), names["valid"].get_color()) == (BLUE, ORANGE)
    boxes = [names[name].get_window_extent() for name in ("train", "valid")]
    assert not boxes[0].overlaps(boxes[1])


def test_the_moving_average_spreads_a_spike_over_its_neighbors(tmp_path, figures):
    metrics = [{"step": step, "loss": 4.0 if step == 50 else 1.0} for step in range(1, 101)]
    draw_curves(metrics, [], tmp_path / "curves.png")
    raw, smooth = (values for _, values in lines(panel(figures[0], "loss"))[:2])
    assert raw[49] == 4.0
    assert smooth[47:52] == [1.0, 2.0, 2.0, 2.0, 1.0]  # (1 + 4 + 1) / 3
    assert smooth[0] == smooth[-1] == 1.0  # the ends are means too, not sums with zeros


@pytest.mark.parametrize("last, scale", [(0.1, "log"), (0.9, "linear")])
def test_a_wide_range_of_values_has_a_logarithmic_axis(tmp_path, figures, last, scale):
    draw_curves([{"step": 1, "loss": 1.0}, {"step": 2, "loss": last}], [], tmp_path / "curves.png")
    assert panel(figures[0], "loss").get_yscale() == scale


@pytest.mark.parametrize("metrics", [[], [{"step": 1, "loss": 0.0}], [{"step": 1, "loss": float("nan")}]])
def test_curves_without_usable_values_can_be_drawn(tmp_path, figures, metrics):
    draw_curves(metrics, [], tmp_path / "curves.png")
    assert "no values yet" in texts_of(figures[0])


def test_without_a_chinese_font_the_labels_of_curves_are_english(tmp_path, figures, no_font):
    draw_curves(METRICS, TIMING, tmp_path / "curves.png")
    assert all(text.isascii() for text in texts_of(figures[0]))


def test_rows_are_target_words_and_columns_source_words(tmp_path, figures, chinese):
    draw_alignments([Alignment(SOURCE, TARGET, WEIGHTS)], tmp_path / "one.png", title="attention")
    (axes,) = figures[0].axes
    assert [label.get_text() for label in axes.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    (image,) = axes.get_images()
    assert np.allclose(image.get_array(), WEIGHTS)
    assert image.get_clim() == (0, 1)
    assert "attention" in texts_of(figures[0])


def test_sure_links_have_solid_boxes_and_possible_links_dashed_boxes(tmp_path, figures):
    links = ((0, 0), (2, 3), (9, 0))  # the last refers to a truncated word
    draw_alignments([Alignment(SOURCE, TARGET, WEIGHTS, links=links, possible=((2, 3), (2, 2)))], tmp_path / "one.png")
    boxes = {
        (round(box.get_x() + 0.42), round(box.get_y() + 0.42)): box.get_linestyle()
        for box in figures[0].axes[0].patches
    }
    assert boxes.pop((0, 0)) == boxes.pop((2, 3)) == "solid"
    assert list(boxes) == [(2, 2)]
    assert boxes[2, 2] != "solid"


def test_several_sentences_share_an_image_and_their_panels_do_not_overlap(tmp_path, figures, chinese):
    german = ["Ich", "habe", "einen", "Kugelschreiber"]
    sentences = [
        Alignment(SOURCE, TARGET, WEIGHTS),
        Alignment(german, TARGET, np.eye(4)),
        Alignment(SOURCE[:1], ["me"], np.ones((1, 1))),
    ]
    draw_alignments(sentences, tmp_path / "some.png", "three")
    figure = figures[0]
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert len(boxes) == 3
    assert not any(first.overlaps(other) for index, first in enumerate(boxes) for other in boxes[:index])
    assert all(figure.bbox.contains(*corner) for box in boxes for corner in (box.min, box.max))
    height, width = imread(tmp_path / "some.png").shape[:2]
    assert 400 < height < 3000
    assert 700 < width < 3000


def test_the_image_of_a_long_sentence_has_a_limited_size(tmp_path):
    words = [f"w{number}" for number in range(61)]
    draw_alignments([Alignment(words, words, np.eye(61))], tmp_path / "long.png")
    assert max(imread(tmp_path / "long.png").shape[:2]) < 3000


def test_chinese_words_are_drawn_without_warnings(tmp_path, chinese, caplog):
    draw_alignments(
        [Alignment(["我们", "。", "$", "$"], ["<eos>", "▁$\\frac$"], np.full((2, 4), 0.25))], tmp_path / "one.png"
    )
    assert not caplog.records


def test_without_a_font_numbers_replace_words_and_the_image_has_a_hint(tmp_path, figures, no_font):
    draw_alignments([Alignment(SOURCE, TARGET, WEIGHTS)], tmp_path / "one.png", title="注意力")
    (figure,) = figures
    texts = texts_of(figure)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "2", "3"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == TARGET  # a font has these
    assert sum(ADVICE in text for text in texts) == 1
    assert all(text.isascii() for text in texts)


def test_words_with_letters_that_no_font_has_become_numbers(tmp_path, figures, chinese):
    draw_alignments([Alignment(["\U0001f40c", "b"], ["x"], [[0.5, 0.5]])], tmp_path / "one.png")
    assert [label.get_text() for label in figures[0].axes[0].get_xticklabels()] == ["1", "2"]
    assert not any(ADVICE in text for text in texts_of(figures[0]))  # a Chinese font would not help


def test_weights_whose_shape_does_not_match_the_words_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="3 source"):
        draw_alignments([Alignment(SOURCE, TARGET, WEIGHTS.T)], tmp_path / "one.png")


LENGTHS = [
    {"words": "1–8", "pairs": 1740, "rnn": [20.0, 24.0], "gru": [40.0]},
    {"words": "9–15", "pairs": 22, "rnn": [10.0, 11.0], "gru": [10.5]},
]


def test_a_line_shows_the_mean_of_the_seeds_and_a_band_their_range(tmp_path, figures):
    draw_lengths(LENGTHS, tmp_path / "lengths.png")
    (axes,) = figures[0].axes
    assert lines(axes) == [([0, 1], [22.0, 10.5]), ([0, 1], [40.0, 10.5])]
    assert axes.collections[0].get_paths()[0].get_extents().extents.tolist() == [0, 10, 1, 24]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–8\n(1,740)", "9–15\n(22)"]
    assert axes.get_ylim()[0] == 0


def test_systems_are_named_at_the_ends_of_their_lines_without_overlap(tmp_path, figures):
    draw_lengths(LENGTHS, tmp_path / "lengths.png")
    names = {text.get_text(): text for text in figures[0].axes[0].texts}
    colors = [line.get_color() for line in figures[0].axes[0].get_lines()]
    assert [names[name].get_color() for name in ("rnn", "gru")] == colors
    assert colors[0] != colors[1]
    assert not names["rnn"].get_window_extent().overlaps(names["gru"].get_window_extent())


def test_the_length_plot_has_chinese_labels_and_its_description_in_the_file(tmp_path, figures, chinese):
    draw_lengths(LENGTHS, tmp_path / "lengths.png", "drawn from these")
    assert any("源句词数" in text for text in texts_of(figures[0]))
    with Image.open(tmp_path / "lengths.png") as image:
        assert image.info["Description"] == "drawn from these"


def test_without_a_chinese_font_the_labels_of_lengths_are_english(tmp_path, figures, no_font):
    draw_lengths(LENGTHS, tmp_path / "lengths.png")
    assert all(text.replace("–", "-").isascii() for text in texts_of(figures[0]))


def test_the_maximum_norm_is_a_line_and_clipped_steps_are_counted(tmp_path, figures, no_font):
    draw_curves(METRICS, TIMING, tmp_path / "curves.png", clip=2.5)
    norm = panel(figures[0], "gradient")
    assert list(norm.get_lines()[-1].get_ydata()) == [2.5, 2.5]
    assert "> 2.5: 25% clipped" in texts_of(figures[0])  # 3, 1, 2 and 2
    draw_curves(METRICS, TIMING, tmp_path / "curves.png")
    assert not any("clipped" in text for text in texts_of(figures[1]))


def test_labels_beyond_the_maximum_share_one_column(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plotting, "save_figure", lambda figure, path: drawn.append(figure.axes[0]))
    monkeypatch.setattr(plotting, "MAX_LABELS", 2)
    plotting.draw_confusion(["a", "b", "c"], [[1, 0, 3], [0, 4, 0], [1, 0, 1]], tmp_path / "x.png")
    (panel,) = drawn
    assert [text.get_text().split()[0] for text in panel.get_xticklabels()] == ["a", "b", "others"]
    assert panel.images[0].get_array().tolist() == [[0.25, 0, 0.75], [0, 1, 0]]


def test_a_mixture_has_a_bar_for_each_task_and_expert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr("seq2see.inspection.plotting.save_figure", lambda figure, *others: drawn.append(figure))
    draw_mixtures([{"task": "add", "add": [1.0, 0.8], "sort": [0.2, 0.0]}], tmp_path / "mixtures.png")
    panel = drawn[0].axes[0]
    assert [round(each.get_height(), 6) for each in panel.patches] == [0.9, 0.1]
    assert [list(line.get_ydata()) for line in panel.lines] == [[1.0, 0.8], [0.2, 0.0]]
    assert [each.get_text() for each in panel.get_legend().get_texts()] == ["add", "sort"]
