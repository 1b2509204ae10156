"""What a server can do about poisoning by looking at reports and estimates. None of it proves anyone honest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.local.frequency import GRR, OUE, SUE, SubsetSelection
from veridp.local.hashing import OLH
from veridp.local.oracle import CHUNK, Counts, Estimate, Floats, PureOracle, Reports
from veridp.local.postprocess import norm_sub

# ------------------------------------------------------------------------------------------------------------- weights
# How many values an honest report supports: its weight, and the distribution of that.


@singledispatch
def weight_distribution(oracle: PureOracle) -> Floats:
    """P[an honest report supports k values], for k = 0..d. It does not depend on the user's value."""
    raise BadInput(f"the weights of {oracle} are not available; use GRR, SUE, OUE, OLH or subset selection")


@weight_distribution.register
def _one(oracle: GRR) -> Floats:
    return _always(1, oracle.size)


@weight_distribution.register
def _fixed(oracle: SubsetSelection) -> Floats:
    return _always(oracle.count, oracle.size)


@weight_distribution.register(SUE)
@weight_distribution.register(OUE)
@weight_distribution.register(OLH)
def _independent(oracle: PureOracle) -> Floats:
    """The own value with rate p, each of d - 1 others with rate q, independently (for OLH: over the hash functions)."""
    from scipy.stats import binom

    others = binom.pmf(np.arange(oracle.size), oracle.size - 1, oracle.q)
    distribution = np.zeros(oracle.size + 1)
    distribution[:-1] += (1 - oracle.p) * others
    distribution[1:] += oracle.p * others
    return distribution


def _always(weight: int, size: int) -> Floats:
    distribution = np.zeros(size + 1)
    distribution[weight] = 1.0
    return distribution


# ------------------------------------------------------------------------------------------------------------ recovery
# Honest frequencies from poisoned ones, given how many users may be malicious. In the manner of LDPRecover.
#
# With η = m/n, the poisoned estimate is a mixture, f_poisoned = (f_honest + η f_fake)/(1 + η). The frequencies of fake
# reports are not known, but their sum is: a report that supports k values adds (k - d q)/(p - q) to the sum of all
# estimates. Spread over the values that an attacker can have promoted, this is subtracted, and the rest is brought back
# to frequencies (norm-sub).


def recover(
    oracle: PureOracle,
    poisoned: Estimate,
    *,
    eta: float = 0.2,
    targets: Sequence[int] | None = None,
    supported: float | None = None,
) -> Estimate:
    """The frequencies of honest users, if there are η malicious users to one honest.

    With `targets` they are taken to promote these alone, else all values of positive estimate alike. `supported` is
    how many values a fake report supports; one for GRR, else as many as an honest report on average, if not given.
    The result is not unbiased, and as good as the assumptions on the attack.
    """
    if not 0 <= eta < 1:
        raise BadInput(f"eta must be in [0, 1), got {eta!r}")
    p, q, size = oracle.p, oracle.q, oracle.size
    weight = p + (size - 1) * q if supported is None else supported
    total = (weight - size * q) / (p - q)  # Σ f_fake
    fake = np.zeros(size)
    if targets is None:
        promoted = poisoned.values > 0
        fake[promoted] = total / max(int(promoted.sum()), 1)
    else:
        chosen = list(targets)
        if not chosen or not all(0 <= target < size for target in chosen):
            raise BadInput(f"targets = {chosen} are not values from 0 to {size - 1}; name them, or leave them out")
        held = min(float(len(chosen)), weight)  # what a report supports among the targets, the rest spread over others
        fake[:] = ((weight - held) / max(size - len(chosen), 1) - q) / (p - q)
        fake[chosen] = (held / len(chosen) - q) / (p - q)
    honest = (1 + eta) * poisoned.values - eta * fake
    return norm_sub(poisoned.after("recover", honest))


# --------------------------------------------------------------------------------------------------------- target sets
# Sets of values that too many reports support together: the trace of an attack with several targets.
#
# Whether an honest report supports i and whether it supports j are independent, given the user's value, and all but the
# own value are supported at rate q. So (b_i - q)(b_j - q) has expectation 0 for every honest user, whatever the value;
# a fake report that supports both adds (1 - q)². Pairs whose sum is far above 0 are found by a test for each pair, and
# joined to a set. Cao, Jia, Gong (2021) look for frequent item sets instead; here the rate of false alarms is known.


