"""What an attack is, the reports that malicious users make up for each oracle, and the attacks on frequencies."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.defences import weight_distribution
from veridp.local.frequency import GRR, OUE, SUE, BitReports, SubsetSelection
from veridp.local.hashing import OLH, REPORT
from veridp.local.oracle import Counts, Floats, FrequencyOracle, PureOracle, Reports

# -------------------------------------------------------------------------------------------------------------- attack
# What an attack is: users who do not do as the oracle says, the gain they aim at, and the freedoms they need.
#
# A share β of all users is malicious. `collect` plays a collection with and without them, on the same honest reports.


class Freedom(enum.Enum):
    """Something that a malicious user may be able to do; a protocol permits it or prevents it."""

    INPUT = "claims another value than its own"
    ABSENCE = "takes part only if it likes its value"
    WITHDRAWAL = "drops out once it knows its report"
    SEVERAL_INPUTS = "claims several values at once, at honest rates each"
    SEED = "chooses its hash function"
    REPORT = "sends whatever report it likes"


@runtime_checkable
class CheckedProtocol(Protocol):
    """How reports are collected, as far as attacks are concerned: what the server cannot prevent.

    A protocol that verifies its clients implements `permits`; `attack.allowed_by(protocol)` asks it.
    """

    @property
    def name(self) -> str:
        """What the protocol is called."""

    def permits(self, freedom: Freedom) -> bool:
        """Whether a client that does this may be accepted."""


@dataclass(frozen=True)
class Unchecked:
    """The server takes any well-formed report."""

    name: str = "unchecked"

    def permits(self, freedom: Freedom) -> bool:
        return True


CountsOrParts = TypeVar("CountsOrParts", Counts, Mapping[str, Counts])


@dataclass(frozen=True)
class Attacked(Generic[CountsOrParts]):
    """The counts of one collection without and with the attack, and how many users were malicious."""

    before: CountsOrParts
    after: CountsOrParts
    malicious: int

    def __add__(self, other: Attacked[CountsOrParts]) -> Attacked[CountsOrParts]:
        return Attacked(
            added(self.before, other.before), added(self.after, other.after), self.malicious + other.malicious
        )


def added(left: CountsOrParts, right: CountsOrParts) -> CountsOrParts:
    """Counts of two shards together, part by part where there are several."""
    if isinstance(left, Counts) and isinstance(right, Counts):
        return left + right  # type: ignore[return-value]
    return {name: left[name] + right[name] for name in left}


@dataclass(frozen=True)
class Attack(ABC, Generic[CountsOrParts]):
    """Malicious users, a share `beta` of all."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Freedom]]
    beta: float

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise BadInput(f"beta must be in [0, 1), got {self.beta!r}")

    @abstractmethod
    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[CountsOrParts]:
        """The counts of a collection of these users' values, without and with the attack."""

    @property
    def freedoms(self) -> frozenset[Freedom]:
        """What a malicious user has to be able to do."""
        return self.needs

    def allowed_by(self, protocol: CheckedProtocol) -> bool:
        """Whether the protocol leaves malicious users all the freedom that this attack needs."""
        return all(protocol.permits(freedom) for freedom in self.freedoms)


def share_of(count: int, share: float, rng: Generator) -> int:
    """A whole number near count · share, rounded at random: right on average however small the count."""
    exact = count * share
    return int(exact) + int(rng.random() < exact - int(exact))


