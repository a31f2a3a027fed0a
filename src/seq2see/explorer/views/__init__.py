"""The Python side of the explorer's views: from an opened run and a question to plain data."""
