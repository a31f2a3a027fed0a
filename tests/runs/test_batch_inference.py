"""Any number of lines in the memory of a window, in their order, and again after a kill at any moment."""

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
from seq2see.runs import output_file
from seq2see.runs.batch_inference import InferenceOptions, Progress, StdoutWriter, predict_lines
from seq2see.runs.input_lines import (
    LARGEST_WINDOW,
    LineSource,
    error_context,
    line_windows,
    lines_of,
    lines_of_pipe,
    window_size,
)
from seq2see.runs.model import Output, Prediction
from seq2see.runs.output_file import OutputFile
from seq2see.sources.image_decoding import ImageError

MADE_BY = {"model": "abc", "decoding": {"num_beams": 1, "penalty": {"kind": "none"}}}


class Shouting:
    """A model that answers in capitals, with the line's number; it counts how often it was asked."""

    def __init__(self) -> None:
        self.label_mask, self.large_batch = 0, []

    def predict(self, texts: list[str], many: bool, on_progress: Any, **settings: Any) -> list[Prediction]:
        numbers = settings.pop("numbers")
        self.label_mask += len(texts)
        self.large_batch.append(many)
        on_progress(len(texts))
        return [self.one(text, number, **settings) for text, number in zip(texts, numbers, strict=True)]

    def one(self, text: str, number: int, answers: int = 1) -> Prediction:
        found = [Output(f"{number} {text.upper()}{'!' * more}", -1.0, -1.0, True, 3) for more in range(answers)]
        return Prediction(text, tuple(found), len(text) > 90, lambda source, target: None)


class Frail(Shouting):
    """The same of images: one called x is damaged, and nothing can be said of one called y."""

    def predict(self, texts: list[str], many: bool, on_progress: Any, **settings: Any) -> list[Prediction]:
        for text in texts:
            self.warnings(text)
        return super().predict(texts, many, on_progress, **settings)

    def warnings(self, text: str) -> tuple[str, ...]:
        if text == "x":
            raise ImageError("unreadable image", "It is torn.", text)
        if text == "y":
            raise UserError("There is nothing to say.")
        return ()


def some_lines(count: int) -> list[str]:
    draw = random.Random(count)
    return ["" if number % 7 == 3 else "ab 我" * draw.randint(1, 20) for number in range(count)]


def answer(
    lines: list[str], path: Path, provenance: dict[str, Any] = MADE_BY, lines_per_input: int = 1, **settings: Any
) -> Shouting:
    model = Shouting()
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
        read = []
        coming = line_windows(read.append(number) or str(number) for number in range(10**9))
        next(coming)
        assert len(read) == 64

    def test_the_hash_is_of_all_lines_so_far_and_of_where_they_end(self):
        first, second = (list(line_windows(lines))[-1].sha256 for lines in (["ab", "c"], ["a", "bc"]))
        assert first != second
        assert list(line_windows(["a"] * 65))[-1].sha256 != list(line_windows(["b"] + ["a"] * 64))[-1].sha256


