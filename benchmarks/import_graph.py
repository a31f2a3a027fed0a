"""Which module of a package imports which, and the cycles among them.

An import inside a function counts like one at the top of a file, because a reader has to follow both. An import under
`if TYPE_CHECKING` is for annotations only; it is counted on request. A module that is imported by a text
(`importlib.import_module`) is not seen, and importing `a.b` does not count as importing `a`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]
"""The imported modules of each module, by their dotted names."""


def import_graph(package: Path, with_annotations: bool) -> Graph:
    """The imports among the modules of a package; those under `TYPE_CHECKING` if `with_annotations` is set."""
    files = {_module_name(package, path): path for path in sorted(package.rglob("*.py"))}
    return {
        name: {each for each in _imported(path.read_text(encoding="utf-8"), files, with_annotations) if each != name}
        for name, path in files.items()
    }


def _module_name(package: Path, path: Path) -> str:
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str, modules: Mapping[str, Path], with_annotations: bool) -> Iterator[str]:
    """The modules that a source text imports; `from a import b` imports `a.b` if this is a module, or else `a`."""
    for node in _statements(ast.parse(text), with_annotations):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in modules or node.module in modules:
                    yield full if full in modules else node.module


def _statements(node: ast.AST, with_annotations: bool) -> Iterator[ast.AST]:
    """All nodes below a node; the branch `if TYPE_CHECKING` is left out unless `with_annotations` is set."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not with_annotations:
            for statement in child.orelse:
                yield statement
                yield from _statements(statement, with_annotations)
            continue
        yield child
        yield from _statements(child, with_annotations)


def import_cycles(graph: Graph) -> list[tuple[str, ...]]:
    """The strongly connected components of more than one module, that is: modules that import each other in a circle.

    Two modules are in one component if each can be reached from the other.
    """
    reachable = {name: _reachable(graph, name) for name in graph}
    components = {
        tuple(sorted({name} | {other for other in reachable[name] if name in reachable[other]})) for name in graph
    }
    return sorted(each for each in components if len(each) > 1)


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found
