"""Experiments: one file for each claim of the course notes, with its prediction, its measurement and its verdict."""
