"""Points inside a path: values of its noise, and of what is open, that lead down it with room to spare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from veridp.kernel.expressions import Condition
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown

REACHES = (8.0, 1e3, 1e7)  # in units of the noise: how far out a point is looked for
MARGIN = 0.02  # in units of the noise: how far from the boundary a point should be
LEAST_MARGIN = 1e-4  # of that margin, below which a path counts as having no inside
EDGE = 1e-4  # in units of the noise: how far inside a boundary a point beside it is
REPAIRS = 4  # rounds in which violated conditions are mended one by one


class Inside:
    """The inside of a path, near these values of what is open."""

    def __init__(self, path: Path, place: Mapping[Symbol, float], rng: np.random.Generator) -> None:
        self.path, self.place, self.rng = path, place, rng
        self.units: dict[Symbol, float] = {noise: noise.distribution.unit for noise in path.noises}
        self.units |= dict.fromkeys(place, 1.0)

    def point(self, *more: Condition) -> dict[Symbol, float] | None:
        """Values that satisfy the conditions of the path, and these too; None where there are none to be found."""
        return self._found([*self.path.conditions, *more])

    def edge(self, condition: Condition) -> dict[Symbol, float] | None:
        """Values that satisfy the conditions of the path, and this one by next to nothing."""
        others = [other for other in self.path.conditions if other is not condition]
        beside = self._margin(condition, EDGE)
        return self._found([Condition(condition.slack - beside, Relation.EQUAL), *others])

    def _found(self, conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        if not conditions and not self.units:
            return {}
        start: dict[Symbol, float] = {n: n.distribution.draw(self.rng, 1)[0].item() for n in self.path.noises}
        repaired = self._repaired({**start, **self.place}, conditions)
        return self._solved(conditions) if repaired is None else repaired

    def _repaired(self, values: dict[Symbol, float], conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        """Move the latest noise of each violated condition just far enough; it mostly occurs in no earlier one."""
        for _ in range(REPAIRS):
            violated = False
            for condition in conditions:
                lacking = self._lacking(condition, values)
                if lacking:
                    violated = True
                    if not self._mend(condition, values, lacking):
                        return None
            if not violated:
                return values
        return None

    def _lacking(self, condition: Condition, values: Mapping[Symbol, float]) -> float:
        """By how much the slack has to grow (or, for an equality, to change); 0 where it is well satisfied."""
        slack = condition.slack.evaluate(values)
        if condition.relation is Relation.EQUAL:
            return -float(slack)
        if condition.relation is Relation.UNEQUAL:
            return 0.0
        margin = self._margin(condition)
        return float(margin - slack) if slack < margin else 0.0

    def _margin(self, condition: Condition, share: float = MARGIN) -> float:
        """How large a slack should be: a share of the noise in it; integers are apart by themselves."""
        if condition.slack.stands_for is int:
            return 1.0 if condition.relation is Relation.ABOVE else 0.0
        return share * max(abs(float(c)) * self.units[s] for s, c in condition.slack.terms.items())

    def _mend(self, condition: Condition, values: dict[Symbol, float], lacking: float) -> bool:
        for symbol in sorted(condition.slack.terms, reverse=True):  # the noise drawn last comes first
            step = lacking / float(condition.slack.terms[symbol])
            low, high = symbol.distribution.support if isinstance(symbol, Noise) else (-np.inf, np.inf)
            if _is_whole(symbol):
                step = np.sign(step) * np.ceil(abs(step) - 1e-9)
            elif condition.relation is not Relation.EQUAL:
                step *= 1 + self.rng.random()
            if low < values[symbol] + step < high or (_is_whole(symbol) and low <= values[symbol] + step <= high):
                values[symbol] += type(values[symbol])(step)
                return True
        return False

    def _solved(self, conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        """The point farthest from all boundaries, up to a margin, by an integer program; ever farther out."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        symbols = list(self.units)
        rows = np.array([[float(c.slack.terms.get(s, 0)) for s in symbols] + [-self._margin(c)] for c in conditions])
        needed = np.array([-float(c.slack.constant) for c in conditions])
        equal = np.array([c.relation is Relation.EQUAL for c in conditions])
        kept = np.array([c.relation is not Relation.UNEQUAL for c in conditions])
        rows[equal, -1] = 0.0
        whole = [c.slack.stands_for is int for c in conditions]
        needed[whole] += -rows[whole, -1]  # a whole margin is asked for in full
        rows[whole, -1] = 0.0
        for reach in REACHES:
            low, high = np.array([*(self._ends(symbol, reach) for symbol in symbols), (0.0, 1.0)]).T
            answer = milp(
                np.append(np.zeros(len(symbols)), -1.0),
                constraints=LinearConstraint(rows[kept], needed[kept], np.where(equal, needed, np.inf)[kept]),
                bounds=Bounds(low, high),
                integrality=np.append([int(_is_whole(symbol)) for symbol in symbols], 0),
                options={"time_limit": 5.0},
            )
            if answer.x is not None and answer.x[-1] > LEAST_MARGIN:
                found = zip(symbols, answer.x[:-1].tolist(), strict=True)
                return {s: round(x) if _is_whole(s) else x for s, x in found}
        return None

    def _ends(self, symbol: Symbol, reach: float) -> tuple[float, float]:
        if isinstance(symbol, Unknown):
            return self.place[symbol] - reach, self.place[symbol] + reach
        low, high = symbol.distribution.support
        room = 0.0 if _is_whole(symbol) else 1e-6 * self.units[symbol]
        return max(low + room, -reach * self.units[symbol]), min(high - room, reach * self.units[symbol])


def _is_whole(symbol: Symbol) -> bool:
    return isinstance(symbol, Noise) and symbol.distribution.integer
