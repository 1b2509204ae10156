"""DP-Finder: the worst inputs by sampling along paths and by optimisation. Asks `exact` as its judge.

B. Bichsel, T. Gehr, D. Drachsler-Cohen, P. Tsankov, M. Vechev, "DP-Finder: Finding Differential Privacy Violations by
Sampling and Optimization" (CCS 2018).
"""

from veridp.engines.finder.estimate import SampleMoments, clt, hoeffding, multivariate_clt
from veridp.engines.finder.result import FinderResult, Restart
from veridp.engines.finder.search_run import search

__all__ = ["FinderResult", "Restart", "SampleMoments", "clt", "hoeffding", "multivariate_clt", "search"]
