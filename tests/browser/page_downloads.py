"""All downloads of a page, without the downloads of the browser, which are slow."""

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
  const [createObjectURL, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
  HTMLAnchorElement.prototype.click = () => {};
  const downloads = [];
  for (const download of document.querySelectorAll(".downloads")) {
    const files = {};
    for (const button of download.querySelectorAll("button")) {
      if (!kinds.includes(button.dataset.kind)) continue;
      const blob = await new Promise((resolve) => {
        URL.createObjectURL = (each) => (resolve(each), createObjectURL.call(URL, each));
        button.click();
      });
      const bytes = new Uint8Array(await blob.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
      files[button.dataset.kind] = btoa(text);
    }
    downloads.push([download.querySelector("span").textContent, files]);
  }
  [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [createObjectURL, click];
  return downloads;
}"""


@dataclass(frozen=True)
class PageDownload:
    """One download, with the files of its buttons."""

    name: str
    files: dict[str, bytes]

    @cached_property
    def drawing(self) -> ElementTree.Element:
        """The SVG."""
        return ElementTree.fromstring(self.files["SVG"])

    @property
    def texts(self) -> list[str]:
        """The texts of the SVG."""
        return [each.text or "" for each in self.drawing.iter(f"{SVG}text")]

    @cached_property
    def image(self) -> np.ndarray:
        """The PNG in gray."""
        return np.asarray(Image.open(io.BytesIO(self.files["PNG"])).convert("L"))

    @cached_property
    def table(self) -> list[list[str]]:
        """The CSV; the first row are the column names."""
        text = self.files["CSV"].decode("utf-8")
        assert text.startswith("\ufeff")  # so that a spreadsheet reads Chinese text
        return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))


def page_downloads(page: Any, *kinds: str) -> dict[str, PageDownload]:
    """All downloads of a view by name, of all three kinds by default."""
    downloads = page.evaluate(COLLECT_DOWNLOADS, list(kinds or ("PNG", "SVG", "CSV")))
    decoded = {name: {kind: base64.b64decode(content) for kind, content in files.items()} for name, files in downloads}
    return {name: PageDownload(name, files) for name, files in decoded.items()}
