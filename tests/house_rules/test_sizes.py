"""Small by contract: one idea a file, few branches a function (ruff counts them), few parameters."""

from __future__ import annotations

import ast

from source_tree import Module, modules

MAX_LINES, MAX_PARAMETERS = 600, 7

# Exceptions: "path" or "path name", and the reason. Everything else is split.
LONG_FILES: dict[str, str] = {}
MANY_PARAMETERS: dict[str, str] = {
    "src/seq2see/cli/predict.py predict": "a verb's parameters are the options of its command line",
}


def functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """What a caller may give; `self` and `cls` come by themselves."""
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    more = [each.arg for each in (given.vararg, given.kwarg) if each]
    return [name for name in named if name not in ("self", "cls")] + more


def check_sizes(found: dict[str, int], most: int, allowed: dict[str, str]) -> None:
    over = {name: size for name, size in found.items() if size > most}
    wrong = [f"{name}: {size}, at most {most}" for name, size in over.items() if name not in allowed]
    assert not wrong, "split or justify:\n" + "\n".join(wrong)
    assert set(allowed) <= set(over), f"no longer exceptions: {sorted(set(allowed) - set(over))}"


def test_files_stay_short():
    check_sizes({str(module): len(module.text.splitlines()) for module in modules()}, MAX_LINES, LONG_FILES)


def test_functions_have_few_parameters():
    # A kernel is handed addresses, steps and sizes one by one.
    kernels = {"triton.jit"}
    counts = {
        f"{module} {function.name}": len(parameters(function))
        for module in modules()
        for function in functions(module)
        if kernels.isdisjoint(ast.unparse(each) for each in function.decorator_list)
    }
    check_sizes(counts, MAX_PARAMETERS, MANY_PARAMETERS)


def test_every_module_says_what_it_is_about():
    silent = [str(module) for module in modules() if not ast.get_docstring(ast.parse(module.text))]
    assert not silent, f"these need a docstring: {silent}"