def corrupted(count: int, beta: float, rng: Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of so many users are malicious: a share beta of them, drawn at random."""
    chosen = np.zeros(count, dtype=bool)
    chosen[rng.choice(count, size=share_of(count, beta, rng), replace=False)] = True
    return chosen


# ------------------------------------------------------------------------------------------------------------ crafting
# Reports that malicious users make up, for each kind of oracle: at random, or such that they support chosen values.


MOST_TRIES = 1 << 22  # hash functions that are tried for one that sends all targets to one bucket
MAX_CANDIDATE_HASHES = 4096  # such functions to choose among
AT_ONCE = 1 << 18


# --------------------------------------------------------------------------------------------------------- random


@singledispatch
def random_reports(oracle: PureOracle, count: int, rng: Generator) -> Reports:
    """Reports drawn uniformly from all that the oracle's format allows."""
    raise BadInput(f"random reports are not available for {oracle}; use GRR, SUE, OUE, OLH or subset selection")


@random_reports.register
def _random_value(oracle: GRR, count: int, rng: Generator) -> Reports:
    return rng.integers(oracle.size, size=count, dtype=np.int32)


@random_reports.register(SUE)
@random_reports.register(OUE)
def _random_bits(oracle: BitReports, count: int, rng: Generator) -> Reports:
    from veridp.local.kernels import WORD, word_count

    words = rng.integers(0, 2**64, size=(count, word_count(oracle.size)), dtype=np.uint64)
    words[:, -1] >>= np.uint64(-oracle.size % WORD)  # bits beyond the values stay clear
    return words


@random_reports.register
def _random_subset(oracle: SubsetSelection, count: int, rng: Generator) -> Reports:
    return _packed_sets(
        np.full(count, oracle.count), lambda size: _chosen(size, np.ones((1, oracle.size), dtype=bool), rng)
    )


@random_reports.register
def _random_bucket(oracle: OLH, count: int, rng: Generator) -> Reports:
    reports = np.empty(count, dtype=REPORT)
    reports["seed"] = rng.integers(0, 2**64, size=count, dtype=np.uint64)
    reports["bucket"] = rng.integers(oracle.buckets, size=count)
    return reports


@singledispatch
def random_rate(oracle: PureOracle) -> float:
    """How often a random report supports a given value."""
    raise BadInput(f"random reports are not available for {oracle}; use GRR, SUE, OUE, OLH or subset selection")


@random_rate.register
def _(oracle: GRR) -> float:
    return 1 / oracle.size


@random_rate.register(SUE)
@random_rate.register(OUE)
def _(oracle: BitReports) -> float:
    return 0.5


@random_rate.register
def _(oracle: SubsetSelection) -> float:
    return oracle.count / oracle.size


@random_rate.register
def _(oracle: OLH) -> float:
    return 1 / oracle.buckets


# -------------------------------------------------------------------------------------------------------- crafted


@dataclass(frozen=True, eq=False)
class Craft:
    """A way to make reports that support targets, and how many targets one supports on average."""

    oracle: PureOracle
    targets: tuple[int, ...]
    supported: float

    def reports(self, count: int, rng: Generator) -> Reports:
        raise NotImplementedError


@singledispatch
def craft(oracle: PureOracle, targets: Sequence[int], rng: Generator, *, mimic: bool = False) -> Craft:
    """The craft that supports the most targets; with `mimic`, the most that leaves the weights of reports honest."""
    raise BadInput(f"crafted reports are not available for {oracle}; use GRR, SUE, OUE, OLH or subset selection")


@dataclass(frozen=True, eq=False)
class _OneTarget(Craft):
    def reports(self, count: int, rng: Generator) -> Reports:
        return np.asarray(self.targets, dtype=np.int32)[rng.integers(len(self.targets), size=count)]


@craft.register
def _craft_value(oracle: GRR, targets: Sequence[int], rng: Generator, *, mimic: bool = False) -> Craft:
    return _OneTarget(oracle, tuple(targets), 1.0)


@dataclass(frozen=True, eq=False)
class _Sets(Craft):
    """Sets of values: as many targets as the weight of the set allows, then others at random."""

    weights: Floats  # P[weight k]

    def reports(self, count: int, rng: Generator) -> Reports:
        targets = np.zeros((1, self.oracle.size), dtype=bool)
        targets[0, list(self.targets)] = True
        ends = np.cumsum(self.weights)
        weights = np.minimum(ends.searchsorted(rng.random(count) * ends[-1], side="right"), self.oracle.size)

        def sets(weight: NDArray[np.int64]) -> NDArray[np.bool_]:
            first = np.minimum(weight, len(self.targets))
            return _chosen(first, targets, rng) | _chosen(weight - first, ~targets, rng)

        return _packed_sets(weights, sets)


def _packed_sets(
    weights: NDArray[np.int64], sets: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> NDArray[np.uint64]:
    """Sets of these weights, packed; made for some users at a time, as rows of truth values are large."""
    from veridp.local.kernels import packed

    few = AT_ONCE // 16
    return np.concatenate([packed(sets(weights[start : start + few])) for start in range(0, max(len(weights), 1), few)])


def _chosen(counts: NDArray[np.int64], among: NDArray[np.bool_], rng: Generator) -> NDArray[np.bool_]:
    """Rows of truth values: in each a random set of `counts` of the places `among`."""
    places = np.where(among, rng.random((len(counts), among.shape[1])), 2.0)
    ranks = np.argsort(np.argsort(places, axis=1), axis=1)
    return np.asarray(ranks < counts[:, None])


@craft.register(SUE)
@craft.register(OUE)
@craft.register(SubsetSelection)
def _craft_set(oracle: BitReports, targets: Sequence[int], rng: Generator, *, mimic: bool = False) -> Craft:
    """All targets, filled up with other values to the expected weight, so that a report is not too light.

    To mimic, the weight is drawn from the honest distribution, and a light report leaves targets out.
    """
    distribution = weight_distribution(oracle)
    if not (mimic or isinstance(oracle, SubsetSelection)):
        expected = round(float(distribution @ np.arange(len(distribution))))
        distribution = np.zeros_like(distribution)
        distribution[max(expected, len(targets))] = 1.0
    supported = float(distribution @ np.minimum(np.arange(len(distribution)), len(targets)))
    return _Sets(oracle, tuple(targets), supported, distribution)


@dataclass(frozen=True, eq=False)
class _Seeds(Craft):
    """Hash functions that were found to send many targets to one bucket, with that bucket."""

    found: Reports

    def reports(self, count: int, rng: Generator) -> Reports:
        return self.found[rng.integers(len(self.found), size=count)]


@craft.register
def _craft_seed(oracle: OLH, targets: Sequence[int], rng: Generator, *, mimic: bool = False) -> Craft:
    """The best hash functions of millions; to mimic, the best of sixteen for each of many reports, all different."""
    from veridp.local.kernels import best_buckets

    wanted = np.array(targets, dtype=np.int64)
    kept, supports = np.empty(0, dtype=REPORT), np.empty(0, dtype=np.int64)
    tried = 0
    while tried < (AT_ONCE if mimic else MOST_TRIES):
        batch = random_reports(oracle, AT_ONCE, rng)
        support = np.empty(AT_ONCE, dtype=np.int64)
        bucket = np.empty(AT_ONCE, dtype=np.int64)
        best_buckets(np.ascontiguousarray(batch["seed"]), wanted, oracle.buckets, support, bucket)
        batch["bucket"] = bucket
        tried += AT_ONCE
        if mimic:
            best = support.reshape(-1, 16).argmax(axis=1) + np.arange(0, AT_ONCE, 16)
            kept, supports = batch[best], support[best]
            break
        kept, supports = np.concatenate((kept, batch)), np.concatenate((supports, support))
        good = np.argsort(-supports, kind="stable")[:MAX_CANDIDATE_HASHES]
        kept, supports = kept[good], supports[good]
        if supports.min() == len(targets):
            break
    best_support = supports == supports.max() if not mimic else np.ones(len(supports), dtype=bool)
    return _Seeds(oracle, tuple(targets), float(supports[best_support].mean()), kept[best_support])


# ----------------------------------------------------------------------------------------------------------- frequency
# RPA, RIA and MGA, the attacks on frequencies (Cao, Jia, Gong 2021), and an adaptive one that looks honest.
#
# Besides n honest users there are m fake ones, β = m/(n + m). They promote targets T; the gain is the sum over T of
# what the estimated frequencies rise by. Let S be how many targets a fake report supports on average. Then, since a
# support of 1 counts (1 - q)/(p - q) and one of 0 counts -q/(p - q), and since n of n + m reports are honest,
#
#     E[gain] = β [ (S - r q)/(p - q) - f_T ],
#
# for r targets of true frequency f_T. RIA, which is honest about a target, has (S - rq)/(p - q) = 1.


@dataclass(frozen=True)
class FrequencyAttack(Attack[Counts]):
    """Fake users that promote the targets."""

    oracle: FrequencyOracle
    targets: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "targets", tuple(int(target) for target in self.targets))
        if not self.targets or len(set(self.targets)) != len(self.targets):
            raise BadInput(f"targets = {self.targets} are none or repeat; give each target once")
        if not all(0 <= target < self.oracle.size for target in self.targets):
            raise BadInput(f"targets = {self.targets} are not all values from 0 to {self.oracle.size - 1}")

    @abstractmethod
    def reports(self, count: int, rng: Generator) -> Reports:
        """The reports of so many fake users."""

    @property
    @abstractmethod
    def pushed(self) -> float:
        """What a fake report adds to the estimated frequencies of the targets on average, times all users."""

    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[Counts]:
        column = np.asarray(values)
        fake = share_of(len(column), self.beta / (1 - self.beta), rng)
        before = self.oracle.collect(column, rng)
        return Attacked(before, before + self.oracle.aggregate(self.reports(fake, rng)), fake)

    def gain(self, attacked: Attacked[Counts]) -> float:
        """How much the estimated frequencies of the targets rose in all."""
        before, after = self.oracle.estimate(attacked.before), self.oracle.estimate(attacked.after)
        return float((after.values - before.values)[list(self.targets)].sum())

    def expected_gain(self, frequencies: Floats) -> float:
        """The gain that theory gives, where the values have these true frequencies."""
        return self.beta * (self.pushed - float(frequencies[list(self.targets)].sum()))


@dataclass(frozen=True)
class SupportAttack(FrequencyAttack):
    """Fake users whose reports are made up, for oracles whose reports support sets of values."""

    oracle: PureOracle

    def __post_init__(self) -> None:
        if not isinstance(self.oracle, PureOracle):
            raise BadInput(f"{self.name} is not available for {self.oracle}; use GRR, SUE, OUE, OLH or subsets")
        super().__post_init__()

    @property
    @abstractmethod
    def supported(self) -> float:
        """S: how many targets a fake report supports on average."""

    @property
    def pushed(self) -> float:
        p, q = self.oracle.p, self.oracle.q
        return (self.supported - len(self.targets) * q) / (p - q)


@dataclass(frozen=True)
class RPA(SupportAttack):
    """Random perturbed-value attack: a report drawn uniformly from all there are."""

    name: ClassVar[str] = "rpa"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})

    def reports(self, count: int, rng: Generator) -> Reports:
        return random_reports(self.oracle, count, rng)

    @property
    def supported(self) -> float:
        return len(self.targets) * random_rate(self.oracle)


