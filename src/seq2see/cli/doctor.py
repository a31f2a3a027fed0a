"""`seq2see doctor`: what this machine has, and what is missing."""

from __future__ import annotations


def doctor() -> None:
    """Check this machine: versions, device, compiler, fonts, disk."""
    import shutil

    from seq2see import __version__
    from seq2see.core.devices import describe_machine
    from seq2see.decoding.compiler import native_library
    from seq2see.inspection.fonts import ADVICE, use_chinese_font
    from seq2see.sources.holdings import cache_folder, own_folder

    free = shutil.disk_usage(".").free / 1e9
    facts = {
        "seq2see": __version__,
        **describe_machine(),
        "disk free": f"{free:.1f} GB",
        "data": own_folder() or cache_folder(),
    }
    why_not = native_library().reason
    facts["native steps"] = "ready" if why_not is None else f"none, decoding on a CPU is slower: {why_not}"
    facts["Chinese font"] = "found" if use_chinese_font() else f"missing. {ADVICE}"
    for name, value in facts.items():
        print(f"{name:<13} {value}")
