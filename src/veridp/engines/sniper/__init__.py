"""DP-Sniper and DD-Search: the strongest certified attack on a black box.

Bichsel, Steffen, Bogunovic, Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
Classifiers" (S&P 2021). A mechanism is only run, never read: everything rests on its outputs. Reading order:
`paper` (the published algorithms), `pair_attack` and `power` (the same on one pair, stronger), `levels` (pairs),
`confirm` (what is certified, and why it holds).
"""

from veridp.engines.sniper.attack import ThresholdAttack, sample_size
from veridp.engines.sniper.result import AttackResult, ProfilePoint
from veridp.engines.sniper.search import search

__all__ = ["AttackResult", "ProfilePoint", "ThresholdAttack", "sample_size", "search"]
