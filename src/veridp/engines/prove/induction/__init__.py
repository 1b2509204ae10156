"""Proofs for every size, and step by step for one: a loop as a finite system of states and steps."""
