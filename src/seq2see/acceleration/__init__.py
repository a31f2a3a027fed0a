"""Fused kernels for definitions of other packages: triton on a GPU, oneDNN on a CPU; each names its definition."""
