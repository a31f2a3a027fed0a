"""Compilation of the C++ code to a library, which is stored in the user's cache folder and loaded once.

The library is tuned to the machine on which it is built, so its file name is a hash of everything that it depends on:
the source, the flags, the compiler and the processor. Without a working compiler the result is the reason instead of a
library, and the callers use slower code in PyTorch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NATIVE_VARIABLE = "SEQ2SEE_NATIVE"
"""The environment variable that switches the C++ code off: with the value 0 no library is built or loaded."""
SOURCE = Path(__file__).parent / "cpp"
COMPILERS = ("c++", "g++", "clang++")
# Multiply-add may be one instruction, and `errno` is not set; NaN stays NaN.
FLOAT_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
FLAGS = ("-std=c++17", *FLOAT_FLAGS, "-shared", "-fPIC", "-pthread")
ARCHITECTURE_FLAGS = (("-march=native",), ("-mcpu=native",), ())
"""Flags for all instructions of this processor; compilers differ, so they are tried in this order."""
BUILD_TIMEOUT = 120
"""Seconds after which a compiler is stopped."""


@dataclass(frozen=True)
class NativeBuild:
    """A loaded library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str | None = None


def load_native_library() -> NativeBuild:
    """Load the library of this machine; build it first if necessary. The result is cached."""
    if os.environ.get(NATIVE_VARIABLE) == "0":
        return NativeBuild(None, f"it is switched off by {NATIVE_VARIABLE}=0")
    return _load_once()


def native_library_if_loaded() -> ctypes.CDLL | None:
    """Return the library if it is loaded already. Callers that only save microseconds do not wait for a compiler."""
    return load_native_library().library if _load_once.cache_info().currsize else None


@cache
def _load_once() -> NativeBuild:
    return find_or_build_library(os.environ)


def find_or_build_library(environment: Mapping[str, str], source: Path = SOURCE) -> NativeBuild:
    """Load the library from the cache, or build it into the cache first."""
    compiler = find_compiler(environment)
    if compiler is None:
        return NativeBuild(None, "there is no C++ compiler (neither in CXX nor as c++, g++ or clang++)")
    try:
        folder = cache_folder(environment)
        path = folder / f"{fingerprint(compiler, source)}.so"
        if not _is_trusted(path):
            build(compiler, source, path)
        try:
            return NativeBuild(ctypes.CDLL(str(path)))
        except OSError:  # a damaged file, which the new build replaces
            build(compiler, source, path)
            return NativeBuild(ctypes.CDLL(str(path)))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return NativeBuild(None, f"the C++ code could not be built: {error}")


def find_compiler(environment: Mapping[str, str]) -> list[str] | None:
    """Return the command that compiles C++: the variable CXX, else the first known compiler on the path."""
    if environment.get("CXX"):
        command = shlex.split(environment["CXX"])
        return command if shutil.which(command[0], path=environment.get("PATH")) else None
    paths = (shutil.which(name, path=environment.get("PATH")) for name in COMPILERS)
    return next(([path] for path in paths if path), None)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the libraries. Only the user may write into it, because its files are executed."""
    cache_home = environment.get("XDG_CACHE_HOME")
    home = Path(cache_home) if cache_home else Path(environment.get("HOME") or Path.home()) / ".cache"
    folder = home / "seq2see" / "native"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(stat.S_IRWXU)  # fails if another user owns the folder
    return folder


def fingerprint(compiler: list[str], source: Path) -> str:
    """Return a hash of everything that the library depends on."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, timeout=BUILD_TIMEOUT, check=False)
    parts = [*FLAGS, *compiler, platform.machine(), _processor()]
    content = b"\0".join([*(part.encode() for part in parts), version.stdout, *_source_contents(source)])
    return hashlib.sha256(content).hexdigest()[:32]


def build(compiler: list[str], source: Path, target: Path) -> None:
    """Compile to a temporary file and rename it: a rename is atomic, so concurrent builds see only complete files."""
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".building")
    os.close(handle)
    try:
        error = ""
        for architecture_flags in ARCHITECTURE_FLAGS:
            command = [*compiler, *FLAGS, *architecture_flags, str(source / "native.cpp"), "-o", name]
            result = subprocess.run(command, capture_output=True, timeout=BUILD_TIMEOUT, check=False)
            if result.returncode == 0:
                os.chmod(name, stat.S_IRWXU)
                os.replace(name, target)
                return
            error = error or result.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{compiler[0]} failed: {error[:300] or 'no message'}")
    finally:
        Path(name).unlink(missing_ok=True)


def _is_trusted(path: Path) -> bool:
    """Whether this is a regular file that this user owns and other users cannot write."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    writable_by_others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & writable_by_others


def _source_contents(source: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(source.glob("*.[ch]pp"))]


def _processor() -> str:
    """The instruction sets of the processor, as far as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
