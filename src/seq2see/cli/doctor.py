"""`seq2see doctor`: versions and hardware of this machine, and missing parts."""

from __future__ import annotations


def doctor() -> None:
    """Check this machine: versions, device, compiler, fonts, disk."""
    import shutil

    from seq2see import __version__
    from seq2see.core.devices import describe_machine
    from seq2see.data.catalogue.corpus_files import cache_folder, user_folder
    from seq2see.decoding.compiler import load_native_library
    from seq2see.inspection.plotting import ADVICE, use_chinese_font

    free = shutil.disk_usage(".").free / 1e9
    facts = {
        "seq2see": __version__,
        **describe_machine(),
        "disk free": f"{free:.1f} GB",
        "data": user_folder() or cache_folder(),
    }
    native_unsupported_reason = load_native_library().reason
    facts["native code"] = (
        "ready"
        if native_unsupported_reason is None
        else f"none, so decoding on a CPU is slower: {native_unsupported_reason}"
    )
    facts["Chinese font"] = "found" if use_chinese_font() else f"missing. {ADVICE}"
    for name, value in facts.items():
        print(f"{name:<13} {value}")