class TestLines:
    def test_a_pipe_is_cut_at_line_ends_and_nowhere_else(self):
        pipe = io.BytesIO("a\u2028b\r\n\n\rc".encode())
        assert list(lines_of_pipe(pipe).each) == ["a\u2028b", "", "\rc"]
        assert lines_of_pipe(pipe).total is None

    def test_a_broken_line_of_a_pipe_is_named(self):
        with pytest.raises(UserError, match="standard input:2:2: The byte 0xFF is not UTF-8"):
            list(lines_of_pipe(io.BytesIO(b"a\nb\xff\nc\n")).each)

    def test_what_comes_packed_through_a_pipe_is_told(self):
        with pytest.raises(UserError, match=r"standard input: This is packed by gzip. Unpack .*gunzip -c FILE"):
            list(lines_of_pipe(io.BytesIO(gzip.compress(b"a\nb\n"))).each)

    @pytest.mark.parametrize("content", [b"\xef\xbb\xbfa\r\nb\n", b"a\r\r\n\n"], ids=["a mark", "returns"])
    def test_a_pipe_is_read_as_a_file_is(self, content: bytes, tmp_path: Path):
        (tmp_path / "in.txt").write_bytes(content)
        expected = list(lines_of([tmp_path / "in.txt"]).each)
        assert list(lines_of_pipe(io.BytesIO(content)).each) == expected

    @pytest.mark.parametrize(
        "content",
        [b"a\x00b\n", b"a\n\xef\xbb\xbfb\n", b"\xff\n", "ab\n".encode("utf-16")],
        ids=["NUL", "a mark inside", "no UTF-8", "UTF-16"],
    )
    def test_a_pipe_is_judged_as_a_file_is(self, content: bytes, tmp_path: Path):
        path = tmp_path / "in.txt"
        path.write_bytes(content)
        with pytest.raises(UserError) as of_file:
            lines_of([path])
        with pytest.raises(UserError) as of_pipe:
            list(lines_of_pipe(io.BytesIO(content)).each)
        assert of_pipe.value.what == of_file.value.what
        assert of_pipe.value.location == of_file.value.location.replace(str(path), "standard input")
        assert of_pipe.value.hint
        assert "standard input" not in of_pipe.value.hint  # it has no name for a shell

    def test_a_pipe_without_line_ends_does_not_fill_the_memory(self):
        with pytest.raises(UserError, match=r"standard input:1: .*2,097,152 bytes"):
            list(lines_of_pipe(io.BytesIO(b"x" * (1 << 21))).each)

    @pytest.mark.parametrize(("content", "total"), [(b"a\nb\n", 2), (b"a\nb", 2), (b"", 0)])
    def test_the_lines_of_a_redirected_file_are_counted_beforehand(self, content: bytes, total: int, tmp_path: Path):
        (tmp_path / "in.txt").write_bytes(content)
        with (tmp_path / "in.txt").open("rb") as file:
            lines = lines_of_pipe(file)
            assert lines.total == total
            assert len(list(lines.each)) == total

    def test_files_are_judged_before_a_line_is_answered(self, tmp_path: Path):
        (tmp_path / "good.txt").write_text("a\nb\n")
        (tmp_path / "bad.txt").write_bytes(b"c\n\xff\n\xfe\n")
        assert lines_of([tmp_path / "good.txt"] * 2).total == 4
        with pytest.raises(UserError, match=r"bad.txt:2:1: .*and 1 more like it"):
            lines_of([tmp_path / "good.txt", tmp_path / "bad.txt"])

    def test_a_named_pipe_is_read_once_and_judged_on_the_way(self, tmp_path: Path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(b"a\n\xff\nc\n",))
        writer.start()
        lines = lines_of([path])
        assert lines.total is None
        coming = iter(lines.each)
        assert next(coming) == "a"
        with pytest.raises(UserError, match=r"pipe:2:1: The byte 0xFF is not UTF-8"):
            next(coming)
        writer.join()


class TestAnswers:
    def test_answers_keep_the_order_and_empty_lines_their_place(self, tmp_path: Path):
        lines = some_lines(300)
        answer(lines, tmp_path / "out.txt")
        expected = [f"{number} {line.upper()}" if line else "" for number, line in enumerate(lines)]
        assert (tmp_path / "out.txt").read_text().split("\n") == [*expected, ""]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt"]

    def test_a_line_of_invisible_characters_is_empty_as_in_training(self):
        output = io.StringIO()
        predict_lines(Shouting(), LineSource(["a", "\u200b \u200b", "b"]), StdoutWriter(output), InferenceOptions())
        assert output.getvalue() == "0 A\n\n2 B\n"

    def test_several_answers_take_as_many_lines_even_for_an_empty_one(self):
        output = io.StringIO()
        predict_lines(
            Shouting(),
            LineSource(["a", "", "b"]),
            StdoutWriter(output),
            InferenceOptions({"answers": 2}, lines_per_input=2),
        )
        assert output.getvalue() == "0 A\n0 A!\n\n\n2 B\n2 B!\n"

    def test_an_answer_never_takes_up_a_second_line(self):
        output = io.StringIO()
        predict_lines(Shouting(), LineSource(["a\rb\nc"]), StdoutWriter(output), InferenceOptions())
        assert output.getvalue() == "0 A B C\n"

    def test_json_has_one_object_a_line(self):
        output = io.StringIO()
        predict_lines(Shouting(), LineSource(["我", ""]), StdoutWriter(output), InferenceOptions(as_json=True))
        first, second = map(json.loads, output.getvalue().splitlines())
        assert first == {"source": "我", "outputs": [{"text": "0 我", "score": -1.0}]}
        assert second == {"source": "", "outputs": []}

    def test_a_watcher_hears_of_every_line_once(self):
        heard: list[Progress] = []
        lines = [*some_lines(300), "x" * 91]
        predict_lines(Shouting(), LineSource(lines), StdoutWriter(io.StringIO()), InferenceOptions(), heard.append)
        assert sum(each.lines for each in heard) == 301
        assert sum(each.tokens for each in heard) == 3 * sum(map(bool, lines))
        assert [text for each in heard for text in each.cut] == ["x" * 91]


