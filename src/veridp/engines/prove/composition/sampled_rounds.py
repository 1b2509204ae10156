"""Proofs of loops that draw a fresh sample of the records in every round, as stochastic gradient descent does.

A round releases numbers, each the sum of what a function of a record and of earlier numbers gives, over the records of
its sample, and of normal noise. The runs are in
`veridp.kernel.flow.rounds`, the argument in `veridp_check.composition.rounds`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from veridp.engines.prove.alignment.divergence import LARGEST_EPSILON
from veridp.engines.prove.alignment.proof import Proof
from veridp.engines.prove.cases import certified_word, interval_of, interval_text
from veridp.engines.prove.certificate import header, noise_document
from veridp.engines.prove.composition.noisy_steps import (
    NotSteps,
    PathReader,
    RecordSample,
    ReleaseStep,
    StepOfRecords,
    chance_of,
    check_vectors,
    sample_of,
    shift_text,
    step_documents,
    step_loss,
)
from veridp.engines.prove.composition.proof import replayed_steps
from veridp.engines.prove.events import rational_arguments
from veridp.engines.prove.explanation import Blame
from veridp.errors import BadInput, NotExplorable
from veridp.kernel.distributions import Distribution
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.flow.rounds import RoundsPath, rounds_paths
from veridp.kernel.noise import Normal
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, count_text, number_text
from veridp.mechanism import Mechanism
from veridp.mechanism.declared import Adopting
from veridp_check.document import RECORDS
from veridp_check.losses.sampled import Lattice, NormalRounds, rounds_delta_above

MIXED = (1, 2)  # seeds of runs that take a way of its own in every round
POINTS_PER_DEVIATION = 40  # of the loss of a round
MAX_ROUND_POINTS = 4_000
MAX_POINTS = 20_000  # of a sum of losses
SPARE = 1e-4  # the share of δ that may lie beyond the lattice
EPSILON_TOLERANCE = 1e-9  # relative

# ------------------------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class NoisyRound:
    """A sample, and the numbers that are released of it; None where all records take part."""

    sample: RecordSample | None
    steps: tuple[ReleaseStep, ...]


@dataclass(frozen=True)
class _Reading:
    """A path: by rounds the probability of its way and the records that take part, by ranks of noise the steps."""

    chances: list[Fraction]
    records: list[frozenset[int] | None]
    steps: dict[int, StepOfRecords]  # with the constant for one record
    rounds: dict[int, int]  # by ranks
    states: list[object]
    output: object


def _read(found: RoundsPath, names: dict[object, int], state_names: dict[object, int]) -> _Reading:
    reader = PathReader(found.path, True, names)
    steps, output = reader.read_steps()
    places = [start.place for start in found.starts]
    drawn = [k for k, step in enumerate(found.path.steps) if isinstance(step, Noise) and step not in reader.asked]
    rounds = {rank: bisect_right(places, k) for rank, k in enumerate(drawn)}
    ends = [0, *places, len(found.path.steps)]
    parts = [found.path.steps[low:high] for low, high in pairwise(ends)]
    records: list[frozenset[int] | None] = [None] * len(parts)
    for rank, step in steps.items():
        place = rounds[rank]
        if records[place] not in (None, step.records):
            raise NotSteps
        records[place] = step.records
    of_states = PathReader(found.path, True, state_names, by_record=True)
    states = [_keyed(start.state, of_states) for start in found.starts]
    if of_states.plain & of_states.released.keys():
        raise NotSteps
    own = {rank: _for_one_record(step) for rank, step in steps.items()}
    return _Reading(list(map(chance_of, parts)), records, own, rounds, states, output)


def _for_one_record(found: StepOfRecords) -> StepOfRecords:
    """The step, to the function of which a share of the constant belongs."""
    constant = found.step.constant / len(found.records)
    return StepOfRecords(found.step.with_added(constant), found.records, (found.function, constant))


def _keyed(state: object, reader: PathReader) -> object:
    if isinstance(state, Affine):
        return reader.key(state)
    return tuple(_keyed(part, reader) for part in state) if isinstance(state, tuple) else state


def _rounds(readings: Sequence[Sequence[_Reading]], sizes: Sequence[int], ways: Sequence[int]) -> Iterator[NoisyRound]:
    """What the paths of all sizes have in common, round by round; of each size, so many are ways through one round."""
    everything = [reading for own in readings for reading in own]
    first = everything[0]
    same = all(
        reading.output == first.output and reading.rounds == first.rounds and len(reading.chances) == len(first.chances)
        for reading in everything
    ) and all(reading.states == own[0].states for own in readings for reading in own)
    steps: dict[int, StepOfRecords] = {}
    for reading in everything:
        for rank, step in reading.steps.items():
            known = steps.setdefault(rank, step)
            same &= (known.step, known.function) == (step.step, step.function)
    if not same or any(not isinstance(each.step.distribution, Normal) for each in steps.values()):
        raise NotSteps
    check_vectors(each.step for each in steps.values())
    for place in range(len(first.chances)):
        own_steps = tuple(each.step for rank, each in sorted(steps.items()) if first.rounds[rank] == place)
        if own_steps:
            samples = {
                _sample(own[:number], place, size) for own, size, number in zip(readings, sizes, ways, strict=True)
            }
            if len(samples) > 1:
                raise NotSteps
            yield NoisyRound(samples.pop(), own_steps)


def _sample(readings: Sequence[_Reading], place: int, size: int) -> RecordSample | None:
    drawn = [(reading.records[place] or frozenset[int](), reading.chances[place]) for reading in readings]
    if all(chance == 1 for _, chance in drawn):
        drawn = list(dict.fromkeys(drawn))
    return sample_of(drawn, size)


# --------------------------------------------------------------------------------------------------------- the proof


@dataclass(frozen=True, eq=False)
class RoundsProof(Proof):
    """For all neighbours of this size: the least ε at a δ that follows from rounds of noisy steps on fresh samples."""

    rounds: tuple[NoisyRound, ...]
    losses: tuple[NormalRounds, ...]  # of rounds that are alike
    lattice: Lattice

    def delta(self, epsilon: float) -> float:
        return min(float(_delta(self.mechanism, self.losses, self.lattice, epsilon)) * (1 + 1e-15), 1.0)

    @property
    def exact_notions(self) -> dict[str, Fraction | None]:
        """None: nothing but (ε, δ) is proved of samples."""
        return {"rho": None, "mu": None}

    @property
    def certificate(self) -> dict[str, Any]:
        if self.exact_epsilon is None:
            raise BadInput(f"{self}: there is nothing to certify; prove another size, adjacency or mechanism")
        rows: dict[Distribution, int] = {}
        rounds = []
        for each, loss in zip(self._alike, self.losses, strict=True):
            steps = list(step_documents(each.steps, rows))
            sample = each.sample and {"of": "fixed" if each.sample.fixed else "each", "rate": str(each.sample.rate)}
            ends = {"first": str(loss.first), "last": str(loss.last)}
            rounds.append({"sampling": sample, "steps": steps, "count": loss.count, **ends})
        site = self.rounds[0].steps[0].site
        lattice = {name: str(value) for name, value in vars(self.lattice).items()}
        return {
            **header("rounds", self.mechanism, self.size, interval_of(self.mechanism), self.exact_epsilon),
            "delta": str(Fraction(self.at_delta)),
            "rho": None,
            "mu": None,
            "noises": [noise_document(Noise(row, distribution, site)) for distribution, row in rows.items()],
            "lattice": lattice,
            "rounds": rounds,
        }

    @cached_property
    def _alike(self) -> list[NoisyRound]:
        return [each for each, _ in groupby(self.rounds)]

    @property
    def restriction(self) -> str:
        return interval_text(self.mechanism)

    @property
    def extent(self) -> str:
        rates = {each.sample.rate for each in self.rounds if each.sample is not None}
        shown = " or ".join(number_text(rate) for rate in sorted(rates))
        return f"{count_text(len(self.rounds), 'round')}, in each of which a record takes part with probability {shown}"

    @property
    def moves(self) -> list[list[float]]:
        return []

    @property
    def blame(self) -> Blame | None:
        """The step that loses most."""
        found = [(each.sample, step) for each in self.rounds for step in each.steps]
        sample, step = max(found, key=lambda one: _squared(self.mechanism, *one))
        if not self.epsilon:
            return None
        sentence = f"{shift_text(self.mechanism, step, sample)}, under {step.distribution} noise"
        if math.isinf(self.epsilon):
            sentence = step.distribution.price.why_not
        return Blame("output", sentence, step.site.file, step.site.line, self.epsilon)

    @property
    def explained(self) -> str:
        most = max(math.sqrt(loss.squared) for loss in self.losses)
        return f"{self.extent}: normal noise shifted by at most {most:.6g} standard deviations in a round"


def _squared(mechanism: Mechanism, sample: RecordSample | None, step: ReleaseStep) -> Fraction:
    return step_loss(mechanism, step, sample).squared


def _delta(
    mechanism: Mechanism, losses: tuple[NormalRounds, ...], lattice: Lattice, epsilon: float | Fraction
) -> Fraction:
    moving = tuple(each for each in losses if each.squared)
    return rounds_delta_above(Fraction(epsilon), moving, lattice, not mechanism.adjacency.extra)


def prove_by_rounds(mechanism: Mechanism, size: int, delta: float) -> RoundsProof | None:
    """The proof of a loop that draws a fresh sample in every round; None where it is no such loop.

    Plain runs agreed with its paths, else ExplorationDisagrees is raised.
    """
    ends = interval_of(mechanism)
    plain = mechanism.bound()
    if ends is None or certified_word(mechanism.adjacency) not in RECORDS:
        return None
    if isinstance(plain, Adopting) and plain.sources.names:
        return None
    names: dict[object, int] = {}
    state_names: dict[object, int] = {}
    readings, ways, paths = [], [], dict[int, list[Path]]()
    sizes = range(size, size + mechanism.adjacency.extra + 1)
    try:
        for each in sizes:
            found = rounds_paths(rational_arguments(mechanism), unknowns("data", each, ends, True), MIXED)
            readings.append([_read(one, names, state_names) for one in found])
            ways.append(len(found) - len(MIXED))
            paths[each] = [one.path for one in found]
        rounds = tuple(_rounds(readings, sizes, ways))
    except (NotExplorable, NotSteps):
        return None
    if not rounds:
        return None
    losses, lattice = _looked_at(mechanism, rounds, delta)
    epsilon = _least_epsilon(mechanism, losses, lattice, delta)
    at = math.inf if epsilon is None else float(epsilon)
    replayed = replayed_steps(mechanism, paths)
    return RoundsProof(mechanism, size, at, epsilon, rounds, losses, lattice, at_delta=delta, replayed=replayed)


def _least_epsilon(
    mechanism: Mechanism, losses: tuple[NormalRounds, ...], lattice: Lattice, delta: float
) -> Fraction | None:
    if not any(loss.squared for loss in losses):
        return Fraction(0)
    low, high = 0.0, 1.0
    while _delta(mechanism, losses, lattice, high) > delta:
        low, high = high, 2 * high
        if high > min(LARGEST_EPSILON, float(lattice.step * lattice.last) + 2) or not delta:
            return None
    while high - low > EPSILON_TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(mechanism, losses, lattice, middle) <= delta else (middle, high)
    return Fraction(high)


# ------------------------------------------------------------------------------------------------------- the lattice


class _Shape:
    """The loss of one round, in floats: a lattice is chosen by it, on which the checker then computes."""

    def __init__(self, squared: Fraction, rate: Fraction) -> None:
        self.mu, self.rate = math.sqrt(squared), float(rate)
        self.z = np.linspace(-12.0, 12.0 + self.mu, 4_001)
        self.loss = self.at(self.z)
        right = np.exp(-(self.z**2) / 2)
        left = (1 - self.rate) * right + self.rate * np.exp(-((self.z - self.mu) ** 2) / 2)
        self.left, self.right = left / left.sum(), right / right.sum()

    def at(self, z: Any) -> Any:
        """The loss where the noise is z."""
        kept = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        return np.logaddexp(kept, math.log(self.rate) + self.mu * z - self.mu**2 / 2)

    @property
    def deviation(self) -> float:
        return math.sqrt(float(self.left @ self.loss**2) - float(self.left @ self.loss) ** 2)

    def ends(self, mass: float) -> tuple[float, float]:
        """Between which the loss lies, but for this much."""
        far = float(-ndtri(min(max(mass, 1e-300), 0.1)))
        return float(self.at(-far)), float(self.at(self.mu + float(-ndtri(min(max(mass / self.rate, 1e-300), 0.1)))))

    def log_moments(self, tilts: Any, added: bool) -> Any:
        """ln E[e^(tilt · loss)], of a record that is removed or added."""
        loss, masses = (-self.loss, self.right) if added else (self.loss, self.left)
        exponents = np.multiply.outer(tilts, loss) + np.log(masses)
        top = exponents.max(axis=1)
        return np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + top


def _looked_at(
    mechanism: Mechanism, rounds: Sequence[NoisyRound], delta: float
) -> tuple[tuple[NormalRounds, ...], Lattice]:
    """The losses of the rounds, and a lattice for them."""
    found = []
    for each, own in groupby(rounds):
        squared = sum((_squared(mechanism, each.sample, step) for step in each.steps), start=Fraction(0))
        found.append((squared, each.sample.rate if each.sample else Fraction(1), len(list(own))))
    moving = [each for each in found if each[0]]
    if not moving:
        return tuple(NormalRounds(*each, -1, 1) for each in found), Lattice(Fraction(1), -1, 1)
    total, spare = sum(count for *_, count in moving), max(delta, 1e-12) * SPARE
    shapes = {(squared, rate): _Shape(squared, rate) for squared, rate, _ in moving}
    spans = {key: shape.ends(spare / total) for key, shape in shapes.items()}
    deviation = min(shape.deviation for shape in shapes.values())
    low, high = _window([(shapes[squared, rate], count) for squared, rate, count in moving], spare)
    widest = max(last - first for first, last in spans.values())
    wanted = max(deviation / POINTS_PER_DEVIATION, widest / MAX_ROUND_POINTS, (high - low) / MAX_POINTS)
    step = Fraction(1, max(1 << math.floor(-math.log2(wanted)), 1))

    def ends(first: float, last: float) -> tuple[int, int]:
        return min(math.floor(first / float(step)) - 1, -1), max(math.ceil(last / float(step)) + 1, 1)

    looked = [NormalRounds(*each, *(ends(*spans[each[:2]]) if each[0] else (-1, 1))) for each in found]
    return tuple(looked), Lattice(step, *ends(low, high))


def _window(parts: Sequence[tuple[_Shape, int]], spare: float) -> tuple[float, float]:
    """Between which the sum of all losses lies, but for a mass of `spare`, by Chernoff's inequality."""
    deviation = math.sqrt(sum(count * shape.deviation**2 for shape, count in parts))
    tilts = np.geomspace(1e-2, 1e2, 200) / deviation
    lows, highs = [], []
    for added in (False, True):
        up, down = (sum(count * shape.log_moments(sign * tilts, added) for shape, count in parts) for sign in (1, -1))
        highs.append(float(np.min((up - math.log(spare)) / tilts)))
        lows.append(float(np.max((math.log(spare) - down) / tilts)))
    return min(lows), max(highs)
