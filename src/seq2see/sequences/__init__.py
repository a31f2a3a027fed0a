"""From raw examples to batches: tokenizers, datasets, batch samplers, and augmentation."""
