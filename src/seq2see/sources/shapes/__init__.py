"""Shapes: drawn scenes whose content is known, made out of nothing.

`scenes.py` draws lots (what, how large, where, in which color) and says them in words, `drawing.py` paints them,
`corpus.py` hands them out as a corpus.
"""
