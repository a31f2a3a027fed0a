"""Shapes: generated images and videos whose content is known.

`scenes.py` samples the attributes of images and videos (shape, size, position, color, action), writes captions,
`rasterize.py` renders shapes, `shapes_corpus.py` has the settings.
"""
