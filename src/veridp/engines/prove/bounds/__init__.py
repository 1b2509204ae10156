"""Proofs by bounds on the density of every output."""
