"""Certificates of alignments, and of what their shifts cost at a δ."""
