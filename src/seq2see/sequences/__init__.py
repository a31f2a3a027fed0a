"""From raw examples to batches: tokenisers, length buckets, pairs of texts."""
