"""Fonts with Chinese characters for the plots: one that is installed, or the one of the extra `zh`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from matplotlib import font_manager, rcParams

CHINESE = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "SimHei",
)  # fmt: skip
ADVICE = "For Chinese in the images: pip install 'seq2see[zh]'"


def use_chinese_font() -> bool:
    """Set a font with Chinese glyphs as matplotlib's fallback; False if this machine has none."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    name = next((name for name in CHINESE if name in installed), None) or _packaged_font()
    if name is None:
        return False
    rcParams["font.family"] = ["DejaVu Sans", name]
    rcParams["axes.unicode_minus"] = False
    return True


def _packaged_font() -> str | None:
    """The font file inside the package `zhplot` (the extra `zh`), read without importing the package."""
    spec = importlib.util.find_spec("zhplot")
    if spec is None or not spec.submodule_search_locations:
        return None
    files = [path for folder in spec.submodule_search_locations for path in sorted(Path(folder).rglob("*.[ot]tf"))]
    if not files:
        return None
    font_manager.fontManager.addfont(str(files[0]))
    return font_manager.FontProperties(fname=str(files[0])).get_name()
