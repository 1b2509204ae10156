"""Which values of open arguments make two runs of a mechanism part ways most: a MaxSMT problem for z3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veridp.kernel.expressions import Condition
from veridp.kernel.path import Path
from veridp.kernel.site import Site
from veridp.kernel.symbols import Relation, Unknown

PATIENCE = 5_000  # milliseconds for the solver
MARGIN = 1  # how far past its border a condition need not go
Branch = tuple[Site, int]  # a line of the mechanism, and how often the run had been there before


@dataclass(frozen=True)
class Separation:
    """Values for open arguments, and how many of the branches that either run meets differ there."""

    values: Mapping[str, float]
    differing: int
    branches: int


def separating_values(left: Sequence[Path], right: Sequence[Path], whole: Mapping[str, bool]) -> Separation:
    """Values for which most branches differ between a run on the left and one on the right.

    The paths are those of runs without noise, with the named arguments open (`whole` tells which are whole numbers).
    A branch differs if the two go different ways at it, or only one gets there. Of all such values, those are taken
    that satisfy the conditions of both runs by the largest margin; arguments that no condition speaks of get none.
    """
    import z3  # loads slowly

    variables = {name: z3.Int(name) if is_whole else z3.Real(name) for name, is_whole in whole.items()}
    mine, theirs = ([_formula(z3, variables, path.conditions) for path in paths] for paths in (left, right))
    ways = [_ways(path) for path in left], [_ways(path) for path in right]
    branches = sorted({branch for side in ways for path in side for branch in path}, key=str)
    best = z3.Optimize()
    best.set("timeout", PATIENCE)
    best.add(z3.Or(mine), z3.Or(theirs), *(variables[name] >= 1 for name, is_whole in whole.items() if is_whole))
    for branch in branches:
        same = [
            z3.And(
                z3.Or([path for path, taken in zip(mine, ways[0], strict=True) if taken.get(branch) == way]),
                z3.Or([path for path, taken in zip(theirs, ways[1], strict=True) if taken.get(branch) == way]),
            )
            for way in {taken.get(branch) for side in ways for taken in side}
        ]
        best.add_soft(z3.Not(z3.Or(same)))
    for name, is_whole in whole.items():
        if is_whole:
            best.minimize(variables[name])
    if not branches or best.check() != z3.sat:
        return Separation({}, 0, len(branches))
    model = best.model()
    one = next(index for index, formula in enumerate(mine) if z3.is_true(model.eval(formula, True)))
    other = next(index for index, formula in enumerate(theirs) if z3.is_true(model.eval(formula, True)))
    differing = sum(ways[0][one].get(branch) != ways[1][other].get(branch) for branch in branches)
    conditions = [*left[one].conditions, *right[other].conditions]
    return Separation(_middle(z3, variables, whole, conditions, model), differing, len(branches))


def _ways(path: Path) -> dict[Branch, int]:
    """Which way the path goes at each of its branches."""
    visits: dict[Site, int] = {}
    taken: dict[Branch, int] = {}
    for fork in path.forks:
        visit = visits.get(fork.site, 0)
        visits[fork.site] = visit + 1
        taken[fork.site, visit] = fork.taken
    return taken


def _middle(
    z3: Any, variables: Mapping[str, Any], whole: Mapping[str, bool], conditions: Sequence[Condition], model: Any
) -> dict[str, float]:
    """The values in the middle of the room that the conditions leave; whole numbers as in the model."""
    spoken_of = {symbol.name for condition in conditions for symbol in condition.slack.terms}
    margin, middle = z3.Real("margin"), z3.Optimize()
    middle.set("timeout", PATIENCE)
    for condition in conditions:
        slack = _slack(z3, variables, condition)
        loose = condition.relation in (Relation.AT_LEAST, Relation.ABOVE)
        middle.add(slack >= margin if loose and not _only_whole(condition, whole) else condition.relation.holds(slack))
    middle.add(margin <= MARGIN)
    middle.add(*(variables[name] == model.eval(variables[name], True) for name, is_whole in whole.items() if is_whole))
    middle.maximize(margin)
    if middle.check() == z3.sat:
        model = middle.model()
    return {
        name: _number(model.eval(variable, True), whole[name])
        for name, variable in variables.items()
        if name in spoken_of
    }


def _only_whole(condition: Condition, whole: Mapping[str, bool]) -> bool:
    return all(isinstance(symbol, Unknown) and whole[symbol.name] for symbol in condition.slack.terms)


def _number(value: Any, whole: bool) -> float:
    return int(value.as_long()) if whole else float(value.as_fraction())


def _formula(z3: Any, variables: Mapping[str, Any], conditions: Sequence[Condition]) -> Any:
    return z3.And([condition.relation.holds(_slack(z3, variables, condition)) for condition in conditions])


def _slack(z3: Any, variables: Mapping[str, Any], condition: Condition) -> Any:
    def rational(number: Any) -> Any:
        return z3.Q(number.numerator, number.denominator)

    terms = [rational(factor) * variables[symbol.name] for symbol, factor in condition.slack.terms.items()]
    return z3.Sum([*terms, rational(condition.slack.constant)])
