"""How well two distributions are told apart: the notion on which differential privacy rests."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from veridp.errors import BadInput


@dataclass(frozen=True)
class Indistinguishability:
    """Two distributions on the same finite set, and what tells them apart.

    They are ε-indistinguishable if P(S) <= e^ε Q(S) and Q(S) <= e^ε P(S) for every event S. It is enough to look at
    single outcomes: if the inequality holds for each, it holds for their sum.
    """

    left: Mapping[Hashable, float]
    right: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        for name, law in (("left", self.left), ("right", self.right)):
            if min(law.values(), default=-1.0) < 0 or not math.isclose(math.fsum(law.values()), 1.0, abs_tol=1e-9):
                raise BadInput(f"{name} is not a distribution; give outcomes with probabilities >= 0 that sum to 1")

    @property
    def outcomes(self) -> list[Hashable]:
        return list(dict.fromkeys([*self.left, *self.right]))

    def loss(self, outcome: Hashable) -> float:
        """ln P/Q of an outcome: what seeing it says for left against right."""
        p, q = self.left.get(outcome, 0.0), self.right.get(outcome, 0.0)
        if p == 0:
            return -math.inf if q else 0.0
        return math.log(p) - math.log(q) if q else math.inf

    @property
    def epsilon(self) -> float:
        """The least ε for which they are ε-indistinguishable.

        >>> round(Indistinguishability({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}).epsilon, 6)
        1.098612
        """
        return max(abs(self.loss(outcome)) for outcome in self.outcomes)

    def delta(self, epsilon: float) -> float:
        """The least δ such that P(S) <= e^ε Q(S) + δ and Q(S) <= e^ε P(S) + δ for every event S."""
        return max(
            math.fsum(
                max(0.0, law.get(outcome, 0.0) - math.exp(epsilon) * other.get(outcome, 0.0))
                for outcome in self.outcomes
            )
            for law, other in ((self.left, self.right), (self.right, self.left))
        )

    def event(self, epsilon: float) -> list[Hashable]:
        """The event S that makes P(S) - e^ε Q(S) largest: all outcomes with a loss above ε."""
        return [outcome for outcome in self.outcomes if self.loss(outcome) > epsilon]