AT_ONCE = CHUNK // 16  # reports whose support is spread out at a time
LOYAL = 0.75  # of the fake reports have to support a value for it to count as one of their targets


@dataclass(frozen=True, eq=False)
class Suspicion:
    """Values that are supported together too often; none where no pair is.

    `share` is the share of reports that support all of them beyond what is expected, an estimate of β. `suspects` are
    all reports that do, honest ones by chance among them.
    """

    targets: tuple[int, ...]
    share: float
    suspects: NDArray[np.bool_]
    alpha: float

    @property
    def found(self) -> bool:
        return bool(self.targets)


def detect(oracle: PureOracle, reports: Reports, *, alpha: float = 0.001) -> Suspicion:
    """The set of values that reports support together too often, if any pair of values is.

    Among honest reports, any pair at all is suspected with probability at most alpha: Bernstein's inequality for each
    pair (its variance by the estimated frequencies), and a union bound. An attack on a single target, or one that
    supports one value per report, leaves no such trace.
    """
    _check_testable(oracle, reports, alpha)
    surprise = _surprise(oracle, _together(oracle, reports), len(reports))
    pairs = oracle.size * (oracle.size - 1) / 2
    group = _joined(surprise, math.log(pairs / alpha))
    if not group:
        return Suspicion((), 0.0, np.zeros(len(reports), dtype=bool), alpha)
    shares = _shares(oracle, reports, group)
    kept = 2 + int(np.flatnonzero(shares >= LOYAL * shares.max())[-1])
    targets = tuple(sorted(group[:kept]))
    suspects = np.asarray(_supporters(oracle, reports, targets).all(axis=1))
    return Suspicion(targets, float(shares[kept - 2]), suspects, alpha)


def without(oracle: PureOracle, reports: Reports, suspicion: Suspicion) -> Estimate:
    """The estimate with all suspects left out, and honest ones among them made up for.

    An honest report on another value supports all r targets with probability c = q^r. For every report that is kept
    there were so c/(1-c) honest ones left out, which support all targets, and others at rate q; these are put back.
    """
    kept = oracle.aggregate(reports[~suspicion.suspects])
    if not suspicion.found:
        return oracle.estimate(kept)
    chance = oracle.q ** len(suspicion.targets)
    missing = kept.users * chance / (1 - chance)
    rates = np.full(oracle.size, oracle.q)
    rates[list(suspicion.targets)] = 1.0
    return oracle.estimate(Counts(kept.of, round(kept.users + missing), kept.sums + missing * rates))


def _check_testable(oracle: PureOracle, reports: Reports, alpha: float) -> None:
    if isinstance(oracle, GRR | SubsetSelection):
        raise BadInput(f"{oracle}: its reports do not support values independently; use SUE, OUE or OLH")
    if not 0 < alpha < 1:
        raise BadInput(f"alpha must be in (0, 1), got {alpha!r}")
    if not len(reports):
        raise BadInput(f"{oracle}: no reports to test")


def _together(oracle: PureOracle, reports: Reports) -> Floats:
    """How many reports support each pair of values; on the diagonal, each value."""
    together = np.zeros((oracle.size, oracle.size))
    for start in range(0, len(reports), AT_ONCE):
        bits = oracle.support(reports[start : start + AT_ONCE]).astype(np.float32)
        together += bits.T @ bits
    return together


def _surprise(oracle: PureOracle, together: Floats, count: int) -> Floats:
    """-ln of a bound on the probability that honest reports support each pair so often: t²/(2(V + t/3)), Bernstein.

    t = Σ(b_i - q)(b_j - q), whose terms are below 1 and have variance q²(1-q)², or q(1-q)(p(1-p) + (p-q)²) for users
    whose value is i or j.
    """
    p, q = oracle.p, oracle.q
    alone = np.diag(together)
    above = np.maximum(together - q * (alone[:, None] + alone[None, :]) + count * q * q, 0.0)
    share = np.clip((alone / count - q) / (p - q), 0.0, 1.0)
    owners = np.minimum(share[:, None] + share[None, :], 1.0)
    variance = count * q * (1 - q) * ((1 - owners) * q * (1 - q) + owners * (p * (1 - p) + (p - q) ** 2))
    surprise = above**2 / (2 * (variance + above / 3))
    np.fill_diagonal(surprise, 0.0)
    return np.asarray(surprise)


