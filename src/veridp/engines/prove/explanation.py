"""Proofs in words: what an alignment does, and where it pays most or fails."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from veridp.adjacency import Corner, Hull
from veridp.engines.prove.alignment.shifts import Shift, ShiftProblem, cheapest_shifts, program_at, requirements_of
from veridp.engines.prove.events import NoiseEvent
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise, number_text
from veridp.mechanism import Mechanism
from veridp.numerics.linear import Infeasible, solve

# ------------------------------------------------------------------------------------------------------------- wording
# Alignments in words that a person can follow.


def alignment_text(event: NoiseEvent, corner: Sequence[float], shift: Shift) -> str:
    """How the noise must shift for a run on D' to give the same output as on D, and what that costs."""
    moved = ", ".join(f"{value:+g}" for value in corner)
    where = f"the same output {event.output} when the data move by ({moved})"
    if shift.moves is None:
        return f"no shift of the noise was found that gives {where}"
    moves = [(noise, move) for noise, move in zip(event.noises, shift.moves, strict=True) if move]
    if not moves:
        return f"to give {where}, no noise needs to shift; that costs ε = 0"
    steps = " and ".join(moved_text(noise, move) for noise, move in moves)
    costs, total = " + ".join(_cost(noise, move) for noise, move in moves), number_text(Fraction(shift.cost))
    return f"to give {where}, {steps}; that costs ε = {total if costs == total else f'{costs} = {total}'}"


def moved_text(noise: Noise, move: Fraction) -> str:
    """By how much the noise must be higher or lower."""
    return f"{noise_name(noise)} must be {number_text(abs(move))} {'higher' if move > 0 else 'lower'}"


def _cost(noise: Noise, move: Fraction) -> str:
    price = noise.distribution.price
    if not price.convex:
        return number_text(price.of(move))
    unit = (price.up if move > 0 else price.down) or Fraction(0)
    size = "" if abs(move) == 1 else f"{number_text(abs(move))}·"
    return f"{size}{number_text(unit)}"


def noise_name(noise: Noise) -> str:
    """`n0, the noise of noisy_threshold` where its line assigns to a name, else with the line alone."""
    target = _assigned(linecache.getline(noise.site.file, noise.site.line))
    return f"{noise.name} (the noise of {target})" if target else f"{noise.name} (drawn at {noise.site})"


