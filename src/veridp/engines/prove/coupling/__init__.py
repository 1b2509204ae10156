"""Proofs for finite cases: runs of one case are matched with runs of another."""
