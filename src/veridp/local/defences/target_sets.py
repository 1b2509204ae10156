"""Sets of values that too many reports support together: the trace of an attack with several targets.

Whether an honest report supports i and whether it supports j are independent, given the user's value, and all but the
own value are supported at rate q. So (b_i - q)(b_j - q) has expectation 0 for every honest user, whatever the value;
a fake report that supports both adds (1 - q)². Pairs whose sum is far above 0 are found by a test for each pair, and
joined to a set. Cao, Jia, Gong (2021) look for frequent item sets instead; here the rate of false alarms is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Counts, Estimate, Floats
from veridp.local.oracle import CHUNK, PureOracle, Reports
from veridp.local.oracles.frequency import GRR, SubsetSelection

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
    if isinstance(oracle, GRR | SubsetSelection):
        raise BadInput(f"{oracle}: its reports do not support values independently; use SUE, OUE or OLH")
    if not 0 < alpha < 1:
        raise BadInput(f"alpha must be in (0, 1), got {alpha!r}")
    if not len(reports):
        raise BadInput(f"{oracle}: no reports to test")
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
