"""Confidence bounds for the probability of an event, from how often it happened. All take numbers or arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veridp.errors import BadInput

Numbers = Any  # a number, or an array of them


def clopper_pearson_lower(count: Numbers, total: Numbers, alpha: Numbers) -> Numbers:
    """A number that exceeds the true probability with probability at most alpha, whatever that probability is.

    It is where P[Binomial(total, p) >= count] = alpha (Clopper and Pearson 1934): the alpha quantile of
    Beta(count, total - count + 1), and 0 for no successes.
    """
    from scipy.special import betaincinv

    count, total = _checked(count, total, alpha)
    return np.where(count > 0, betaincinv(np.maximum(count, 1), total - np.maximum(count, 1) + 1, alpha), 0.0)[()]


def clopper_pearson_upper(count: Numbers, total: Numbers, alpha: Numbers) -> Numbers:
    """A number below the true probability with probability at most alpha, whatever that probability is."""
    from scipy.special import betainccinv

    count, total = _checked(count, total, alpha)
    below = np.minimum(count, np.maximum(total - 1, 0))
    return np.where(count < total, betainccinv(below + 1, np.maximum(total - below, 1), alpha), 1.0)[()]


def hoeffding_radius(total: Numbers, alpha: Numbers) -> Numbers:
    """How far a mean of independent values in [0, 1] can be above its expectation but with probability alpha.

    sqrt(ln(1 / alpha) / (2 total)), Hoeffding 1963; for both sides at once, give half the alpha.
    """
    _checked(0, total, alpha)
    return np.sqrt(np.log(1 / np.asarray(alpha)) / (2 * np.maximum(np.asarray(total), 1)))[()]


def log_ratio_lower(
    left: Numbers, left_total: Numbers, right: Numbers, right_total: Numbers, alpha: Numbers, delta: float = 0.0
) -> Numbers:
    """A lower bound on ln((P[left] - delta) / P[right]) that fails with probability at most alpha.

    Two one-sided Clopper-Pearson bounds at alpha / 2. -inf where nothing is known, never +inf: the upper bound of the
    right side is above 0.
    """
    above = clopper_pearson_lower(left, left_total, np.asarray(alpha) / 2) - delta
    below = clopper_pearson_upper(right, right_total, np.asarray(alpha) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, np.log(np.maximum(above, 0.0)) - np.log(below), -math.inf)[()]


def _checked(count: Numbers, total: Numbers, alpha: Numbers) -> tuple[Any, Any]:
    count, total, alpha = np.asarray(count), np.asarray(total), np.asarray(alpha)
    if not (np.all(count >= 0) and np.all(count <= total)):
        raise BadInput(f"count must be between 0 and {total}, got {count}")
    if not (np.all(alpha > 0) and np.all(alpha < 1)):
        raise BadInput(f"alpha must be in (0, 1), got {alpha}")
    return count, total
