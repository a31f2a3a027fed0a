"""The command line: one file per verb. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import sys


def main() -> None:
    """What the command `seq2see` runs. Whatever a user can cause is told in a line or two, with exit code 2."""
    from seq2see.cli.app import run

    sys.exit(run(sys.argv[1:]))
