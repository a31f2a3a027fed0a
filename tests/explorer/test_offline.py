"""Pages without a server: modules become one script, and nothing in the answers can end the element that holds them."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from seq2see.explorer import bundle
from seq2see.explorer.bench import Bench
from seq2see.explorer.offline import framed, saved_page


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
    script = bundle.bundled()
    assert [script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")] == sorted(
        script.index(f"modules['{name}.js'] = ") for name in ("two", "one", "main")
    )
    assert script.count("const two = 2;") == 1
    assert "const { one: first } = modules['one.js'];" in script
    assert "return { two };" in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


@pytest.mark.parametrize(
    "text", ['import "./one.js";\n', 'import * as all from "./one.js";\n', "export default 3;\n", "export { a };\n"]
)
def test_other_ways_to_import_and_export_are_refused(tmp_path, monkeypatch, text):
    modules(tmp_path, monkeypatch, main=text, one="")
    with pytest.raises(ValueError, match="not known"):
        bundle.bundled()


def test_a_circle_is_refused(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='import { a } from "./one.js";\n', one='import { b } from "./main.js";\n')
    with pytest.raises(ValueError, match="circle"):
        bundle.bundled()


def test_the_end_of_a_script_cannot_stand_in_one(tmp_path, monkeypatch):
    modules(tmp_path, monkeypatch, main='const text = "</SCRIPT>";\n')
    with pytest.raises(ValueError, match="end of a script"):
        bundle.bundled()


def test_a_page_allows_its_own_script_and_style_and_nothing_else():
    page = saved_page(Bench({}), "</script><b>红")
    policy = re.search(r'Security-Policy" content="([^"]+)"', page)[1]
    script, style = re.search(r"<script>(.*)</script>\n</body>", page, re.DOTALL)[1], page.split("<style>")[1]
    for text in (script, style.split("</style>")[0]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'; ")
    stored = page.split('id="answers">')[1].split("</script>")[0]
    assert json.loads(stored)["link"]["text"] == "</script><b>红"
    assert "http" not in page.replace("http://www.w3.org/", "").replace("http-equiv", "")


def test_a_frame_holds_a_page_as_text():
    frame = framed('<p title="a & b">')
    assert 'srcdoc="&lt;p title=&quot;a &amp; b&quot;&gt;"' in frame
    assert 'sandbox="allow-scripts allow-downloads"' in frame
