"""What a server can do about poisoning by looking at reports and estimates. None of it proves anyone honest."""

from __future__ import annotations

from veridp.local.defences.recovery import recover
from veridp.local.defences.target_sets import Suspicion, detect, without
from veridp.local.defences.weighing import Weighing, thinned, weigh

__all__ = ["Suspicion", "Weighing", "detect", "recover", "thinned", "weigh", "without"]
