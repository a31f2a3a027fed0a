"""The description of the machine."""

from __future__ import annotations

from pathlib import Path

from seq2see.core.devices import processor_name


def test_a_processor_has_a_name_and_its_integer_instructions(tmp_path: Path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx512_vnni sse\n")
    assert processor_name(cpuinfo) == "Some CPU with AVX-512 VNNI"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse\n")
    assert processor_name(cpuinfo) == "Some CPU"
    cpuinfo.write_text("")
    assert processor_name(cpuinfo)
    assert processor_name(tmp_path / "missing")
