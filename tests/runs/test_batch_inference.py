"""Batch inference: any number of lines in constant memory, in their order, and resumed after a kill at any moment."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.data.readers.image_files import ImageError
from seq2see.runs import batch_inference
from seq2see.runs.batch_inference import (
    LARGEST_WINDOW,
    InferenceOptions,
    LineSource,
    OutputFile,
    Progress,
    StdoutWriter,
    line_windows,
    lines_of,
    lines_of_pipe,
    predict_lines,
    window_size,
)
from seq2see.tasks.model import Output, Prediction
from seq2see.tasks.task import error_context

PROVENANCE = {"model": "abc", "decoding": {"num_beams": 1, "penalty": {"kind": "none"}}}


class UpperCaseModel:
    """A model whose outputs are upper-case texts with the line's number; it counts its inputs."""

    def __init__(self) -> None:
        self.input_count, self.large_batch = 0, []

    def predict(self, texts: list[str], large_batch: bool, on_progress: Any, **settings: Any) -> list[Prediction]:
        indices = settings.pop("indices")
        self.input_count += len(texts)
        self.large_batch.append(large_batch)
        on_progress(len(texts))
        return [self.one(text, index, **settings) for text, index in zip(texts, indices, strict=True)]

    def one(self, text: str, index: int, outputs: int = 1) -> Prediction:
        found = [Output(f"{index} {text.upper()}{'!' * more}", -1.0, -1.0, True, 3) for more in range(outputs)]
        return Prediction(text, tuple(found), len(text) > 90, lambda source, target: None)


class FragileModel(UpperCaseModel):
    """An image model: the file x is damaged, and y raises another error."""

    def predict(self, texts: list[str], large_batch: bool, on_progress: Any, **settings: Any) -> list[Prediction]:
        for text in texts:
            self.warnings(text)
        return super().predict(texts, large_batch, on_progress, **settings)

    def warnings(self, text: str) -> tuple[str, ...]:
        if text == "x":
            raise ImageError("unreadable image", "It is torn.", text)
        if text == "y":
            raise UserError("There is nothing to say.")
        return ()


def some_lines(count: int) -> list[str]:
    draw = random.Random(count)
    return ["" if number % 7 == 3 else "ab 我" * draw.randint(1, 20) for number in range(count)]


def run_prediction(
    lines: list[str], path: Path, provenance: dict[str, Any] = PROVENANCE, lines_per_input: int = 1, **settings: Any
) -> UpperCaseModel:
    model = UpperCaseModel()
    with OutputFile(path, provenance, lines_per_input) as output_writer:
        predict_lines(
            model, LineSource(lines), output_writer, InferenceOptions(settings, lines_per_input=lines_per_input)
        )
    return model


class TestWindows:
    def test_windows_grow_from_64_to_2048_lines(self):
        found = [(window.start, len(window.texts)) for window in line_windows(["x"] * 8200)]
        assert found[:5] == [(0, 64), (64, 128), (192, 256), (448, 512), (960, 1024)]
        assert found[5:] == [(1984, 2048), (4032, 2048), (6080, 2048), (8128, 72)]
        assert max(window_size(start) for start in range(0, 10**6, 997)) == LARGEST_WINDOW

    def test_a_window_reads_no_further_than_its_own_lines(self):
        consumed = []
        windows = line_windows(consumed.append(number) or str(number) for number in range(10**9))
        next(windows)
        assert len(consumed) == 64

    def test_the_hash_is_of_all_lines_so_far_and_of_where_they_end(self):
        first, second = (list(line_windows(lines))[-1].sha256 for lines in (["ab", "c"], ["a", "bc"]))
        assert first != second
        assert list(line_windows(["a"] * 65))[-1].sha256 != list(line_windows(["b"] + ["a"] * 64))[-1].sha256


