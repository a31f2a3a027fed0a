"""Looking inside: traces of what a model attends to, and pictures of them."""
