"""Confidence bounds for the probability of an event, from how often it happened, and tests of an inequality between two
probabilities: at one look (numbers or arrays), or at every look."""

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


def approximate_upper(count: Numbers, total: int, deviations: Numbers) -> Numbers:
    """About `clopper_pearson_upper` at alpha = Φ(-deviations), in a twentieth of the time: to plan by, not a bound.

    The approximation of Paulson, Camp and Pratt (in Vollset 1993), and for few counts that of Wilson and Hilferty:
    within a few percent, but for lower bounds of counts below 5, which are too low.
    """
    with np.errstate(all="ignore"):
        above, below = np.asarray(count, dtype=np.float64) + 1, total - np.asarray(count, dtype=np.float64)
        z2 = np.asarray(deviations) ** 2
        root = np.sqrt(9 * above * below * (9 * total + 5 - z2) + total + 1)
        odds = (81 * above * below - 9 * total - 8 - 3 * deviations * root) / (81 * above**2 - 9 * above * (2 + z2) + 1)
        odds = np.maximum(odds, 0.0)
        few = above * (1 - 1 / (9 * above) + deviations / (3 * np.sqrt(above))) ** 3 / total
        many = 1 / (1 + (above / below) ** 2 * odds**3)
        return np.where(below <= 0, 1.0, np.clip(np.where(6 * above < 2 + z2, few, many), 1e-300, 1.0))


def approximate_lower(count: Numbers, total: int, deviations: Numbers) -> Numbers:
    """About `clopper_pearson_lower`, likewise."""
    return 1 - approximate_upper(total - np.asarray(count), total, deviations)


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


# ------------------------------------------------------------------------------------------------ one test, of one look
# p <= e^ε q + δ tested as it stands, not by an interval for each probability: T = X - e^ε Y - nδ, for counts X and Y of
# n runs each. On the edge p = e^ε q + δ of the hypothesis T has mean 0 and the variance nV(q), and inside it T is
# stochastically smaller. By Berry and Esseen, P[T >= t] is at most that of a normal variable plus 0.56 (e^ε + δ)/√(nV)
# (Shevtsova 2010, with |ξ| <= e^ε + δ, and so E|ξ|³ <= (e^ε + δ) E ξ²). q is unknown: the worst q of an interval that
# misses it with probability β is taken, and β is paid (Berger and Boos 1994). So nothing is approximate. For frequent
# events the bound is 1.5 times as close to the truth as by two intervals; for rare ones, what Berry and Esseen add is
# too much.


BERRY_ESSEEN = 0.56
NUISANCE_SHARE = 0.02  # of alpha, for the interval of q
TESTED_EPSILONS = 1e-3 * 1.0005 ** np.arange(20_600)  # up to 30, fixed before any count is seen


def linear_epsilon_lower(left: int, right: int, total: int, alpha: float, delta: float = 0.0) -> float:
    """A lower bound on ln((P[left] - delta) / P[right]) by one test; too high with probability at most alpha.

    -inf where nothing is shown. The δ has to be fixed before the samples are seen. Of the tested ε, in ascending order,
    only the first that is at least the truth can make the bound too high.
    """
    _checked(left, total, alpha)
    _checked(right, total, alpha)
    doubt = NUISANCE_SHARE * alpha
    ends = (clopper_pearson_lower(right, total, doubt / 2), clopper_pearson_upper(right, total, doubt / 2))
    rejected = _linear_p_values(left, right, total, TESTED_EPSILONS, delta, *map(float, ends)) + doubt <= alpha
    count = len(rejected) if rejected.all() else int(np.argmin(rejected))
    return float(TESTED_EPSILONS[count - 1]) if count else -math.inf


