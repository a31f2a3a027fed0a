"""What the READMEs and the pages tell people to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from source_tree import ROOT, fenced
from typer.main import get_command

import seq2see.api
from seq2see.cli.app import app, run
from seq2see.core.settings import parse_assignment, walk
from seq2see.recipes.registry import RECIPES, resolve

READMES = (ROOT / "README.md", ROOT / "README.zh.md")
PAGES = (*READMES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
SMALL = ["--set", "corpus.size=60"]
SHORT = ["--set", "training.steps=3", "--set", "training.evaluate_every=2", "--set", "decoder.width=16",
         "--set", "encoder.width=16"]  # fmt: skip
PEOPLE = ["I", "you", "we", "they", "farmers", "doctors", "horses"]
VERBS = ["see", "know", "like", "want", "need", "miss", "help", "draw"]


def commands(page: Path) -> list[list[str]]:
    """Every command in the `sh` blocks of a page."""
    lines = [line for block in fenced(page, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def all_commands(program: str) -> list[list[str]]:
    found = [words[1:] for page in PAGES for words in commands(page) if words[0] == program]
    return [list(words) for words in dict.fromkeys(map(tuple, found))]


def inline_commands() -> list[list[str]]:
    """Commands that stand in running text, between back quotes, and name everything they need."""
    texts = [text for page in PAGES for text in re.findall(r"`seq2see ([^`]+)`", page.read_text(encoding="utf-8"))]
    return [shlex.split(text) for text in dict.fromkeys(texts) if text.isascii() and not re.search(r"[A-Z|<]", text)]


def parse(arguments: list[str]) -> dict[str, object]:
    """What a command line says, verb by verb, without doing any of it."""
    command, parameters = get_command(app), {}
    while True:
        context = command.make_context("seq2see", list(arguments))
        parameters.update(context.params)
        if not hasattr(command, "commands"):
            return parameters
        rest = [*getattr(context, "_protected_args", []), *context.args]
        _, command, arguments = command.resolve_command(context, rest)


def short_for(recipe: str) -> list[str]:
    """Settings that make a training short; only those that the recipe has."""
    paths = {path for path, _, _ in walk(RECIPES[recipe]())}
    pairs = zip(SHORT[::2], SHORT[1::2], strict=True)
    return [word for pair in pairs if pair[1].split("=")[0] in paths for word in pair]


def is_known(recipe: str) -> bool:
    return recipe in RECIPES or recipe.endswith(".toml")


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of, where commands may do as they like."""
    monkeypatch.chdir(tmp_path)
    pairs = [f"{who} {deed} {whom}\t{whom} {deed} {who}\n" for who in PEOPLE for deed in VERBS for whom in PEOPLE[:3]]
    (tmp_path / "my.tsv").write_text("".join(pairs))
    labeled = [f"{pair.split()[0]} {number}\t{pair.split()[1]}\n" for number, pair in enumerate(pairs)]
    (tmp_path / "labels.tsv").write_text("".join(labeled))
    tagged = [
        [(word, tag) for word, tag in zip(pair.split(), ("PRON", "VERB", "NOUN"), strict=False)] for pair in pairs
    ]
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    lines = ["".join(row.format(place, *word) for place, word in enumerate(words, 1)) + "\n" for words in tagged]
    (tmp_path / "my.conllu").write_text("".join(lines))
    (tmp_path / "book.txt").write_text("".join(pairs))
    (tmp_path / "my.csv").write_text("".join(f"{number % 7}\n" for number in range(99)))
    (tmp_path / "new.txt").write_text("I see horses\n\nthey like you\n")
    for number, label in enumerate(["cats", "dogs"] * 20):
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", (40, 30 + number), (6 * number, 90, 100 * (number % 2)))
        image.save(tmp_path / "photos" / label / f"{number}.png")
    image.save(tmp_path / "image.png")
    return tmp_path


def test_both_readmes_have_the_same_commands():
    assert commands(READMES[0]) == commands(READMES[1])
    assert len(commands(READMES[0])) > 10


def test_every_line_is_a_command_that_is_checked_here():
    known = {"seq2see", "make", "."}
    strange = [
        f"{page.name}: {shlex.join(words)}"
        for page in PAGES
        for words in commands(page)
        if words[0] not in known and not page.name.startswith("extend.")  # see tests/contracts/test_extend_page.py
    ]
    assert not strange


@pytest.mark.parametrize(
    "arguments", [["trian", "x"], ["train"], ["eval", "--fast", "x"], ["data", "fetch", "x"]], ids=shlex.join
)
def test_the_parser_refuses_what_does_not_exist(arguments):
    with pytest.raises(Exception, match=r"command|[Mm]issing|[Nn]o such"):
        parse(arguments)


