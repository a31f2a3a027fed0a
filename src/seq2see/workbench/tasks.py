"""Which task goes with which target, in a table or two."""

from __future__ import annotations

from seq2see.models.settings import Blanks, BlanksAndPairs, Label, ModelSettings, PictureLabel, Series, Tags, Vector
from seq2see.workbench.classify import Classify
from seq2see.workbench.classify_pictures import ClassifyPictures
from seq2see.workbench.fill import Fill, FillPairs
from seq2see.workbench.questions import Question, Task
from seq2see.workbench.tag import Tag
from seq2see.workbench.vectors import Summed
from seq2see.workbench.waves import GoOn

QUESTIONS: dict[type, Question] = {
    Blanks: Fill(),
    BlanksAndPairs: FillPairs(),
    Label: Classify(),
    PictureLabel: ClassifyPictures(),
    Tags: Tag(),
    Vector: Summed(),
}
TASKS: dict[type, Task] = {**QUESTIONS, Series: GoOn()}


def question_of(settings: ModelSettings) -> Question:
    """What a model that only reads is asked."""
    return QUESTIONS[type(settings.target)]


def task_of(settings: ModelSettings) -> Task:
    """What a model learns that writes no texts."""
    return TASKS[type(settings.target)]
