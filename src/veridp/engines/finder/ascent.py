"""Climbing: SLSQP on the relaxed estimate, then on the exact ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from veridp.adjacency import Patch
from veridp.budget import Deadline, OutOfTime, at_most
from veridp.engines.exact.space import loss_between
from veridp.engines.finder.indicator import SHARPNESS, Draws
from veridp.engines.finder.problem import DrawnProblem, Explored, Problem
from veridp.errors import CutShort, NotExact

Array = NDArray[np.float64]
STEPS = 40  # iterations of an exact climb
DIFFERENCE = 1e-5  # over which exact values are differenced: they are right to about 1e-13
WORST = -1e3  # what stands for -inf in a climb


@dataclass(frozen=True)
class ClimbStage:
    """A relaxed climb: the share of the sharpness, and the draws. A broad step sees further, and needs fewer draws."""

    share: float
    draws: int
    steps: int


PROBE = ClimbStage(0.02, 2**12, 5)
STAGES = (ClimbStage(0.02, 2**12, 40), ClimbStage(1.0, 2**14, 40))


class _Enough(Exception):
    """Ends a climb from inside: time is up, or nothing can be better."""


@dataclass
class Climb:
    """Where a climb has come: the best variables so far, their value, and how many evaluations it took."""

    best: Array
    value: float = -math.inf
    evaluations: int = 0
    out_of_time: bool = False
    _deadline: Deadline = field(default_factory=Deadline)

    def see(self, z: Array, value: float) -> None:
        """Take note of an evaluation."""
        self.evaluations += 1
        if value > self.value:
            self.best, self.value = z, value
        if value == math.inf:
            raise _Enough
        if self._deadline.passed:
            self.out_of_time = True
            raise _Enough


def relaxed_ascent(
    problem: Problem,
    seed: int,
    start: Array,
    deadline: Deadline,
    stages: Sequence[ClimbStage] = STAGES,
    sharpness: float = SHARPNESS,
) -> Climb:
    """The climb on the relaxed estimate from a start, by SLSQP: with a broad step first, then with the true one."""
    climb = Climb(start, _deadline=deadline)
    for stage in stages:
        drawn = problem.drawn(Draws(seed, 0, stage.draws))
        climb = Climb(climb.best, evaluations=climb.evaluations, _deadline=deadline)
        _climb_relaxed(drawn, stage.share * sharpness, climb, stage.steps)
        if climb.out_of_time:
            break
    return climb


def _climb_relaxed(drawn: DrawnProblem, sharpness: float, climb: Climb, steps: int) -> None:
    problem = drawn.problem

    def negative(z: Array) -> tuple[float, Array] | float:
        z = problem.inside(z)
        found = drawn.soft(z, sharpness)
        climb.see(z, found.value)
        return -found.value if found.gradient is None else (-found.value, -found.gradient)

    _slsqp(problem, climb.best, negative, problem.has_gradient, 1e-3, steps)


def exact_ascent(problem: Problem, start: Array, deadline: Deadline) -> Climb:
    """The climb on the exact ε of the event: SLSQP by differences, then single variables to their bounds.

    Raises NotExact where the event's probability is out of reach.
    """
    climb = Climb(start, _deadline=deadline)

    def value(z: Array) -> float:
        z = problem.inside(z)
        found = problem.exact(z)
        climb.see(z, found)
        return max(found, WORST)

    try:
        value(start)
        _slsqp(problem, start, lambda z: -value(z), False, DIFFERENCE)
        _sweep(problem, climb, value)
    except _Enough:
        pass
    return climb


def pair_ascent(problem: Problem, start: Array, deadline: Deadline) -> Climb:
    """The climb on the exact ε of the pair itself, over all events and in both directions: the ends play no part.

    Its value is -inf where there was no time even for the first comparison. Raises NotExact where it is out of reach.
    """
    plain = Problem(problem.explored, problem.place, problem.form.with_ends(()), np.zeros(0), np.zeros(0))
    climb = Climb(start[: problem.split], _deadline=deadline)

    def value(z: Array) -> float:
        z = plain.inside(z)
        found = pair_epsilon(problem.explored, *plain.pair(z))
        climb.see(z, found)
        return found

    try:
        with at_most(deadline.left):  # a single comparison can take longer than there is time
            value(climb.best)
            _slsqp(plain, climb.best, lambda z: -value(z), False, DIFFERENCE)
            _sweep(plain, climb, value)
    except _Enough:
        pass
    except (CutShort, OutOfTime):
        climb.out_of_time = True
    return climb


def pair_epsilon(explored: Explored, left: Any, right: Any) -> float:
    """The exact ε between two inputs: the supremum of |ln p/q| over all outputs."""
    loss = loss_between(explored.paths(left), explored.paths(right))
    return max(0.0, loss.supremum, loss.reversed.supremum)


def _slsqp(
    problem: Problem,
    start: Array,
    negative: Callable[[Array], tuple[float, Array] | float],
    gradient: bool,
    difference: float,
    steps: int = STEPS,
) -> None:
    """Minimise within the bounds, both inputs in the domain and intervals in order."""
    options = {"maxiter": steps, "ftol": 1e-9} | ({} if gradient else {"eps": difference})
    try:
        if not len(start):
            negative(start)
            return
        minimize(
            negative,
            start,
            jac=True if gradient else None,
            method="SLSQP",
            bounds=list(zip(problem.low, problem.high, strict=True)),
            constraints=_constraints(problem),
            options=options,
        )
    except _Enough:
        pass


def _constraints(problem: Problem) -> list[dict[str, object]]:
    size, split = len(problem.low), problem.split
    rows, offsets = problem.place.slopes()
    found = []
    if len(rows):
        wide = np.hstack([rows, np.zeros((len(rows), size - split))])
        found.append(_linear("ineq", wide, offsets))
    if isinstance(problem.place, Patch) and problem.place.total is not None:
        one = np.zeros((1, size))
        one[0, :split][problem.place.total] = 1.0
        found.append(_linear("eq", one, np.array([-1.0])))
    for low, high, gap in problem.intervals:
        row = np.zeros((1, size))
        row[0, split + high], row[0, split + low] = 1.0, -1.0
        found.append(_linear("ineq", row, np.array([-gap])))
    return found


def _linear(kind: str, rows: Array, offsets: Array) -> dict[str, object]:
    return {"type": kind, "fun": lambda z: rows @ z + offsets, "jac": lambda z: rows}


def _sweep(problem: Problem, climb: Climb, value: Callable[[Array], float]) -> None:
    """Put single variables of the pair at their bounds, or at 0, as long as that helps."""
    improved = True
    while improved:
        improved = False
        for place in range(problem.split):
            before = climb.value
            for target in dict.fromkeys((float(problem.low[place]), float(problem.high[place]), 0.0)):
                z = climb.best.copy()
                z[place] = target
                value(z)
            improved = improved or climb.value > before + 1e-9 * (1 + abs(before))


def exact_value(problem: Problem, z: Array) -> float | None:
    """The exact ε of the event at these variables; None where it is out of reach."""
    try:
        return problem.exact(problem.inside(z))
    except NotExact:
        return None
