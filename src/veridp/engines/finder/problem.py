"""What is maximised: ε of an event between two inputs, as a function of the inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Patch
from veridp.budget import Deadline, out_of_time
from veridp.engines.exact.event import ExactEvent, pieces_within
from veridp.engines.exact.masses import log_masses
from veridp.engines.finder.candidates import EventForm
from veridp.engines.finder.estimate import SampleMoments
from veridp.engines.finder.indicator import DrawnIndicator, Draws, GradientPoint, Indicator, SoftSum, values_of_numbers
from veridp.errors import BadInput, CutShort, NotExplorable, VeridpError
from veridp.kernel.distributions import Number, exact
from veridp.kernel.explore import explore, walk
from veridp.kernel.expressions import unknown, unknowns
from veridp.kernel.output import Raised
from veridp.kernel.path import Path, with_values
from veridp.kernel.symbols import Unknown
from veridp.mechanism import Mechanism

# ------------------------------------------------------------------------------------------------------------ explored
# A mechanism's paths on any input: explored once with the data open, or anew for each input.


MOST_OPEN_PATHS = 20_000
MOST_KEPT = 64  # inputs whose paths are kept


def data_unknowns(size: int) -> tuple[Unknown, ...]:
    """The open values that stand for data of this size; for a single number, of size 1, the same one."""
    return tuple(Unknown(f"data[{index}]") for index in range(size))


class Explored(ABC):
    """The paths of a mechanism."""

    @abstractmethod
    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        """Its paths on this input; those that cannot meet the form may be left out."""


class OpenData(Explored):
    """Paths whose conditions name the entries of the data, for each length that data may have."""

    def __init__(self, paths: dict[int, Sequence[Path]]) -> None:
        self.open = paths
        self._meeting: dict[tuple[int, EventForm], Sequence[Path]] = {}

    @classmethod
    def of(
        cls, mechanism: Mechanism, sizes: Sequence[int], scalar: bool, deadline: Deadline | None = None
    ) -> OpenData | None:
        """None where the mechanism does to data what symbols cannot express, or where that takes too many paths.

        Raises CutShort where it takes too much time: a given input has far fewer ways open than an open one.
        """
        found: dict[int, Sequence[Path]] = {}
        try:
            for size in sizes:
                data = unknown("data[0]") if scalar else unknowns("data", size)
                paths: list[Path] = []
                for path in walk(mechanism, data, MOST_OPEN_PATHS, defer=True):
                    paths.append(path)
                    if deadline is not None and deadline.passed:
                        raise out_of_time(deadline.seconds)
                if any(isinstance(path.output, Raised) for path in paths):
                    return None  # code that fails on symbols need not fail on numbers
                found[size] = paths
        except CutShort:
            raise
        except VeridpError:
            return None
        return cls(found)

    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        entries = data if isinstance(data, list) else [data]
        if len(entries) not in self.open:
            raise BadInput(
                f"{data!r} has {len(entries)} entries; this search is for {' or '.join(map(str, self.open))}"
            )
        paths = self.open[len(entries)] if form is None else self.meeting(len(entries), form)
        values: dict[Unknown, Number] = {
            name: exact(value) for name, value in zip(data_unknowns(len(entries)), entries, strict=True)
        }
        return with_values(paths, values)

    def meeting(self, size: int, form: EventForm) -> Sequence[Path]:
        """The paths that can meet the form; all of them where it asks for some leaves only."""
        if form.partial is not None:
            return self.open[size]
        key = (size, form.with_ends(()))
        if key not in self._meeting:
            self._meeting[key] = [path for path in self.open[size] if _can_meet(path, form, size)]
        return self._meeting[key]


def _can_meet(path: Path, form: EventForm, size: int) -> bool:
    node = Indicator.of([path], form, data_unknowns(size)).node
    return isinstance(node, SoftSum) and bool(node.parts)


class ClosedData(Explored):
    """Paths that are explored anew for each input."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._known: dict[str, Sequence[Path]] = {}

    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        key = repr(data)
        if key not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            try:
                self._known[key] = explore(self.mechanism, data, defer=True, functions=False)
            except NotExplorable as error:
                raise type(error)(f"{error}; DP-Finder needs paths; veridp.sniper needs only samples") from None
        return self._known[key]


