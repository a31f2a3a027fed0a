"""`seq2see doctor`: versions and hardware of this machine, and missing software."""

from __future__ import annotations


def doctor() -> None:
    """Check this machine: versions, device, compiler, fonts, disk."""
    import shutil

    from seq2see import __version__
    from seq2see.core.devices import describe_machine
    from seq2see.data.catalogue.corpus_files import cache_folder, user_folder
    from seq2see.inspection.plotting import ADVICE, use_chinese_font
    from seq2see.runs.load import native_code_status

    free = shutil.disk_usage(".").free / 1e9
    facts = {
        "seq2see": __version__,
        **describe_machine(),
        "disk free": f"{free:.1f} GB",
        "data": user_folder() or cache_folder(),
    }
    facts["native code"] = native_code_status()
    facts["Chinese font"] = "found" if use_chinese_font() else f"missing. {ADVICE}"
    for name, value in facts.items():
        print(f"{name:<13} {value}")
