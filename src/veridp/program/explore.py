"""Exploring a mechanism: run it once for each way through it, and write down what it met on the way.

A run follows the steps that it was given, checks that the mechanism takes them again, and past them goes the first
way that is possible at each fork; the other ways are left for later runs.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from veridp.errors import MechanismFailed, Nondeterministic, NotAffine, TooManyPaths, VeridpError
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.program.affine import RUN, Affine, Condition, Decider, Noise, Relation, affine, settle
from veridp.program.distribution import Distribution, Number
from veridp.program.feasible import has_room
from veridp.program.generator import StandInGenerator
from veridp.program.path import Fork, Option, Path, Step, leaves, map_leaves, output_text
from veridp.program.site import here, raised_at
from veridp.program.symbolic import Symbolic

MAX_PATHS = 100_000
MAX_FORKS = 2_000  # on one path; a loop that can go on for ever is stopped here


def explore(
    mechanism: Mechanism | Function, data: Any, *, max_paths: int = MAX_PATHS, defer: bool = False, **arguments: Any
) -> tuple[Path, ...]:
    """All paths of the mechanism on this data, in the order of a walk through its tree.

    Entries of the data, and arguments, may be left open with `unknowns` and `unknown`. With `defer`, comparisons and
    choices that only end up in the output stay undecided there, instead of forking.

    The paths are disjoint and complete but for a set of probability 0: equality of continuous noise is taken to fail.
    Raises NotAffine or TooManyPaths where the paths cannot be listed, Nondeterministic where runs disagree.
    """
    return tuple(walk(as_mechanism(mechanism, **arguments), data, max_paths, defer))


def walk(mechanism: Mechanism, data: Any, max_paths: int = MAX_PATHS, defer: bool = False) -> Iterator[Path]:
    """The paths, one at a time, as they are found."""
    function = mechanism.bound()
    before = _global_randomness()
    pending: list[tuple[Step, ...]] = [()]
    first: Path | None = None
    found = 0
    while pending:
        if found >= max_paths:
            raise TooManyPaths(
                f"{mechanism.name} has more than {max_paths} paths ({found} were listed); "
                f"use a smaller input, raise max_paths, defer=True where the branches only decide the output, "
                f"or use an engine that samples"
            )
        run = _Run(pending.pop())
        path = _follow(run, mechanism.name, function, data, defer)
        pending += run.postponed
        if first is None:
            first = path
            _check_again(path, mechanism.name, function, data, defer)
        found += 1
        yield path
    if _global_randomness() != before:
        raise Nondeterministic(
            f"{mechanism.name} draws from global randomness (random or numpy.random); it must draw from rng alone"
        )


class _Stop(BaseException):
    """Ends a run from inside user code; no `except Exception` of the user can swallow it."""


class _Run(StandInGenerator, Decider):
    """One run: the generator that the mechanism draws from, and what its symbols ask for their truth."""

    def __init__(self, given: tuple[Step, ...]) -> None:
        self.given = given
        self.steps: list[Step] = []
        self.conditions: list[Condition] = []
        self.drawn = 0
        self.forked = 0
        self.postponed: list[tuple[Step, ...]] = []
        self.error: VeridpError | None = None

    # ------------------------------------------------------------------------------------------------- draws

    def noise(self, distribution: Distribution) -> Affine:
        expected = self._expected()
        if expected is None:
            noise = Noise(self.drawn, distribution, here())
        elif isinstance(expected, Noise) and expected.distribution == distribution:
            noise = expected
        else:
            self._disagree(f"drew {distribution}", expected)
        self.drawn += 1
        self.steps.append(noise)
        return Affine(0, {noise: 1})

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        options = [
            Option((), weight, f"choose {output_text(value)}") for value, weight in zip(values, weights, strict=True)
        ]
        return values[self._fork(options)]

    # ------------------------------------------------------------------------------------------------- forks

    def decide(self, condition: Condition) -> bool:
        if condition.relation in (Relation.AT_LEAST, Relation.ABOVE):
            return self._fork([Option((condition,)), Option((~condition,))]) == 0
        equal = condition.relation is Relation.EQUAL
        if condition.slack.continuous:
            return not equal
        ways = [
            Condition(condition.slack, Relation.EQUAL),
            Condition(condition.slack, Relation.ABOVE),
            Condition(-condition.slack, Relation.ABOVE),
        ]
        return (self._fork([Option((way,)) for way in ways]) == 0) is equal

    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        return self._fork([_being_first_extreme(values, index, largest) for index in range(len(values))])

    def _fork(self, options: Sequence[Option | None]) -> int:
        """The index of the option to go with; None marks one that the constants already rule out."""
        if None not in options:
            return self._take(tuple(options))  # type: ignore[arg-type]
        numbered = [(index, option) for index, option in enumerate(options) if option is not None]
        return numbered[self._take(tuple(option for _, option in numbered))][0]

    def _take(self, options: tuple[Option, ...]) -> int:
        """The index of the option to go with."""
        expected = self._expected()
        if expected is None:
            taken = self._new_fork(options)
        elif (
            isinstance(expected, Fork)
            and len(expected.options) == len(options)
            and expected.options[expected.taken].same(options[expected.taken])
        ):
            taken = expected.taken
            self.steps.append(expected)
        else:
            self._disagree(_fork_text(options), expected)
        if not self.steps[-1].implied:  # type: ignore[union-attr]
            self.conditions += options[taken].conditions
        self.forked += 1
        return taken

    def _new_fork(self, options: tuple[Option, ...]) -> int:
        possible = self._possible(options)
        if not possible:
            raise RuntimeError("no way is open at a fork; the exploration lost track of its conditions")
        if self.forked >= MAX_FORKS:
            self._stop(
                TooManyPaths(
                    f"{here()}: one run met {MAX_FORKS} forks without an end; bound the loop (for … in range(…)), "
                    f"or use an engine that samples"
                )
            )
        site = here()
        for other in reversed(possible[1:]):
            self.postponed.append((*self.steps, Fork(options, other, site)))
        self.steps.append(Fork(options, possible[0], site, implied=len(possible) == 1))
        return possible[0]

    def _possible(self, options: tuple[Option, ...]) -> list[int]:
        possible: list[int] = []
        for index, option in enumerate(options):
            last_resort = index == len(options) - 1 and not possible  # the options cover everything
            if option.weight and (last_resort or has_room(self.conditions, option.conditions)):
                possible.append(index)
        return possible

    # ----------------------------------------------------------------------------------------------- replays

    def _expected(self) -> Step | None:
        """The step that the mechanism took here when it was run before; None past these."""
        return self.given[len(self.steps)] if len(self.steps) < len(self.given) else None

    def _disagree(self, now: str, before: Step) -> NoReturn:
        then = f"drew {before.distribution}" if isinstance(before, Noise) else _fork_text(before.options)
        self._stop(
            Nondeterministic(
                f"{here()}: run again on the same noise, it {now}, where it {then} before; "
                f"it must depend on rng, data and arguments alone (no global state, clock or randomness of its own)"
            )
        )

    def refuse(self, what: str) -> NoReturn:
        self._stop(
            NotAffine(
                f"{here()}: {what}; keep to sums, scaling by plain numbers and comparisons, "
                f"or use an engine that samples"
            )
        )

    def _stop(self, error: VeridpError) -> NoReturn:
        self.error = error
        raise _Stop


def _being_first_extreme(values: Sequence[Affine | Number], index: int, largest: bool) -> Option | None:
    """The option that this value is the first extreme: beyond all before it, and at least as far as all after."""
    conditions = []
    for other, value in enumerate(values):
        if other == index:
            continue
        ahead = _difference(values[index], value) if largest else _difference(value, values[index])
        strict = other < index
        if isinstance(ahead, Affine):
            conditions.append(Condition(ahead, Relation.ABOVE if strict else Relation.AT_LEAST))
        elif ahead < 0 or (strict and ahead == 0):
            return None
    return Option(tuple(conditions), label=f"entry {index} is the {'largest' if largest else 'smallest'}")


def _difference(first: Affine | Number, second: Affine | Number) -> Affine | Number:
    if isinstance(first, Affine):
        return first - second  # type: ignore[no-any-return]
    return second.__rsub__(first) if isinstance(second, Affine) else affine(first - second, {})


def _fork_text(options: Sequence[Option]) -> str:
    option = options[0]
    asked = " and ".join(condition.text() for condition in option.conditions)
    return f"asked whether {asked}" if asked else f"had to {option.label}"


def _follow(run: _Run, name: str, function: Callable[..., Any], data: Any, defer: bool) -> Path:
    """The path of one run."""
    token = RUN.set(run)
    try:
        output = map_leaves(lambda leaf: leaf, function(run, _copied(data)))
        if not defer:
            output = map_leaves(settle, output)
    except _Stop:
        output = None
    except (Exception, SystemExit) as error:
        if run.error is None:
            raise MechanismFailed(
                f"{raised_at(error.__traceback__)}: {name} raised {type(error).__name__}: {error}"
            ) from error
    finally:
        RUN.reset(token)
    if run.error is not None:  # also where user code swallowed the stop
        raise run.error
    if len(run.steps) < len(run.given):
        raise Nondeterministic(f"{name}, run again on the same noise, ended before its earlier run did")
    return Path(tuple(run.steps), output)


def _check_again(path: Path, name: str, function: Callable[..., Any], data: Any, defer: bool) -> None:
    """Run the first path once more: state that leaks into an output shows here, where no fork depends on it."""
    again = _follow(_Run(path.steps), name, function, data, defer)
    if len(again.steps) != len(path.steps) or not _same_output(path.output, again.output):
        raise Nondeterministic(
            f"{name}, run twice on the same noise, returned {output_text(path.output)} and then "
            f"{output_text(again.output)}; it must depend on rng, data and arguments alone"
        )


def _same_output(first: Any, second: Any) -> bool:
    mine, theirs = leaves(first), leaves(second)
    return len(mine) == len(theirs) and all(map(_same_leaf, mine, theirs))


def _same_leaf(first: Any, second: Any) -> bool:
    if isinstance(first, Symbolic) or isinstance(second, Symbolic):
        return type(first) is type(second) and str(first) == str(second)
    return bool(first == second) or (first != first and second != second)


def _copied(data: Any) -> Any:
    """Data of its own for each run, so that a mechanism that changes its input meets it unchanged."""
    return data.copy() if isinstance(data, np.ndarray) else copy.deepcopy(data)


def _global_randomness() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest
