"""The last step of `make demo`: translate unseen sentences, and show what to try next."""

from __future__ import annotations

import sys
from pathlib import Path

SHOWN = 5
PROGRAM = ".venv/bin/seq2see"  # `make` runs in the project folder, without an activated environment


def main(run: str, texts: list[str]) -> None:
    """Translate, then list the files of the run and further commands."""
    if texts:
        from seq2see.runs.load import load

        for prediction in load(run).predict(texts):
            print(f"\n  {prediction.source}  →  {prediction.text}")
    else:
        print("\nSentences of the test split, not in the training data:")
        for line in (Path(run) / "eval" / "test.tsv").read_text(encoding="utf-8").split("\n")[1 : SHOWN + 1]:
            source, reference, output = line.split("\t")[:3]
            print(f"  {source}  →  {output}" + ("" if output == reference else f"   (reference: {reference})"))
    print(f"""
Look at      {run}/report.html   everything on one page, English and Chinese
             {run}/curves.png
             {run}/samples/      outputs for the same sentences during training
             {run}/attention/alignment.png
Try next
  make demo TEXT=她昨天买了三本新书
  {PROGRAM} predict {run} 我们想吃苹果 你喜欢这只猫吗？
  {PROGRAM} explore {run}
  {PROGRAM} train pocket-lstm-attention""")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
