"""Bounds from above on the distribution of a privacy loss."""
