"""What a comparison says at a δ: the least ε there, and the event that shows it."""

from __future__ import annotations

import math

from veridp.claim import Interval, Witness
from veridp.engines.exact.compare import Comparison
from veridp.engines.exact.event import ExactEvent
from veridp.errors import NotExact

STEPS = 60  # of a bisection: the answer to within 2^-60 of the first interval
LARGEST = 700.0  # past this, e^ε overflows


def epsilon_at(comparison: Comparison, delta: float) -> float:
    """The least ε such that (ε, δ) holds between the two inputs; from below where δ is known between bounds only."""
    if not delta:
        return comparison.epsilon
    low, high = 0.0, min(comparison.epsilon, LARGEST)
    if comparison.delta_bounds(low).lower <= delta:
        return 0.0
    if math.isinf(comparison.epsilon) and comparison.delta_bounds(high).lower > delta:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if comparison.delta_bounds(middle).lower > delta else (low, middle)
    return low


def witness_above(comparison: Comparison, epsilon: float) -> Witness | None:
    """The event that attains δ(ε), with both probabilities; None where these cannot be computed or there is none."""
    forward, backward = comparison.loss, comparison.loss.reversed
    turned = backward.delta(epsilon).lower > forward.delta(epsilon).lower
    loss = backward if turned else forward
    try:
        parts = loss.parts_above(epsilon)
    except NotExact:
        return None
    if not parts:
        return None
    inputs = (comparison.right, comparison.left) if turned else (comparison.left, comparison.right)
    event = parts[0].event if len(parts) == 1 else ExactEvent(either=tuple(part.event for part in parts))
    above, below = (
        Interval.of_probability(min(1.0, math.fsum(side)))
        for side in ([part.left for part in parts], [part.right for part in parts])
    )
    return Witness(*inputs, event, above, below, arguments=dict(comparison.mechanism.arguments))
