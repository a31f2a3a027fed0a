"""The end of `make demo`: sentences the model has never seen, and where to go from here."""

from __future__ import annotations

import sys

SENTENCES = ("我有一支笔", "她昨天买了三本新书", "你的猫在桌子上吗？", "因为他很累，所以他不想工作")
BIN = ".venv/bin/seq2see"


def main(run: str, texts: list[str]) -> None:
    """Translate, then say what there is to look at and to try."""
    from seq2see.workbench.predict import load

    model = load(run)
    print("\nSentences it has not seen in training:" if not texts else "")
    for prediction in model.predict(texts or list(SENTENCES)):
        print(f"  {prediction.source}  →  {prediction.text}")
    print(f"""
To look at: {run}/report.html (all of it on one page)
            {run}/curves.png  {run}/samples/  {run}/attention/
To try next:
  {BIN} predict {run} 他想吃苹果
  {BIN} show pocket-transformer
  {BIN} train pocket-gru-attention --set training.steps=300""")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
