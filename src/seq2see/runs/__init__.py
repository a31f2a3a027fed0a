"""The root recipe and the verbs: prepare, train, evaluate, predict, report."""
