"""Settings: a frozen, typed tree with a docstring for every field.

Every settings class is a frozen pydantic model whose fields have docstrings. A choice between classes is a union that
is discriminated by `kind`. So a tree is written to TOML and read back without class names, and a TOML file cannot
import anything. An unknown key is an error with a suggestion.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from seq2see.core.documents import read_toml_tables
from seq2see.core.errors import UserError, unknown_name


class Settings(BaseModel):
    """A frozen node of the settings tree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Fields that take their default when a change of `kind` leads to or from this class.
    not_carried: ClassVar[frozenset[str]] = frozenset()

    def with_(self, **changes: Any) -> Self:
        """A copy with settings changed by dotted path: `recipe.with_(**{"decoder.width": 512})`.

        A change of `kind` replaces the class of that node; settings that both classes have keep their values.
        """
        tree = self.model_dump()
        # The kind determines which other settings exist, so kinds are changed first.
        for path in sorted(changes, key=lambda path: not path.endswith("kind")):
            _set_path(tree, path.split("."), changes[path], type(self))
        return read_tree(type(self), tree)

    def toml(self) -> str:
        """The complete tree as TOML; a key whose value is `None` is omitted."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def default_kind(kind: str) -> BeforeValidator:
    """A validator for a union of classes: a tree without a `kind` is of this kind."""
    return BeforeValidator(lambda tree: {"kind": kind, **tree} if isinstance(tree, dict) else tree)


class OpenNames:
    """Metadata of an annotation: the keys of a table are values of it, too, and users can add names."""

    def __init__(self, table: Collection[str]):
        self.table = table

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """The schema of the annotation, behind the names of the table."""

        def validate(value: Any, inner: Callable[[Any], Any]) -> Any:
            return value if isinstance(value, str) and value in self.table else inner(value)

        return core_schema.no_info_wrap_validator_function(
            validate, handler(source), serialization=core_schema.simple_ser_schema("any")
        )


class OpenKinds:
    """Metadata of a union of settings classes: the keys of a table belong to it, too, and users can add classes."""

    def __init__(self, table: Collection[type[Settings]]):
        self.table = table

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """The schema of the union, behind the classes of the table."""

        def validate(value: Any, inner: Callable[[Any], Any]) -> Any:
            kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
            for cls in self.table:
                if kind == _kind(cls):
                    return cls.model_validate(value)
            return inner(value)

        return core_schema.no_info_wrap_validator_function(
            validate, handler(source), serialization=core_schema.simple_ser_schema("any")
        )


AnySettings = typing.TypeVar("AnySettings", bound=Settings)


def read_toml(cls: type[AnySettings], path: Path) -> AnySettings:
    """Read a settings tree from a TOML file."""
    return read_tree(cls, read_toml_tables(path), location=str(path))


def read_tree(cls: type[AnySettings], tree: dict[str, Any], *, location: str = "") -> AnySettings:
    """Read a settings tree from nested dictionaries; a mistake is reported as a one-sentence `UserError`."""
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise _user_error(cls, error, location) from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Split `path=value`; the value is parsed as TOML if possible, else it is a string.

    >>> parse_assignment("training.steps=200")
    ('training.steps', 200)
    >>> parse_assignment("encoder.kind=recurrent")
    ('encoder.kind', 'recurrent')
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"'{text}' is not a setting.", hint="Write it as path=value, say training.steps=200.")
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # no TOML, or an integer with thousands of digits
        return path.strip(), value.strip()


def walk(node: Settings, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting of a tree as (dotted path, value, explanation), in reading order."""
    for name, field in type(node).model_fields.items():
        value, path = getattr(node, name), f"{prefix}{name}"
        if value is None and choices(field):
            continue  # an optional node that this tree does not have
        if isinstance(value, Settings):
            yield path, type(value), (type(value).__doc__ or "").split("\n")[0]
            yield from walk(value, f"{path}.")
        else:
            yield path, value, descriptions(type(node)).get(name, "")


@cache
def descriptions(cls: type[Settings]) -> dict[str, str]:
    """The docstring of each field, parsed from the source at the first call.

    Pydantic can collect them too, but when each class is defined. That takes a third of the import time of all
    settings, and most training runs never use them.
    """
    docstrings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Settings):
            docstrings |= _field_docstrings(base)
    return docstrings


