"""The explorer: a local server with a web page that displays the internals of trained models."""
