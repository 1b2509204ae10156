"""Alignments, certificates, their independent checker. Imports program, and no other engine."""

from veridp.prove.proof import Proof, ProofUpTo, prove, prove_up_to

__all__ = ["Proof", "ProofUpTo", "prove", "prove_up_to"]
