"""Chinese in images: find a font that has it, or say how to get one."""

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
    """Let matplotlib fall back to a font with Chinese glyphs; False if this machine has none."""
    names = {font.name for font in font_manager.fontManager.ttflist}
    found = next((name for name in CHINESE if name in names), None) or _packaged_font()
    if found is None:
        return False
    rcParams["font.family"] = ["DejaVu Sans", found]
    rcParams["axes.unicode_minus"] = False
    return True


def _packaged_font() -> str | None:
    """The font file inside the package `zhplot` (the extra `zh`), read without importing the package."""
    place = importlib.util.find_spec("zhplot")
    if place is None or not place.submodule_search_locations:
        return None
    files = [path for folder in place.submodule_search_locations for path in sorted(Path(folder).rglob("*.[ot]tf"))]
    if not files:
        return None
    font_manager.fontManager.addfont(str(files[0]))
    return font_manager.FontProperties(fname=str(files[0])).get_name()