@pytest.mark.parametrize("arguments", inline_commands(), ids=shlex.join)
def test_commands_in_running_text_exist(arguments, beside_files):
    try:
        check(arguments)
    except Exception as error:
        if type(error).__name__ not in ("MissingParameter", "Exit"):  # a sentence may name a verb and not say on what
            raise


@pytest.mark.parametrize("arguments", all_commands("seq2see"), ids=shlex.join)
def test_verbs_options_recipes_and_settings_exist(arguments, beside_files):
    check(arguments)


@pytest.fixture
def beside_files(tmp_path, monkeypatch):
    """A folder with the files that the pages' commands name in settings."""
    for name in ("valid.tsv", "test.tsv"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def check(arguments: list[str]) -> None:
    """Parse a command, and look up what it names."""
    parameters = parse(arguments)
    verb = arguments[0]
    if verb in ("train", "show"):
        assert is_known(str(parameters["recipe"]))
    if verb == "diff":
        assert {parameters["first"], parameters["second"]} <= RECIPES.keys()
    if verb == "train" and parameters["recipe"] in RECIPES:
        files = [ROOT / "README.md"] if parameters["data"] else []  # any file that exists: it is not read
        resolve(str(parameters["recipe"]), files, dict(map(parse_assignment, parameters["set_"] or [])))


@pytest.mark.parametrize("target", sorted({words[0] for words in all_commands("make")}))
def test_make_has_the_target_and_its_commands_parse(target):
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    for line in re.findall(r"bin/seq2see (.*)", done.stdout):
        parse(shlex.split(line))


CHEAP = [
    ["--help"], ["recipes"], ["show", "pocket-transformer"], ["diff", "pocket-gru", "pocket-gru-attention"],
    ["runs"], ["data", "list"], ["data", "check", "my.tsv"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", CHEAP, ids=shlex.join)
def test_cheap_commands_work(arguments, workspace, capsys):
    assert run(arguments) == 0
    assert capsys.readouterr().out.strip()


def test_the_cheap_commands_are_those_of_the_pages():
    told = all_commands("seq2see")
    assert all(arguments in told for arguments in CHEAP if arguments != ["--help"])


def test_a_dry_run_shows_a_batch_and_leaves_nothing_behind(workspace, capsys):
    before = sorted(workspace.iterdir())
    arguments = next(words[1:] for words in commands(READMES[0]) if "--dry-run" in words)
    assert run([*arguments, "--set", "encoder.width=16", "--set", "decoder.width=16"]) == 0
    assert "decoder input" in capsys.readouterr().out
    assert sorted(workspace.iterdir()) == before


@pytest.mark.long
def test_the_readme_from_its_first_command_to_its_last(workspace, capsys):
    """In miniature: with fewer steps, a small corpus and narrow layers."""
    for words in commands(READMES[0]):
        if words[0] != "seq2see" or "--dry-run" in words:
            continue
        if words[1] == "explore" and "--save" not in words:
            continue  # serves until it is stopped, as tests/explorer/test_serve.py does
        arguments = words[1:]
        if arguments[0] == "train":
            parameters = parse(arguments)
            arguments = [*arguments, *short_for(str(parameters["recipe"])), *([] if parameters["data"] else SMALL)]
        assert run(arguments) == 0, f"{shlex.join(arguments)}\n{capsys.readouterr().err}"
    made = sorted(path.name for path in (workspace / "runs").iterdir())
    assert made == [
        "chat",
        "classify-image",
        "classify-text",
        "fill",
        "forecast",
        "ngram",
        "pocket-gru-attention",
        "tag",
        "translate",
        "write",
    ]
    assert (workspace / "runs" / "translate" / "report.html").exists()


@pytest.mark.long
def test_the_readmes_files_of_a_run_are_there(workspace):
    assert run(["train", "pocket-transformer", *SHORT, *SMALL]) == 0
    assert run(["eval", "latest"]) == 0
    listing = next(block for block in fenced(READMES[0], "text") if "recipe.toml" in block)
    named = set(re.findall(r"(?:^  |   )([a-z]+(?:\.[a-z]+|/))  ", listing, re.MULTILINE))
    assert len(named) > 9
    missing = sorted(name for name in named if not (workspace / "runs" / "pocket-transformer" / name).exists())
    assert not missing


@pytest.mark.long
@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_python_of_the_readmes_runs(page, workspace, monkeypatch, capsys):
    train = seq2see.api.train

    def train_a_little(name, **given):
        little = {"training.steps": 3, "corpus.size": 60, "encoder.width": 16, "decoder.width": 16}
        return train(name, **{**given, "set": {**given.get("set", {}), **little}})

    monkeypatch.setattr(seq2see.api, "train", train_a_little)
    for block in fenced(page, "python"):
        exec(compile(block, page.name, "exec"), {})
    assert "(" in capsys.readouterr().out
