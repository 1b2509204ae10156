"""DP-Finder: the worst inputs by sampling along paths and by optimisation. Imports program, and exact as its judge.

B. Bichsel, T. Gehr, D. Drachsler-Cohen, P. Tsankov, M. Vechev, "DP-Finder: Finding Differential Privacy Violations by
Sampling and Optimization" (CCS 2018).
"""

from veridp.finder.hunt import Found, search
from veridp.finder.outcome import Restart

__all__ = ["Found", "Restart", "search"]
