"""Taking home all that a page offers, without the browser's own downloads, which are made to be slow."""

from __future__ import annotations

import base64
import csv
import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image

SVG = "{http://www.w3.org/2000/svg}"

COLLECT_DOWNLOADS = """async (kinds) => {
  const [made, clicked] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
  HTMLAnchorElement.prototype.click = () => {};
  const taken = [];
  for (const offer of document.querySelectorAll(".downloads")) {
    const files = {};
    for (const button of offer.querySelectorAll("button")) {
      if (!kinds.includes(button.dataset.kind)) continue;
      const blob = await new Promise((resolve) => {
        URL.createObjectURL = (each) => (resolve(each), made.call(URL, each));
        button.click();
      });
      const bytes = new Uint8Array(await blob.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
      files[button.dataset.kind] = btoa(text);
    }
    taken.push([offer.querySelector("span").textContent, files]);
  }
  [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [made, clicked];
  return taken;
}"""


@dataclass(frozen=True)
class PageDownload:
    """One thing that can be taken home, as the files that its buttons give."""

    name: str
    files: dict[str, bytes]

    @cached_property
    def drawing(self) -> ElementTree.Element:
        """The SVG."""
        return ElementTree.fromstring(self.files["SVG"])

    @property
    def texts(self) -> list[str]:
        """What is written in the SVG."""
        return [each.text or "" for each in self.drawing.iter(f"{SVG}text")]

    @cached_property
    def image(self) -> np.ndarray:
        """The PNG, as brightnesses."""
        return np.asarray(Image.open(io.BytesIO(self.files["PNG"])).convert("L"))

    @cached_property
    def table(self) -> list[list[str]]:
        """The CSV, the names of its columns first."""
        text = self.files["CSV"].decode("utf-8")
        assert text.startswith("\ufeff")  # so that a spreadsheet reads the Chinese in it
        return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))


def page_downloads(page: Any, *kinds: str) -> dict[str, PageDownload]:
    """All that a view offers, by name; of all three kinds unless some are named."""
    taken = page.evaluate(COLLECT_DOWNLOADS, list(kinds or ("PNG", "SVG", "CSV")))
    decoded = {name: {kind: base64.b64decode(content) for kind, content in files.items()} for name, files in taken}
    return {name: PageDownload(name, files) for name, files in decoded.items()}
