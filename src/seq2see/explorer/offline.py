"""Saved pages: scripts, style and responses in one HTML file, which needs no server and also works in a notebook.

The requests of the page are run in advance, view by view, and their responses are stored in the file. The file loads
nothing else: its content security policy allows only its one script and its one style, by their hashes.

A browser does not load modules over `file://`, so the JavaScript modules are bundled into one script: each module
becomes a function that is called once and returns its exports, in an order in which each module follows those that it
imports. The bundler supports two forms of JavaScript's syntax: imports of names in braces, and `export` before a
definition. Other forms are errors.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, get_args

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.explorer.inputs import first_example
from seq2see.explorer.routes import ROUTES, error_response, list_runs, to_response
from seq2see.explorer.schemas import MAX_CHARACTERS, ArrayResponse
from seq2see.explorer.views.attention import HeadPartRequest
from seq2see.explorer.views.embeddings import MAX_WORDS
from seq2see.explorer.views.predict import takes_images
from seq2see.explorer.views.runs import RowsRequest
from seq2see.explorer.workspace import Workspace
from seq2see.runs.report import csp_hash

TOP_CANDIDATES, ALL_CANDIDATES = 200, 10_000_000
"""The numbers of candidates for the next token that the view requests: the most probable ones, or the vocabulary."""
BEAM_WIDTHS, SEEDS, MAX_NEW_TOKENS = range(2, 9), 4, 24
"""The beam widths and the number of samples that are saved, and the maximum number of tokens of each."""
MAX_IMAGES = 3
"""The number of test images in a saved page."""
MAX_RECORDINGS = 6
"""The number of test recordings in a saved page."""
MAX_PATCHES = 100
"""Of models with more patches, only the mean of the heads is saved: the size of a map is the square of this number."""
DISCARD_RATIOS = (0, 0.5, 0.9)
HORIZON = 16
"""The number of forecast values."""
TABLE_LENGTH = 64
"""The default number of positions in a table of position encodings."""


def runs(recorder: ResponseRecorder) -> None:
    """The training curves, and all samples."""
    for step in recorder.request("runs/metrics", since=0)["samples"]:
        recorder.request("runs/samples", step=step)


def tokenize(recorder: ResponseRecorder) -> None:
    """The tokens of the text."""
    example = recorder.run["example"] or {}
    recorder.request("tokenize", text=recorder.text or example.get("target", ""))


def _input(recorder: ResponseRecorder) -> dict[str, Any]:
    """The input of the model: the text, or the first test image or video, which the page displays."""
    capabilities = recorder.run["capabilities"]
    if "images" in capabilities or "videos" in capabilities:
        _image(recorder, number=0)
        return {"number": 0}
    if "series" in capabilities:
        recorder.request("series/forecast", text=recorder.text, horizon=HORIZON)
    return {"text": recorder.text}


def _image(recorder: ResponseRecorder, **fields: Any) -> dict[str, Any]:
    """An image or a video, and its information."""
    recorder.request("vit/image", **fields, order=[], cover=[])
    return recorder.request("vit/image-info", **fields, order=[], cover=[])


def _traced_input(recorder: ResponseRecorder) -> dict[str, Any]:
    """The input and the target, in the form of the views that trace the model."""
    inputs = _input(recorder)
    recorder.store("examples", {"examples": []}, max_examples=12)  # the page offers no other examples
    return {**inputs, "target": recorder.target}


def _target_prefix(recorder: ResponseRecorder) -> str:
    """The target prefix of models with source and target."""
    return (recorder.target or "") if "target" in recorder.run["capabilities"] else ""


def attention(recorder: ResponseRecorder) -> None:
    """Every head, the fused heads, and every row of all heads."""
    fields = _traced_input(recorder)
    info = recorder.request("attention/layers", **fields)
    for index, layer in enumerate(info["layers"]):
        recorder.request("attention/thumbnails", **fields, layer=index)
        recorder.request("attention/measures", **fields, layer=index)
        for head in range(layer["heads"]):
            recorder.request("attention/head", **fields, layer=index, head=head, heads="one")
        for fusion in ("mean", "max"):
            recorder.request("attention/head", **fields, layer=index, head=0, heads=fusion)
        for row in range(len(info["tokens"][layer["rows"]])):
            recorder.request("attention/row", **fields, layer=index, row=row)


def single_head(recorder: ResponseRecorder) -> None:
    """The arrays that the weights of every head are computed from."""
    fields = _traced_input(recorder)
    for index, layer in enumerate(recorder.request("attention/layers", **fields)["layers"]):
        for head in range(layer["heads"]):
            for part in get_args(HeadPartRequest.model_fields["part"].annotation):
                recorder.request("attention/part", **fields, layer=index, head=head, part=part)


def next_token(recorder: ResponseRecorder) -> None:
    """Every position of the text, and the whole vocabulary at the initial position."""
    fields = {**_input(recorder), "target": _target_prefix(recorder), "forced_ids": []}
    body = "encoder" if "masks" in recorder.run["capabilities"] else "decoder"
    has_layers = "attention" in recorder.run["capabilities"] and recorder.run[body] == "transformer"
    parts = ["candidates", "lens"] if has_layers else ["candidates"]

    def request(parts: list[str], position: int = -1, max_candidates: int = TOP_CANDIDATES) -> Any:
        options = {"parts": parts, "position": position, "max_candidates": max_candidates}
        return recorder.request("next-token/analysis", **fields, **options)

    analysis = request(["surprisal", *parts])
    request(["surprisal"])
    for position in range(-1, len(analysis["surprisal"]["ids"])):
        request(parts, position)
    request(["candidates"], max_candidates=ALL_CANDIDATES)


def decode(recorder: ResponseRecorder) -> None:
    """Greedy search, beam search with all widths, a few samples, and exposure bias if there is a reference."""
    inputs = _input(recorder)
    fields = {
        **inputs, "forced_ids": [], "max_new_tokens": MAX_NEW_TOKENS, "length_penalty": "default", "alpha": 1,
    }  # fmt: skip
    recorder.request("decode/search-tree", **fields, strategy="greedy")
    for width in BEAM_WIDTHS:
        recorder.request("decode/search-tree", **fields, strategy="beam", num_beams=width)
    for seed in range(SEEDS):
        recorder.request("decode/search-tree", **fields, strategy="sample", seed=seed, temperature=1, top_k=0, top_p=1)
    truth = recorder.target or (_image(recorder, **inputs)["truth"] if "number" in inputs else "")
    if truth:
        recorder.request("decode/exposure-bias", **inputs, target=truth)


def architecture(recorder: ResponseRecorder) -> None:
    """All modules, and the source code of each."""
    text = recorder.text if "text" in recorder.run["capabilities"] else ""
    root = recorder.request("architecture/blocks", text=text)["root"]
    for name in _block_names(root):
        recorder.request("architecture/source", block=name)


def adapter(recorder: ResponseRecorder) -> None:
    """The changed matrices, and the singular values of each."""
    recorder.request("adapter/factors")
    for each in recorder.request("adapter/matrices")["matrices"]:
        recorder.request("adapter/matrix", matrix=each["name"])


def _block_names(block: dict[str, Any]) -> Iterator[str]:
    yield block["name"]
    for child in block["children"]:
        yield from _block_names(child)


def mistakes(recorder: ResponseRecorder) -> None:
    """The first rows of every split in every order, and the confusion matrix or the forecasts."""
    for split in recorder.request("mistakes/splits")["splits"]:
        if split["kind"] in ("labels", "tags"):
            recorder.request("mistakes/confusion", split=split["name"])
        if split["kind"] == "forecasts":
            recorder.request("mistakes/forecasts", split=split["name"])
        for order in get_args(RowsRequest.model_fields["sort"].annotation):
            first_page = {"search": "", "cell": None, "start": 0, "count": 25}
            recorder.request("mistakes/rows", split=split["name"], sort=order, **first_page)


def embeddings(recorder: ResponseRecorder) -> None:
    """The map; a saved page has no neighbors."""
    recorder.request("embeddings/tokens", count=MAX_WORDS)
    recorder.request("embeddings/map", count=MAX_WORDS)


def compare(recorder: ResponseRecorder) -> None:
    """The run with itself (the initial state of the view) and with the next run, with the mean of all heads."""
    ids = list(recorder.workspace.runs)
    second = ids[(ids.index(recorder.run["id"]) + 1) % len(ids)]
    record = _record_forecasts if "series" in recorder.run["capabilities"] else _record_comparison
    for each in (None, second) if len(ids) > 1 else (None,):
        record(recorder, each)


def _record_forecasts(recorder: ResponseRecorder, second: str | None) -> None:
    _traced_input(recorder)
    if second:
        recorder.request("series/forecast", run=second, text=recorder.text, horizon=HORIZON)


def _record_comparison(recorder: ResponseRecorder, second: str | None) -> None:
    inputs = {"text": recorder.text, "other": "", "target": recorder.target, "number": 0, "other_number": None}
    for side in recorder.request("compare/sides", second=second, **inputs)["sides"]:
        if takes_images(recorder.workspace.run(side["input"]["run"])):
            _image(recorder, run=side["input"]["run"], number=side["input"]["number"])
        for index, _ in enumerate(recorder.request("attention/layers", **side["input"])["layers"]):
            recorder.request("attention/head", **side["input"], layer=index, head=0, heads="mean")


def recurrent(recorder: ResponseRecorder) -> None:
    """Every signal of every cell, the influence of every word, and the context vectors."""
    fields = _traced_input(recorder)
    info = recorder.request("recurrent/cells", **fields)
    for cell in info["cells"]:
        for signal in cell["signals"]:
            recorder.request("recurrent/states", **fields, cell=cell["name"], signal=signal)
        for word in range(len(info["tokens"][cell["side"]])):
            recorder.request("recurrent/influence", **fields, cell=cell["name"], word=word)
    if info["source_access"] == "attention":
        recorder.request("recurrent/context-vectors", **fields)
        recorder.request("recurrent/attention-ablation", **fields)


def images(recorder: ResponseRecorder) -> None:
    """A few test images with the attention of all heads, rollout, and predictions."""
    for number in range(MAX_IMAGES):
        fields: dict[str, Any] = {"number": number, "order": [], "cover": []}
        info = recorder.request("vit/info", **fields)
        recorder.request("vit/image", **fields)
        recorder.request("vit/image-info", **fields)
        if info["positions"] != "none":
            recorder.request("vit/position-similarity")
        for positions in ("on",) if info["positions"] == "none" else ("on", "off"):
            _record_image(recorder, info, {**fields, "positions": positions})
        if number + 1 >= info["count"]:
            break


def _record_image(recorder: ResponseRecorder, info: dict[str, Any], fields: dict[str, Any]) -> None:
    """The prediction, the attention maps and the rollout of one image."""
    prediction = recorder.request("vit/predict", **fields)
    heads = info["heads"] if info["grid"][0] * info["grid"][1] <= MAX_PATCHES else 0
    for layer in range(info["layers"]):
        for head in range(-1, heads):
            recorder.request("vit/attention", **fields, layer=layer, head=head)
    for fusion in ("mean", "min", "max") if info["layers"] else ():
        for discard in DISCARD_RATIOS:
            recorder.request("vit/rollout", **fields, fusion=fusion, discard=discard)
    if info["generates"] and "attention" in recorder.run["capabilities"]:
        recorder.request("vit/regions", **fields, target=prediction["text"])


def speech(recorder: ResponseRecorder) -> None:
    """A few test recordings with their letters, and the arrays of the figure."""
    for number in range(MAX_RECORDINGS):
        info = recorder.request("speech/transcript", number=number)
        for part in info["parts"]:
            recorder.request("speech/part", number=number, part=part)
        if number + 1 >= info["count"]:
            break


def positions(recorder: ResponseRecorder) -> None:
    """The position encodings of each side, and the predictions for the text in its order and reversed."""
    encodings = recorder.request("positions/encodings")
    for side in encodings["sides"]:
        for head in range(side["heads"] if side["kind"] != "none" else 0):
            recorder.request("positions/table", side=side["side"], length=TABLE_LENGTH, head=head)
            recorder.request("positions/similarity", side=side["side"], length=TABLE_LENGTH, head=head)
    for mode in ("on", "off") if encodings["reorderable"] else ():
        fields = {"text": recorder.text, "positions": mode}
        movable = recorder.request("positions/predict", **fields, order=[])["movable"]
        reverse = list(reversed(range(sum(movable))))
        if len(reverse) > 1:
            recorder.request("positions/predict", **fields, order=reverse)
            recorder.request("positions/distances", **fields, order=reverse)


MAX_PAGE_BYTES = 48 << 20
"""The maximum size of all responses together: browsers open larger pages slowly."""


class ResponseRecorder:
    """Runs the requests of a page about one run and one text, and stores their responses."""

    def __init__(
        self,
        workspace: Workspace,
        run: dict[str, Any],
        text: str,
        target: str | None = None,
        bytes_left: int = MAX_PAGE_BYTES,
    ):
        self.workspace, self.run = workspace, run
        self.text, self.target = text, target
        self.responses: dict[str, dict[str, Any]] = {}
        self.bytes_left = bytes_left
        """Bytes that may still be stored."""

    def request(self, name: str, **body: Any) -> Any:
        """Run a request about the run as the page does, and store the response or the error."""
        body = {"run": self.run["id"], **body}  # the body may name another run
        route = ROUTES[name]
        try:
            result = route.handler(self.workspace, route.request_model.model_validate_json(json.dumps(body)))
        except UserError as error:
            self._store(name, body, {"error": json.loads(bytes(error_response(422, error).body))})
            raise
        content = bytes(to_response(result).body)
        if isinstance(result, ArrayResponse):
            content = base64.b64encode(content)
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            message = f"The page is larger than {MAX_PAGE_BYTES >> 20} MB, which is too large for browsers."
            raise PageTooLarge(message, location=self.run["name"], hint="Save a shorter text, or fewer runs.")
        if isinstance(result, ArrayResponse):
            return self._store(name, body, {"shape": list(result.array.shape), "base64": content.decode("ascii")})
        return self._store(name, body, {"response": json.loads(content)})

    def store(self, name: str, response: Any, **body: Any) -> None:
        """Store another response for a request than that of the server."""
        self._store(name, {"run": self.run["id"], **body}, {"response": response})

    def _store(self, name: str, body: dict[str, Any], entry: dict[str, Any]) -> Any:
        self.responses[request_key(name, body)] = entry
        return entry.get("response")


class PageTooLarge(UserError):
    """The page would exceed its maximum size."""


def request_key(name: str, body: dict[str, Any]) -> str:
    """The key of a stored response, as `api.js` computes it."""
    return f"{name} {json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


def record_views(recorder: ResponseRecorder, views: Collection[str]) -> dict[str, dict[str, Any]]:
    """The responses that some views need about one run; the saved page shows the errors that occur here."""
    for view in (each for each in views if each in recorder.run["views"]):
        try:
            VIEW_RECORDERS[view](recorder)
        except PageTooLarge:
            raise
        except UserError:
            continue
    return recorder.responses


# from the name of a view to the function that makes its requests
VIEW_RECORDERS: dict[str, Callable[[ResponseRecorder], None]] = {
    "attention": attention,
    "single-head": single_head,
    "tokenize": tokenize,
    "next-token": next_token,
    "decode": decode,
    "architecture": architecture,
    "adapter": adapter,
    "compare": compare,
    "mistakes": mistakes,
    "embeddings": embeddings,
    "runs": runs,
    "recurrent": recurrent,
    "vit": images,
    "positions": positions,
    "speech": speech,
}


FIRST_VIEWS = ("attention", "speech")
"""The views that a saved page opens with, if a run has one of them."""
PAGE = Path(__file__).parent / "page"
VIEWS_MODULE = "views.js"
"""The module that lists all views."""

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)
OTHER_MODULE_SYNTAX = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle_script(views: Collection[str] = ()) -> str:
    """One script that is equivalent to the page's main module; with these views only, if any are named."""
    wrapped: dict[str, str] = {}
    overrides = {VIEWS_MODULE: views_module(views)} if views else {}
    _add_module("main.js", wrapped, overrides, ())
    modules = "".join(f"modules[{name!r}] = (() => {{\n{text}}})();\n" for name, text in wrapped.items())
    script = f'"use strict";\n(() => {{\nconst modules = {{}};\n{modules}}})();\n'
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a script inside a page cannot contain the end tag of a script")
    return script


