"""Mechanisms as engineers write them, each with its derivation; none was written to fit an engine."""
