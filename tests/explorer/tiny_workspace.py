"""A workspace with tiny models of random weights, whose names look like markup, and a client without a network port.

No model is trained: the server works in the same way for every model.
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
from sound_models import sound_model
from text_models import SHAPES, STACK, WITH_POSITIONS, text_model

from seq2see.data.image_dataset import ImageProcessor, VideoProcessor
from seq2see.data.series_dataset import StandardScaler
from seq2see.decoding.engine import Decoding
from seq2see.explorer.job_queue import JobQueue
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.security import App, Credentials
from seq2see.explorer.server import build_app
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings, VideoSource
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ImageLabel, ModelSettings, Series, TextTarget
from seq2see.recipes.registry import recipe
from seq2see.runs.load import open_model
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

SCRIPT = "<script>alert(1)</script>"
IMAGE, IMAGE_PROCESSOR = ImageSource(image_size=8, embedding=PatchEmbeddingSettings(size=4)), ImageProcessor(8, 3)
CREDENTIALS = Credentials(port=7777)
HOST_HEADER = {"Host": "127.0.0.1:7777"}
BEARER = {**HOST_HEADER, "Authorization": f"Bearer {CREDENTIALS.token}"}


@cache
def image_classifier() -> Model:
    """A Vision Transformer; one of its labels looks like markup."""
    settings = ModelSettings(source=IMAGE, encoder=STACK, target=ImageLabel())
    return random_model("vit", settings, Tokenizers(IMAGE_PROCESSOR, IMAGE_PROCESSOR, (SCRIPT, "红")))


@cache
def image_captioner() -> Model:
    """A captioner of images."""
    letters = text_model("gpt").tokenizers.target
    settings = ModelSettings(source=IMAGE, encoder=STACK, decoder=STACK, target=TextTarget(embedding=WITH_POSITIONS))
    return random_model("caption", settings, Tokenizers(IMAGE_PROCESSOR, letters))


@cache
def video_captioner() -> Model:
    """A captioner of videos."""
    source = VideoSource(image_size=8, frames=4, embedding=PatchEmbeddingSettings(size=4, positions="none"))
    settings = SHAPES["rnn"].with_(source=source)
    return random_model("video", settings, Tokenizers(VideoProcessor(8, 3, 4), text_model("gpt").tokenizers.target))


@cache
def series_model() -> Model:
    """A forecasting model, which has neither tokens nor labels."""
    decoder = RecurrentDecoderSettings(width=16, cell="gru", attention="none", dropout=0.0)
    scale = StandardScaler(0.0, 1.0)
    return random_model(
        "forecast", ModelSettings(target=Series(context_length=8), decoder=decoder), Tokenizers(scale, scale)
    )


def random_model(name: str, settings: ModelSettings, tokenizers: Tokenizers) -> Model:
    """A model with these settings and random weights."""
    module = fresh_model(settings, tokenizers.sizes, "xavier", seed=3).eval()
    config = ModelConfig(
        task=pretrained_task(settings), name=name, step=1, model=settings, decoding=Decoding(max_new_tokens=8)
    )
    return open_model(StoredModel(config, module, tokenizers))


def opened_run(id: str, name: str, model: Model) -> OpenRun:
    """A run with a model and without a folder."""
    run = OpenRun(id, name, None, Path())
    run.model = model
    return run


def workspace(folder: Path | None = None) -> Workspace:
    """Five models; with a folder also an unfinished run, evaluated runs, and models of images, series and sounds."""
    models = [*map(text_model, ("transformer", "rnn", "gpt", "bert")), image_classifier()]
    runs = [opened_run(f"r{number}", f"r{number}", model) for number, model in enumerate(models, 1)]
    runs[0].name = f"{SCRIPT} 变换器"
    if folder:
        runs += [
            OpenRun("r6", "half-done", unfinished_run(folder / "half-done"), folder / "half-done" / "model"),
            OpenRun("r7", "evaluated", evaluated_run(folder / "evaluated"), folder / "evaluated" / "model"),
            OpenRun("r8", "labeled", labeled_run(folder / "labeled"), folder / "labeled" / "model"),
            opened_run("r9", "r9", image_captioner()),
            opened_run("r10", "r10", series_model()),
            opened_run("r11", "r11", video_captioner()),
            OpenRun("r12", "forecast", forecast_run(folder / "forecast"), folder / "forecast" / "model"),
            opened_run("r13", "r13", sound_model("ctc")),
        ]
        runs[6].model, runs[7].model, runs[11].model = text_model("transformer"), image_classifier(), series_model()
    return Workspace({run.id: run for run in runs})


def unfinished_run(folder: Path, name: str = "pocket-transformer") -> RunFolder:
    """The folder of an unfinished run after twenty steps."""
    run = RunFolder(folder)
    run.samples.mkdir(parents=True)
    run.recipe_file.write_text(recipe(name).toml(), encoding="utf-8")
    append_metrics(
        run, *({"step": step, "loss": 1 / step} for step in range(1, 20)), {"step": 20, "loss": float("nan")}
    )
    (run.samples / "step-000010.tsv").write_text(
        f"source\treference\toutput\n你好\t{SCRIPT}\thello\n", encoding="utf-8"
    )
    return run


def evaluated_run(folder: Path) -> RunFolder:
    """The folder of an evaluated run."""
    run = unfinished_run(folder)
    run.model.mkdir()
    run.evaluation.mkdir()
    rows = ["source\treference\toutput\tchrf\tscore", "我有书\tab c\tab d\t61.5\t-0.5", f"你\t{SCRIPT}\ta\t3.0\t-2.5"]
    (run.evaluation / "test.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return run


def labeled_run(folder: Path) -> RunFolder:
    """The folder of an evaluated classifier."""
    run = unfinished_run(folder, "classify-image")
    run.model.mkdir()
    run.evaluation.mkdir()
    table = f"image\tlabel\tanswer\tprobability\na.png\t{SCRIPT}\t红\t0.75\nb.png\t红\t红\t0.5\n"
    (run.evaluation / "test-predictions.tsv").write_text(table, encoding="utf-8")
    return run


def forecast_run(folder: Path) -> RunFolder:
    """The folder of an evaluated forecasting model."""
    run = unfinished_run(folder, "forecast-gru")
    run.model.mkdir()
    run.evaluation.mkdir()
    rows = [f"{time}\t{0.1 * time:.1f}\t{0.1 * time + 0.01:.2f}\n" for time in range(20)]
    (run.evaluation / "forecasts.tsv").write_text("".join(["time\tvalue\tmodel\n", *rows]), encoding="utf-8")
    return run


def append_metrics(run: RunFolder, *lines: dict[str, Any]) -> None:
    """Append lines to the metrics log of a run."""
    with run.metrics.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def make_app(opened: Workspace) -> App:
    """The whole application with the security middleware."""
    return build_app(opened, CREDENTIALS, JobQueue("models"))


def required_fields(route: str) -> dict[str, object]:
    """The required fields of a request to a route, besides its run."""
    fields = {"cell": "decoder.stack.cells.0", "layer": 0, "row": 0, "part": "query", "word": 0, "split": "test"}
    fields |= {"recording": "0" * 16, "rate": 8000, "start": 0, "samples": ""}
    fields |= {"text": "我", "step": 10, "file": "", "side": "source", "target": "a", "block": ""}
    return {name: value for name, value in fields.items() if name in ROUTES[route].request_model.model_fields}


def image(size: int = 8) -> str:
    """An image file in base64."""
    file = BytesIO()
    Image.fromarray(np.full((size, size, 3), 200, np.uint8)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def run_async(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, run in a separate thread: the browser tests have an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class Client:
    """Sends requests to an application without a network; by default with the token."""

    def __init__(self, app: App):
        self.app = app

    def post(self, route: str, **body: Any) -> httpx2.Response:
        """Send a POST request to a route."""
        return self.send("POST", f"/api/{route}", json=body)

    def send(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        """Send any request."""
        return self.all([{"method": method, "url": path, "headers": headers or BEARER, **more}])[0]

    def all(self, requests: list[dict[str, Any]]) -> list[httpx2.Response]:
        """Send several requests, one after another."""
        return run_async(self._all(requests))

    async def _all(self, requests: list[dict[str, Any]]) -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=True)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777") as client:
            return [await client.request(**request) for request in requests]
