"""Which question goes with which target, in one table."""

from __future__ import annotations

from seq2see.models.settings import Blanks, BlanksAndPairs, Label, ModelSettings, Tags, Vector
from seq2see.workbench.classify import Classify
from seq2see.workbench.fill import Fill, FillPairs
from seq2see.workbench.questions import Question
from seq2see.workbench.tag import Tag
from seq2see.workbench.vectors import Summed

QUESTIONS: dict[type, Question] = {
    Blanks: Fill(),
    BlanksAndPairs: FillPairs(),
    Label: Classify(),
    Tags: Tag(),
    Vector: Summed(),
}


def question_of(settings: ModelSettings) -> Question:
    """What a model that only reads is asked."""
    return QUESTIONS[type(settings.target)]