class TestBadImages:
    def test_they_stop_nothing_unless_all_that_come_first_are_bad(self):
        output, heard = io.StringIO(), list[Progress]()
        lines = ["a"] * 63 + ["x"] + ["x"] * 3
        predict_lines(Frail(), LineSource(lines), StdoutWriter(output), InferenceOptions(), heard.append)
        assert output.getvalue().split("\n") == [*(f"{number} A" for number in range(63)), *[""] * 5]
        assert sum(each.lines for each in heard) == 67
        assert ["torn" in told for each in heard for told in each.bad] == [True] * 4
        with pytest.raises(ImageError, match="x: It is torn"):
            predict_lines(Frail(), LineSource(["x"] * 3), StdoutWriter(output), InferenceOptions())

    def test_what_has_a_name_is_blamed_by_it_and_what_has_none_by_its_line(self):
        for error, location in ((UserError("No.", location="cat.png"), "cat.png"), (UserError("No."), "line 8")):
            with pytest.raises(UserError, match=f"{location}: No"), error_context([5, 7], 1):
                raise error


@pytest.mark.parametrize(("count", "many"), [(63, [False]), (65, [True, True])])
def test_the_first_window_decides_whether_there_are_many(count: int, many: list[bool], tmp_path: Path):
    assert answer(["a"] * count, tmp_path / "out.txt").large_batch == many


class Killed(BaseException):
    """Stands for a SIGKILL: nothing of ours may catch it."""


