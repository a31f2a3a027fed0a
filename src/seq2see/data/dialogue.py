"""Dialogues: alternating messages of a user and of an assistant, and their text on one line.

In tables and as input of `predict`, a history is one line with its roles in angle brackets:

    <user> my name is Ann <assistant> hello Ann <user> what is my name?

This line is not the input of a model: a template (`chat_templates.py`) converts the messages to token ids, in which a
role is one token that no text can produce.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seq2see.data.examples import Example

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)
ROLE_MARK = re.compile(r"(?:^|\s)<(system|user|assistant)>(?:\s|$)")


@dataclass(frozen=True)
class Message:
    """The text of one role, up to the answer of the other role."""

    role: Role
    content: str


@dataclass(frozen=True)
class RecallProbe:
    """The gold annotation of a reply in a generated dialogue: its answer is in an earlier message."""

    index: int
    """The index of the reply among the messages."""
    distance: int
    """The number of messages of the user after the fact, up to and including the question."""
    answer: str
    """The word that the reply must contain."""


@dataclass(frozen=True)
class Dialogue(Example):
    """One dialogue. As an `Example`, its last reply is the target, and all messages before are the source."""

    messages: tuple[Message, ...] = ()
    probes: tuple[RecallProbe, ...] = ()
    topic: str = ""
    """The kind of its question, in generated dialogues whose last reply is right or wrong as a whole."""

    @staticmethod
    def of(messages: Sequence[Message], location: str = "", probes: Sequence[RecallProbe] = ()) -> Dialogue:
        """The dialogue up to its last reply; messages after it, which have no reply, are left out.

        >>> Dialogue.of([Message("user", "hi"), Message("assistant", "hello"), Message("user", "bye")]).target
        'hello'
        """
        replies = [index for index, each in enumerate(messages) if each.role == "assistant"]
        kept = tuple(messages[: replies[-1] + 1]) if replies else ()
        source, target = (history_text(kept[:-1]), kept[-1].content) if kept else ("", "")
        return Dialogue(source, target, location=location, messages=kept, probes=tuple(probes))

    @property
    def replies(self) -> list[int]:
        """The indices of the assistant's messages."""
        return [index for index, each in enumerate(self.messages) if each.role == "assistant"]


def history_text(messages: Sequence[Message]) -> str:
    """The messages on one line.

    >>> history_text([Message("user", "hi"), Message("assistant", "hello"), Message("user", "bye")])
    '<user> hi <assistant> hello <user> bye'
    """
    return " ".join(f"<{each.role}> {' '.join(each.content.split())}" for each in messages)


def parse_history(text: str) -> list[Message]:
    """The messages of a line; a text without roles is one message of the user.

    >>> parse_history("<user> hi <assistant> hello <user> bye")[1]
    Message(role='assistant', content='hello')
    >>> parse_history("hi there")
    [Message(role='user', content='hi there')]
    """
    first, *parts = ROLE_MARK.split(text)
    messages = [Message("user", first.strip())] if first.strip() else []
    for role, content in zip(parts[::2], parts[1::2], strict=True):
        messages.append(Message(role, content.strip()))  # type: ignore[arg-type]
    return messages


def alternating(texts: Sequence[str], location: str = "") -> Dialogue:
    """The dialogue of alternating texts of two speakers: the first is the user, the second the assistant."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return Dialogue.of([Message(roles[index % 2], text) for index, text in enumerate(texts)], location)
