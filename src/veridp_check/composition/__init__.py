"""Certificates of noisy steps, one after the other."""
