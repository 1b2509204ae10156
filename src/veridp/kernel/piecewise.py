"""Functions of one record of an interval that are polynomials piece by piece: counts, clamps and powers of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.kernel.distributions import Number

MAX_POWER = 16  # of a record
MAX_PIECES = 64

Polynomial = Mapping[int, Number]  # coefficients by power, none of them 0


@dataclass(frozen=True, eq=False)
class Piece:
    """A polynomial on an interval; `ends` tells by its brackets which ends belong to that."""

    low: Number
    high: Number
    ends: str
    terms: Polynomial

    def has(self, value: Number) -> bool:
        above = self.low <= value if self.ends[0] == "[" else self.low < value
        return above and (value <= self.high if self.ends[1] == "]" else value < self.high)

    def at(self, value: Number) -> Number:
        return sum(c * value**power for power, c in self.terms.items())

    @property
    def bounds(self) -> tuple[Number, Number, str]:
        return self.low, self.high, self.ends

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and self.ends != "[]")

    @property
    def inside(self) -> Number:
        """A value of the interval."""
        return Fraction(self.low + self.high) / 2

    @property
    def range(self) -> tuple[Number, Number]:
        """Two numbers between which its values are."""
        low, high = self.terms.get(0, 0), self.terms.get(0, 0)
        for power, c in self.terms.items():
            if power:
                first, last = sorted((self.low**power, self.high**power))
                least = 0 if power % 2 == 0 and self.low < 0 < self.high else first
                low, high = low + min(c * least, c * last), high + max(c * least, c * last)
        return low, high

    def within(self, other: Piece, terms: Polynomial) -> Piece:
        """Other terms on what the two intervals have in common."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        left = all(piece.ends[0] == "[" for piece in (self, other) if piece.low == low)
        right = all(piece.ends[1] == "]" for piece in (self, other) if piece.high == high)
        return Piece(low, high, f"{'[' if left else '('}{']' if right else ')'}", terms)

    def __str__(self) -> str:
        return f"{self.ends[0]}{self.low}, {self.high}{self.ends[1]}: {dict(sorted(self.terms.items()))}"


Pieces = tuple[Piece, ...]  # which divide an interval, in order


def joined(
    first: Sequence[Piece], second: Sequence[Piece], operation: Callable[[Polynomial, Polynomial], Polynomial]
) -> Pieces:
    """What the operation makes of two functions."""
    pairs = itertools.product(first, second)
    return _simple(one.within(other, operation(one.terms, other.terms)) for one, other in pairs)


def plus(one: Polynomial, other: Polynomial) -> Polynomial:
    total = {power: one.get(power, 0) + other.get(power, 0) for power in (*one, *other)}
    return {power: c for power, c in total.items() if c}


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    total: dict[int, Number] = {}
    for (p, a), (q, b) in itertools.product(one.items(), other.items()):
        total[p + q] = total.get(p + q, 0) + a * b
    return {power: c for power, c in total.items() if c}


def chosen(slack: Sequence[Piece], holds: Callable[[Number], bool], then: Pieces, other: Pieces) -> Pieces | None:
    """`then` where the slack stands to 0 as it should, else the other; None where that is not decided by lines."""
    if any(max(piece.terms, default=0) > 1 for piece in slack):
        return None
    parts = [part for piece in slack for part in signs(piece)]
    found = [
        part.within(piece, piece.terms) for part in parts for piece in (then if holds(part.at(part.inside)) else other)
    ]
    return _simple(found)


def is_never_negative(pieces: Sequence[Piece]) -> bool:
    """Whether no value of the function is below 0, decided exactly."""
    return all(_never_falls_below(piece) for piece in pieces)


def _never_falls_below(piece: Piece) -> bool:
    if not piece.terms or piece.range[0] >= 0:
        return True
    from flint import fmpq, fmpq_poly  # takes long to load

    powers = range(max(piece.terms) + 1)
    whole = fmpq_poly([fmpq(*Fraction(piece.terms.get(power, 0)).as_integer_ratio()) for power in powers])
    simple = whole / whole.gcd(whole.derivative())  # with the same roots, each once
    chain = [simple, simple.derivative()]
    while chain[-1].degree() > 0:
        chain.append(-(chain[-2] % chain[-1]))

    def changes(x: fmpq) -> int:
        """By how much this falls between two numbers is how many roots lie between them (Sturm 1829)."""
        values = [value for value in (each(x) for each in chain) if value]
        return sum((one > 0) != (other > 0) for one, other in itertools.pairwise(values))

    pending = [tuple(fmpq(*Fraction(end).as_integer_ratio()) for end in (piece.low, piece.high))]
    while pending:
        low, high = pending.pop()
        if whole(low) < 0 or whole(high) < 0:
            return False
        middle = (low + high) / 2
        inside = changes(low) - changes(high) - (not whole(high)) if low < high else 0
        if inside > 1 or (inside == 1 and not (whole(low) and whole(high))):
            pending += [(low, middle), (middle, high)]
        elif inside == 0 and whole(middle) < 0:
            return False
    return True


def signs(piece: Piece) -> Iterator[Piece]:
    """The piece, cut where its line crosses 0."""
    slope = piece.terms.get(1, 0)
    root = -Fraction(piece.terms.get(0, 0)) / slope if slope else piece.low - 1
    if not piece.low <= root <= piece.high:
        yield piece
        return
    cuts = [(piece.low, root, f"{piece.ends[0]})"), (root, root, "[]"), (root, piece.high, f"({piece.ends[1]}")]
    for low, high, ends in cuts:
        part = piece.within(Piece(low, high, ends, {}), piece.terms)
        if not part.is_empty:
            yield part


def _simple(pieces: Iterator[Piece] | Sequence[Piece]) -> Pieces:
    """The pieces in order, those that say the same and touch in one."""
    found: list[Piece] = []
    for piece in sorted((piece for piece in pieces if not piece.is_empty), key=lambda piece: (piece.low, piece.high)):
        if found and found[-1].terms == piece.terms:
            last = found.pop()
            piece = Piece(last.low, piece.high, last.ends[0] + piece.ends[1], piece.terms)
        found.append(piece)
    return tuple(found)
