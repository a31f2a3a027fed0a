"""Training runs: the recipe, data preparation, training, evaluation, prediction and the report."""
