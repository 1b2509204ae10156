"""StatDP: statistical tests with counterexamples that a person understands. Imports no other engine.

Ding, Wang, Wang, Zhang, Kifer, "Detecting Violations of Differential Privacy" (CCS 2018).
"""

from veridp.engines.statdp.candidates import FeatureEvent
from veridp.engines.statdp.detect import detect
from veridp.engines.statdp.hypothesis_test import log_p_values, p_values
from veridp.engines.statdp.result import CurvePoint, Detection

__all__ = ["CurvePoint", "Detection", "FeatureEvent", "detect", "log_p_values", "p_values"]
