"""Pages without a server: modules become one script, and nothing in the answers can end the element that holds them."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from text_models import text_model
from tiny_workspace import opened_run, workspace

from seq2see.core.errors import UserError
from seq2see.explorer import bundle, offline
from seq2see.explorer.describe import listed
from seq2see.explorer.offline import saved_page, to_iframe, write_page
from seq2see.explorer.saved_responses import (
    MAX_PAGE_BYTES,
    VIEW_RECORDERS,
    PageTooLarge,
    ResponseRecorder,
    record_views,
    request_key,
)
from seq2see.explorer.workspace import Workspace


def modules(folder, monkeypatch, **texts):
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    monkeypatch.setattr(bundle, "PAGE", folder)


def test_modules_are_wrapped_once_and_in_the_order_they_are_needed(tmp_path, monkeypatch):
    modules(
        tmp_path,
        monkeypatch,
        main='import { one as first } from "./one.js";\nimport { two } from "./two.js";\nfirst(two);\n',
        one='import { two } from "./two.js";\nexport function one(number) {\n  return number + two;\n}\n',
        two="export const two = 2;\nconst hidden = 3;\n",
    )
    script = bundle.bundle_script()
    assert [script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")] == sorted(
        script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")
    )
    assert script.count("const two = 2;") == 1
    assert "const { one: first } = modules['one.js'];" in script
    assert "return { two };" in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_a_page_with_few_views_carries_no_others():
    few, all_views = bundle.bundle_script(("attention", "next-token")), bundle.bundle_script()
    names = re.findall(r"^modules\['(views/\w+)\.js'\]", few, re.MULTILINE)
    assert {"views/attention", "views/next_token"} <= set(names)
    assert not {"views/decode", "views/vit", "views/runs"} & set(names)
    assert "const VIEWS = [attention, next_token];" in few
    assert len(few) < 0.8 * len(all_views)


def test_every_view_that_can_be_saved_has_a_module_of_its_name():
    for view in VIEW_RECORDERS:
        assert bundle.bundle_script((view,))


@pytest.mark.parametrize(
    "text", ['import "./one.js";\n', 'import * as all from "./one.js";\n', "export default 3;\n", "export { a };\n"]
)
def test_other_ways_to_import_and_export_are_refused(tmp_path, monkeypatch, text):
    modules(tmp_path, monkeypatch, main=text, one="")
    with pytest.raises(ValueError, match="not known"):
        bundle.bundle_script()


def test_a_circle_is_refused(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='import { a } from "./one.js";\n', one='import { b } from "./main.js";\n')
    with pytest.raises(ValueError, match="circle"):
        bundle.bundle_script()


def test_the_end_of_a_script_cannot_stand_in_one(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='const text = "</SCRIPT>";\n')
    with pytest.raises(ValueError, match="end of a script"):
        bundle.bundle_script()


def test_a_page_allows_its_own_script_and_style_and_nothing_else():
    page = saved_page(Workspace({}), "</script><b>红")
    policy = re.search(r'Security-Policy" content="([^"]+)"', page)[1]
    script, style = re.search(r"<script>(.*)</script>\n</body>", page, re.DOTALL)[1], page.split("<style>")[1]
    sums = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style.split("</style>")[0], script)
    ]
    own = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*sums)
    assert policy == f"default-src 'none'; img-src data: blob:; {own}"
    assert stored_in(page)["link"]["text"] == "</script><b>红"
    assert "http" not in page.replace("http://www.w3.org/", "").replace("http-equiv", "")


@pytest.mark.parametrize("text", ["红" * 20_001, "half of a character: \udcff"], ids=["long", "half"])
def test_a_text_that_the_server_would_not_take_is_refused(text):
    with pytest.raises(UserError, match="The text"):
        saved_page(workspace(), text)


def test_all_runs_share_the_room_of_a_page():
    """Each of two runs would fit alone."""
    one = Workspace({"r1": opened_run("r1", "r1", text_model("gpt"))})
    two = Workspace({"r1": opened_run("r1", "r1", text_model("gpt")), "r2": opened_run("r2", "r2", text_model("gpt"))})
    needed = ResponseRecorder(one, listed(one)["runs"][0], "ab")
    record_views(needed, ("attention",))
    size = MAX_PAGE_BYTES - needed.bytes_left
    assert saved_page(one, "ab", views=("attention",), max_bytes=size)
    assert saved_page(two, "ab", views=("attention",), max_bytes=2 * size)
    with pytest.raises(PageTooLarge, match="more than"):
        saved_page(two, "ab", views=("attention",), max_bytes=2 * size - 1)


def test_how_large_a_page_is_is_told(tmp_path, capsys):
    write_page(Workspace({"r1": opened_run("r1", "r1", text_model("gpt"))}), tmp_path / "source_access.html", "ab")
    size = (tmp_path / "source_access.html").stat().st_size
    assert f"({size / 1e6:.1f} MB)" in capsys.readouterr().out


def test_a_page_is_told_in_bytes_and_is_about_an_example_where_no_text_is_given(tmp_path, capsys, monkeypatch):
    given = []
    monkeypatch.setattr(offline, "saved_page", lambda workspace, text: given.append(text) or "红" * 400_000)
    for text in ("", "ab"):
        write_page(Workspace({}), tmp_path / "source_access.html", text)
    assert given == [None, "ab"]
    assert capsys.readouterr().out.count("(1.2 MB)") == 2
    with pytest.raises(UserError, match="a folder"):
        write_page(Workspace({}), tmp_path, "ab")


def test_the_example_is_of_the_first_run_that_has_one_in_words(monkeypatch):
    found = iter([None, {"text": ""}, {"text": "红"}])
    monkeypatch.setattr(offline, "first_example", lambda run: next(found))
    runs = {f"r{number}": opened_run(f"r{number}", "x", text_model("gpt")) for number in (1, 2, 3)}
    stored = stored_in(saved_page(Workspace(runs), views=("tokenize",)))
    assert (stored["link"]["text"], stored["views"]) == ("红", ["tokenize"])


def test_a_question_may_be_about_another_run():
    answers = ResponseRecorder(workspace(), {"id": "r1", "views": []}, "ab")
    answers.ask("tokenize", run="r3", text="ab")
    assert list(answers.responses) == ['tokenize {"run":"r3","text":"ab"}']


def test_questions_are_found_again_as_the_page_writes_them():
    """`JSON.stringify` leaves every letter as it is, and no blanks; the page puts names in order."""
    assert request_key("x", {"b": "红", "a": [1, None]}) == 'x {"a":[1,null],"b":"红"}'


def test_only_views_that_a_run_has_are_saved():
    answers = ResponseRecorder(workspace(), {"id": "r1", "views": ["tokenize", "decode"], "example": None}, "ab")
    assert {key.split()[0] for key in record_views(answers, ("attention", "tokenize"))} == {"tokenize"}


def stored_in(page: str) -> dict:
    return json.loads(page.split('id="answers">')[1].split("</script>")[0])


def answers_of(page: str) -> dict:
    return stored_in(page)["responses"]


def test_two_runs_are_compared_and_each_by_itself_and_images_whatever_the_text():
    page = saved_page(workspace(), "我", views=("compare",))
    for run, second in (("r1", None), ("r1", "r2"), ("r5", None), ("r5", "r1")):
        given = {"run": run, "second": second, "text": "我", "other": "", "target": None, "number": 0}
        assert request_key("compare/sides", {**given, "other_number": None}) in answers_of(page)


HOSTILE = "</script><!--<script>\u2028\u2029\u202e&quot;]]>"


def test_whatever_stands_in_a_text_stays_inside():
    page = saved_page(Workspace({"r1": opened_run("r1", HOSTILE, text_model("gpt"))}), HOSTILE, views=("tokenize",))
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<!--" not in page
    (told,) = answers_of(page).values()
    assert "".join(group["text"] for group in told["response"]["sides"][0]["groups"]) == HOSTILE


def test_a_frame_holds_a_page_as_text():
    frame = to_iframe('<p title="a & b">')
    assert 'srcdoc="&lt;p title=&quot;a &amp; b&quot;&gt;"' in frame
    assert 'sandbox="allow-scripts allow-downloads"' in frame
