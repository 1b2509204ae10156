"""Outputs of a mechanism, many at a time: in batches, compiled, or one by one. Imports the kernel, and no engine."""