class TestLines:
    def test_a_pipe_is_cut_at_line_ends_and_nowhere_else(self):
        pipe = io.BytesIO("a\u2028b\r\n\n\rc".encode())
        assert list(lines_of_pipe(pipe).texts) == ["a\u2028b", "", "\rc"]
        assert lines_of_pipe(pipe).total is None

    def test_a_broken_line_of_a_pipe_is_named(self):
        with pytest.raises(UserError, match="standard input:2:2: The byte 0xFF is not UTF-8"):
            list(lines_of_pipe(io.BytesIO(b"a\nb\xff\nc\n")).texts)

    def test_compressed_data_from_a_pipe_are_reported(self):
        with pytest.raises(
            UserError, match=r"standard input: This is compressed with gzip. Decompress .*gunzip -c FILE"
        ):
            list(lines_of_pipe(io.BytesIO(gzip.compress(b"a\nb\n"))).texts)

    @pytest.mark.parametrize("content", [b"\xef\xbb\xbfa\r\nb\n", b"a\r\r\n\n"], ids=["a mark", "returns"])
    def test_a_pipe_is_read_like_a_file(self, content: bytes, tmp_path: Path):
        (tmp_path / "in.txt").write_bytes(content)
        expected = list(lines_of([tmp_path / "in.txt"]).texts)
        assert list(lines_of_pipe(io.BytesIO(content)).texts) == expected

    @pytest.mark.parametrize(
        "content",
        [b"a\x00b\n", b"a\n\xef\xbb\xbfb\n", b"\xff\n", "ab\n".encode("utf-16")],
        ids=["NUL", "a mark inside", "no UTF-8", "UTF-16"],
    )
    def test_a_pipe_is_validated_like_a_file(self, content: bytes, tmp_path: Path):
        path = tmp_path / "in.txt"
        path.write_bytes(content)
        with pytest.raises(UserError) as of_file:
            lines_of([path])
        with pytest.raises(UserError) as of_pipe:
            list(lines_of_pipe(io.BytesIO(content)).texts)
        assert of_pipe.value.message == of_file.value.message
        assert of_pipe.value.location == of_file.value.location.replace(str(path), "standard input")
        assert of_pipe.value.hint
        assert "standard input" not in of_pipe.value.hint  # it has no name for a shell

    def test_a_pipe_without_line_ends_does_not_fill_the_memory(self):
        with pytest.raises(UserError, match=r"standard input:1: .*2,097,152 bytes"):
            list(lines_of_pipe(io.BytesIO(b"x" * (1 << 21))).texts)

    @pytest.mark.parametrize(("content", "total"), [(b"a\nb\n", 2), (b"a\nb", 2), (b"", 0)])
    def test_the_lines_of_a_redirected_file_are_counted_beforehand(self, content: bytes, total: int, tmp_path: Path):
        (tmp_path / "in.txt").write_bytes(content)
        with (tmp_path / "in.txt").open("rb") as file:
            lines = lines_of_pipe(file)
            assert lines.total == total
            assert len(list(lines.texts)) == total

    def test_files_are_validated_before_the_first_prediction(self, tmp_path: Path):
        (tmp_path / "good.txt").write_text("a\nb\n")
        (tmp_path / "bad.txt").write_bytes(b"c\n\xff\n\xfe\n")
        assert lines_of([tmp_path / "good.txt"] * 2).total == 4
        with pytest.raises(UserError, match=r"bad.txt:2:1: .*and 1 more like it"):
            lines_of([tmp_path / "good.txt", tmp_path / "bad.txt"])

    def test_a_named_pipe_is_read_once_and_validated_line_by_line(self, tmp_path: Path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(b"a\n\xff\nc\n",))
        writer.start()
        lines = lines_of([path])
        assert lines.total is None
        iterator = iter(lines.texts)
        assert next(iterator) == "a"
        with pytest.raises(UserError, match=r"pipe:2:1: The byte 0xFF is not UTF-8"):
            next(iterator)
        writer.join()


