"""The arguments of a mechanism that are the strongest evidence (the ArgumentGenerator of Algorithm 4), found by
running it without noise."""

from __future__ import annotations

import bisect
import copy
import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from veridp.errors import INTERRUPTING, BadInput, MechanismFailed, NotExplorable
from veridp.kernel.distributions import Distribution, Number, ScaledNoise
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, Condition, unknown
from veridp.kernel.generator import Size, StandInGenerator, over_shape
from veridp.kernel.path import Path
from veridp.kernel.site import Site, raised_at
from veridp.kernel.stand_ins import Symbolic
from veridp.mechanism import Mechanism
from veridp.numerics.inequalities import LinearInequality, are_possible, inner_point
from veridp.sampling.encode import encode

# ----------------------------------------------------------------------------------------------------------- noiseless
# Running a mechanism without noise: every draw is the value around which its distribution lies.


@dataclass(frozen=True)
class DrawSite:
    """A place in the mechanism where noise was drawn, and how much: a parameter of its distribution."""

    site: Site
    parameter: float
    is_scale: bool  # whether the noise grows with the parameter


MOST_DRAWS = 100_000  # in one run: drawing until a value pleases would never end


class NoiseFree(StandInGenerator):
    """A generator whose noise is 0 where it has a location.

    A uniform number is the middle of its range, integer noise and finite choices are their likeliest value. What it
    was asked for is kept in `draws`.
    """

    def __init__(self) -> None:
        self.draws: list[DrawSite] = []
        self.drawn = 0

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        self._count()
        for width in np.ravel(np.asarray(scale, dtype=object)):
            self._note(width, is_scale=True)
        return over_shape(lambda place, _: place, size, loc, scale)

    def noise(self, distribution: Distribution) -> Any:
        self._count()
        if distribution.integer:
            self._note(list(distribution.parameters.values())[-1])
        return distribution.typical

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        self._count()
        chances = [Fraction(weight) for weight in weights]
        self._note(max(chances))
        return values[chances.index(max(chances))]

    def refuse(self, what: str) -> NoReturn:
        raise NotExplorable(f"{what}: it cannot be run without noise")

    def _count(self) -> None:
        self.drawn += 1
        if self.drawn > MOST_DRAWS:
            self.refuse(f"it draws more than {MOST_DRAWS} times, perhaps until a value pleases")

    def _note(self, parameter: Any, is_scale: bool = False) -> None:
        if not isinstance(parameter, Symbolic):
            self.draws.append(DrawSite(_caller(), float(parameter), is_scale))


