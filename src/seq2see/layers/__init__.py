"""Building blocks, tensors in and tensors out: masks, positions, attention, cells, norms, feed-forward."""
