"""From C++ to a library in memory: found or built in a few seconds, kept in the user's cache, loaded once.

What is built is tuned to the machine it is built on, so its name in the cache is a hash of everything it
depends on: the source, the flags, the compiler and the processor. Where there is no compiler, or it
fails, the answer is a reason instead of a library, and the callers have a slower way.
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
"""Set to 0 in the environment, nothing is built and nothing built is used."""
SOURCE = Path(__file__).parent / "cpp"
COMPILERS = ("c++", "g++", "clang++")
# A product followed by a sum may be one instruction, and nobody reads `errno`; NaN stays NaN.
FLOAT_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
FLAGS = ("-std=c++17", *FLOAT_FLAGS, "-shared", "-fPIC", "-pthread")
ARCHITECTURE_FLAGS = (("-march=native",), ("-mcpu=native",), ())
"""How compilers are told to use all that this processor can do; tried in this order."""
BUILD_TIMEOUT = 120
"""Seconds after which a compiler is given up."""


@dataclass(frozen=True)
class NativeBuild:
    """A library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str | None = None


def load_native_library() -> NativeBuild:
    """The library of this machine; what was found once is not looked for again."""
    if os.environ.get(NATIVE_VARIABLE) == "0":
        return NativeBuild(None, f"it is switched off by {NATIVE_VARIABLE}=0")
    return _load_once()


def native_library_if_loaded() -> ctypes.CDLL | None:
    """The library if somebody has needed it already: where it spares microseconds, nobody waits for a compiler."""
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
        except OSError:  # a damaged file; a new one takes its place
            build(compiler, source, path)
            return NativeBuild(ctypes.CDLL(str(path)))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return NativeBuild(None, f"the C++ code could not be built: {error}")


def find_compiler(environment: Mapping[str, str]) -> list[str] | None:
    """The command that compiles C++: what CXX says, else the first known name on the path."""
    if environment.get("CXX"):
        command = shlex.split(environment["CXX"])
        return command if shutil.which(command[0], path=environment.get("PATH")) else None
    found = (shutil.which(name, path=environment.get("PATH")) for name in COMPILERS)
    return next(([path] for path in found if path), None)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder for built libraries, which nobody but the user may write into: what lies there is run."""
    cache_home = environment.get("XDG_CACHE_HOME")
    home = Path(cache_home) if cache_home else Path(environment.get("HOME") or Path.home()) / ".cache"
    folder = home / "seq2see" / "native"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(stat.S_IRWXU)  # fails if it is somebody else's
    return folder


def fingerprint(compiler: list[str], source: Path) -> str:
    """A hash of everything that the library depends on."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, timeout=BUILD_TIMEOUT, check=False)
    parts = [*FLAGS, *compiler, platform.machine(), _processor()]
    content = b"\0".join([*(part.encode() for part in parts), version.stdout, *_source_contents(source)])
    return hashlib.sha256(content).hexdigest()[:32]


def build(compiler: list[str], source: Path, target: Path) -> None:
    """Compile beside the target, then take its place at once: of two who build, each sees a whole file."""
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".building")
    os.close(handle)
    try:
        error = ""
        for tuning in ARCHITECTURE_FLAGS:
            command = [*compiler, *FLAGS, *tuning, str(source / "native.cpp"), "-o", name]
            result = subprocess.run(command, capture_output=True, timeout=BUILD_TIMEOUT, check=False)
            if result.returncode == 0:
                os.chmod(name, stat.S_IRWXU)
                os.replace(name, target)
                return
            error = error or result.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{compiler[0]} says: {error[:300] or 'nothing'}")
    finally:
        Path(name).unlink(missing_ok=True)


def _is_trusted(path: Path) -> bool:
    """A plain file of this user that nobody else could have written."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & others


def _source_contents(source: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(source.glob("*.[ch]pp"))]


def _processor() -> str:
    """What the processor can do, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
