"""The library is loaded, built or rebuilt; where this is impossible the reason is reported without a traceback."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2see.acceleration import compiler
from seq2see.acceleration.compiler import SOURCE, cache_folder, find_compiler, find_or_build_library

needs_compiler = pytest.mark.skipif(find_compiler(os.environ) is None, reason="no C++ compiler")


@pytest.fixture
def source(tmp_path):
    """A program that compiles quickly."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "answer.hpp").write_text("#pragma once\nint answer_to(int question) { return question + 41; }\n")
    (folder / "native.cpp").write_text('#include "answer.hpp"\nextern "C" int answer() { return answer_to(1); }\n')
    return folder


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def libraries(environment) -> list:
    return sorted(cache_folder(environment).iterdir())


@needs_compiler
class TestBuilding:
    def test_a_library_is_built_once_and_then_loaded_from_the_cache(self, environment, source):
        assert find_or_build_library(environment, source).library.answer() == 42
        [built] = libraries(environment)
        before = built.stat().st_mtime_ns
        assert find_or_build_library(environment, source).library.answer() == 42
        assert [path.stat().st_mtime_ns for path in libraries(environment)] == [before]

    def test_another_source_is_another_library_even_if_only_a_header_changed(self, environment, source):
        find_or_build_library(environment, source)
        (source / "answer.hpp").write_text("#pragma once\nint answer_to(int question) { return question + 6; }\n")
        assert find_or_build_library(environment, source).library.answer() == 7
        assert len(libraries(environment)) == 2

    def test_only_the_user_has_access(self, environment, source):
        find_or_build_library(environment, source)
        [built] = libraries(environment)
        assert stat.S_IMODE(built.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(built.stat().st_mode) == 0o700

    def test_a_damaged_library_is_rebuilt(self, environment, source):
        find_or_build_library(environment, source)
        [built] = libraries(environment)
        code = (
            "import os, pathlib; from seq2see.acceleration.compiler import find_or_build_library\n"
            f"print(find_or_build_library(os.environ, pathlib.Path({str(source)!r})).library.answer())"
        )
        built.unlink()
        built.write_bytes(b"no library")
        built.chmod(0o700)
        # In a new process, because a process does not load the same library twice.
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "42", done.stderr

    @pytest.mark.parametrize("change", [lambda path: path.chmod(0o722), lambda path: _to_link(path)])
    def test_files_that_others_may_write_are_not_used(self, environment, source, change):
        find_or_build_library(environment, source)
        [built] = libraries(environment)
        change(built)
        assert find_or_build_library(environment, source).library.answer() == 42
        [built] = [path for path in libraries(environment) if path.suffix == ".so"]
        assert not built.is_symlink()
        assert stat.S_IMODE(built.stat().st_mode) == 0o700

    def test_files_of_another_user_are_not_used(self, environment, source, monkeypatch):
        find_or_build_library(environment, source)
        [built] = libraries(environment)
        assert compiler._is_trusted(built)
        monkeypatch.setattr(os, "getuid", lambda: built.stat().st_uid + 1)
        assert not compiler._is_trusted(built)

    def test_flags_for_all_instructions_of_this_processor_are_tried_first(self, environment, source, tmp_path):
        """This compiler fails with both of the flags, and is then run without them."""
        log, script = tmp_path / "log", tmp_path / "compiler"
        real = find_compiler(environment)[0]
        script.write_text(f'#!/bin/sh\necho "$@" >> {log}\ncase "$*" in *=native*) exit 1;; esac\nexec {real} "$@"\n')
        script.chmod(0o700)
        assert find_or_build_library({**environment, "CXX": str(script)}, source).library.answer() == 42
        commands = [line for line in log.read_text().splitlines() if "native.cpp" in line]
        assert [[word for word in line.split() if word.startswith("-m")] for line in commands] == [
            ["-march=native"],
            ["-mcpu=native"],
            [],
        ]

    def test_another_compiler_version_or_processor_is_another_library(self, source, tmp_path, monkeypatch):
        script = tmp_path / "compiler"
        script.write_text("#!/bin/sh\necho version 1\n")
        script.chmod(0o700)
        names = {compiler.fingerprint([str(script)], source)}
        script.write_text("#!/bin/sh\necho version 2\n")
        names.add(compiler.fingerprint([str(script)], source))
        monkeypatch.setattr(compiler, "_processor", lambda: "flags: another")
        names.add(compiler.fingerprint([str(script)], source))
        assert len(names) == 3

    def test_concurrent_builds_work(self, environment, source):
        with ThreadPoolExecutor(4) as pool:
            builds = list(pool.map(lambda _: find_or_build_library(environment, source), range(4)))
        assert [each.library.answer() for each in builds] == [42] * 4
        assert len(libraries(environment)) == 1

    def test_a_compile_error_is_a_reason(self, environment, source):
        (source / "native.cpp").write_text("this is no program")
        build = find_or_build_library(environment, source)
        assert build.library is None
        assert "could not be built" in build.reason
        assert libraries(environment) == []


def _to_link(path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


class TestWithoutLibrary:
    def test_no_compiler_is_a_reason(self, environment, source, tmp_path):
        build = find_or_build_library({"PATH": str(tmp_path), "XDG_CACHE_HOME": environment["XDG_CACHE_HOME"]}, source)
        assert build.library is None
        assert "no C++ compiler" in build.reason

    def test_a_compiler_that_does_not_exist_is_a_reason(self, environment, source):
        assert "no C++ compiler" in find_or_build_library({**environment, "CXX": "no-such-compiler"}, source).reason

    def test_a_compiler_that_fails_is_a_reason(self, environment, source):
        build = find_or_build_library({**environment, "CXX": "false"}, source)
        assert build.library is None
        assert "could not be built" in build.reason

    def test_a_cache_that_cannot_be_written_is_a_reason(self, environment, source, tmp_path):
        (tmp_path / "file").write_text("not a folder")
        assert find_or_build_library({**environment, "XDG_CACHE_HOME": str(tmp_path / "file")}, source).library is None

    @needs_compiler
    def test_the_variable_may_contain_compiler_arguments(self, environment, source):
        words = f"{find_compiler(environment)[0]} -DWORD=1"
        (source / "native.cpp").write_text('extern "C" int answer() { return WORD; }\n')
        assert find_or_build_library({**environment, "CXX": words}, source).library.answer() == 1


def test_the_package_contains_the_source():
    assert (SOURCE / "native.cpp").is_file()
