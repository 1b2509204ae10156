"""Mechanisms: an author's plain function with what is claimed of it, and adapters that make one of other libraries'."""

from veridp.mechanism.accepted import as_mechanism, mechanism
from veridp.mechanism.declared import Function, Mechanism

__all__ = ["Function", "Mechanism", "as_mechanism", "mechanism"]
