"""Noise that code makes by hand, recognised as the noise that it is. Exploration works without it."""
