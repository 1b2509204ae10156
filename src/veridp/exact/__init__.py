"""Probabilities, densities, ε and δ of a mechanism's paths, without sampling. Imports program, and no other engine."""

from veridp.exact.compare import Comparison, compare
from veridp.exact.law import Law, law
from veridp.exact.worst import Worst, worst

__all__ = ["Comparison", "Law", "Worst", "compare", "law", "worst"]
