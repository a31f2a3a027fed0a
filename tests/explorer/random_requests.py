"""Random requests: valid ones from the OpenAPI schema, nearly valid ones, and malformed ones."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from sound_models import wav_base64
from text_models import LETTERS
from tiny_workspace import BEARER, HOST_HEADER, SCRIPT, image

from seq2see.explorer.routes import ROUTES
from seq2see.explorer.server import openapi_schema

EDGE_CASE_TEXTS = [
    "", " ", "\0", "\n\n", "\u202e", "\ufeff", "\U0010ffff", "a\u0301" * 50, SCRIPT, "../../x", "file:///x", "[MASK]",
    "😀👨‍👩‍👧", "我有[MASK]笔", "1e999", "-0", "NaN", "%00", "'; --", "🇨🇳" * 100, "x" * 3000, LETTERS * 4,
]  # fmt: skip
MALFORMED = [
    b"", b"null", b"[]", b"{", b"\xff\xfe", b"NaN", b'{"run": NaN}', b'{"run": "r1", "run": "r2"}', b"1e999999",
    b"[" * 5000,
    b'{"a": ' * 40 + b"1" + b"}" * 40, b'{"run": "\\ud800"}', b'{"run": "\xed\xa0\x80"}', b'{"run": "r1\\u0000"}',
    b'{"run": 1' + b"0" * 5000 + b"}", b'{"run": "r1"} {"run": "r1"}', b'{"run": "r1",}', b"{'run': 'r1'}", b"\0" * 100,
    b'"' + b"\\" * 999, b"-", b"{}", b"true", b'{"__proto__": {}}',
]  # fmt: skip

SUPPORTED_RUNS = {
    "vit": ["r5", "r9", "r11"], "recurrent": ["r2", "r10", "r11"], "runs": ["r6", "r7"],
    "mistakes": ["r7", "r8", "r12"], "series": ["r10"], "speech": ["r13"],
}  # fmt: skip
"""The runs that support the routes with this prefix."""
IMAGE_RUNS = SUPPORTED_RUNS["vit"]
"""Runs with images as input."""
ALL_RUNS = [f"r{number}" for number in range(1, 14)]
LIKELY_VALUES: dict[str, list[Any]] = {
    "cell": ["encoder.stack.forward_cells.0", "encoder.stack.backward_cells.0", "decoder.stack.cells.0"],
    "signal": ["hidden", "reset", "update"],
    "split": ["test", "forecasts"],
    "block": ["", "encoder", "encoder.blocks.0.self_attention", "decoder"],
    "file": [image(), image(11)],
    "sound": ["", wav_base64("ab"), wav_base64("c")[:-99]],
    "samples": ["", base64.b64encode(bytes(range(256)) * 9).decode()],
    "recording": ["0123456789abcdef"],
    "rate": [8000, 44_100],
    "start": [0],
    "pixels": [base64.b64encode(bytes(range(192))).decode()],
    "cover": [[], [0], [1, 3]],
    "order": [[], [3, 1, 0, 2]],
    "text": ["我有两本书", "我有[MASK]本书", "他们说的是中国 abc", "0.1 0.2 0.3"],
    "target": ["", "ab", "我说"],
    "texts": [["我有"], ["我", "有两本书"]],
    "word": ["我", "有", 0, 1],
    "discard": [0.0, 0.5],
    "fusion": ["mean", "max"],
    "images": [[]],
    "top_p": [0.5, 1.0],
    "prefix": [""],
    "num_return_sequences": [1],
    "do_sample": [False],
    "num_beams": [1, 2],
    "words": [["我", "有", "书"]],
    "sentences": [["我有书", "有我"]],
    "layer": [0, 1],
    "head": [0, 1],
    "row": [0, 1, 2],
    "step": [10],
    "number": [0],
    "ids": [[5, 6, 7]],
    "forced_ids": [[], [5], [6, 7]],
    "max_new_tokens": [3, 8],
}
"""Typical values of fields with these names."""
ODD_HEADERS = [
    {"Content-Type": "text/plain"}, {"X": "x" * 20_000}, {"Cookie": '"=;;\x01'}, {"Authorization": "Bearer é"},
    {"Host": "é"}, {"Origin": "é"}, {"Content-Length": "3"}, {"Transfer-Encoding": "chunked"},
]  # fmt: skip


def random_value(rng: random.Random, schema: dict, names: dict):
    """A value that a schema allows, or nearly."""
    if rng.random() < 0.01:
        return rng.choice([None, True, -1, 0, 2**63, 1e308, 0.5, "", [], {}, [[]], {"a": 1}, "x" * 30_000])
    if "$ref" in schema:
        return random_value(rng, names[schema["$ref"].split("/")[-1]], names)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return random_value(rng, rng.choice(schema[union]), names)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    return OF_KIND[schema.get("type", "null")](rng, schema, names)


def random_object(rng, schema, names):
    required = schema.get("required", [])
    likely = rng.random() < 0.7
    fields = {
        name: part for name, part in schema.get("properties", {}).items() if name in required or rng.random() < 0.5
    }
    result = {name: field_value(rng, name, part, names, likely) for name, part in fields.items()}
    if rng.random() < 0.03:
        result[rng.choice(["extra", "__class__", ""])] = 1
    return result


def field_value(rng: random.Random, name: str, schema: dict, names: dict, likely: bool) -> Any:
    """The value of a field: a typical one for its name, or a random one of its schema."""
    return rng.choice(LIKELY_VALUES[name]) if likely and name in LIKELY_VALUES else random_value(rng, schema, names)


def random_text(rng, schema, names):
    if "pattern" in schema:
        return rng.choice(["r1", "r5", "loss", "encoder.blocks.0", "decoder.blocks.1.self_attention", "x"])
    if schema.get("maxLength", 0) > 1_000_000:
        return rng.choice([image(), image(13), "AAAA", "no"])
    return rng.choice(EDGE_CASE_TEXTS) if rng.random() < 0.4 else "".join(rng.choices(LETTERS, k=rng.randint(1, 12)))


def random_list(rng, schema, names):
    return [random_value(rng, schema["items"], names) for _ in range(rng.randint(schema.get("minItems", 0), 3))]


def random_number(rng, schema, names):
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 10)
    near = min(high, low + 12)
    found = rng.choice([low, high, rng.uniform(low, near), rng.uniform(low, near)])
    if rng.random() < 0.05:
        found = rng.choice([low - 1, high + 1])
    return int(found) if schema["type"] == "integer" and rng.random() < 0.98 else found


OF_KIND = {
    "object": random_object, "string": random_text, "array": random_list, "integer": random_number,
    "number": random_number,
    "boolean": lambda rng, schema, names: rng.random() < 0.5, "null": lambda rng, schema, names: None,
}  # fmt: skip


def cheap(body: dict) -> dict:
    """The request with fewer tokens: hundreds of tokens with many beams take too long for thousands of requests."""
    if isinstance(body, dict) and isinstance(body.get("max_new_tokens"), int):
        body["max_new_tokens"] = min(body["max_new_tokens"], 12)
    return body


def random_request(rng: random.Random) -> dict:
    """One request; most are valid."""
    name = rng.choice(list(ROUTES))
    names = openapi_schema()["components"]["schemas"]
    fields = cheap(random_value(rng, names[ROUTES[name].request_model.__name__], names))
    if isinstance(fields, dict) and rng.random() < 0.95:
        supported = SUPPORTED_RUNS.get(name.split("/")[0], ["r1", "r2", "r3", "r4", "r5"])
        fields["run"] = rng.choice(supported if rng.random() < 0.8 else ALL_RUNS)
        if fields["run"] not in IMAGE_RUNS and rng.random() < 0.9:
            fields.pop("pixels", None)  # else half of all requests about texts would have the same error
    body = json.dumps(fields).encode()
    headers = {**BEARER, "Content-Type": "application/json"}
    method, path = "POST", f"/api/{name}"
    if rng.random() < 0.1:
        body = rng.choice(MALFORMED)
    elif rng.random() < 0.1:
        cut = rng.randrange(len(body))
        body = body[:cut] + bytes([rng.randrange(256)]) + body[cut + 1 :]
    if rng.random() < 0.05:
        headers = rng.choice([HOST_HEADER, *({**headers, **odd} for odd in ODD_HEADERS)])
    if rng.random() < 0.05:
        method = rng.choice(["GET", "PUT", "OPTIONS", "HEAD", "PATCH", "BREW"])
    if rng.random() < 0.05:
        path = rng.choice(
            ["/api/", "/api/%00", "/api/login", "/page/%ff", "/é", "/api/runs?x=%ff", "//", "/api/predict/"]
        )
    encoded = [(key.encode(), value.encode("utf-8")) for key, value in headers.items()]
    return {"method": method, "url": path, "headers": encoded, "content": body}
