"""DP-Sniper and DD-Search: the strongest certified attack on a black box.

Bichsel, Steffen, Bogunovic, Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
Classifiers" (S&P 2021). A mechanism is only run, never read: everything rests on its outputs. Reading order:
`paper` (the published algorithms), `scout` and `power` (the same on one pair, stronger), `hunt` (pairs), `confirm`
(what is certified, and why it holds).
"""

from veridp.sniper.attack import ThresholdAttack
from veridp.sniper.finding import Finding, ProfilePoint
from veridp.sniper.power import sample_size
from veridp.sniper.search import search

__all__ = ["Finding", "ProfilePoint", "ThresholdAttack", "sample_size", "search"]
