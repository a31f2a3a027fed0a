"""Metrics: BLEU, chrF, perplexity, accuracy, alignment error rate and others, and the significance of differences."""
