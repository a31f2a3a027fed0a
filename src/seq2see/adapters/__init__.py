"""Adapters: a few trained numbers at each weight matrix of a model whose weights are frozen.

`layers.py` has the equations (LoRA, SVF), `settings.py` the choice between them, `adapt.py` puts them on a model and
merges them into its matrices, `expert.py` stores what was trained. The models contain nothing of it.
"""
