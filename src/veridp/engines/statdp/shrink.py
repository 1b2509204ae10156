"""Which candidates to go on with: for each ε the simplest that is still significant, else the most significant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from veridp.engines.statdp.hypothesis_test import log_p_values
from veridp.engines.statdp.select import STRONG, EventCandidate, Scored

# On the selection sample. Of some 10^5 candidates none gets there by chance, and a fresh sample, of the same size or
# more, takes hardly any of it away.
STILL_SIGNIFICANT = math.log(1e-10)
COMPARED = 6  # candidates of an ε whose p-values are worked out: so many of the strongest, and of the simplest


def choose(finalists: Sequence[Sequence[Scored]], epsilons: Sequence[float]) -> list[EventCandidate | None]:
    """For each ε the simplest candidate whose p-value is clearly significant; the strongest where none is.

    Simpler is an event with less to say, then a shorter input; of equally simple ones the more significant goes first.
    At the largest ε the strongest is kept: how far the curve goes on beyond is asked of it.
    """
    lists = [_compared(scored) for scored in finalists]
    logs = iter(_log_p([(one, epsilon) for few, epsilon in zip(lists, epsilons, strict=True) for one in few]))
    chosen: list[EventCandidate | None] = []
    for few, epsilon in zip(lists, epsilons, strict=True):
        known = {one: next(logs) for one in few}
        clear = [one for one, log in known.items() if log <= STILL_SIGNIFICANT and epsilon < max(epsilons)]
        if clear:
            chosen.append(min(clear, key=lambda one: (one.complexity, one.trial.size, known[one])))
        else:
            chosen.append(min(known, key=known.__getitem__, default=None))
    return chosen


def _compared(scored: Sequence[Scored]) -> list[EventCandidate]:
    strongest = sorted(scored, key=lambda one: -one.score)[:COMPARED]
    strong = [one for one in scored if one.score > STRONG]
    plain = sorted(strong, key=lambda one: (one.candidate.complexity, one.candidate.trial.size, -one.score))[:COMPARED]
    return list(dict.fromkeys(one.candidate for one in (*strongest, *plain)))


def _log_p(asked: Sequence[tuple[EventCandidate, float]]) -> list[float]:
    """The logarithms of the p-values on the selection sample, in the direction that speaks against the ε."""
    counts = np.array([(max(one.left, one.right), min(one.left, one.right), one.runs) for one, _ in asked])
    if not len(counts):
        return []
    levels = np.array([epsilon for _, epsilon in asked])
    return [float(log) for log in log_p_values(counts[:, 0], counts[:, 1], counts[:, 2], levels)]
