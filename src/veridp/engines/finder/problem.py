"""What is maximised: ε of an event between two inputs, as a function of the inputs and of the event's ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Patch
from veridp.engines.exact.event import ExactEvent
from veridp.engines.finder.estimate import SampleMoments
from veridp.engines.finder.events import EventForm
from veridp.engines.finder.explored import Explored, OpenData, data_unknowns, log_probability
from veridp.engines.finder.indicator import DrawnIndicator, Draws, GradientPoint, Indicator, values_of_numbers

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
