"""Probabilities, densities, ε and δ of a mechanism's paths, without sampling. Imports no other engine."""

from veridp.engines.exact.compare import Comparison, compare
from veridp.engines.exact.distribution import OutputDistribution, law
from veridp.engines.exact.worst import Worst, worst

__all__ = ["Comparison", "OutputDistribution", "Worst", "compare", "law", "worst"]