def _linear_p_values(
    left: int, right: int, total: int, epsilons: Numbers, delta: float, low: float, high: float
) -> Numbers:
    """How probable such a T, or a larger one, is at most, for any q between `low` and `high`."""
    from scipy.special import ndtr

    factor = np.exp(epsilons)
    beyond = left - factor * right - total * delta
    worst = np.clip((1 - 2 * delta + factor) / (4 * factor), low, high)  # V is concave in q
    least = np.minimum(_variance(low, factor, delta), _variance(high, factor, delta))
    testable = (beyond > 0) & (factor * high + delta < 1) & (least > 0)
    least, most = (np.where(testable, total * variance, 1.0) for variance in (least, _variance(worst, factor, delta)))
    tail = ndtr(-beyond / np.sqrt(most)) + BERRY_ESSEEN * (factor + delta) / np.sqrt(least)
    return np.where(testable, tail, 1.0)


def _variance(right: Numbers, factor: Numbers, delta: float) -> Numbers:
    left = factor * right + delta
    return left * (1 - left) + factor**2 * right * (1 - right)


def expected_linear_lower(left: Numbers, right: Numbers, total: int, alpha: float, delta: float = 0.0) -> Numbers:
    """About what `linear_epsilon_lower` gives for counts of `total` times these probabilities: no bound."""
    from scipy.special import ndtri

    left, right = np.asarray(left, dtype=np.float64), np.maximum(np.asarray(right, dtype=np.float64), 1e-300)
    with np.errstate(all="ignore"):
        bound = np.where(left > delta, np.log((left - delta) / right), -np.inf)
        highest = bound
        for _ in range(4):
            factor = np.exp(bound)
            spread = np.sqrt(_variance(right, factor, delta) / total)
            paid = BERRY_ESSEEN * (factor + delta) / (spread * total)
            bound = highest + np.log1p(ndtri((1 - NUISANCE_SHARE) * alpha - paid) * spread / (left - delta))
        return np.where(np.isnan(bound), -np.inf, bound)


def detectable_probability(
    right: float, samples: int, alpha: float, epsilon: float, delta: float, power: float = 0.9
) -> float:
    """The least P[left] of an event from which on p > e^ε q + δ is shown with probability `power`; 1 if none does.

    By `log_ratio_lower` at alpha, from so many samples of either side, where the event has probability `right` on the
    right. Averaged over 400 equally probable counts on the right, each with its own threshold for that on the left.
    """
    from scipy.special import bdtrc, bdtrik

    shares = (np.arange(400) + 0.5) / 400
    counts = np.nan_to_num(bdtrik(shares, samples, min(right, 1 - 1e-12)), nan=0.0)
    least = math.exp(min(epsilon, 700.0)) * clopper_pearson_upper(np.ceil(counts), samples, alpha / 2) + delta
    possible = least < 1  # the probability that the lower bound for the left must exceed
    needed = np.ceil(bdtrik(1 - alpha / 2, samples, np.where(possible, least, 0.5))) + 1
    low, high = min(right, 1.0), 1.0
    for _ in range(50):
        left = (low + high) / 2
        chance = np.where(possible & (needed <= samples), bdtrc(np.minimum(needed, samples) - 1, samples, left), 0.0)
        low, high = (low, left) if chance.mean() >= power else (left, high)
    return high


def detectable_by_one_test(
    right: float, samples: int, alpha: float, epsilon: float, delta: float, power: float = 0.9
) -> float:
    """The same for `linear_epsilon_lower`: counts are large there, and the normal distribution tells their spread."""
    from scipy.special import ndtri

    factor = math.exp(min(epsilon, 700.0))
    edge = factor * right + delta
    if edge >= 1:
        return 1.0
    deviation = math.sqrt(samples * float(_variance(right, factor, delta)))
    paid = BERRY_ESSEEN * (factor + delta) / deviation
    if (1 - NUISANCE_SHARE) * alpha <= paid:
        return 1.0
    beyond = -float(ndtri((1 - NUISANCE_SHARE) * alpha - paid)) * deviation  # what X - e^ε Y - nδ has to reach
    low, high = edge, 1.0
    for _ in range(50):
        left = (low + high) / 2
        spread = math.sqrt(samples * (left * (1 - left) + factor**2 * right * (1 - right)))
        reached = samples * (left - edge) - float(ndtri(power)) * spread >= beyond
        low, high = (low, left) if reached else (left, high)
    return high