def _caller() -> Site:
    """The innermost line outside of generators and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("veridp.", "numpy", "functools")
    ):
        if _is_mechanism(frame.f_globals["__name__"]):
            break
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


def _is_mechanism(module: str) -> bool:
    return module.startswith("veridp.") and not module.startswith(
        ("veridp.kernel", "veridp.sampling", "veridp.engines.statdp", "veridp.mechanism")
    )


def noise_free(mechanism: Mechanism, data: Any) -> Any:
    """What the mechanism returns on the data without noise.

    Raises NotExplorable where it has randomness of its own: then no run of it is without noise.
    """
    output, again = (_run(mechanism, data, NoiseFree()) for _ in range(2))
    if encode([output]) != encode([again]):
        raise NotExplorable(f"{mechanism.name} draws noise from elsewhere than rng; it cannot be run without noise")
    return output


def draws_of(mechanism: Mechanism, data: Any) -> tuple[DrawSite, ...]:
    """The noise that the mechanism would have drawn in a run without noise."""
    generator = NoiseFree()
    _run(mechanism, data, generator)
    return tuple(generator.draws)


def without_noise(mechanism: Mechanism) -> Callable[..., Any]:
    """The mechanism as a function that takes its generator for another, one without noise."""

    def quiet(rng: object, data: Any, **arguments: Any) -> Any:
        return mechanism.bind(**arguments).bound()(NoiseFree(), data)

    return quiet


def _run(mechanism: Mechanism, data: Any, generator: NoiseFree) -> Any:
    try:
        return mechanism.bound()(generator, copy.deepcopy(data))
    except NotExplorable:
        raise
    except INTERRUPTING:
        raise
    except BaseException as error:
        where = raised_at(error.__traceback__)
        raise MechanismFailed(
            f"{where}: {mechanism.name}, run without noise, raised {type(error).__name__}: {error}"
        ) from error


# ------------------------------------------------------------------------------------------------------------ branches
# Which values of open arguments make two runs of a mechanism part ways most.


MAX_PATH_PAIRS = 5_000  # pairs of paths that are tried, those with the most differing branches first
MAX_WHOLE = 2**20  # the largest value of a whole argument that is looked for
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
    that satisfy the conditions of both runs by the largest margin, up to 1. Arguments without a condition get no value.
    """
    ways = [_ways(path) for path in left], [_ways(path) for path in right]
    branches = {branch for side in ways for path in side for branch in path}
    differing = {
        (one, other): sum(mine.get(branch) != theirs.get(branch) for branch in branches)
        for one, mine in enumerate(ways[0])
        for other, theirs in enumerate(ways[1])
    }
    integers = [name for name, is_whole in whole.items() if is_whole]
    positive = [LinearInequality({name: 1}, -1, ">=") for name in integers]
    for one, other in sorted(differing, key=lambda pair: -differing[pair])[: MAX_PATH_PAIRS if branches else 0]:
        conditions = [_inequality(condition) for condition in (*left[one].conditions, *right[other].conditions)]
        if are_possible([*conditions, *positive], integers):
            values = _middle([*conditions, *positive], whole)
            spoken_of = {name: values[name] for name in whole if any(name in c.terms for c in conditions)}
            return Separation(spoken_of, differing[one, other], len(branches))
    return Separation({}, 0, len(branches))


def _ways(path: Path) -> dict[Branch, int]:
    """Which way the path goes at each of its branches."""
    visits: dict[Site, int] = {}
    taken: dict[Branch, int] = {}
    for fork in path.forks:
        visit = visits.get(fork.site, 0)
        visits[fork.site] = visit + 1
        taken[fork.site, visit] = fork.taken
    return taken


def _middle(conditions: Sequence[LinearInequality], whole: Mapping[str, bool]) -> dict[str, float]:
    """The least whole numbers that the conditions allow, and for these the middle of the room that is left."""
    integers = [name for name, is_whole in whole.items() if is_whole]
    fixed: dict[str, int] = {}
    for name in integers:
        known = [LinearInequality({other: 1}, -value, "==") for other, value in fixed.items()]
        fixed[name] = _least(name, [*conditions, *known], integers)
    inside = inner_point([_with_margin(_at(condition, fixed)) for condition in conditions]) or {}
    return {name: fixed[name] if name in fixed else float(inside.get(name, 0)) for name in whole}


def _least(name: str, conditions: Sequence[LinearInequality], integers: Collection[str]) -> int:
    """The least value from 1 on that the conditions allow to a whole argument."""

    def is_at_most(value: int) -> bool:
        return are_possible([*conditions, LinearInequality({name: -1}, value, ">=")], integers)

    return 1 + bisect.bisect_left(range(1, MAX_WHOLE), True, key=is_at_most)


def _at(condition: LinearInequality, fixed: Mapping[str, int]) -> LinearInequality:
    constant = condition.constant + sum(
        condition.terms[name] * value for name, value in fixed.items() if name in condition.terms
    )
    return LinearInequality({n: c for n, c in condition.terms.items() if n not in fixed}, constant, condition.sign)


def _with_margin(condition: LinearInequality) -> LinearInequality:
    return replace(condition, sign=">") if condition.sign == ">=" and condition.terms else condition


def _inequality(condition: Condition) -> LinearInequality:
    terms = {symbol.name: coefficient for symbol, coefficient in condition.slack.terms.items()}
    return LinearInequality(terms, condition.slack.constant, condition.relation.value)


