"""Chat templates: from messages to token ids, and which of these ids are labels in training.

A template writes a message as a header that names the role, the text, and an end. In training only the text of the
assistant and its end have labels; everything else is input (the loss mask). In a dialogue the input is the history
and the header of a reply, and the model generates until the end token.

Models trained here have a token for each role, and `<eos>` is the end of every message:

    <bos> <system> text <eos> <user> text <eos> <assistant> text <eos>

Pretrained models keep the template that they were trained with, such as ChatML. Hugging Face stores it in the model
folder as a program in the language Jinja. This program is not run: it could do anything, and one wrong space in its
output changes the replies silently. Instead `interop/chat_template_files.py` recognizes the programs of the templates
below by their text, and any other is an error. Text never becomes a special token, so a user cannot write the header of
another role.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, default_kind
from seq2see.data.dialogue import ROLES, Message
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer
from seq2see.data.tokenizers.tokenizer import BOS, EOS, EOS_TEXT, Tokenizer


class Special(str):
    """The name of a special token, as part of a rendered message."""

    __slots__ = ()


Parts = tuple[str, ...]
"""Texts and special tokens (`Special`), in their order."""


@dataclass(frozen=True)
class RenderedMessage:
    """The parts of one message: only `body` and `end` of the assistant's messages have labels."""

    header: Parts
    body: str
    end: Parts
    after: Parts = ()
    """The parts after the end, such as a line break."""

    @property
    def parts(self) -> Parts:
        """All parts, in their order."""
        return (*self.header, self.body, *self.end, *self.after)


@dataclass(frozen=True)
class EncodedMessage:
    """A message as token ids, and for each id whether it is a label."""

    ids: list[int]
    label_mask: list[bool]
    role: str


