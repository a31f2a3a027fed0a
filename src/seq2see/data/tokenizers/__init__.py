"""Tokenizers: text to token ids and back, their training, and those of pretrained models."""