# ----------------------------------------------------------------------------------------------------------- arguments
# The arguments of a mechanism that show most (the ArgumentGenerator of Algorithm 4).
#
# Whole-numbered arguments on which the scale of noise depends are set to where it is least; other numbers to where,
# without noise, as many branches as possible go different ways on the two inputs, in the middle of the room
# there is.
#
# What the caller has set stays, and so does what the claim is made of: `epsilon`, `delta`, and whatever a claim that is
# a function of arguments names. So does noise that is not calibrated by `epsilon`: a function that computes its noise
# from a budget and an argument promises the budget for each value of the argument; one that takes its
# noise as an argument does not.


MOST_PATHS = 500
STAND_IN = 1  # for an argument without a value, until one is found


@dataclass(frozen=True)
class ChosenArguments:
    """The mechanism with all its arguments set, those that a search set, and why each has its value."""

    mechanism: Mechanism
    arguments: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Open:
    """An argument that may be set: its value so far, None if it has none, and whether it is a whole number."""

    name: str
    value: float | None
    whole: bool

    @property
    def start(self) -> float:
        return STAND_IN if self.value is None else self.value


def search_arguments(mechanism: Mechanism, left: Any, right: Any) -> ChosenArguments:
    """The mechanism with the arguments for these two inputs that its noise and its branches suggest.

    Raises BadInput where an argument has no value and none can be found.
    """
    candidates = _open_arguments(mechanism)
    if not candidates:
        return ChosenArguments(mechanism)
    started = mechanism.bind(**{one.name: one.start for one in candidates if one.value is None})
    try:
        quiet, free = _least_noise(started, candidates, left)
        branchy, lost = _differing_branches(quiet.mechanism, free, left, right)
    except (NotExplorable, MechanismFailed) as error:
        quiet, branchy, free, lost = ChosenArguments(started), ChosenArguments(started), candidates, str(error)
    found = {**quiet.arguments, **branchy.arguments}
    for one in candidates:
        if one.value is None and one.name not in found:
            reason = f": {lost}" if lost else ""
            raise BadInput(
                f"{mechanism.name} needs a value for {one.name}, and none could be found{reason}; give {one.name}=…"
            )
    notes = quiet.notes + branchy.notes + ((f"other arguments as they are: {lost}",) if lost and free else ())
    return ChosenArguments(mechanism.bind(**found), found, notes)


def _open_arguments(mechanism: Mechanism) -> list[_Open]:
    """The numeric arguments that neither the caller nor the claim has fixed."""
    kept = {"epsilon", "delta"}
    for claimed in (mechanism.epsilon, mechanism.delta):
        if callable(claimed):
            kept.update(inspect.signature(claimed).parameters)
    given = {name for name, value in mechanism.arguments.items() if not isinstance(value, Affine)}
    found = []
    for name, value in mechanism.values.items():
        if name in given or name in kept:
            continue
        if isinstance(value, Affine):
            found.append(_Open(name, None, _is_whole(mechanism, name)))
        elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
            found.append(_Open(name, value, isinstance(value, int | np.integer)))  # type: ignore[arg-type]
    return found + [_Open(name, None, _is_whole(mechanism, name)) for name in mechanism.missing() if name not in kept]


def _is_whole(mechanism: Mechanism, name: str) -> bool:
    """Whether the annotation says that the argument is a whole number; raises BadInput where it is not a number."""
    annotation = inspect.signature(mechanism.function).parameters[name].annotation
    if annotation in (int, "int"):
        return True
    if annotation in (float, "float", inspect.Parameter.empty):
        return False
    raise BadInput(f"{mechanism.name} needs a value for {name}, which is not a number ({annotation}); give {name}=…")


# ------------------------------------------------------------------------------------------------------ least noise