# ---------------------------------------------------------------------------------------------------------- sequential
# Tests that hold at every look.
#
# A test martingale is a bet against a hypothesis: wealth starts at 1, and its expectation never grows while the
# hypothesis is true. So it ever reaches 1/alpha with probability at most alpha (Ville 1939), whenever one stops.
#
# The hypothesis is p <= e^ε q + δ, for an event that was fixed before these samples. Let q* be a probability,
# p* = e^ε q* + δ, and κ >= 0. Pay 1 + κ (x - p*) for a run on the left (x is 1 if the event happened) and
# 1 - κ e^ε (y - q*) for one on the right. With u = p - p* <= e^ε (q - q*) = v, the expected product is
# (1 + κ u)(1 - κ v) <= (1 + κ v)(1 - κ v) <= 1. This holds for every κ and q* that keep all payments >= 0, so they may
# depend on all that was seen before. Where p and q are known, those of the closest (p*, q*) in relative entropy make
# wealth grow fastest (Turner, Ly and Grünwald 2024): it then is the likelihood ratio. With δ = 0 and rare events that
# is the conditional binomial test of the ratio p/q.


class RatioMartingale:
    """Bets against p <= e^ε q + δ, one for each of the ε: valid at every look, whenever one stops.

    Each block of samples is bet on with what was seen before it: `seen` are earlier counts (left, right, of how many on
    either side), from samples that are not bet on. The wealth is the mean of bets of several SIZES, since an event that
    was selected tends to look better than it is. Counts may be arrays, with an entry for each of the ε.
    """

    SIZES = (1.0, 0.5, 0.2)  # of the bet that would be best if the frequencies so far were the probabilities

    def __init__(self, epsilons: Numbers, delta: float = 0.0, seen: tuple[Numbers, Numbers, int] = (0, 0, 0)) -> None:
        self.factors = np.exp(np.minimum(np.atleast_1d(np.asarray(epsilons, dtype=np.float64)), 700.0))
        self.epsilons, self.delta = np.atleast_1d(np.asarray(epsilons, dtype=np.float64)), delta
        self.left, self.right, self.total = seen
        self._logs = np.zeros((len(self.SIZES), len(self.factors)))
        self._best = np.zeros(len(self.factors))

    def bet(self, left: Numbers, right: Numbers, total: int) -> None:
        """Add a block: the event happened so often in `total` runs on the left, and in as many on the right."""
        _checked(left, total, 0.5)
        _checked(right, total, 0.5)
        frequencies = (self.left + 0.5) / (self.total + 1), (self.right + 0.5) / (self.total + 1)
        p, q, kappa = _best_bet(*frequencies, self.factors, self.delta)
        for logs, size in zip(self._logs, self.SIZES, strict=True):
            logs += _log_payment(left, right, total, p, q, size * kappa, self.factors)
        self.left, self.right, self.total = self.left + left, self.right + right, self.total + total
        self._best = np.maximum(self._best, self.log_wealth)

    @property
    def log_wealth(self) -> Any:
        """The logarithm of the wealth against each ε."""
        highest = self._logs.max(axis=0)
        return highest + np.log(np.exp(self._logs - highest).mean(axis=0))

    def rejected(self, alpha: float) -> Any:
        """Which of the hypotheses are rejected at some look so far; each wrongly with probability alpha at most."""
        return self._best >= -math.log(alpha)

    def epsilon_lower(self, alpha: float) -> float:
        """The largest ε up to which all are rejected, -inf if not even one: too high with probability alpha at most.

        Of the given ε, in ascending order, only the first that is at least ln((p - δ)/q) can make the bound too high.
        """
        rejected = self.rejected(alpha)
        count = len(rejected) if rejected.all() else int(np.argmin(rejected))
        return float(self.epsilons[count - 1]) if count else -math.inf


def growth(left: Numbers, right: Numbers, epsilon: Numbers, delta: float = 0.0) -> Numbers:
    """How fast, per run on either side, the logarithm of the best bet against p <= e^ε q + δ grows at these p and q.

    0 where the inequality holds. About ln(1/alpha) over this are the samples that a refutation takes.
    """
    left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    factor = np.exp(np.minimum(np.asarray(epsilon, dtype=np.float64), 700.0))
    p, q, kappa = _best_bet(left, right, factor, delta)
    return np.maximum(_log_payment(left, right, 1.0, p, q, kappa, factor), 0.0)


