"""Shapes: generated images and videos whose content is known.

`scenes.py` samples the attributes of images (shape, size, position, color) and writes their captions,
`moving_scenes.py` does so for videos, `rasterize.py` renders shapes, `shapes_corpus.py` has the settings.
"""
