"""From raw files to batches: readers, the catalogue, generated corpora, tokenizers, datasets and batch samplers."""