def _best_bet(left: Numbers, right: Numbers, factor: Numbers, delta: float) -> tuple[Any, Any, Any]:
    """p*, q* and κ: the point on the line p = e^ε q + δ from which these probabilities differ most clearly."""
    left, right = np.clip(left, 1e-12, 1 - 1e-12), np.clip(right, 1e-12, 1 - 1e-12)
    low = np.broadcast_to(right, np.broadcast_shapes(np.shape(left), np.shape(right), np.shape(factor))).copy()
    high = np.maximum((left - delta) / factor, low)
    above = (left - delta) / factor > right  # else there is nothing to bet on
    for _ in range(48):  # the derivative of the relative entropy along the line rises from low to high
        q = (low + high) / 2
        p = np.clip(factor * q + delta, 1e-300, 1 - 1e-15)
        rising = factor * (p - left) / (p * (1 - p)) + (q - right) / (q * (1 - q)) > 0
        low, high = np.where(rising, low, q), np.where(rising, q, high)
    q = (low + high) / 2
    p = factor * q + delta
    most = np.minimum(1 / np.maximum(p, 1e-300), 1 / (factor * (1 - q)))  # up to which no payment is below 0
    inside = np.clip(p, 1e-300, 1 - 1e-15)
    kappa = np.where(above, np.minimum((left - inside) / (inside * (1 - inside)), (1 - 1e-9) * most), 0.0)
    return p, q, np.maximum(kappa, 0.0)


def _log_payment(left: Numbers, right: Numbers, total: float, p: Any, q: Any, kappa: Any, factor: Any) -> Any:
    """The logarithm of what the bet pays for these counts, rounded down."""
    pays = (
        left * np.log1p(kappa * (1 - p))
        + (total - left) * np.log1p(-kappa * p)
        + right * np.log1p(-kappa * factor * (1 - q))
        + (total - right) * np.log1p(kappa * factor * q)
    )
    return pays - 1e-14 * total


class BinomialMartingale:
    """Bets on the probability of one event: bounds that hold at every look.

    The wealth against p0 is the likelihood of all that was counted, averaged over a Beta distribution of p that earlier
    samples suggest, over its likelihood at p0 (Robbins 1970).
    """

    def __init__(self, seen: tuple[float, int] = (0, 0)) -> None:
        self.prior = seen[0] + 0.5, seen[1] - seen[0] + 0.5
        self.count = self.total = 0

    def add(self, count: int, total: int) -> None:
        _checked(count, total, 0.5)
        self.count, self.total = self.count + count, self.total + total

    def lower(self, alpha: float) -> float:
        """A lower bound on p; at all looks together, it is too high with probability alpha at most."""
        return self._end(0.0, alpha) if self.count else 0.0

    def upper(self, alpha: float) -> float:
        return self._end(1.0, alpha) if self.count < self.total else 1.0

    def _end(self, outside: float, alpha: float) -> float:
        from scipy.special import betaln, xlog1py, xlogy

        (a, b), hits, misses = self.prior, self.count, self.total - self.count
        mixture = betaln(a + hits, b + misses) - betaln(a, b)
        inside = hits / self.total
        for _ in range(80):
            middle = (outside + inside) / 2
            likelihood = xlogy(hits, middle) + xlog1py(misses, -middle)
            if mixture - likelihood >= -math.log(alpha):
                outside = middle
            else:
                inside = middle
        return float(outside)


def _checked(count: Numbers, total: Numbers, alpha: Numbers) -> tuple[Any, Any]:
    count, total, alpha = np.asarray(count), np.asarray(total), np.asarray(alpha)
    if not (np.all(count >= 0) and np.all(count <= total)):
        raise BadInput(f"count must be between 0 and {total}, got {count}")
    if not (np.all(alpha > 0) and np.all(alpha < 1)):
        raise BadInput(f"alpha must be in (0, 1), got {alpha}")
    return count, total
