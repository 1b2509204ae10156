"""A looping mechanism as a finite system of states and steps, the same for every size.

A state is what the local variables say before a step: constants as they are, numbers that carry noise or data as
symbols for any real number. A step is one way through the loop's body: what it draws, the conditions, what it adds to
the output, and how it changes the variables. Both are read off runs on a few queries; that later steps are the same is
certain because nothing but the variables passes from step to step (see `loop`), and that no way is missing because the
conditions of the steps cover everything, whatever the symbols are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from veridp.engines.prove.convex import are_disjoint, cover_everything
from veridp.engines.prove.events import check_noise
from veridp.engines.prove.induction.loop import PLAIN_TYPES, Loop, Mark, loop_of, marked_paths
from veridp.errors import NotInductive
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine, Condition, affine
from veridp.kernel.output import NUMERIC, Raised, leaf_text
from veridp.kernel.path import Fork, Path, entries_of, outline_of
from veridp.kernel.returned import constant
from veridp.kernel.symbols import Noise, Symbol, Unknown
from veridp.mechanism import Mechanism
from veridp.numerics.rational import echelon

QUERY = Unknown("the query")  # no variable has such a name


class _Open(enum.Enum):
    """Stands for any number in a state; the same object in every process."""

    SYMBOL = "any number"


SYMBOL = _Open.SYMBOL
State = tuple[tuple[str, str | _Open], ...]  # names with their constants as text, or with SYMBOL


@dataclass(frozen=True, eq=False)
class LoopStep:
    """One way through the body (or to the start, or from the end): from a state to the next, or to the end."""

    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]
    released: tuple[Affine, ...]  # numbers that go into the output
    output: tuple[str, ...]  # the text of what goes into the output, NUMERIC for each of these numbers
    target: State | None
    updates: Mapping[str, Affine | Number]  # of the target's symbols

    @property
    def key(self) -> object:
        """What tells it from other steps."""
        return (
            tuple((noise.index, noise.distribution) for noise in self.noises),
            frozenset((c.relation, _expression(c.slack)) for c in self.conditions),
            tuple(_expression(number) for number in self.released),
            self.output,
            self.target,
            tuple(sorted((name, _expression(value)) for name, value in self.updates.items())),
        )


def _expression(value: Affine | Number) -> object:
    if not isinstance(value, Affine):
        return value, ()
    return value.constant, frozenset((s.name, c) for s, c in value.terms.items())


@dataclass(eq=False)
class LoopSystem:
    """The states, and the steps that lead from each: into the loop, through it, and out of it when the queries end."""

    period: int  # steps are alike only if their numbers are, modulo this
    entries: dict[object, LoopStep] = field(default_factory=dict)
    steps: dict[State, dict[object, LoopStep]] = field(default_factory=dict)
    exits: dict[State, dict[object, LoopStep]] = field(default_factory=dict)


def system_of(mechanism: Mechanism, size: int = 4) -> LoopSystem:
    """The system of a mechanism that is a loop over its queries; NotInductive with the reason if it is none."""
    loop = loop_of(mechanism)
    size = max(size, 2 * loop.period + 1)
    system = LoopSystem(loop.period)
    seen: dict[tuple[State, int, int, bool], set[object]] = {}
    forms: set[object] = set()
    for count in range(size + 1):
        for path, marks in marked_paths(mechanism, loop, count):
            forms |= _forms(path.output)
            if len(forms) > 1:
                raise NotInductive(
                    f"{mechanism.name} nests its outputs in several ways, which the steps do not determine"
                )
            check_noise([path])
            if isinstance(path.output, Raised):
                raise NotInductive(f"{mechanism.name} {path.output} on some path")
            if not marks:
                raise NotInductive(f"{mechanism.name} may end before its loop begins")
            entry = _segment(path, None, marks[0], loop, 0)
            system.entries.setdefault(entry.key, entry)
            for number, mark in enumerate(marks):
                following = marks[number + 1] if number + 1 < len(marks) else None
                step = _segment(path, mark, following, loop, number + 1)
                state, ended = _state(mark, loop, number), number == count
                (system.exits if ended else system.steps).setdefault(state, {}).setdefault(step.key, step)
                seen.setdefault((state, count, number, ended), set()).add(step.key)
    _check_alike(system, seen, mechanism.name)
    return system


def _forms(output: Any) -> set[object]:
    """How the output is nested, as far as the list of its leaves does not tell: the form of each of its entries."""
    tree = outline_of(output).outline
    if not isinstance(tree, tuple):
        return {"no list"}
    return {(type(tree), branch) for branch in tree}


def _check_alike(system: LoopSystem, seen: Mapping[tuple[State, int, int, bool], set[object]], name: str) -> None:
    """Every state must lead on in the same ways wherever it occurs, in all ways there are, and out again."""
    for (state, *_, ended), keys in seen.items():
        if keys != set((system.exits if ended else system.steps)[state]):
            raise NotInductive(f"the steps of {name} are not all alike")
    for state in {state for state, *_ in seen}:
        if state not in system.steps or state not in system.exits:
            raise NotInductive(f"{name} keeps reaching new states, such as {_text_of(state)}")
        for ways in (system.steps[state], system.exits[state]):
            conditions = [step.conditions for step in ways.values()]
            if not cover_everything(conditions):
                raise NotInductive(f"from {_text_of(state)}, {name} may take paths that a few queries do not show")
            if not are_disjoint(conditions):
                raise NotInductive(f"the behaviour of {name} at {_text_of(state)} depends on more than its state")


def _state(mark: Mark, loop: Loop, number: int) -> State:
    values = [(name, SYMBOL if isinstance(v, Affine) else _constant(name, v)) for name, v in sorted(mark.local.items())]
    return (*values, ("step modulo", str(number % loop.period))) if loop.period > 1 else tuple(values)


def _constant(name: str, value: object) -> str:
    """The value as text, so that what code can tell apart is not one state: 1, 1.0 and True, 0.0 and -0.0."""
    if type(value) not in PLAIN_TYPES:
        raise NotInductive(f"{name} is a {type(value).__name__}, which induction cannot follow from step to step")
    return f"{float(value)!r}, {value.rational}" if type(value) is Written else repr(value)


def _text_of(state: State) -> str:
    """The state, as messages have it."""
    return ", ".join(f"{name} {value.value if isinstance(value, _Open) else f'= {value}'}" for name, value in state)


# ------------------------------------------------------------------------------------------------------ segments


def _segment(path: Path, before: Mark | None, after: Mark | None, loop: Loop, number: int) -> LoopStep:
    """What happened between two marks, in terms of the state at the first."""
    first = 0 if before is None else before.steps
    last = len(path.steps) if after is None else after.steps
    part = path.steps[first:last]
    drawn = [step for step in part if isinstance(step, Noise)]
    local = _Local({} if before is None else before.local, drawn, number - 1)
    conditions = [c for step in part if isinstance(step, Fork) for c in step.option.conditions]
    if any(isinstance(step, Fork) and step.option.weight != 1 for step in part):
        raise NotInductive("a step makes a finite random choice, for which there is no rule yet")
    target = None if after is None else _state(after, loop, number)
    updates = {} if after is None else {n: local.of(v) for n, v in after.local.items() if isinstance(v, Affine)}
    released = _released(path, before, after, loop)
    numbers = [local.of(value) for value in released if isinstance(value, Affine)]
    return LoopStep(
        tuple(local.noises.values()),
        tuple(c for c in (local.condition(condition) for condition in conditions) if c is not None),
        tuple(number for number in numbers if isinstance(number, Affine)),
        tuple(_text(value) for value in released),
        target,
        updates,
    )


class _Local:
    """Rewrites expressions of a run in terms of the state before a step, its query and its own noise."""

    def __init__(self, state: Mapping[str, Any], drawn: Sequence[Noise], number: int) -> None:
        self.query = Unknown(f"data[{number}]")
        self.noises = {noise: Noise(k, noise.distribution, noise.site) for k, noise in enumerate(drawn)}
        self.basis = {name: value for name, value in sorted(state.items()) if isinstance(value, Affine)}

    def of(self, value: Affine | Number) -> Affine | Number:
        if not isinstance(value, Affine):
            return value
        terms: dict[Symbol, Number] = {}
        old: dict[Symbol, Fraction] = {}
        for symbol, coefficient in value.terms.items():
            if symbol == self.query:
                terms[QUERY] = coefficient
            elif isinstance(symbol, Noise) and symbol in self.noises:
                terms[self.noises[symbol]] = coefficient
            else:
                old[symbol] = Fraction(coefficient)
        constant = Fraction(value.constant)
        for name, factor in self._combination(old).items():
            terms[Unknown(name)] = factor
            constant -= factor * self.basis[name].constant
        return affine(constant, {s: c for s, c in terms.items() if c})

    def _combination(self, old: dict[Symbol, Fraction]) -> dict[str, Fraction]:
        """How the state's symbols make up what is older than this step."""
        vectors = {name: expression.terms for name, expression in self.basis.items()}
        symbols = list(dict.fromkeys(symbol for terms in (*vectors.values(), old) for symbol in terms))
        found = echelon([[terms.get(symbol, 0) for terms in (*vectors.values(), old)] for symbol in symbols])
        for k, name in enumerate(vectors):  # each is a pivot just if no variable follows from those before it
            if k not in found.pivots:
                raise NotInductive(f"{name} is determined by other variables; remove it")
        if len(found.pivots) > len(vectors):
            raise NotInductive("a step uses something that is not in its local variables")
        return {name: row[-1] for name, row in zip(vectors, found.rows, strict=True) if row[-1]}

    def condition(self, condition: Condition) -> Condition | None:
        slack = self.of(condition.slack)
        return Condition(slack, condition.relation) if isinstance(slack, Affine) else None


def _text(value: Any) -> str:
    """What goes into the output, as the text of a template has it."""
    return NUMERIC if isinstance(value, Affine) else leaf_text(constant(value))


def _released(path: Path, before: Mark | None, after: Mark | None, loop: Loop) -> list[Any]:
    """What this part of the run adds to the output."""
    if not loop.collecting:
        return entries_of(path.output) if after is None else []
    entries = entries_of(path.output)
    start = 0 if before is None else sum(before.collected.values())
    return entries[start : len(entries) if after is None else sum(after.collected.values())]
