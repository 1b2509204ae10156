"""Alignments, certificates, their independent checker. Imports program, and no other engine."""

from veridp.prove.proof import Proof, prove

__all__ = ["Proof", "prove"]
