"""Decoding: from next-token probabilities to text, by greedy decoding, sampling or beam search."""
