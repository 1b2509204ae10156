"""Are reports as heavy as honest ones? The weights of reports against the distribution that the oracle gives them.

An honest report supports a random number of values whose distribution is known and does not depend on the value
(`weight_law`). Crafted reports are often all alike, or too heavy. In the manner of DiffStats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Floats
from veridp.local.oracle import CHUNK, PureOracle, Reports
from veridp.local.weights import weight_law

MIN_EXPECTED_REPORTS = 5.0  # expected reports below which weights are pooled, the usual rule of the χ² test
MIN_HONEST_REPORTS = 100.0  # expected reports of a weight from which on their number says how many reports are honest


@dataclass(frozen=True, eq=False)
class Weighing:
    """How many reports have each weight, how many should have, and how likely honest reports are so far off."""

    observed: NDArray[np.int64]
    expected: Floats
    p_value: float

    @property
    def excess(self) -> float:
        """The share of reports by which weights are over-represented: about the share of crafted reports, where these
        have weights that honest ones rarely have; less otherwise."""
        return float(np.maximum(self.observed - self.expected, 0).sum() / max(self.observed.sum(), 1))


def weights(oracle: PureOracle, reports: Reports) -> NDArray[np.int64]:
    """How many values each report supports."""
    parts = [
        oracle.support(reports[start : start + CHUNK // 16]).sum(axis=1)
        for start in range(0, len(reports), CHUNK // 16)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def weigh(oracle: PureOracle, reports: Reports) -> Weighing:
    """The weights of the reports against their expected distribution, by a χ² test with rare weights pooled.

    Where all honest reports weigh the same (GRR, subset selection) nothing can be learnt, and it is refused.
    """
    from scipy.stats import chi2

    if not len(reports):
        raise BadInput(f"{oracle}: there are no reports to weigh")
    law = weight_law(oracle)
    if law.max() == 1:
        raise BadInput(f"{oracle}: all reports have the same weight, honest or not; use the estimates instead")
    observed = np.bincount(weights(oracle, reports), minlength=oracle.size + 1)
    expected = law * len(reports)
    pooled_observed, pooled_expected = _pooled(observed, expected)
    statistic = float((np.square(pooled_observed - pooled_expected) / pooled_expected).sum())
    freedom = len(pooled_expected) - 1
    p_value = float(chi2.sf(statistic, freedom)) if freedom else math.nan
    return Weighing(observed, expected, p_value)


def _pooled(observed: NDArray[np.int64], expected: Floats) -> tuple[Floats, Floats]:
    """Neighbouring weights together until enough reports are expected of each group."""
    groups_observed, groups_expected = [0.0], [0.0]
    for seen, due in zip(observed, expected, strict=True):
        if groups_expected[-1] >= MIN_EXPECTED_REPORTS:
            groups_observed.append(0.0)
            groups_expected.append(0.0)
        groups_observed[-1] += float(seen)
        groups_expected[-1] += float(due)
    if len(groups_expected) > 1 and groups_expected[-1] < MIN_EXPECTED_REPORTS:
        groups_observed[-2] += groups_observed.pop()
        groups_expected[-2] += groups_expected.pop()
    return np.array(groups_observed), np.array(groups_expected)


def thinned(oracle: PureOracle, reports: Reports, rng: Generator) -> NDArray[np.bool_]:
    """Which reports to keep so that the weights are distributed as those of honest ones.

    Of over-represented weights a random part is left out, honest reports among them. Reports that are kept may
    still be crafted: an attacker who knows the distribution can follow it.
    """
    weight = weights(oracle, reports)
    observed = np.bincount(weight, minlength=oracle.size + 1)
    law = weight_law(oracle)
    seen = observed > 0
    # the most reports that can be kept if weights with enough reports keep their proportions
    usual = seen & (law * len(reports) >= MIN_HONEST_REPORTS)
    most = float((observed[usual] / law[usual]).min()) if usual.any() else float(len(reports))
    allowed = np.minimum(law * most / np.maximum(observed, 1), 1.0)
    return np.asarray(rng.random(len(reports)) < allowed[weight])