def log_probability(paths: Sequence[Path], event: ExactEvent) -> float:
    """ln of the exact probability that runs down these paths end in the event.

    Raises NotExact where it is out of reach.
    """
    if not paths:
        return -math.inf
    return math.fsum(log_masses([pieces])[0] for pieces in pieces_within(paths, event))


# ------------------------------------------------------------------------------------------------------------- problem
# What is maximised: ε of an event between two inputs, as a function of the inputs and of the event's ends.


Array = NDArray[np.float64]
NARROW = 1e-3  # the least length of an interval of outputs, as a share of the range of the output
MIN_EVENT_DRAWS = 10.0  # draws that count as nothing: an event met less often is not worth its ratio


@dataclass(frozen=True, eq=False)
class Spot:
    """A neighbourhood of one pair: no variables."""

    left: Any
    right: Any
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))

    def inside(self, point: Array) -> Array:
        return point

    def pair(self, point: Array) -> tuple[Any, Any]:
        return self.left, self.right

    def slopes(self) -> tuple[Array, Array]:
        return np.zeros((0, 0)), np.zeros(0)


@dataclass(frozen=True)
class Objective:
    """ln(left / right) of relaxed probabilities, and its gradient; None where it has to be found by differences."""

    left: float
    right: float
    value: float
    gradient: Array | None


@dataclass(frozen=True, eq=False)
class Problem:
    """A form between the pairs of a patch: a function of z, the patch's variables and then the form's ends."""

    explored: Explored
    place: Patch | Spot
    form: EventForm
    end_low: Array
    end_high: Array

    # --------------------------------------------------------------------------------------------- the variables

    @property
    def split(self) -> int:
        """How many variables belong to the pair."""
        return len(self.place.low)

    @property
    def low(self) -> Array:
        return np.concatenate([self.place.low, self.end_low])

    @property
    def high(self) -> Array:
        return np.concatenate([self.place.high, self.end_high])

    def inside(self, z: Array) -> Array:
        """The nearest variables within their bounds, the ends of intervals in order."""
        ends = np.clip(z[self.split :], self.end_low, self.end_high)
        for low, high, gap in self.intervals:
            if ends[high] < ends[low] + gap:
                middle = (ends[low] + ends[high]) / 2
                ends[low], ends[high] = middle - gap / 2, middle + gap / 2
        return np.concatenate([self.place.inside(z[: self.split]), ends])

    @cached_property
    def intervals(self) -> list[tuple[int, int, float]]:
        """The numbers of the two ends of each interval, and how far apart they must be."""
        lower = {end.position: number for number, end in enumerate(self.form.ends) if end.lower}
        pairs = [(lower[e.position], k) for k, e in enumerate(self.form.ends) if not e.lower and e.position in lower]
        return [(a, b, NARROW * float(self.end_high[a] - self.end_low[a])) for a, b in pairs]

    def pair(self, z: Array) -> tuple[Any, Any]:
        return self.place.pair(z[: self.split])

    def event(self, z: Array) -> ExactEvent:
        return self.form.event(z[self.split :].tolist())

    # -------------------------------------------------------------------------------------------------- sampled

    @cached_property
    def _open(self) -> tuple[Indicator, Indicator] | None:
        """The indicators on open data, where there are any."""
        if not isinstance(self.explored, OpenData) or not isinstance(self.place, Patch):
            return None
        sides = {
            size: Indicator.of(self.explored.meeting(size, self.form), self.form, data_unknowns(size))
            for size in set(self.place.sizes)
        }
        left, right = self.place.sizes
        return sides[left], sides[right]

    @property
    def has_gradient(self) -> bool:
        """Whether the relaxed objective comes with its gradient."""
        return self._open is not None

    def drawn(self, draws: Draws) -> DrawnProblem:
        """The problem with its noise drawn, the same for both sides."""
        return DrawnProblem(self, draws)

    # ---------------------------------------------------------------------------------------------------- exact

    def exact(self, z: Array) -> float:
        """ln(P[left] / P[right]) of the event, exactly: inf where the right side is impossible, -inf the left.

        Raises NotExact where a probability is out of reach.
        """
        event = self.event(z)
        left, right = (log_probability(self.explored.paths(data, self.form), event) for data in self.pair(z))
        if left == -math.inf:
            return -math.inf
        return math.inf if right == -math.inf else left - right


