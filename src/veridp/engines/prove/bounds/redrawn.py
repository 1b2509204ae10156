"""Proofs for a number that is drawn again until it lies in an interval, as results are that must be plausible.

How often the loop retries depends on the data then, and what is released costs more than its noise alone, or less.
`veridp_check.bounds.redrawn` has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.engines.prove.alignment.proof import Proof
from veridp.engines.prove.cases import interval_of, interval_text
from veridp.engines.prove.certificate import decimal_above, header, noise_document
from veridp.engines.prove.events import rational_arguments, replayed
from veridp.engines.prove.explanation import Blame
from veridp.engines.prove.regions import between
from veridp.errors import MechanismFailed, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.loops import Loops
from veridp.kernel.flow.retries import ends_of
from veridp.kernel.noise import Laplace
from veridp.kernel.path import Again, Path
from veridp.kernel.symbols import Noise, Relation, Unknown
from veridp.mechanism import Mechanism
from veridp_check.bounds.redrawn import RedrawnCertificate, read_redrawn

LINE = (-math.inf, math.inf)
MAX_PATHS = 64  # of a mechanism that releases one number
Ends = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True)
class RedrawnNumber:
    """What is released: the noise that is added, what it is added to, and where the sum has to lie."""

    noise: Noise
    value: Affine
    ends: Ends


@dataclass(frozen=True, eq=False)
class RedrawnProof(Proof):
    """The ε of a number that is drawn again until it lies in an interval."""

    number: RedrawnNumber

    @property
    def certificate(self) -> dict[str, Any]:
        return _document(self.mechanism, self.size, self.number, decimal_above(self.epsilon))

    @property
    def restriction(self) -> str:
        return interval_text(self.mechanism, summed=True)

    @property
    def extent(self) -> str:
        return f"one number, drawn again until it is {_within(self.number.ends)}"

    @property
    def explained(self) -> str:
        return (
            f"{self.number.value.text()} + {self.number.noise.distribution.kind} noise is drawn again until it is "
            f"{_within(self.number.ends)}: a change of the data moves the noise, and how often it is accepted"
        )

    @property
    def moves(self) -> list[list[float]]:
        return []

    @property
    def blame(self) -> Blame | None:
        site = self.number.noise.site
        return Blame("output", self.explained, site.file, site.line, self.epsilon) if self.epsilon else None


def _within(ends: Ends) -> str:
    low, high = (None if end is None else f"{float(end):g}" for end in ends)
    if low is None or high is None:
        return f"at least {low}" if high is None else f"at most {high}"
    return f"between {low} and {high}"


def prove_redrawn(mechanism: Mechanism, size: int, data: Any) -> RedrawnProof | None:
    """A proof for all neighbours, from the paths on open data; None where it is no such mechanism.

    Plain runs agreed with its paths, else ExplorationDisagrees is raised.
    """
    if Loops.of(mechanism.bound()) is None:
        return None
    try:
        paths = explore(rational_arguments(mechanism), data, max_paths=MAX_PATHS, retries=True)
    except (NotExplorable, MechanismFailed):
        return None
    ends = interval_of(mechanism, summed=True)
    number = _redrawn(paths if ends is None else between(*ends, paths))
    if number is None:
        return None
    stated: Any = read_redrawn(_document(mechanism, size, number, Fraction(0)))
    if stated.move is None:
        return None
    proof = RedrawnProof(mechanism, size, _epsilon(number, stated), None, number)
    at = [[float(end)] * size for end in ends or (Fraction(0),)]
    return replace(proof, replayed=replayed(mechanism, data, paths, at))


def _document(mechanism: Mechanism, size: int, number: RedrawnNumber, epsilon: Fraction) -> dict[str, Any]:
    low, high = (None if end is None else str(end) for end in number.ends)
    noise = Noise(0, number.noise.distribution, number.noise.site)
    return {
        **header("redrawn", mechanism, size, interval_of(mechanism, summed=True), epsilon),
        "noises": [noise_document(noise)],
        "data": {_entry(symbol): str(Fraction(c)) for symbol, c in number.value.terms.items()},
        "constant": str(Fraction(number.value.constant)),
        "low": low,
        "high": high,
    }


def _epsilon(number: RedrawnNumber, stated: RedrawnCertificate) -> float:
    """|x - x'|/scale + ln C(x')/C(x) at the worse end of what x may be, in floats."""
    noise, move = number.noise.distribution, float(stated.move or 0)
    low, high = (side if end is None else float(end) for side, end in zip(LINE, number.ends, strict=True))
    starts = [(float(end), side) for end, side in zip(stated.span, (move, -move), strict=True) if end is not None]
    growth = [0.0]
    for x, step in starts:
        there, here = (noise.log_between(np.array([low - at]), np.array([high - at]))[0] for at in (x + step, x))
        growth.append(float(there - here))
    return move / noise.width + max(growth)


# ---------------------------------------------------------------------------------------------------------- the paths


def _redrawn(paths: Sequence[Path]) -> RedrawnNumber | None:
    """What the paths release, if they draw x + Laplace noise until it lies in an interval, and nothing else.

    All that they ask is how x + a draw of its own stands to a constant: so how rounds are rejected may be what it
    likes, as long as each that comes back may end. Of what is accepted, the density is in proportion to that of x + Z
    on the interval, and it ends with probability 1.
    """
    ended = [path for path in paths if not isinstance(path.output, Again)]
    found = {key: number for path in ended for key, number in [_released(path)]}
    if len(found) != 1 or None in found or len(ended) == len(paths):
        return None
    (number,) = found.values()
    if number is None or number.ends == (None, None):
        return None
    if any(path.weight != 1 or not _asks_sums(path, number) for path in paths):
        return None
    heads = [(path.output.place, path) for path in paths if isinstance(path.output, Again)]
    if not all(any(_begin_alike(path, other, place) for other in ended) for place, path in heads):
        return None
    return number


def _released(path: Path) -> tuple[object, RedrawnNumber | None]:
    """The number that the path releases, and a key that is the same for equal ones."""
    output = path.output
    noises = [symbol for symbol in output.terms if isinstance(symbol, Noise)] if isinstance(output, Affine) else []
    if len(noises) != 1 or output.functions or output.terms[noises[0]] != 1 or output.stands_for is int:
        return None, None
    value = output - Affine(0, {noises[0]: 1})
    if not isinstance(value, Affine) or not value.terms:
        return None, None
    if not all(isinstance(symbol, Unknown) and _entry(symbol) for symbol in value.terms):
        return None, None
    asked = [_on_noise(c, noises[0], value) for c in path.conditions if noises[0] in c.slack.terms]
    kept = [condition for condition in asked if condition is not None]
    ends = ends_of(noises[0], kept) if len(kept) == len(asked) else (None, None)
    key = frozenset(value.terms.items()), value.constant, noises[0].distribution, ends
    return key, RedrawnNumber(noises[0], value, ends)


def _on_noise(condition: Condition, noise: Noise, value: Affine) -> Condition | None:
    """The condition on value + noise, as one on the noise alone; None where it is none."""
    factor = condition.slack.terms.get(noise, 0)
    rest = condition.slack - (value + Affine(0, {noise: 1})) * factor
    left = rest if isinstance(rest, Affine) else Affine(rest, {})
    if not factor or left.terms or condition.relation not in (Relation.AT_LEAST, Relation.ABOVE):
        return None
    return Condition(Affine(left.constant, {noise: factor}), condition.relation)


def _asks_sums(path: Path, number: RedrawnNumber) -> bool:
    """Whether all its draws are alike, and all that it asks is where the sum with one of them lies."""
    law = number.noise.distribution
    if not isinstance(law, Laplace) or any(noise.distribution != law for noise in path.noises):
        return False
    for condition in path.conditions:
        drawn = [symbol for symbol in condition.slack.terms if isinstance(symbol, Noise)]
        if len(drawn) != 1 or _on_noise(condition, drawn[0], number.value) is None:
            return False
    return True


def _begin_alike(path: Path, other: Path, place: int) -> bool:
    """Whether both go the same way for so many steps."""
    taken = [[fork.taken for fork in Path(each.steps[:place], None).forks] for each in (path, other)]
    return len(other.steps) >= place and taken[0] == taken[1]


def _entry(symbol: Any) -> str:
    """The place of an open entry of the data, as certificates write it; nothing for another open value."""
    name = symbol.name
    return "0" if name == "data" else name[5:-1] if name.startswith("data[") else ""
