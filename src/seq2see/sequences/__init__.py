"""From raw examples to batches: tokenizers, length buckets, pairs of texts."""
