"""The chat template of a model of other libraries, recognized by the text of its program.

A model folder stores its template as a program in the template language Jinja, a GGUF file too. The program is not run:
a few patterns match the known programs as a whole, spaces apart, and read from them what varies, such as the message of
the system that is inserted if a dialogue has none. A program that no pattern matches is an error, because a template
that is nearly right changes the replies silently.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError, require_packages
from seq2see.data.chat_templates import BaseTemplate, ChatMLTemplate, Llama2Template, Llama3Template
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN

TEXT = r"(?P<system>(?:[^'\\]|\\.)*)"
"""The text of a string in a program."""
CHATML_MESSAGE = r"\{\{'<\|im_start\|>'\+message\['role'\]\+'\\n'\+message\['content'\]\+'<\|im_end\|>'\+'\\n'\}\}"
CHATML_REPLY = r"\{%ifadd_generation_prompt%\}\{\{'<\|im_start\|>assistant\\n'\}\}\{%endif%\}"
CHATML_SYSTEM = (
    r"\{%ifloop\.firstandmessages\[0\]\['role'\]!='system'%\}\{\{'<\|im_start\|>system\\n"
    + TEXT
    + r"<\|im_end\|>\\n'\}\}\{%endif%\}"
)
LLAMA3_HEADER = r"'<\|start_header_id\|>'\+message\['role'\]\+'<\|end_header_id\|>\\n\\n'"
PATTERNS: tuple[tuple[type[BaseTemplate], str], ...] = (
    (
        ChatMLTemplate,
        rf"(?:\{{%ifnotadd_generation_promptisdefined%\}}\{{%setadd_generation_prompt=false%\}}\{{%endif%\}})?"
        rf"\{{%formessageinmessages%\}}(?:{CHATML_SYSTEM})?{CHATML_MESSAGE}\{{%endfor%\}}{CHATML_REPLY}",
    ),
    (
        Llama3Template,
        r"\{%setloop_messages=messages%\}\{%formessageinloop_messages%\}"
        rf"\{{%setcontent={LLAMA3_HEADER}\+message\['content'\]\|trim\+'<\|eot_id\|>'%\}}"
        r"\{%ifloop\.index0==0%\}\{%setcontent=bos_token\+content%\}\{%endif%\}\{\{content\}\}\{%endfor%\}"
        r"(?:\{%ifadd_generation_prompt%\})?"
        r"\{\{'<\|start_header_id\|>assistant<\|end_header_id\|>\\n\\n'\}\}(?:\{%endif%\})?",
    ),
    (
        Llama2Template,
        r"\{%ifmessages\[0\]\['role'\]=='system'%\}\{%setloop_messages=messages\[1:\]%\}"
        r"\{%setsystem_message=messages\[0\]\['content'\]%\}\{%else%\}\{%setloop_messages=messages%\}"
        r"\{%setsystem_message=false%\}\{%endif%\}\{%formessageinloop_messages%\}"
        r"\{%if\(message\['role'\]=='user'\)!=\(loop\.index0%2==0\)%\}"
        r"\{\{raise_exception\('[^']*'\)\}\}\{%endif%\}"
        r"\{%ifloop\.index0==0andsystem_message!=false%\}"
        r"\{%setcontent='<<SYS>>\\n'\+system_message\+'\\n<</SYS>>\\n\\n'\+message\['content'\]%\}"
        r"\{%else%\}\{%setcontent=message\['content'\]%\}\{%endif%\}"
        r"\{%ifmessage\['role'\]=='user'%\}\{\{bos_token\+'\[INST\]'\+content\.strip\(\)\+'\[/INST\]'\}\}"
        r"\{%elifmessage\['role'\]=='assistant'%\}\{\{''\+content\.strip\(\)\+''\+eos_token\}\}\{%endif%\}\{%endfor%\}",
    ),
)
"""The programs without spaces; the tests compare the rendered texts, with their spaces, with those of the programs."""
SYSTEM_WITH_SPACES = re.compile(r"<\|im_start\|>system\\n((?:[^'\\]|\\.)*?)<\|im_end\|>")


def find_template(path: Path) -> BaseTemplate | None:
    """The chat template of a model folder or GGUF file; None if it has none."""
    source = _gguf_source(path) if path.suffix == ".gguf" else _folder_source(path)
    return None if source is None else recognize_template(source, str(path))


def recognize_template(source: str, location: str = "") -> BaseTemplate:
    """The template with this program; an unknown one is an error."""
    # A line break in a string is written as an escape or as itself; blank space outside of strings has no effect.
    parts = re.split(r"('(?:[^'\\]|\\.)*')", source)
    canonical = "".join(part.replace("\n", "\\n") if number % 2 else part for number, part in enumerate(parts))
    plain = re.sub(r"\s", "", canonical)
    plain = plain.replace("{%-", "{%").replace("-%}", "%}").replace("{{-", "{{").replace("-}}", "}}")
    for template, pattern in PATTERNS:
        if re.fullmatch(pattern, plain):
            system = SYSTEM_WITH_SPACES.search(canonical)
            return template(system=system[1].replace("\\n", "\n").replace("\\'", "'")) if system else template()
    message = f"The chat template of this model is not known: {' '.join(source.split())[:60]!r} ..."
    hint = "It is a program, which is not run. Known are ChatML and the templates of Llama 2 and 3."
    raise UserError(message, location=location, hint=hint)


def _folder_source(folder: Path) -> str | None:
    """The program in a model folder, which has a file of its own in newer folders."""
    own = folder / "chat_template.jinja"
    try:
        if own.exists():
            return own.read_text(encoding="utf-8")
        config = folder / "tokenizer_config.json"
        tree: Any = load_json(config) if config.exists() else {}
        source = tree.get("chat_template")
        if isinstance(source, list):  # several templates with names
            source = next((each["template"] for each in source if each["name"] == "default"), None)
        if source is not None and not isinstance(source, str):
            raise ValueError("it is not a text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"The chat template of this folder cannot be read: {error}."
        raise UserError(message, location=str(folder), hint=DOWNLOAD_AGAIN) from None
    return source


def _gguf_source(path: Path) -> str | None:
    require_packages("gguf", "gguf")
    from gguf import GGUFReader

    try:
        field = GGUFReader(path).fields.get("tokenizer.chat_template")
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise UserError(f"This GGUF file cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return None if field is None else str(field.contents())