def views_module(views: Collection[str]) -> str:
    """A module `views.js` that lists only these views."""
    names = {view: view.replace("-", "_") for view in views}
    imports = "".join(f'import {{ view as {name} }} from "./views/{name}.js";\n' for name in names.values())
    return f"{imports}export const VIEWS = [{', '.join(names.values())}];\n"


def _add_module(
    name: str, wrapped: dict[str, str], overrides: Mapping[str, str], import_stack: tuple[str, ...]
) -> None:
    """Wrap a module, after all modules that it imports."""
    if name in import_stack:
        raise ValueError(f"circular import of modules: {' → '.join((*import_stack, name))}")
    if name in wrapped:
        return
    text = overrides.get(name) or (PAGE / name).read_text(encoding="utf-8")
    for _, imported in IMPORT.findall(text):
        _add_module(_resolve(name, imported), wrapped, overrides, (*import_stack, name))
    wrapped[name] = _wrap(name, text)


def _wrap(name: str, text: str) -> str:
    """The text of a module as the body of a function that returns its exports."""
    exported = EXPORT.findall(text)
    text = EXPORT.sub("", text)
    text = IMPORT.sub(
        lambda match: f"const {{{_to_destructuring(match[1])}}} = modules[{_resolve(name, match[2])!r}];\n", text
    )
    unsupported = OTHER_MODULE_SYNTAX.search(text)
    if unsupported:
        raise ValueError(f"{name}: this form of import or export is not supported: {unsupported[0]}")
    return f"{text}return {{ {', '.join(exported)} }};\n"