def _joined(surprise: Floats, limit: float) -> list[int]:
    """A group of values all pairs of which are above the limit, grown from the worst pair by what fits best."""
    if not surprise.max() > limit:
        return []
    first, second = np.unravel_index(int(np.argmax(surprise)), surprise.shape)
    group = [int(first), int(second)]
    while len(group) < len(surprise):
        fit = surprise[:, group].min(axis=1)
        fit[group] = 0.0
        best = int(np.argmax(fit))
        if fit[best] <= limit:
            break
        group.append(best)
    return group


def _shares(oracle: PureOracle, reports: Reports, group: list[int]) -> Floats:
    """How many reports support all of the first 2, 3, … values of the group, beyond the q^k that do by chance."""
    share = np.logical_and.accumulate(_supporters(oracle, reports, tuple(group)), axis=1).mean(axis=0)
    chance = oracle.q ** np.arange(1, len(group) + 1)
    return np.asarray(np.maximum((share - chance) / (1 - chance), 0.0)[1:])


def _supporters(oracle: PureOracle, reports: Reports, targets: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which of the targets each report supports."""
    parts = [
        oracle.support(reports[start : start + AT_ONCE])[:, list(targets)] for start in range(0, len(reports), AT_ONCE)
    ]
    return np.concatenate(parts)


# ----------------------------------------------------------------------------------------------------------- screening
# Directions in which reports vary too much: the trace of any attack whose reports have something in common.
#
# Off its diagonal, the matrix of (b_i - q)(b_j - q) has expectation 0 for every honest report, whatever its value. Fake
# reports add β times their own, whose largest eigenvalue grows with the number of values that they support together. So
# neither targets, nor their number, nor β have to be known. That poison shows as structure of low rank is the idea of
# PEEL (Shuai et al. 2025, arXiv:2510.26102), which encodes reports in another way; leaving out what is far in the worst
# direction is the filter of robust statistics (Diakonikolas et al. 2019).


HONEST_TAILS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # of honest reports, left out with the suspects
SIMULATED = 20_000  # honest reports that say where these tails begin


@dataclass(frozen=True, eq=False)
class Screening:
    """The direction in which reports vary most together, by how much, and how much honest ones may at most.

    `suspects` are the reports that are at the `cut` or beyond in this direction, some honest ones among them; none if
    the strength is within the limit.
    """

    direction: Floats
    strength: float
    limit: float
    cut: float
    suspects: NDArray[np.bool_]

    @property
    def found(self) -> bool:
        return self.strength > self.limit


def screen(oracle: PureOracle, reports: Reports, rng: Generator, *, alpha: float = 0.001) -> Screening:
    """The reports against the structure that honest ones have, without any knowledge of an attack.

    Among honest reports something is found with probability at most alpha, by the matrix Bernstein inequality (Tropp
    2012). Attacks whose reports support one value each, or that perturb honestly, leave no trace.
    """
    _check_testable(oracle, reports, alpha)
    count = len(reports)
    together = _together(oracle, reports)
    alone = np.diag(together)
    excess = (together - oracle.q * (alone[:, None] + alone[None, :])) / count + oracle.q**2
    np.fill_diagonal(excess, 0.0)
    values, vectors = np.linalg.eigh(excess)
    direction = np.asarray(vectors[:, -1])
    strength, limit = float(values[-1]), _bernstein_limit(oracle, count, alpha)
    if strength <= limit:
        return Screening(direction, strength, limit, math.inf, np.zeros(count, dtype=bool))
    honest = oracle.perturb(_drawn(oracle, oracle.aggregate(reports), rng), rng)
    places, due = _projected(oracle, reports, direction), _projected(oracle, honest, direction)
    sign, cut = max(
        ((sign, cut) for sign in (1, -1) for cut in _cuts(sign * due)), key=lambda c: _excess(c, places, due)
    )
    return Screening(sign * direction, strength, limit, cut, sign * places >= cut)


def _cuts(due: Floats) -> list[float]:
    """Where tails of honest reports begin."""
    return [float(np.quantile(due, 1 - tail)) for tail in HONEST_TAILS]


def _excess(chosen: tuple[int, float], places: Floats, due: Floats) -> float:
    """By how much the tail of the reports exceeds that of honest ones, in units of the deviation of the latter."""
    sign, cut = chosen
    share = float((sign * due >= cut).mean())
    return (float((sign * places >= cut).mean()) - share) / math.sqrt(share + 1 / len(due))


def screened(oracle: PureOracle, reports: Reports, rng: Generator, *, alpha: float = 0.001) -> Estimate:
    """The estimate without what the screening suspects, and with what that does to honest reports made up for.

    How far leaving out honest reports moves an estimate is found by simulation, from the frequencies that are left.
    """
    found = screen(oracle, reports, rng, alpha=alpha)
    left = oracle.estimate(oracle.aggregate(reports[~found.suspects]))
    if not found.found:
        return left
    drawn = _drawn(oracle, oracle.aggregate(reports[~found.suspects]), rng)
    honest = oracle.perturb(drawn, rng)
    kept = honest[_projected(oracle, honest, found.direction) < found.cut]
    bias = oracle.estimate(oracle.aggregate(kept)).values - oracle.estimate(oracle.aggregate(honest)).values
    return left.after("screen", left.values - bias)


def defended(oracle: PureOracle, reports: Reports, rng: Generator, *, alpha: float = 0.001) -> Estimate:
    """The estimate without what `detect` suspects, or by `screened` where that leaves a trace of an attack.

    Each takes half of alpha. A pair of values is tested with more power than a direction; a direction finds attacks on
    many values whose pairs are each inconspicuous.
    """
    suspicion = detect(oracle, reports, alpha=alpha / 2)
    kept = reports[~suspicion.suspects]
    if len(kept) and not screen(oracle, kept, rng, alpha=alpha / 2).found:
        return without(oracle, reports, suspicion)
    return screened(oracle, reports, rng, alpha=alpha / 2)


def _bernstein_limit(oracle: PureOracle, count: int, alpha: float) -> float:
    """What the largest eigenvalue for honest reports exceeds with probability alpha at most: t with
    d exp(-n t²/2 / (σ² + L t/3)) = alpha, where σ² bounds the variance of a report's matrix and L its norm."""
    p, q, size = oracle.p, oracle.q, oracle.size
    variance = (size - 1) * q * (1 - q) * max(q * (1 - q), p * (1 - p) + (p - q) ** 2)
    norm = size * max(q, 1 - q) ** 2
    log = math.log(size / alpha) / count
    return norm * log / 3 + math.sqrt((norm * log / 3) ** 2 + 2 * variance * log)


def _drawn(oracle: PureOracle, counts: Counts, rng: Generator) -> NDArray[np.int64]:
    """Values of simulated users, with the estimated frequencies."""
    frequencies = norm_sub(oracle.estimate(counts)).values
    return rng.choice(oracle.size, size=SIMULATED, p=frequencies / frequencies.sum())


def _projected(oracle: PureOracle, reports: Reports, direction: Floats) -> Floats:
    """How far each report is in a direction."""
    parts = [oracle.support(reports[start : start + AT_ONCE]) @ direction for start in range(0, len(reports), AT_ONCE)]
    return np.concatenate(parts)


# ------------------------------------------------------------------------------------------------------------ weighing
# Are reports as heavy as honest ones? The weights of reports against the distribution that the oracle gives them.
#
# An honest report supports a random number of values whose distribution is known and does not depend on the value
# (`weight_distribution`). Crafted reports are often all alike, or too heavy. In the manner of DiffStats.


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
    distribution = weight_distribution(oracle)
    if distribution.max() == 1:
        raise BadInput(f"{oracle}: all reports have the same weight, honest or not; use the estimates instead")
    observed = np.bincount(weights(oracle, reports), minlength=oracle.size + 1)
    expected = distribution * len(reports)
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
    distribution = weight_distribution(oracle)
    seen = observed > 0
    # the most reports that can be kept if weights with enough reports keep their proportions
    usual = seen & (distribution * len(reports) >= MIN_HONEST_REPORTS)
    most = float((observed[usual] / distribution[usual]).min()) if usual.any() else float(len(reports))
    allowed = np.minimum(distribution * most / np.maximum(observed, 1), 1.0)
    return np.asarray(rng.random(len(reports)) < allowed[weight])