def _assigned(line: str) -> str | None:
    """The name that a line of code assigns to, if it is a plain assignment."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


# --------------------------------------------------------------------------------------------------------------- blame
# The condition or released number that causes a proof's cost or failure, with its line in the author's code.
#
# The dual of the linear program at the worst event and corner gives what each requirement adds to the cost; if there
# is
# no shift at all, its Farkas ray gives requirements that no shift meets together.


COST_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Blame:
    """What costs most of a proof's ε, or keeps it from being finite, and where that is in the code.

    `kind` says whether it is a condition whose result is hard to keep, or a number of the output that leaks. `cost`
    is its part of ε, or for a number what would be saved without it; inf if it is the reason that there is no proof. A
    line of 0 is unknown.
    """

    kind: Literal["condition", "output"]
    sentence: str
    file: str
    line: int
    cost: float

    def __str__(self) -> str:
        return f"{Site(self.file, self.line)}: {self.sentence}"


def blame_of(mechanism: Mechanism, event: NoiseEvent, corner: Corner, shift: Shift) -> Blame | None:
    """What causes the cost of the event at the corner; None if it costs nothing.

    A number is to blame if without it the event would cost less: the author can leave it out, or give it noise of its
    own. Else it is the condition (all those asked on one line together) with the largest part in the cost.
    """
    if shift.cost == 0:
        return None
    worst = _Worst(event, corner, float(shift.cost), mechanism)
    leak = worst.leaking_number()
    return worst.blame_number(*leak) if leak is not None else worst.blame_condition(shift)


@dataclass(frozen=True)
class _Worst:
    event: NoiseEvent
    corner: Corner
    cost: float
    mechanism: Mechanism

    def _task(self, left_out: Sequence[int] = ()) -> ShiftProblem:
        kept = [r for k, r in enumerate(requirements_of(self.event)) if k not in left_out]
        return ShiftProblem(self.event.noises, kept, Hull((self.corner,)))

    def _least(self, left_out: Sequence[int]) -> float:
        (shift,) = cheapest_shifts([(self._task(left_out), self.corner)])
        return float(shift.cost)

    def _saved(self, left_out: Sequence[int]) -> float:
        """By how much the event would be cheaper without these requirements."""
        least = self._least(left_out)
        return 0.0 if least == self.cost else self.cost - least

    # ------------------------------------------------------------------------------------------------- numbers

    def leaking_number(self) -> tuple[int, float] | None:
        """The number without which the event would cost least, and what that saves; None if numbers cost nothing."""
        first, count = len(self.event.conditions), len(self.event.numbers)
        everything = list(range(first, first + count))
        saved = self._saved(everything) if count else 0.0
        if not saved > COST_TOLERANCE * min(self.cost, 1.0):
            return None
        alone = [(self._saved([first + k]), k) for k in range(count)]
        most = max(value for value, _ in alone)
        if most > COST_TOLERANCE:
            return next(k for value, k in alone if value == most), most
        return self._dearest_number(), saved  # several, none of which helps alone

    def _dearest_number(self) -> int:
        """The number that the dual charges most for."""
        parts = self._parts()[len(self.event.conditions) :]
        return max(range(len(parts)), key=lambda k: parts[k])

    def blame_number(self, which: int, saved: float) -> Blame:
        number = self.event.numbers[which]
        noises = [symbol for symbol in number.terms if isinstance(symbol, Noise)]
        site = max(noises, key=lambda noise: noise.index).site if noises else return_site(self.mechanism)
        what = f"the released number {number.text()}"
        if not noises:
            sentence = f"{what} has no noise to hide a change of the data"
        elif math.isinf(saved):
            sentence = f"no shift of the noise keeps {what} the same{self._where()}{_reasons(noises)}"
        else:
            moved = number_text(requirements_of(self.event)[len(self.event.conditions) + which].at(self.corner))
            sentence = f"{what} shifts by {moved}{self._where()}: it costs {saved:.6g} of ε = {self.cost:.6g}"
        return Blame("output", sentence, site.file, site.line, saved)

    # ---------------------------------------------------------------------------------------------- conditions

    def _parts(self) -> list[float]:
        """What each requirement adds to the cost: its dual price times what it asks for."""
        task = self._task()
        (answer,) = solve([program_at(task, self.corner, priced=math.isfinite(self.cost))])
        priced = zip(task.requirements, answer.prices, strict=True)
        if isinstance(answer, Infeasible):
            return [abs(float(price)) for _, price in priced]
        return [-float(price * each.at(self.corner)) for each, price in priced]

    def blame_condition(self, shift: Shift) -> Blame:
        parts = self._parts()[: len(self.event.conditions)]
        by_line: dict[Site, float] = {}
        for site, part in zip(self.event.sites, parts, strict=True):
            by_line[site] = by_line.get(site, 0.0) + part
        site = max(by_line, key=lambda site: by_line[site])
        chosen = [k for k, place in enumerate(self.event.sites) if place == site and parts[k] > COST_TOLERANCE]
        asked = [self.event.conditions[k] for k in chosen]
        noises = [n for n in self.event.noises if any(n in condition.slack.terms for condition in asked)]
        if math.isinf(self.cost):
            every = [self.event.conditions[k] for k, part in enumerate(parts) if part > COST_TOLERANCE]
            texts = " and ".join(condition.text() for condition in every)
            together = "cannot both stay true" if len(every) == 2 else "cannot stay true"
            sentence = f"{texts} {together}{self._where()}, whatever the shift of the noise{_reasons(noises)}"
            return Blame("condition", sentence, site.file, site.line, math.inf)
        moves = dict(zip(self.event.noises, shift.moves or (), strict=True))
        steps = ", ".join(moved_text(noise, moves[noise]) for noise in noises if moves[noise])
        what = f"{asked[0].text()} true" if len(asked) == 1 else f"{len(asked)} comparisons the same"
        sentence = f"keeping {what}{self._where()} costs {by_line[site]:.6g} of ε = {self.cost:.6g}: {steps}"
        return Blame("condition", sentence, site.file, site.line, by_line[site])

    def _where(self) -> str:
        return f" when the data move by ({', '.join(f'{float(x):+g}' for x in self.corner)})"


def _reasons(noises: Sequence[Noise]) -> str:
    """Why noise that is there does not help, where its kind is why."""
    found = []
    for noise in noises:
        price = noise.distribution.price
        reason = price.why_not if None in (price.up, price.down) else None
        if reason is not None and reason not in found:
            found.append(reason)
    return f" ({'; '.join(found)})" if found else ""


def return_site(mechanism: Mechanism) -> Site:
    """The first line that returns something, or else where the function begins."""
    function = inspect.unwrap(mechanism.function)
    code = getattr(function, "__code__", None)
    if code is None:
        return Site("<unknown>", 0)
    try:
        lines, start = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return Site(code.co_filename, code.co_firstlineno)
    returns = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    return Site(code.co_filename, start + min(returns, default=1) - 1)
