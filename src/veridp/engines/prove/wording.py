"""Alignments in words that a person can follow."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from fractions import Fraction

from veridp.engines.prove.events import NoiseEvent
from veridp.engines.prove.shifts import Shift
from veridp.kernel.symbols import Noise
from veridp.kernel.wording import number_text


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
