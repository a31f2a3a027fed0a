"""How good an output is: BLEU, chrF, perplexity, accuracy, alignment error; and is a difference real."""
