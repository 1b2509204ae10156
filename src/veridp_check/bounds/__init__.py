"""Certificates of bounds on densities, also of numbers that are drawn again."""