class TestOutputs:
    def test_outputs_keep_the_order_and_empty_lines_stay_empty(self, tmp_path: Path):
        lines = some_lines(300)
        run_prediction(lines, tmp_path / "out.txt")
        expected = [f"{number} {line.upper()}" if line else "" for number, line in enumerate(lines)]
        assert (tmp_path / "out.txt").read_text().split("\n") == [*expected, ""]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt"]

    def test_a_line_of_invisible_characters_is_empty_as_in_training(self):
        output = io.StringIO()
        predict_lines(
            UpperCaseModel(), LineSource(["a", "\u200b \u200b", "b"]), StdoutWriter(output), InferenceOptions()
        )
        assert output.getvalue() == "0 A\n\n2 B\n"

    def test_several_outputs_need_several_lines_even_for_an_empty_input(self):
        output = io.StringIO()
        predict_lines(
            UpperCaseModel(),
            LineSource(["a", "", "b"]),
            StdoutWriter(output),
            InferenceOptions({"outputs": 2}, lines_per_input=2),
        )
        assert output.getvalue() == "0 A\n0 A!\n\n\n2 B\n2 B!\n"

    def test_an_output_is_always_one_line(self):
        output = io.StringIO()
        predict_lines(UpperCaseModel(), LineSource(["a\rb\nc"]), StdoutWriter(output), InferenceOptions())
        assert output.getvalue() == "0 A B C\n"

    def test_json_has_one_object_per_line(self):
        output = io.StringIO()
        predict_lines(UpperCaseModel(), LineSource(["我", ""]), StdoutWriter(output), InferenceOptions(as_json=True))
        first, second = map(json.loads, output.getvalue().splitlines())
        assert first == {"source": "我", "outputs": [{"text": "0 我", "score": -1.0}]}
        assert second == {"source": "", "outputs": []}

    def test_progress_reports_every_line_once(self):
        reports: list[Progress] = []
        lines = [*some_lines(300), "x" * 91]
        predict_lines(
            UpperCaseModel(), LineSource(lines), StdoutWriter(io.StringIO()), InferenceOptions(), reports.append
        )
        assert sum(each.lines for each in reports) == 301
        assert sum(each.tokens for each in reports) == 3 * sum(map(bool, lines))
        assert [text for each in reports for text in each.truncated] == ["x" * 91]


class TestBadImages:
    def test_predictions_continue_unless_the_first_images_are_all_bad(self):
        output, reports = io.StringIO(), list[Progress]()
        lines = ["a"] * 63 + ["x"] + ["x"] * 3
        predict_lines(FragileModel(), LineSource(lines), StdoutWriter(output), InferenceOptions(), reports.append)
        assert output.getvalue().split("\n") == [*(f"{number} A" for number in range(63)), *[""] * 5]
        assert sum(each.lines for each in reports) == 67
        assert ["torn" in message for each in reports for message in each.errors] == [True] * 4
        with pytest.raises(ImageError, match="x: It is torn"):
            predict_lines(FragileModel(), LineSource(["x"] * 3), StdoutWriter(output), InferenceOptions())

    def test_an_error_without_a_location_gets_the_line_number(self):
        for error, location in ((UserError("No.", location="cat.png"), "cat.png"), (UserError("No."), "line 8")):
            with pytest.raises(UserError, match=f"{location}: No"), error_context([5, 7], 1):
                raise error


@pytest.mark.parametrize(("count", "large"), [(63, [False]), (65, [True, True])])
def test_the_first_window_decides_whether_the_batch_is_large(count: int, large: list[bool], tmp_path: Path):
    assert run_prediction(["a"] * count, tmp_path / "out.txt").large_batch == large


class Killed(BaseException):
    """Stands for a SIGKILL: nothing of ours may catch it."""


