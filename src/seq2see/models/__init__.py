"""Embeddings, encoders, decoders and heads, and one short module per model family that composes them."""
