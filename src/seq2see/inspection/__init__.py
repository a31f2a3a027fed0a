"""Looking inside: traces of what a model attends to, and images of them."""