def answer_until(deed: int, lines: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Answer lines, but die at the given deed on the disk; tells whether it came so far."""
    done = iter(range(10**6))

    def deadly(deed_of: Any) -> Any:
        def perform(*given: Any) -> Any:
            if next(done) == deed:
                raise Killed
            return deed_of(*given)

        return perform

    with monkeypatch.context() as patch:
        patch.setattr(output_file, "write_json", deadly(output_file.write_json))
        patch.setattr(output_file.os, "fsync", deadly(os.fsync))
        patch.setattr(output_file, "sync_folder", deadly(output_file.sync_folder))
        try:
            answer(lines, path)
        except Killed:
            return True
    return False


class TestGoingOn:
    def test_death_between_any_two_deeds_loses_and_repeats_nothing(self, tmp_path: Path, monkeypatch):
        lines = some_lines(500)
        answer(lines, tmp_path / "whole.txt")
        deed = 0
        while answer_until(deed, lines, tmp_path / f"{deed}.txt", monkeypatch):
            path = tmp_path / f"{deed}.txt"
            if path.with_name(f"{deed}.txt.progress.json").exists() or not path.stat().st_size:
                answer(lines, path)
            assert path.read_bytes() == (tmp_path / "whole.txt").read_bytes()
            assert not path.with_name(f"{deed}.txt.progress.json").exists()
            deed += 1
        assert deed > 10

    @given(st.data())
    def test_a_torn_file_is_cut_to_its_complete_answers(self, tmp_path_factory, data):
        lines_per_input = data.draw(st.integers(1, 3))
        folder = tmp_path_factory.mktemp("torn")
        lines, path = some_lines(180), folder / "out.txt"
        answer(lines, folder / "whole.txt", lines_per_input=lines_per_input, outputs=lines_per_input)
        whole = (folder / "whole.txt").read_bytes()
        first = next(line_windows(lines))
        start = len(b"\n".join(whole.split(b"\n")[: 64 * lines_per_input])) + 1  # the second window was being written
        path.write_bytes(whole[: data.draw(st.integers(start, len(whole)))])
        note = {"start": 64, "end": 180, "sha256": list(line_windows(lines))[1].sha256}
        path.with_name("out.txt.progress.json").write_text(
            json.dumps({"format": 1, "window": note, "provenance": MADE_BY}), encoding="utf-8"
        )
        model = answer(lines, path, lines_per_input=lines_per_input, outputs=lines_per_input)
        assert path.read_bytes() == whole
        assert model.label_mask <= sum(map(bool, lines)) - sum(map(bool, first.texts))  # what is done is not done again

    def test_an_error_keeps_what_is_answered_and_what_was_there_and_leaves_nothing_else(self, tmp_path: Path):
        def ask(path: Path, lines: list[str]) -> None:
            with pytest.raises(UserError, match="nothing to say"), OutputFile(path, MADE_BY) as output_writer:
                predict_lines(Frail(), LineSource(lines), output_writer, InferenceOptions())

        ask(tmp_path / "begun.txt", ["a"] * 64 + ["y"])
        assert (tmp_path / "begun.txt").read_text().count("\n") == 64
        (tmp_path / "empty.txt").touch()
        ask(tmp_path / "empty.txt", ["y"])
        ask(tmp_path / "new.txt", ["y"])
        assert {path.name for path in tmp_path.glob("*.txt")} == {"begun.txt", "empty.txt"}

    def test_half_a_character_is_written_as_it_is(self, tmp_path: Path):
        answer(["a\udc80"], tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_bytes() == b"0 A\xed\xb2\x80\n"

    def test_a_note_without_an_answer_binds_nobody(self, tmp_path: Path, monkeypatch):
        path = tmp_path / "out.txt"
        assert answer_until(3, ["a"], path, monkeypatch)
        path.write_bytes(b"0 ")
        answer(["b"], path, {"model": "another"})
        assert path.read_text() == "0 B\n"

    @pytest.fixture
    def unfinished(self, tmp_path: Path, monkeypatch) -> Path:
        assert answer_until(7, some_lines(500), tmp_path / "out.txt", monkeypatch)  # in the second window
        return tmp_path / "out.txt"

    @pytest.mark.parametrize(
        ("provenance", "words"),
        [
            ({**MADE_BY, "model": "xyz"}, 'begun with model = "abc", and now it is "xyz"'),
            ({**MADE_BY, "decoding": {"num_beams": 2}}, "begun with decoding.num_beams = 1, and now it is 2"),
            ({**MADE_BY, "prefix": "a"}, 'begun with prefix = null, and now it is "a"'),
            ({"model": "abc"}, "begun with decoding = "),
        ],
    )
    def test_another_model_or_setting_is_refused_by_name(self, provenance, words: str, unfinished: Path):
        before = unfinished.read_bytes()
        with pytest.raises(UserError, match=r"delete it and out.txt.progress.json") as refused:
            answer(some_lines(500), unfinished, provenance)
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
        with pytest.raises(UserError, match=r"lines to be answered (are not those of|than) the last time"):
            answer(lines, unfinished)
        assert unfinished.read_bytes() == before

    def test_a_file_that_was_changed_is_refused(self, unfinished: Path):
        unfinished.write_bytes(unfinished.read_bytes() * 3)
        with pytest.raises(UserError, match="It was changed"):
            answer(some_lines(500), unfinished)

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
    def test_an_unreadable_note_is_refused(self, note: str, unfinished: Path):
        unfinished.with_name("out.txt.progress.json").write_text(note)
        with pytest.raises(UserError, match="cannot be read"):
            answer(some_lines(500), unfinished)

    def test_a_finished_or_foreign_file_is_never_written_over(self, tmp_path: Path):
        answer(["a"], tmp_path / "out.txt")
        with pytest.raises(UserError, match="exists already"):
            answer(["a"], tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == "0 A\n"

    def test_two_at_once_do_not_write_to_one_file(self, tmp_path: Path):
        with OutputFile(tmp_path / "out.txt", MADE_BY), pytest.raises(UserError, match="Another process"):
            OutputFile(tmp_path / "out.txt", MADE_BY).__enter__()

    def test_what_is_no_file_is_refused(self, tmp_path: Path):
        with pytest.raises(UserError, match="not a plain file"):
            answer(["a"], tmp_path)
        with pytest.raises(UserError, match="not a plain file"):
            answer(["a"], Path("."))  # it has no name that a note could be called after
        with pytest.raises(UserError, match="cannot be written"):
            answer(["a"], Path("/proc/nothing/out.txt"))

    def test_a_full_disk_is_told_and_gone_on_from(self, tmp_path: Path, monkeypatch):
        lines, path = some_lines(300), tmp_path / "out.txt"

        def full(number: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(output_file.os, "fsync", full)
            with pytest.raises(UserError, match="No space left on device"):
                answer(lines, path)
        answer(lines, path)
        answer(lines, tmp_path / "whole.txt")
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
            yield f"{number:06}" * 200  # 1,200 bytes; their answers as many: 14,000 lines are 33 MB

    with OutputFile(tmp_path / "out.txt", MADE_BY) as output_writer:
        predict_lines(Shouting(), LineSource(lines()), output_writer, InferenceOptions())
    assert (tmp_path / "out.txt").stat().st_size > 24_000_000
    assert measured[1] - measured[0] < 12_000_000