class DrawnProblem:
    """A problem with its noise drawn: what it estimates depends on the variables alone."""

    def __init__(self, problem: Problem, draws: Draws) -> None:
        self.problem, self.draws = problem, draws
        sides = problem._open
        drawn = {side: side.at(draws) for side in sides or ()}  # inputs of one length share theirs
        self._sides = None if sides is None else [drawn[side] for side in sides]

    def moments(self, z: Array) -> SampleMoments:
        """How often the event happens, unrelaxed, on either side."""
        hits = [side.hits(data, ends) for side, data, ends in self._at(z)]
        return SampleMoments.of(hits[0], hits[1])

    def soft(self, z: Array, sharpness: float) -> Objective:
        """The relaxed objective.

        Its value is ln((p + h) / (q + h)) where h stands for a handful of draws: where the event is met by no draw
        the relaxed ratio is one of the sigmoids' tails, which says nothing of the mechanism.
        """
        points = [side.soft(data, ends, sharpness) for side, data, ends in self._at(z)]
        left, right = points
        few = MIN_EVENT_DRAWS / self.draws.count
        value = math.log((left.value + few) / (right.value + few))
        place = self.problem.place
        if self._sides is None or not isinstance(place, Patch):
            return Objective(left.value, right.value, value, None)
        by_place = [_by(point, few, to) for point, to in ((left, place.to_left), (right, place.to_right))]
        by_ends = left.by_ends / (left.value + few) - right.by_ends / (right.value + few)
        return Objective(left.value, right.value, value, np.concatenate([by_place[0] - by_place[1], by_ends]))

    def _at(self, z: Array) -> list[tuple[DrawnIndicator, Array, Array]]:
        problem, ends = self.problem, z[self.problem.split :]
        place = problem.place
        if self._sides is not None and isinstance(place, Patch):
            point = z[: problem.split]
            return [
                (side, to @ point, ends) for side, to in zip(self._sides, (place.to_left, place.to_right), strict=True)
            ]
        sides = [Indicator.of(problem.explored.paths(data, problem.form), problem.form) for data in problem.pair(z)]
        return [(side.at(self.draws), np.zeros(0), ends) for side in sides]


def _by(point: GradientPoint, few: float, to_data: Array) -> Array:
    """The gradient of ln(value + few) by the variables that the data follow from."""
    return point.by_data @ to_data / (point.value + few)


def with_ends(
    explored: Explored, place: Patch | Spot, form: EventForm, point: Array, draws: Draws, rng: np.random.Generator
) -> tuple[Problem, Array] | None:
    """The problem of a form whose ends are yet to be placed, and where to begin; None where no draw meets the form.

    Ends begin at random quantiles of what the output is on the pair that the point gives, and may go as far beyond
    its range as that is wide, and as the data can be moved.
    """
    if not form.ends:
        return Problem(explored, place, form, np.zeros(0), np.zeros(0)), point
    sides = [values_of_numbers(explored.paths(data, form), form, draws, {}) for data in place.pair(point)]
    low, high, start = [], [], []
    for end in form.ends:
        values = np.concatenate([side[end.position] for side in sides])
        if not len(values):
            return None
        least, most = np.quantile(values, [0.001, 0.999])
        room = (most - least) + float(np.sum(place.high - place.low)) or 1.0
        low.append(least - room)
        high.append(most + room)
        half = rng.uniform(0.02, 0.5)
        start.append(float(np.quantile(values, half if end.lower else 1 - half)))
    problem = Problem(explored, place, form, np.array(low), np.array(high))
    return problem, problem.inside(np.concatenate([point, start]))
