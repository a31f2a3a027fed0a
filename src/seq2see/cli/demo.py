"""The end of `make demo`: sentences the model has never seen, and where to go from here."""

from __future__ import annotations

import sys
from pathlib import Path

SHOWN = 5
PROGRAM = ".venv/bin/seq2see"  # `make` runs in the project's folder, and nobody has activated anything


def main(run: str, texts: list[str]) -> None:
    """Translate, then say what there is to look at and to try."""
    if texts:
        from seq2see.runs.model import load

        for prediction in load(run).predict(texts):
            print(f"\n  {prediction.source}  →  {prediction.text}")
    else:
        print("\nSentences of the test split, never seen in training:")
        for line in (Path(run) / "eval" / "test.tsv").read_text(encoding="utf-8").split("\n")[1 : SHOWN + 1]:
            source, reference, output = line.split("\t")[:3]
            print(f"  {source}  →  {output}" + ("" if output == reference else f"   (should be: {reference})"))
    print(f"""
To look at   {run}/report.html   everything on one page, English and Chinese
             {run}/curves.png
             {run}/samples/      the same sentences all along the training
             {run}/attention/alignment.png
To try next
  make demo TEXT=她昨天买了三本新书
  {PROGRAM} predict {run} 我们想吃苹果 你喜欢这只猫吗？
  {PROGRAM} explore {run}
  {PROGRAM} train pocket-lstm-attention""")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
