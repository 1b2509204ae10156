"""A mechanism as data: noise, expressions, paths, and plain runs that confirm them. Knows nothing of privacy."""