@dataclass(frozen=True)
class RIA(FrequencyAttack):
    """Random item attack: a random target as the value, perturbed as the oracle says: for any unbiased oracle."""

    name: ClassVar[str] = "ria"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    def reports(self, count: int, rng: Generator) -> Reports:
        return self.oracle.perturb(np.asarray(self.targets)[rng.integers(len(self.targets), size=count)], rng)

    @property
    def pushed(self) -> float:
        return 1.0


@dataclass(frozen=True)
class MGA(SupportAttack):
    """Maximal gain attack: reports that support as many targets as a report can.

    For OLH they are the best hash functions that a search over some millions finds; `seed` fixes that search.
    """

    name: ClassVar[str] = "mga"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})
    seed: int = 0

    @cached_property
    def craft(self) -> Craft:
        """How the reports are made."""
        return craft(self.oracle, self.targets, np.random.default_rng(self.seed))

    @property
    def freedoms(self) -> frozenset[Freedom]:
        return self.needs | {Freedom.SEED} if isinstance(self.oracle, OLH) else self.needs

    def reports(self, count: int, rng: Generator) -> Reports:
        return self.craft.reports(count, rng)

    @property
    def supported(self) -> float:
        return self.craft.supported


@dataclass(frozen=True)
class AdaptiveMGA(MGA):
    """MGA that mimics honest users, at the price of some gain.

    Reports have the weights of honest ones; a share 1 - `boldness` of the fake users does not attack at all but reports
    honestly on a value drawn from `prior` (uniform if there is none), so that no target stands out too much.
    """

    name: ClassVar[str] = "adaptive"
    boldness: float = 0.5
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.boldness <= 1:
            raise BadInput(f"boldness must be in [0, 1], got {self.boldness!r}")

    @cached_property
    def craft(self) -> Craft:
        return craft(self.oracle, self.targets, np.random.default_rng(self.seed), mimic=True)

    @cached_property
    def _likely(self) -> Floats:
        size = self.oracle.size
        share = np.full(size, 1 / size) if self.prior is None else np.asarray(self.prior, dtype=float)
        if share.shape != (size,) or not (share >= 0).all() or not share.sum() > 0:
            raise BadInput(f"prior must have a frequency for each of the {size} values")
        return np.asarray(share / share.sum())

    def reports(self, count: int, rng: Generator) -> Reports:
        bold = share_of(count, self.boldness, rng)
        honest = self.oracle.perturb(rng.choice(self.oracle.size, size=count - bold, p=self._likely), rng)
        return rng.permutation(np.concatenate((self.craft.reports(bold, rng), honest)))

    @property
    def supported(self) -> float:
        likely = float(self._likely[list(self.targets)].sum())
        honest = len(self.targets) * self.oracle.q + likely * (self.oracle.p - self.oracle.q)
        return self.boldness * self.craft.supported + (1 - self.boldness) * honest
