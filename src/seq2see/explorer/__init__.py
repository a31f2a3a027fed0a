"""A page in which learners look inside their own models: a local server, and what it shows."""
