"""Faster twins of what other folders define: in triton for a GPU, by oneDNN on a CPU; each names its plain twin."""
