"""A bench with tiny models of random weights, some of whose names look like markup, and how it is asked without a port.

Nothing here was trained: what the server does is the same for every model.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from PIL import Image
from writers import PLACED, SHAPES, STACK, writer

from seq2see.decoding.settings import Decoding
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.guard import App, Keys
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.server import build_app
from seq2see.explorer.waiting import Line
from seq2see.models.build import fresh_model
from seq2see.models.picture_settings import Film, Patches, Picture
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, PictureLabel, Series, TextTarget
from seq2see.recipes.table import recipe
from seq2see.sequences.films import FilmPixels
from seq2see.sequences.pixels import Pixels
from seq2see.sequences.series import Scale
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tokenisers import Tokenisers

SCRIPT = "<script>alert(1)</script>"
SEEN, EYES = Picture(side=8, frontend=Patches(size=4)), Pixels(8, 3)
KEYS = Keys(port=7777)
OWN = {"Host": "127.0.0.1:7777"}
BEARER = {**OWN, "Authorization": f"Bearer {KEYS.token}"}


@cache
def looker() -> Model:
    """A Vision Transformer; one of its labels looks like markup."""
    settings = ModelSettings(source=SEEN, encoder=STACK, target=PictureLabel())
    return made("vit", settings, Tokenisers(EYES, EYES, (SCRIPT, "红")))


@cache
def teller() -> Model:
    """A model that says in words what is to be seen."""
    letters = writer("gpt").tokenisers.target
    settings = ModelSettings(source=SEEN, encoder=STACK, decoder=STACK, target=TextTarget(frontend=PLACED))
    return made("caption", settings, Tokenisers(EYES, letters))


@cache
def watcher() -> Model:
    """A model that says in words what happens in a film."""
    seen = Film(side=8, frames=4, frontend=Patches(size=4, positions="none"))
    settings = SHAPES["rnn"].with_(source=seen)
    return made("film", settings, Tokenisers(FilmPixels(8, 3, 4), writer("gpt").tokenisers.target))


@cache
def forecaster() -> Model:
    """A model that goes on from numbers: it has neither words nor labels."""
    decoder = RecurrentDecoderSettings(width=16, cell="gru", look="first-state", dropout=0.0)
    scale = Scale(0.0, 1.0)
    return made("waves", ModelSettings(target=Series(longest=8), decoder=decoder), Tokenisers(scale, scale))


def made(name: str, settings: ModelSettings, tokenisers: Tokenisers) -> Model:
    """A model of some shape with random weights."""
    module = fresh_model(settings, tokenisers.sizes, "xavier", seed=3).eval()
    config = ModelConfig(name=name, step=1, model=settings, decoding=Decoding(max_new_tokens=8))
    return opened(StoredModel(config, module, tokenisers))


def opened_run(id: str, name: str, model: Model) -> OpenRun:
    """A run that has a model and nothing else."""
    run = OpenRun(id, name, None, Path())
    run.model = model
    return run


def bench(shelf: Path | None = None) -> Bench:
    """Five models; on a shelf for folders also a run that is being trained, three that were judged, and odd models."""
    models = [*map(writer, ("transformer", "rnn", "gpt", "bert")), looker()]
    runs = [opened_run(f"r{number}", f"r{number}", model) for number, model in enumerate(models, 1)]
    runs[0].name = f"{SCRIPT} 变换器"
    if shelf:
        runs += [
            OpenRun("r6", "half-done", unfinished(shelf / "half-done"), shelf / "half-done" / "model"),
            OpenRun("r7", "judged", evaluated(shelf / "judged"), shelf / "judged" / "model"),
            OpenRun("r8", "labelled", labelled(shelf / "labelled"), shelf / "labelled" / "model"),
            opened_run("r9", "r9", teller()),
            opened_run("r10", "r10", forecaster()),
            opened_run("r11", "r11", watcher()),
            OpenRun("r12", "forecast", forecast(shelf / "forecast"), shelf / "forecast" / "model"),
        ]
        runs[6].model, runs[7].model, runs[11].model = writer("transformer"), looker(), forecaster()
    return Bench({run.id: run for run in runs})


def unfinished(folder: Path, name: str = "pocket-transformer") -> RunFolder:
    """The folder of a run after twenty steps."""
    run = RunFolder(folder)
    run.samples.mkdir(parents=True)
    run.recipe_file.write_text(recipe(name).toml(), encoding="utf-8")
    note(run, *({"step": step, "loss": 1 / step} for step in range(1, 20)), {"step": 20, "loss": float("nan")})
    (run.samples / "step-000010.tsv").write_text(
        f"source\treference\toutput\n你好\t{SCRIPT}\thello\n", encoding="utf-8"
    )
    return run


def evaluated(folder: Path) -> RunFolder:
    """The folder of a run that was judged."""
    run = unfinished(folder)
    run.model.mkdir()
    run.evaluation.mkdir()
    rows = ["source\treference\toutput\tchrf\tscore", "我有书\tab c\tab d\t61.5\t-0.5", f"你\t{SCRIPT}\ta\t3.0\t-2.5"]
    (run.evaluation / "test.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return run


def labelled(folder: Path) -> RunFolder:
    """The folder of a run whose answers are labels, and which was judged."""
    run = unfinished(folder, "classify-image")
    run.model.mkdir()
    run.evaluation.mkdir()
    table = f"picture\tlabel\tanswer\tprobability\na.png\t{SCRIPT}\t红\t0.75\nb.png\t红\t红\t0.5\n"
    (run.evaluation / "test-answers.tsv").write_text(table, encoding="utf-8")
    return run


def forecast(folder: Path) -> RunFolder:
    """The folder of a run that goes on from numbers, and which was judged."""
    run = unfinished(folder, "waves-gru")
    run.model.mkdir()
    run.evaluation.mkdir()
    rows = [f"{time}\t{0.1 * time:.1f}\t{0.1 * time + 0.01:.2f}\n" for time in range(20)]
    (run.evaluation / "forecasts.tsv").write_text("".join(["time\tvalue\tmodel\n", *rows]), encoding="utf-8")
    return run


def note(run: RunFolder, *lines: dict[str, Any]) -> None:
    """Write more lines into the diary of a run."""
    with run.metrics.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def app_of(on: Bench) -> App:
    """The whole application, with its guard."""
    return build_app(on, KEYS, Line("models"))


def needed(route: str) -> dict[str, object]:
    """What a question to a route must say besides its run."""
    some = {"cell": "decoder.stack.cells.0", "layer": 0, "row": 0, "part": "query", "word": 0, "split": "test"}
    some |= {"text": "我", "step": 10, "file": "", "side": "source", "target": "a", "block": ""}
    return {name: value for name, value in some.items() if name in ROUTES[route].asked.model_fields}


def picture(side: int = 8) -> str:
    """A picture file in base64."""
    file = BytesIO()
    Image.fromarray(np.full((side, side, 3), 200, np.uint8)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def by_itself(work: Coroutine[Any, Any, Any]) -> Any:
    """What some asynchronous work gives; in a thread of its own, since a browser in this one has a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Client:
    """Asks an application directly; without a header of its own it bears the token."""

    def __init__(self, app: App):
        self.app = app

    def ask(self, route: str, **body: Any) -> httpx2.Response:
        """Put a question."""
        return self.send("POST", f"/api/{route}", json=body)

    def send(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        """Any request."""
        return self.all([{"method": method, "url": path, "headers": headers or BEARER, **more}])[0]

    def all(self, requests: list[dict[str, Any]]) -> list[httpx2.Response]:
        """Many requests, one after another."""
        return by_itself(self._all(requests))

    async def _all(self, requests: list[dict[str, Any]]) -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=True)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777") as client:
            return [await client.request(**request) for request in requests]
