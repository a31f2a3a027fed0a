"""Saved pages: modules become one script, and no response can close the element that contains it."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from text_models import text_model
from tiny_workspace import opened_run, workspace

from seq2see.core.errors import UserError
from seq2see.explorer import offline
from seq2see.explorer.offline import (
    MAX_PAGE_BYTES,
    VIEW_RECORDERS,
    PageTooLarge,
    ResponseRecorder,
    record_views,
    request_key,
    saved_page,
    to_iframe,
    write_page,
)
from seq2see.explorer.routes import list_runs
from seq2see.explorer.workspace import Workspace


def modules(folder, monkeypatch, **texts):
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    monkeypatch.setattr(offline, "PAGE", folder)


def test_modules_are_wrapped_once_and_after_their_imports(tmp_path, monkeypatch):
    modules(
        tmp_path,
        monkeypatch,
        main='import { one as first } from "./one.js";\nimport { two } from "./two.js";\nfirst(two);\n',
        one='import { two } from "./two.js";\nexport function one(number) {\n  return number + two;\n}\n',
        two="export const two = 2;\nconst hidden = 3;\n",
    )
    script = offline.bundle_script()
    assert [script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")] == sorted(
        script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")
    )
    assert script.count("const two = 2;") == 1
    assert "const { one: first } = modules['one.js'];" in script
    assert "return { two };" in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_a_page_with_some_views_does_not_contain_the_others():
    few, all_views = offline.bundle_script(("attention", "next-token")), offline.bundle_script()
    names = re.findall(r"^modules\['(views/\w+)\.js'\]", few, re.MULTILINE)
    assert {"views/attention", "views/next_token"} <= set(names)
    assert not {"views/decode", "views/vit", "views/runs"} & set(names)
    assert "const VIEWS = [attention, next_token];" in few
    assert len(few) < 0.8 * len(all_views)


def test_every_saved_view_has_a_module_with_its_name():
    for view in VIEW_RECORDERS:
        assert offline.bundle_script((view,))


@pytest.mark.parametrize(
    "text", ['import "./one.js";\n', 'import * as all from "./one.js";\n', "export default 3;\n", "export { a };\n"]
)
def test_other_forms_of_import_and_export_are_errors(tmp_path, monkeypatch, text):
    modules(tmp_path, monkeypatch, main=text, one="")
    with pytest.raises(ValueError, match="not supported"):
        offline.bundle_script()


def test_a_circular_import_is_an_error(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='import { a } from "./one.js";\n', one='import { b } from "./main.js";\n')
    with pytest.raises(ValueError, match="circular"):
        offline.bundle_script()


def test_the_end_tag_of_a_script_inside_a_script_is_an_error(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='const text = "</SCRIPT>";\n')
    with pytest.raises(ValueError, match="end tag of a script"):
        offline.bundle_script()


def test_the_security_policy_allows_only_the_script_and_style_of_the_page():
    page = saved_page(Workspace({}), "</script><b>红")
    policy = re.search(r'Security-Policy" content="([^"]+)"', page)[1]
    script, style = re.search(r"<script>(.*)</script>\n</body>", page, re.DOTALL)[1], page.split("<style>")[1]
    sums = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style.split("</style>")[0], script)
    ]
    sources = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*sums)
    assert policy == f"default-src 'none'; img-src data: blob:; media-src blob:; {sources}"
    assert stored_in(page)["link"]["text"] == "</script><b>红"
    assert "http" not in page.replace("http://www.w3.org/", "").replace("http-equiv", "")


@pytest.mark.parametrize("text", ["红" * 20_001, "a lone surrogate: \udcff"], ids=["long", "surrogate"])
def test_a_text_that_the_server_rejects_is_an_error(text):
    with pytest.raises(UserError, match="The text"):
        saved_page(workspace(), text)


def test_all_runs_share_the_maximum_size_of_a_page():
    """Each of two runs alone would not exceed it."""
    one = Workspace({"r1": opened_run("r1", "r1", text_model("gpt"))})
    two = Workspace({"r1": opened_run("r1", "r1", text_model("gpt")), "r2": opened_run("r2", "r2", text_model("gpt"))})
    recorder = ResponseRecorder(one, list_runs(one)["runs"][0], "ab")
    record_views(recorder, ("attention",))
    size = MAX_PAGE_BYTES - recorder.bytes_left
    assert saved_page(one, "ab", views=("attention",), max_bytes=size)
    assert saved_page(two, "ab", views=("attention",), max_bytes=2 * size)
    with pytest.raises(PageTooLarge, match="larger than"):
        saved_page(two, "ab", views=("attention",), max_bytes=2 * size - 1)


def test_the_size_of_a_page_is_printed(tmp_path, capsys):
    write_page(Workspace({"r1": opened_run("r1", "r1", text_model("gpt"))}), tmp_path / "page.html", "ab")
    size = (tmp_path / "page.html").stat().st_size
    assert f"({size / 1e6:.1f} MB)" in capsys.readouterr().out


def test_the_size_is_in_bytes_and_the_default_text_is_an_example(tmp_path, capsys, monkeypatch):
    texts = []
    monkeypatch.setattr(offline, "saved_page", lambda workspace, text: texts.append(text) or "红" * 400_000)
    for text in ("", "ab"):
        write_page(Workspace({}), tmp_path / "page.html", text)
    assert texts == [None, "ab"]
    assert capsys.readouterr().out.count("(1.2 MB)") == 2
    with pytest.raises(UserError, match="a folder"):
        write_page(Workspace({}), tmp_path, "ab")


def test_the_default_text_is_that_of_the_first_run_with_a_text(monkeypatch):
    examples = iter([None, {"text": ""}, {"text": "红"}])
    monkeypatch.setattr(offline, "first_example", lambda run: next(examples))
    runs = {f"r{number}": opened_run(f"r{number}", "x", text_model("gpt")) for number in (1, 2, 3)}
    stored = stored_in(saved_page(Workspace(runs), views=("tokenize",)))
    assert (stored["link"]["text"], stored["views"]) == ("红", ["tokenize"])


def test_a_request_may_name_another_run():
    recorder = ResponseRecorder(workspace(), {"id": "r1", "views": []}, "ab")
    recorder.request("tokenize", run="r3", text="ab")
    assert list(recorder.responses) == ['tokenize {"run":"r3","text":"ab"}']


def test_the_key_of_a_request_is_that_of_the_page():
    """`JSON.stringify` does not escape letters and adds no spaces; the page sorts the keys."""
    assert request_key("x", {"b": "红", "a": [1, None]}) == 'x {"a":[1,null],"b":"红"}'


def test_only_supported_views_of_a_run_are_saved():
    recorder = ResponseRecorder(workspace(), {"id": "r1", "views": ["tokenize", "decode"], "example": None}, "ab")
    assert {key.split()[0] for key in record_views(recorder, ("attention", "tokenize"))} == {"tokenize"}


def stored_in(page: str) -> dict:
    return json.loads(page.split('id="responses">')[1].split("</script>")[0])


def responses_of(page: str) -> dict:
    return stored_in(page)["responses"]


def test_comparisons_of_two_runs_and_of_one_run_are_saved():
    page = saved_page(workspace(), "我", views=("compare",))
    for run, second in (("r1", None), ("r1", "r2"), ("r5", None), ("r5", "r1")):
        fields = {"run": run, "second": second, "text": "我", "other": "", "target": None, "number": 0}
        assert request_key("compare/sides", {**fields, "other_number": None}) in responses_of(page)


HOSTILE = "</script><!--<script>\u2028\u2029\u202e&quot;]]>"


def test_a_hostile_text_cannot_close_its_element():
    page = saved_page(Workspace({"r1": opened_run("r1", HOSTILE, text_model("gpt"))}), HOSTILE, views=("tokenize",))
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<!--" not in page
    (entry,) = responses_of(page).values()
    assert "".join(group["text"] for group in entry["response"]["sides"][0]["groups"]) == HOSTILE


def test_an_iframe_contains_the_escaped_page():
    frame = to_iframe('<p title="a & b">')
    assert 'srcdoc="&lt;p title=&quot;a &amp; b&quot;&gt;"' in frame
    assert 'sandbox="allow-scripts allow-downloads"' in frame