class BaseTemplate(Settings):
    """The base class of all templates."""

    system: str = ""
    """The message of the system at the beginning of a dialogue that has none; empty for no message."""

    @abstractmethod
    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """The parts of the message with this index."""

    @abstractmethod
    def reply_header(self) -> Parts:
        """The parts before the text of a reply."""

    def end_id(self, tokenizer: Tokenizer) -> int:
        """The id of the token that ends a reply."""
        return EOS

    def start(self) -> Parts:
        """The parts before the first message."""
        return (Special("<bos>"),)

    def with_system(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, after the default message of the system if they have none of their own."""
        has_system = bool(messages) and messages[0].role == "system"
        first = [] if has_system or not self.system else [Message("system", self.system)]
        return [*first, *messages]

    def text(self, messages: Sequence[Message], reply: bool = False) -> str:
        """The rendered text of a dialogue, special tokens as their names; with the header of a reply if requested."""
        messages = self.with_system(messages)
        parts = [part for index in range(len(messages)) for part in self.message(messages, index).parts]
        return "".join([*self.start(), *parts, *(self.reply_header() if reply else ())])

    def encode(self, tokenizer: Tokenizer, messages: Sequence[Message]) -> list[EncodedMessage]:
        """Each message as token ids, without the ids before the first message (`start_ids`).

        `messages` must include the message of the system (`with_system`).
        """
        encoded = []
        for index, message in enumerate(messages):
            rendered, is_reply = self.message(messages, index), message.role == "assistant"
            if is_reply:  # generation begins after the header, so header and text are tokenized separately
                labels = [*text_ids(tokenizer, rendered.body), *encode_parts(tokenizer, rendered.end)]
                header, after = encode_parts(tokenizer, rendered.header), encode_parts(tokenizer, rendered.after)
                mask = [False] * len(header) + [True] * len(labels) + [False] * len(after)
                encoded.append(EncodedMessage([*header, *labels, *after], mask, message.role))
            else:
                ids = encode_parts(tokenizer, rendered.parts)
                encoded.append(EncodedMessage(ids, [False] * len(ids), message.role))
        return encoded

    def start_ids(self, tokenizer: Tokenizer) -> list[int]:
        """The ids before the first message."""
        return encode_parts(tokenizer, self.start())

    def reply_ids(self, tokenizer: Tokenizer) -> list[int]:
        """The ids of the header of a reply."""
        return encode_parts(tokenizer, self.reply_header())

    def tail_ids(self, tokenizer: Tokenizer) -> list[int]:
        """The ids after the text of a reply, before the next message: its end, and what follows the end."""
        rendered = self.message([Message("user", "a"), Message("assistant", "a")], 1)
        return encode_parts(tokenizer, (*rendered.end, *rendered.after))


class RoleTemplate(BaseTemplate):
    """A token for each role, and <eos> at the end of every message: the template of models trained here."""

    kind: Literal["roles"] = "roles"

    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """The token of the role, the text, and <eos>."""
        each = messages[index]
        return RenderedMessage((Special(f"<{each.role}>"),), each.content, (Special(EOS_TEXT),))

    def reply_header(self) -> Parts:
        """The token of the assistant."""
        return (Special("<assistant>"),)


class PlainTemplate(BaseTemplate):
    """Roles as text, for language models without tokens for them; <eos> ends a reply."""

    kind: Literal["plain"] = "plain"

    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """The name of the role, a colon and the text; a line break separates messages."""
        each = messages[index]
        end = (Special(EOS_TEXT),) if each.role == "assistant" else ()
        return RenderedMessage((f"{each.role}:",), f" {each.content}", end, ("\n",))

    def reply_header(self) -> Parts:
        """The name of the assistant and a colon."""
        return ("assistant:",)


class ChatMLTemplate(BaseTemplate):
    """ChatML, of SmolLM2, Qwen and many others; its first token is <|im_start|>, so there is no <bos> before it."""

    kind: Literal["chatml"] = "chatml"

    def start(self) -> Parts:
        """Nothing: the header of the first message begins the text."""
        return ()

    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """<|im_start|>, the role, a line break, the text, <|im_end|>, a line break."""
        each = messages[index]
        header = (Special("<|im_start|>"), f"{each.role}\n")
        return RenderedMessage(header, each.content, (Special("<|im_end|>"),), ("\n",))

    def reply_header(self) -> Parts:
        """The header of the assistant."""
        return (Special("<|im_start|>"), "assistant\n")

    def end_id(self, tokenizer: Tokenizer) -> int:
        """The id of <|im_end|>."""
        return special_id(tokenizer, "<|im_end|>")


class Llama2Template(BaseTemplate):
    """Llama 2: the message of the system is a part of the first message of the user (Touvron et al. 2023)."""

    kind: Literal["llama-2"] = "llama-2"

    def start(self) -> Parts:
        """Nothing: every message of the user begins with <s>."""
        return ()

    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """<s>[INST] text [/INST] reply </s>."""
        each = messages[index]
        if each.role == "system" and index > 0:
            raise UserError(
                "In the template of Llama 2, a message of the system is at the beginning.", hint="Set template.kind."
            )
        if each.role == "system":
            return RenderedMessage((), "", ())
        if each.role == "assistant":
            return RenderedMessage((" ",), f"{each.content.strip()} ", (Special("</s>"),))
        content = each.content
        if index == 1 and messages[0].role == "system":
            content = f"<<SYS>>\n{messages[0].content}\n<</SYS>>\n\n{content}"
        return RenderedMessage((Special("<s>"), "[INST] "), content.strip(), (" [/INST]",))

    def reply_header(self) -> Parts:
        """Nothing: a reply follows [/INST]."""
        return ()

    def end_id(self, tokenizer: Tokenizer) -> int:
        """The id of </s>."""
        return special_id(tokenizer, "</s>")


class Llama3Template(BaseTemplate):
    """Llama 3: a header of three tokens for each message, and <|eot_id|> at its end (Grattafiori et al. 2024)."""

    kind: Literal["llama-3"] = "llama-3"

    def start(self) -> Parts:
        """<|begin_of_text|>."""
        return (Special("<|begin_of_text|>"),)

    def message(self, messages: Sequence[Message], index: int) -> RenderedMessage:
        """The role between two tokens, two line breaks, the text without spaces around it, <|eot_id|>."""
        each = messages[index]
        return RenderedMessage(_llama3_header(each.role), each.content.strip(), (Special("<|eot_id|>"),))

    def reply_header(self) -> Parts:
        """The header of the assistant."""
        return _llama3_header("assistant")

    def end_id(self, tokenizer: Tokenizer) -> int:
        """The id of <|eot_id|>."""
        return special_id(tokenizer, "<|eot_id|>")


def _llama3_header(role: str) -> Parts:
    return Special("<|start_header_id|>"), role, Special("<|end_header_id|>"), "\n\n"


ChatTemplate = Annotated[
    RoleTemplate | PlainTemplate | ChatMLTemplate | Llama2Template | Llama3Template,
    Field(discriminator="kind"),
    default_kind("roles"),
]
"""All templates, selected by `kind`."""
ROLE_TOKENS = tuple(f"<{role}>" for role in ROLES)
"""The tokens of the roles in the vocabularies of models trained here."""


def add_role_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a token for each role after all others; no text is tokenized as one of them."""
    model: Any = tokenizer._content["model"]
    vocabulary: Any = model["vocab"]
    if isinstance(vocabulary, list):  # unigram: each token with its score
        lowest = min(score for _, score in vocabulary)
        return tokenizer.with_vocabulary([*vocabulary, *([token, lowest] for token in ROLE_TOKENS)])
    numbered = {token: len(tokenizer) + number for number, token in enumerate(ROLE_TOKENS)}
    return tokenizer.with_vocabulary({**vocabulary, **numbered})


def special_id(tokenizer: Tokenizer, name: str) -> int:
    """The id of a special token."""
    if name == "<bos>":
        return BOS
    if name == EOS_TEXT:
        return EOS
    original = tokenizer._library.token_to_id(name)
    if isinstance(tokenizer, PretrainedTokenizer) and original is not None:
        original = tokenizer._own_ids.get(original)
    if original is None:
        raise UserError(
            f"The vocabulary has no token {name}, which the chat template needs.", hint="Set template.kind."
        )
    return int(original)


def text_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text, in which the name of a special token is plain text (see `tokenizer_files.build`)."""
    return tokenizer.encode(text) if text else []


def encode_parts(tokenizer: Tokenizer, parts: Parts) -> list[int]:
    """The ids of parts: adjacent texts are encoded as one text, as in the rendered dialogue."""
    ids: list[int] = []
    text = ""
    for part in (*parts, Special("")):
        if not isinstance(part, Special):
            text += part
            continue
        ids += text_ids(tokenizer, text)
        ids += [special_id(tokenizer, part)] if part else []
        text = ""
    return ids
