"""Model inspection: traces of activations and attention weights, measures of them, and plots."""
