"""Layers: masks, position encodings, attention, recurrent cells, norms, feed-forward, convolutions, pooling."""
