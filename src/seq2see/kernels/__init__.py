"""Kernels for a GPU, written in triton, where torch has none made for the case; each names its plain twin."""