def run_until(operation: int, lines: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Predict lines, but stop at the given disk operation; returns whether that was reached."""
    counter = iter(range(10**6))

    def killing(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(counter) == operation:
                raise Killed
            return function(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(batch_inference, "write_json", killing(batch_inference.write_json))
        patch.setattr(batch_inference.os, "fsync", killing(os.fsync))
        patch.setattr(batch_inference, "sync_folder", killing(batch_inference.sync_folder))
        try:
            run_prediction(lines, path)
        except Killed:
            return True
    return False


class TestResuming:
    def test_a_kill_between_any_two_disk_operations_loses_and_repeats_nothing(self, tmp_path: Path, monkeypatch):
        lines = some_lines(500)
        run_prediction(lines, tmp_path / "whole.txt")
        operation = 0
        while run_until(operation, lines, tmp_path / f"{operation}.txt", monkeypatch):
            path = tmp_path / f"{operation}.txt"
            if path.with_name(f"{operation}.txt.progress.json").exists() or not path.stat().st_size:
                run_prediction(lines, path)
            assert path.read_bytes() == (tmp_path / "whole.txt").read_bytes()
            assert not path.with_name(f"{operation}.txt.progress.json").exists()
            operation += 1
        assert operation > 10

    @given(st.data())
    def test_an_incomplete_file_is_truncated_to_its_complete_outputs(self, tmp_path_factory, data):
        lines_per_input = data.draw(st.integers(1, 3))
        folder = tmp_path_factory.mktemp("torn")
        lines, path = some_lines(180), folder / "out.txt"
        run_prediction(lines, folder / "whole.txt", lines_per_input=lines_per_input, outputs=lines_per_input)
        whole = (folder / "whole.txt").read_bytes()
        first = next(line_windows(lines))
        start = len(b"\n".join(whole.split(b"\n")[: 64 * lines_per_input])) + 1  # the second window was being written
        path.write_bytes(whole[: data.draw(st.integers(start, len(whole)))])
        note = {"start": 64, "end": 180, "sha256": list(line_windows(lines))[1].sha256}
        path.with_name("out.txt.progress.json").write_text(
            json.dumps({"format": 1, "window": note, "provenance": PROVENANCE}), encoding="utf-8"
        )
        model = run_prediction(lines, path, lines_per_input=lines_per_input, outputs=lines_per_input)
        assert path.read_bytes() == whole
        assert model.input_count <= sum(map(bool, lines)) - sum(map(bool, first.texts))  # no line is predicted twice

    def test_an_error_keeps_complete_outputs_and_existing_files_and_creates_no_others(self, tmp_path: Path):
        def fail(path: Path, lines: list[str]) -> None:
            with pytest.raises(UserError, match="nothing to say"), OutputFile(path, PROVENANCE) as output_writer:
                predict_lines(FragileModel(), LineSource(lines), output_writer, InferenceOptions())

        fail(tmp_path / "started.txt", ["a"] * 64 + ["y"])
        assert (tmp_path / "started.txt").read_text().count("\n") == 64
        (tmp_path / "empty.txt").touch()
        fail(tmp_path / "empty.txt", ["y"])
        fail(tmp_path / "new.txt", ["y"])
        assert {path.name for path in tmp_path.glob("*.txt")} == {"started.txt", "empty.txt"}

    def test_a_lone_surrogate_is_written_unchanged(self, tmp_path: Path):
        run_prediction(["a\udc80"], tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_bytes() == b"0 A\xed\xb2\x80\n"

    def test_a_progress_file_without_outputs_is_ignored(self, tmp_path: Path, monkeypatch):
        path = tmp_path / "out.txt"
        assert run_until(3, ["a"], path, monkeypatch)
        path.write_bytes(b"0 ")
        run_prediction(["b"], path, {"model": "another"})
        assert path.read_text() == "0 B\n"

    @pytest.fixture
    def unfinished(self, tmp_path: Path, monkeypatch) -> Path:
        assert run_until(7, some_lines(500), tmp_path / "out.txt", monkeypatch)  # in the second window
        return tmp_path / "out.txt"

    @pytest.mark.parametrize(
        ("provenance", "words"),
        [
            ({**PROVENANCE, "model": "xyz"}, 'started with model = "abc", and now model = "xyz"'),
            (
                {**PROVENANCE, "decoding": {"num_beams": 2}},
                "started with decoding.num_beams = 1, and now decoding.num_beams = 2",
            ),
            ({**PROVENANCE, "prefix": "a"}, 'started with prefix = null, and now prefix = "a"'),
            ({"model": "abc"}, "started with decoding = "),
        ],
    )
    def test_another_model_or_setting_is_refused_by_name(self, provenance, words: str, unfinished: Path):
        before = unfinished.read_bytes()
        with pytest.raises(UserError, match=r"delete it and out.txt.progress.json") as refused:
            run_prediction(some_lines(500), unfinished, provenance)
        assert words in str(refused.value)
        assert unfinished.read_bytes() == before

    @pytest.mark.parametrize("change", ["first line", "last of the window", "fewer", "far fewer"])
    def test_other_lines_are_refused(self, change: str, unfinished: Path):
        lines, before = some_lines(500), unfinished.read_bytes()
        if change == "first line":
            lines[0] += "x"
        elif change == "last of the window":
            lines[191] += "x"
        else:
            lines = lines[: 190 if change == "fewer" else 60]
        with pytest.raises(UserError, match=r"input lines (differ from those of|than in) the last call"):
            run_prediction(lines, unfinished)
        assert unfinished.read_bytes() == before

    def test_a_modified_file_is_refused(self, unfinished: Path):
        unfinished.write_bytes(unfinished.read_bytes() * 3)
        with pytest.raises(UserError, match="It was modified"):
            run_prediction(some_lines(500), unfinished)

    @pytest.mark.parametrize(
        "note",
        [
            "",
            "[]",
            '{"format": 2}',
            '{"format": 1, "provenance": {}, "window": {"start": "a"}}',
            '{"format": 1, "provenance": {}, "window": {"start": 64, "end": 192}}',
        ],
    )
    def test_an_unreadable_progress_file_is_refused(self, note: str, unfinished: Path):
        unfinished.with_name("out.txt.progress.json").write_text(note)
        with pytest.raises(UserError, match="cannot be read"):
            run_prediction(some_lines(500), unfinished)

    def test_a_finished_or_other_file_is_never_overwritten(self, tmp_path: Path):
        run_prediction(["a"], tmp_path / "out.txt")
        with pytest.raises(UserError, match="already exists"):
            run_prediction(["a"], tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == "0 A\n"

    def test_two_at_once_do_not_write_to_one_file(self, tmp_path: Path):
        with OutputFile(tmp_path / "out.txt", PROVENANCE), pytest.raises(UserError, match="Another process"):
            OutputFile(tmp_path / "out.txt", PROVENANCE).__enter__()

    def test_a_path_that_is_not_a_file_is_refused(self, tmp_path: Path):
        with pytest.raises(UserError, match="not a regular file"):
            run_prediction(["a"], tmp_path)
        with pytest.raises(UserError, match="not a regular file"):
            run_prediction(["a"], Path("."))  # a path without a name
        with pytest.raises(UserError, match="cannot be written"):
            run_prediction(["a"], Path("/proc/nothing/out.txt"))

    def test_a_full_disk_is_reported_and_can_be_resumed(self, tmp_path: Path, monkeypatch):
        lines, path = some_lines(300), tmp_path / "out.txt"

        def full(number: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(batch_inference.os, "fsync", full)
            with pytest.raises(UserError, match="No space left on device"):
                run_prediction(lines, path)
        run_prediction(lines, path)
        run_prediction(lines, tmp_path / "whole.txt")
        assert path.read_bytes() == (tmp_path / "whole.txt").read_bytes()


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured on Linux")
def test_memory_does_not_grow_with_the_lines(tmp_path: Path):
    measured: list[int] = []

    def lines():
        for number in range(20_000):
            if number in (6_080, 19_999):
                measured.append(resident())
            yield f"{number:06}" * 200  # 1,200 bytes; their outputs too: 14,000 lines are 33 MB

    with OutputFile(tmp_path / "out.txt", PROVENANCE) as output_writer:
        predict_lines(UpperCaseModel(), LineSource(lines()), output_writer, InferenceOptions())
    assert (tmp_path / "out.txt").stat().st_size > 24_000_000
    assert measured[1] - measured[0] < 12_000_000
