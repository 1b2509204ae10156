"""Proofs for every number of records: mechanisms of sums over their records."""
