"""From next-token probabilities to text: one loop, choosers that choose, rules that forbid."""