def _field_docstrings(cls: type) -> dict[str, str]:
    """The docstrings of the fields that a class itself defines; none if its source is not installed."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):
        return {}
    return {
        field.target.id: inspect.cleandoc(text)
        for field, docstring in pairwise(cast(ast.ClassDef, definition).body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)
        if isinstance(text := docstring.value.value, str)
    }


def choices(annotation: Any) -> list[type[Settings]]:
    """The settings classes that an annotation or a field allows."""
    if isinstance(annotation, FieldInfo):
        added = [cls for each in annotation.metadata if isinstance(each, OpenKinds) for cls in each.table]
        return [*choices(annotation.annotation), *added]
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if typing.get_origin(annotation) is typing.Annotated:
        return choices(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [cls for part in typing.get_args(annotation) for cls in choices(part)]
    return []


def _kind(cls: type[Settings]) -> str | None:
    field = cls.model_fields.get("kind")
    return cast(str, field.default) if field else None


def _set_path(tree: dict[str, Any], path: list[str], value: Any, cls: type[Settings], location: str = "") -> None:
    """Set one leaf of a dumped tree; the error for a wrong path names the part that is wrong."""
    name, rest = path[0], path[1:]
    if name not in cls.model_fields:
        raise unknown_name("setting", name, cls.model_fields, location=location)
    options = choices(cls.model_fields[name])
    if not rest:
        tree[name] = value.model_dump() if isinstance(value, Settings) else value
        return
    if not options:
        raise UserError(f"'{name}' has no settings inside it.", location=location)
    if name not in tree:  # the kind of this node has just been changed, so its settings have their defaults
        default = cls.model_fields[name].get_default()
        tree[name] = default.model_dump() if isinstance(default, Settings) else None
    if tree[name] is None and rest != ["kind"]:
        raise UserError(f"This recipe has no {name}, so '{'.'.join(path)}' cannot be set.", location=location)
    node = tree[name] if isinstance(tree[name], dict) else {}
    if rest == ["kind"] and len(options) > 1:
        by_kind = {_kind(option): option for option in options}
        if value not in by_kind:
            raise unknown_name(
                "kind", str(value), [str(kind) for kind in by_kind], location=f"{location}.{name}".strip(".")
            )
        before = next((option for option in options if _kind(option) == node.get("kind")), by_kind[value])
        after = by_kind[value]
        old, new = before.model_fields, after.model_fields
        shared = {key for key in node if key in new and old[key].annotation == new[key].annotation}
        if after is not before:
            shared -= before.not_carried | after.not_carried
        tree[name] = {key: node[key] for key in node if key in shared} | {"kind": value}
        return
    current = next((option for option in options if _kind(option) == node.get("kind")), options[0])
    tree[name] = node
    _set_path(node, rest, value, current, f"{location}.{name}".strip("."))


def _user_error(cls: type[Settings], error: ValidationError, location: str) -> UserError:
    """The first validation error of pydantic as a `UserError`."""
    first = error.errors()[0]
    names = [str(part) for part in first["loc"]]
    path = ".".join(_setting_names(cls, names))
    if first["type"] == "extra_forbidden":
        allowed = _fields_at(cls, names[:-1])
        return unknown_name("setting", names[-1], allowed, location=location or ".".join(path.split(".")[:-1]))
    if first["type"] == "missing":
        return UserError(f"The setting '{path}' is missing.", location=location)
    if first["type"] == "value_error":  # raised by one of our own validators
        message = str(first["ctx"]["error"])
        return UserError(f"{path}: {message}." if path else f"{message}.", location=location)
    return UserError(f"'{path}' cannot be {first['input']!r}: {first['msg']}.", location=location)


def _step_into(cls: type[Settings] | None, name: str) -> type[Settings] | None:
    if cls is None or name not in cls.model_fields:
        return None
    options = choices(cls.model_fields[name])
    return options[0] if options else None


def _walk_location(cls: type[Settings], names: list[str]) -> Iterator[tuple[str, bool, type[Settings] | None]]:
    """Walk along the location of a validation error; pydantic puts the kind of a union between two field names."""
    current: type[Settings] | None = cls
    options: list[type[Settings]] = []
    for name in names:
        by_kind = {_kind(option): option for option in options if _kind(option)}
        if len(options) > 1 and name in by_kind:
            current, options = by_kind[name], []
            yield name, True, current
            continue
        options = choices(current.model_fields[name]) if current and name in current.model_fields else []
        current = _step_into(current, name)
        yield name, False, current


def _setting_names(cls: type[Settings], names: list[str]) -> list[str]:
    return [name for name, is_kind, _ in _walk_location(cls, names) if not is_kind]


def _fields_at(cls: type[Settings], names: list[str]) -> list[str]:
    classes: list[type[Settings] | None] = [cls, *(node for _, _, node in _walk_location(cls, names))]
    return list(classes[-1].model_fields) if classes[-1] else []
