"""Tasks: everything that belongs to one thing that models are trained for, one file for each."""
