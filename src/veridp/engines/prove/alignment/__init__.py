"""Proofs by a shift of the noise: the search, and what a shift costs in each notion of privacy."""
