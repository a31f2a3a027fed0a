"""Built-in recipes, as Python functions that return a `Recipe`."""
