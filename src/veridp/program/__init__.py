"""A mechanism as data: its noise, its paths, its samples. Knows nothing of privacy; every engine may import it."""
