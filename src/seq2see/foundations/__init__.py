"""The foundations of the course notes as short programs: automatic differentiation, linear models, initialization."""