def _to_destructuring(names: str) -> str:
    """`view as runs` of an import becomes `view: runs` of a destructuring assignment."""
    return re.sub(r"(\w+) as (\w+)", r"\1: \2", names)


def _resolve(name: str, imported: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))


def write_page(workspace: Workspace, path: Path, text: str) -> None:
    """Write a page about the opened runs and one text, and print its path."""
    if path.is_dir():
        raise UserError("This is a folder.", location=str(path), hint="Give a file name, such as attention.html.")
    page = saved_page(workspace, text or None)
    write_text(path, page)
    print(f"{path} ({len(page.encode()) / 1e6:,.1f} MB) opens in any browser; it needs no server.")


def saved_page(
    workspace: Workspace,
    text: str | None = None,
    target: str | None = None,
    views: Collection[str] = tuple(VIEW_RECORDERS),
    max_bytes: int = MAX_PAGE_BYTES,
) -> str:
    """One page about all opened runs and one text; the default text is the example of the first run that has one."""
    runs = list_runs(workspace)["runs"]
    if text is None:
        examples = (first_example(each) for each in workspace.runs.values())
        text = next((each["text"] for each in examples if each and each["text"]), "")
    _check(text)
    responses: dict[str, dict[str, Any]] = {}
    for run in runs:
        recorder = ResponseRecorder(workspace, run, text, target, max_bytes)
        responses |= record_views(recorder, views)
        max_bytes = recorder.bytes_left
    offered = {view for run in runs for view in run["views"] if view in views}
    first = next((view for view in FIRST_VIEWS if view in offered), "")
    link = {"view": first, "text": text, "target": target or ""}
    script = bundle_script(views if set(views) < set(VIEW_RECORDERS) else ())
    return _page(script, {"runs": runs, "views": list(views), "link": link, "responses": responses})


def _check(text: str) -> None:
    """Reject texts that the server would reject."""
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has more than {MAX_CHARACTERS:,} characters.", hint="Save a shorter one.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("The text is not valid Unicode: it has a lone surrogate.", hint="Save it as UTF-8.") from None


def _page(script: str, content: dict[str, Any]) -> str:
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; img-src data: blob:; media-src blob:; style-src {csp_hash(style)}; "
    policy += f"script-src {csp_hash(script)}"
    # "<" could end the element that contains the JSON, so it is escaped.
    stored = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>seq2see</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<script type="application/json" id="responses">{stored}</script>
<script>{script}</script>
</body>
</html>
"""


def to_iframe(page: str, height: int = 700) -> str:
    """An iframe with the page, for notebooks: a sandbox that runs the page's own script only."""
    style = f"width:100%;height:{height}px;border:1px solid #8888;border-radius:6px"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{escape(page)}"></iframe>'