def _least_noise(mechanism: Mechanism, candidates: Sequence[_Open], data: Any) -> tuple[ChosenArguments, list[_Open]]:
    """Whole numbers that noise depends on, at 1 where that is less noise; and the arguments that noise is free of."""
    now = _scales(mechanism, data)
    budget = _told_by(mechanism, now, "epsilon", data)
    settled: dict[str, Any] = {}
    free = []
    for one in candidates:
        sites = _told_by(mechanism, now, one.name, data)
        if not sites:
            free.append(one)
            continue
        if one.value is None and not one.whole:
            raise BadInput(f"{mechanism.name} needs a value for {one.name}, which sets its noise; give {one.name}=…")
        if one.whole and (one.value is None or (sites <= budget and _is_less(mechanism, now, one.name, sites, data))):
            settled[one.name] = 1
    notes = tuple(f"{name} = {value} (least noise)" for name, value in settled.items())
    return ChosenArguments(mechanism.bind(**settled), settled, notes), free


def _scales(mechanism: Mechanism, data: Any) -> dict[Site, frozenset[float]]:
    """The scales of the noise that each line draws."""
    lines: dict[Site, set[float]] = {}
    for draw in draws_of(mechanism, data):
        if draw.is_scale:
            lines.setdefault(draw.site, set()).add(draw.parameter)
    return {site: frozenset(scales) for site, scales in lines.items()}


def _told_by(mechanism: Mechanism, now: Mapping[Site, frozenset[float]], name: str, data: Any) -> frozenset[Site]:
    """The lines whose noise depends on an argument: it is another where the argument is."""
    value = mechanism.values.get(name)
    if not isinstance(value, int | float | np.number):
        return frozenset()
    changed = value + 1 if isinstance(value, int | np.integer) else value * 1.5 + (0.5 if value == 0 else 0.0)
    then = _scales(mechanism.bind(**{name: changed}), data)
    return frozenset(site for site in now.keys() & then.keys() if now[site] != then[site])


def _is_less(
    mechanism: Mechanism, now: Mapping[Site, frozenset[float]], name: str, sites: Iterable[Site], data: Any
) -> bool:
    """Whether all these lines draw less noise, but some, where the argument is 1."""
    then = _scales(mechanism.bind(**{name: 1}), data)
    return all(0 < max(then.get(site, {math.inf})) < max(now[site]) for site in sites)


# --------------------------------------------------------------------------------------------- differing branches


def _differing_branches(
    mechanism: Mechanism, free: Sequence[_Open], left: Any, right: Any
) -> tuple[ChosenArguments, str]:
    """Values of the free arguments for which most branches differ; and what prevented a search, if anything did.

    Whole numbers with a default are counts and sizes more often than levels that data is compared with: they stay.
    """
    chosen = [one for one in free if one.value is None or not one.whole]
    if not chosen:
        return ChosenArguments(mechanism), ""
    try:
        mine, theirs = (_paths(mechanism, chosen, data) for data in (left, right))
    except (NotExplorable, MechanismFailed) as error:
        return ChosenArguments(mechanism), str(error)
    separation = separating_values(mine, theirs, {one.name: one.whole for one in chosen})
    if separation.differing == 0:
        values: dict[str, Any] = {one.name: one.start for one in chosen if one.value is None}
        notes = tuple(f"{name} = {value:g} (no branch depends on it)" for name, value in values.items())
        return ChosenArguments(mechanism.bind(**values), values, notes), ""
    values = dict(separation.values)
    for one in chosen:
        if one.value is None:
            values.setdefault(one.name, one.start)
    plural = "branch differs" if separation.differing == 1 else "branches differ"
    text = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    note = f"{text} ({separation.differing} of {separation.branches} {plural})"
    return ChosenArguments(mechanism.bind(**values), values, (note,)), ""


def _paths(mechanism: Mechanism, chosen: Sequence[_Open], data: Any) -> tuple[Path, ...]:
    """The paths of the mechanism without noise, the chosen arguments left open."""
    bound = mechanism.bind(**{one.name: unknown(one.name) for one in chosen})
    return explore(without_noise(bound), data, max_paths=MOST_PATHS, functions=False, **bound.arguments)
