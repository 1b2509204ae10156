"""The least ρ (zCDP) and μ (Gaussian DP) that hold between two inputs: suprema over orders and over tests.

Each order and each test shows a lower bound; what is returned is the largest that a search finds. For normal noise
every one of them shows the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtri

from veridp.engines.exact.divergence import DENSITY_ROUNDING
from veridp.engines.exact.loss import Atom, Mixture, PrivacyLoss, atoms_of, has_atoms_only
from veridp.errors import NotExact

Array = NDArray[np.float64]
MAX_ORDER = 1e5
ORDERS_TRIED = 25
LEVELS_TRIED = 33  # of the loss: an event is tried for each
FARTHEST_LEVEL = 700.0
MAX_DEVIATIONS = 38.0  # beyond, a normal variable has a probability that floats do not hold
MAX_ATOM_LEVELS = 400
LOWEST = -1e9  # stands for no value
FLAT = 1e-9  # values that differ by less, relatively, are the same but for rounding
REFINED = 1e-7  # of an order or a level around which the best is looked for, relatively
SCORE_ERROR = 2.5e-13  # of a difference of two Φ⁻¹, of probabilities with a relative error of 1e-13
LEAST_PROBABILITY = 1e-290  # below, floats lose digits
LARGEST_MU = 1e3


def least_rho(loss: PrivacyLoss) -> float:
    """The largest D_α/α found over orders α, in both directions; inf where one is."""
    both = loss, loss.reversed
    return max(_largest_slope(one) for one in both)


def _largest_slope(loss: PrivacyLoss) -> float:
    def slope(log_order: float) -> float:
        order = math.exp(log_order)
        return loss.divergence(order).value / order * (1 - DENSITY_ROUNDING * order)  # which grows with the order

    best = slope(0.0)  # the KL divergence, which all orders above 1 come close to
    top = min(MAX_ORDER, loss.supremum / best if 0 < best < math.inf else 1.0)  # D_α is at most the supremum
    if top <= 1:
        return best
    return max(best, _highest(slope, np.linspace(0.0, math.log(top), ORDERS_TRIED)))


def _highest(function: Callable[[float], float], places: Array) -> float:
    """The largest value found at the places, and between those next to the best; places without a value are skipped."""
    values = [_value(function, float(place)) for place in places]
    best = int(np.argmax(values))
    if not math.isfinite(values[best]) or values[best] - min(values) <= FLAT * abs(values[best]):
        return values[best]
    low, high = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
    found = minimize_scalar(
        lambda place: -max(_value(function, float(place)), LOWEST),
        bounds=(low, high),
        method="bounded",
        options={"xatol": REFINED * max(1.0, abs(high))},
    )
    return max(values[best], -float(found.fun))


def _value(function: Callable[[float], float], place: float) -> float:
    try:
        return function(place)
    except NotExact:
        return -math.inf


# ------------------------------------------------------------------------------------------------------------------ μ


def least_mu(loss: PrivacyLoss) -> float:
    """The largest μ that a test shows, or that follows from ρ: μ-GDP implies ρ = μ²/2.

    An event of probability p on the left and q on the right shows Φ⁻¹(p) - Φ⁻¹(q). Events above a level of loss are the
    best tests; where these have no exact probability, it is the least μ with this δ at this ε.
    """
    if has_atoms_only(loss):
        return _mu_of_atoms(loss)
    least = _value(lambda _: math.sqrt(2 * least_rho(loss)), 0.0)
    if least == math.inf:
        return math.inf
    try:
        loss.above(0.0)
        show: Callable[[PrivacyLoss, float], float] = _mu_of_test
    except NotExact:
        loss.delta(0.0)  # raises NotExact where there is none either
        show = _mu_of_delta
    found = [0.0, least]
    for one in (loss, loss.reversed):
        found += [show(one, level) for level in _atom_levels(one)]
        found.append(_highest(partial(show, one), _levels(one, least if least > 0 else 1.0)))
    return max(found)


def _mu_of_atoms(loss: PrivacyLoss) -> float:
    """The largest μ over all tests on outputs without numbers."""
    rows = np.array(sorted(atoms_of(loss), key=lambda row: -row[0]))
    left, right = rows[:, 1], rows[:, 2]
    if np.any((left > 0) & np.isposinf(rows[:, 0])) or np.any((right > 0) & np.isneginf(rows[:, 0])):
        return math.inf
    with np.errstate(invalid="ignore"):
        scores = [_scores(np.cumsum(side)[:-1], np.cumsum(side[::-1])[::-1][1:]) for side in (left, right)]
        shown = scores[0] - scores[1]
    return float(np.max(shown[np.isfinite(shown)], initial=0.0))


def _scores(below: Array, above: Array) -> Array:
    """Φ⁻¹ of probabilities, given with their complements: from the smaller of the two."""
    return np.asarray(np.where(below < above, ndtri(below), -ndtri(above)))


def _levels(loss: PrivacyLoss, deviation: float) -> Array:
    """Levels of the loss from 0 up to its supremum, close to it too; without one, some deviations up and far out."""
    top = loss.supremum
    if math.isfinite(top):
        return np.unique(np.append(np.linspace(0.0, top, LEVELS_TRIED)[:-1], top * (1 - 1e-12)))
    last = min(FARTHEST_LEVEL, MAX_DEVIATIONS * deviation + deviation**2)
    near, far = np.geomspace(1e-2 * min(deviation, 1.0), last, LEVELS_TRIED), np.geomspace(last, FARTHEST_LEVEL, 8)
    return np.unique(np.concatenate([[0.0], near, far]))


def _atom_levels(loss: PrivacyLoss) -> Iterator[float]:
    """Levels just below the losses of single outputs: there, tests change at once."""
    parts = loss.parts if isinstance(loss, Mixture) else (loss,)
    losses = {part.supremum for part in parts if isinstance(part, Atom) and math.isfinite(part.supremum)}
    for at in sorted(losses)[-MAX_ATOM_LEVELS:]:
        yield at - 1e-12 * abs(at)


def _mu_of_test(loss: PrivacyLoss, level: float) -> float:
    """The μ that the event above the level of loss shows."""
    sides, others = np.array(loss.above(level)), np.array(loss.reversed.above(-level)[::-1])
    if sides.min() < LEAST_PROBABILITY:
        return -math.inf
    gap = np.abs(sides + others - 1) * [1, -1]  # the two events are found on their own: an end may differ by rounding
    left, right = _scores(sides, np.clip(others + gap, 0.0, 1.0)).tolist()
    return left - right - SCORE_ERROR if math.isfinite(left) and math.isfinite(right) else -math.inf


def _mu_of_delta(loss: PrivacyLoss, epsilon: float) -> float:
    """The μ whose δ at this ε is the one of the loss, from below."""
    delta = loss.delta(epsilon).lower
    if not 0 < delta < 1 or epsilon < 0:
        return -math.inf

    def gap(mu: float) -> float:
        """δ_μ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018), against the δ."""
        left, right = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(-math.exp(left) * math.expm1(min(0.0, right - left))) - delta

    if gap(LARGEST_MU) < 0:
        return -math.inf
    return float(brentq(gap, 1e-12, LARGEST_MU, xtol=1e-300, rtol=1e-14))
