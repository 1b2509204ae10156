"""Whole programs: two runs on neighbouring data whose releases are kept the same by shifting the noise.

It runs any Python program and says what stands in the way of an alignment, line by line. What it finds are candidates.
Asks `accounting` for the composed cost, and no other engine.
"""

from veridp.engines.pipeline.compare import compare
from veridp.engines.pipeline.result import Candidate, Fault, PipelineRelease, PipelineResult
from veridp.engines.pipeline.search import PipelineSearch, in_domain, search

__all__ = [
    "Candidate",
    "Fault",
    "PipelineRelease",
    "PipelineResult",
    "PipelineSearch",
    "compare",
    "in_domain",
    "search",
]
