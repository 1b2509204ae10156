"""Proofs of noisy steps, one after the other, on all records or on a fresh sample of them."""
