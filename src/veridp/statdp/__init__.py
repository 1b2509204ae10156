"""StatDP: statistical tests with counterexamples that a person understands. Imports program, and no other engine.

Ding, Wang, Wang, Zhang, Kifer, "Detecting Violations of Differential Privacy" (CCS 2018).
"""

from veridp.statdp.detect import detect
from veridp.statdp.detection import Detection, Point
from veridp.statdp.events import Event
from veridp.statdp.hypothesis_test import log_p_values, p_values

__all__ = ["Detection", "Event", "Point", "detect", "log_p_values", "p_values"]
