"""Plain runs of a mechanism, held against the paths that were explored."""
