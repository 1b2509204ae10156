"""Data that a mechanism sees through formulas: a variance, a mean of logarithms, a root of a sum of squares.

Part of the checker. Each node of a formula is a combination of numbers of the data and of nodes before it, a product,
or a function of one node. For each node two intervals are computed: where its value lies, for all data of the domain;
and by how much the value changes between neighbours, in one direction. Rules:

- a polynomial, written out, is bounded as in `veridp_check/polynomials.py`, and else a sum adds up;
- a'b' - ab = a'(b' - b) + b(a' - a), where a' and b lie in the intervals of values;
- let f rise on [l, h], and be concave there. Of all steps of length d, it rises most over the first one, as
  f(x + d) - f(x) falls in x; a shorter step is part of one. So it changes by at most f(l + d) - f(l). If f is convex,
  it is the last step, f(h) - f(h - d). If f falls, -f rises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veridp_check.document import MOVES, CertificateFlaw, DocumentNode, coefficients_in, text_of
from veridp_check.enclosures import exp_between, log_above, root_below
from veridp_check.polynomials import Bounds, Polynomial, changes, degree, plus, range_of, times

Vector = tuple[Fraction, ...]
MAX_DEGREE = 16  # of a polynomial that is written out
MAX_TERMS = 300
MAX_NODES = 1000
MAX_ENTRIES = 32  # of the data
LARGEST_EXPONENT = 700  # past it, floats have no exponential
ZERO, ONE = Fraction(0), Fraction(1)
SUM, PRODUCT = "sum", "product"
ADJACENCIES = ("replace", "any", *MOVES)  # under which it is known how far a formula moves


# ----------------------------------------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class Shape:
    """A function of one number: rationals just below and above its values, and how it bends where `has` is true."""

    between: Callable[[Fraction], Bounds]
    rises: bool
    concave: bool
    has: Callable[[Bounds], bool]

    def range(self, bounds: Bounds) -> Bounds:
        low, high = bounds if self.rises else bounds[::-1]
        return self.between(low)[0], self.between(high)[1]

    def most(self, bounds: Bounds, step: Fraction) -> Fraction:
        """By how much it changes at most, over a step of at most this length."""
        low, high = bounds
        step = min(step, high - low)
        first, last = (low, low + step) if self.concave == self.rises else (high - step, high)
        ends = (last, first) if self.rises else (first, last)
        return max(self.between(ends[0])[1] - self.between(ends[1])[0], ZERO)


def _log_of(base: int) -> Callable[[Fraction], Bounds]:
    def between(x: Fraction) -> Bounds:
        unit = _log_between(Fraction(base))
        corners = [a / b for a in _log_between(x) for b in unit]
        return min(corners), max(corners)

    return between


def _log_between(x: Fraction) -> Bounds:
    """Just below and just above ln x: e^(what is just above, less a little) is below x."""
    if x == 1:
        return ZERO, ZERO
    if x < 1:
        low, high = _log_between(1 / x)
        return -high, -low
    above = log_above(x)
    below = above * (1 - Fraction(1, 1 << 120))
    if exp_between(below)[1] > x:
        raise CertificateFlaw("/records", "a logarithm is not known well enough")
    return below, above


def _root_between(x: Fraction) -> Bounds:
    if not x:
        return ZERO, ZERO
    below = root_below(x)
    return below, below if below * below == x else below + Fraction(1, 1 << 150)


def _positive(bounds: Bounds) -> bool:
    return bounds[0] > 0


def _not_negative(bounds: Bounds) -> bool:
    return bounds[0] >= 0


def _moderate(bounds: Bounds) -> bool:
    return max(map(abs, bounds)) <= LARGEST_EXPONENT


SHAPES = {
    "exp": Shape(exp_between, rises=True, concave=False, has=_moderate),
    "log": Shape(_log_between, rises=True, concave=True, has=_positive),
    "log2": Shape(_log_of(2), rises=True, concave=True, has=_positive),
    "log10": Shape(_log_of(10), rises=True, concave=True, has=_positive),
    "sqrt": Shape(_root_between, rises=True, concave=True, has=_not_negative),
    "reciprocal": Shape(lambda x: (1 / x, 1 / x), rises=False, concave=False, has=_positive),
}


# ------------------------------------------------------------------------------------------------------------ formulas


@dataclass(frozen=True)
class FormulaNode:
    """A step of a formula: a combination of data and nodes before it, a product of nodes, or a function of one."""

    function: str
    of: tuple[int, ...] = ()
    factors: tuple[Fraction, ...] = ()  # of a combination: of the nodes
    data: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = ZERO


@dataclass(frozen=True)
class FormulaMap:
    """Values that are formulas of data of this size, each number of which is of the domain."""

    size: int
    nodes: tuple[FormulaNode, ...]
    values: tuple[int, ...]  # nodes
    domain: Bounds

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.values)

    def of(self, data: Sequence[Fraction]) -> list[Fraction]:
        """Its values at these data, up to rounding."""
        found: list[Fraction] = []
        for node in self.nodes:
            below = [found[k] for k in node.of]
            if node.function == SUM:
                own = node.constant + sum((c * data[i] for i, c in node.data), start=ZERO)
                found.append(own + sum((c * x for c, x in zip(node.factors, below, strict=True)), start=ZERO))
            elif node.function == PRODUCT:
                found.append(below[0] * below[1])
            else:
                low, high = SHAPES[node.function].between(below[0])
                found.append((low + high) / 2)
        return [found[k] for k in self.values]

    def ways(self, adjacency: str) -> list[tuple[frozenset[Vector], ...]]:
        """The vectors by whose sums, one of each set, the values of neighbours differ, in one direction."""
        if adjacency in ("linf", "monotone"):
            return [self._box([self._moves(None, adjacency)[k] for k in self.values])]
        moved = {tuple(self._moves(place, adjacency)[k] for k in self.values) for place in range(self.size)}
        return [self._box(each) for each in sorted(moved)]

    def _box(self, ends: Sequence[Bounds]) -> tuple[frozenset[Vector], ...]:
        """A box as the sum of its edges."""
        return tuple(
            frozenset(tuple(end if i == k else ZERO for i in range(self.count)) for end in each)
            for k, each in enumerate(ends)
        )

    def _moves(self, place: int | None, adjacency: str) -> dict[int, Bounds]:
        """How far the values move, and the nodes that they need, where one number of the data does, or all."""
        needed = set(self.values)
        for k in range(len(self.nodes) - 1, -1, -1):
            if k in needed and self._polynomials[k] is None:
                needed.update(self.nodes[k].of)
        found: dict[int, Bounds] = {}
        for k in sorted(needed):
            if (polynomial := self._polynomials[k]) is not None:
                found[k] = changes(polynomial, self.size, self.domain, place, MOVES.get(adjacency))
            else:
                found[k] = self._moved(self.nodes[k], found, place, adjacency)
            width = self._lies[k][1] - self._lies[k][0]
            found[k] = max(found[k][0], -width), min(found[k][1], width)
        return found

    def _moved(self, node: FormulaNode, moves: Mapping[int, Bounds], place: int | None, adjacency: str) -> Bounds:
        if node.function == SUM:
            own: Polynomial = {((i, 1),): c for i, c in node.data}
            others = (ZERO, ZERO)
            for k, factor in zip(node.of, node.factors, strict=True):
                if (polynomial := self._polynomials[k]) is None:
                    others = _added(others, _scaled(factor, moves[k]))
                else:
                    own = plus(own, polynomial, factor)
            return _added(changes(own, self.size, self.domain, place, MOVES.get(adjacency)), others)
        if node.function == PRODUCT:
            one, other = node.of
            return _added(_product(self._lies[one], moves[other]), _product(self._lies[other], moves[one]))
        shape, (argument,) = SHAPES[node.function], node.of
        down, up = (shape.most(self._lies[argument], abs(step)) for step in moves[argument])
        return (-down, up) if shape.rises else (-up, down)

    @cached_property
    def _polynomials(self) -> list[Polynomial | None]:
        """What each node is as a polynomial of the data; None where it is none, or has too many terms."""
        found: list[Polynomial | None] = []
        for node in self.nodes:
            below = [found[k] for k in node.of]
            polynomial: Polynomial | None = None
            if node.function == SUM and None not in below:
                polynomial = {(): node.constant, **{((i, 1),): c for i, c in node.data}}
                for factor, each in zip(node.factors, below, strict=True):
                    polynomial = plus(polynomial, each or {}, factor)
            elif node.function == PRODUCT and None not in below:
                one, other = (each or {} for each in below)
                if degree(one) + degree(other) <= MAX_DEGREE and len(one) * len(other) <= MAX_TERMS:
                    polynomial = times(one, other)
            found.append(polynomial)
        return found

    @cached_property
    def _lies(self) -> list[Bounds]:
        """Where each node lies, for all data of the domain."""
        found: list[Bounds] = []
        for k, (node, polynomial) in enumerate(zip(self.nodes, self._polynomials, strict=True)):
            below = [found[j] for j in node.of]
            if node.function == SUM:
                parts = [_scaled(c, self.domain) for _, c in node.data]
                parts += [_scaled(c, each) for c, each in zip(node.factors, below, strict=True)]
                lies = (node.constant, node.constant)
                for part in parts:
                    lies = _added(lies, part)
            elif node.function == PRODUCT:
                lies = _product(*below)
                if node.of[0] == node.of[1]:
                    lies = max(lies[0], ZERO), lies[1]
            else:
                shape = SHAPES[node.function]
                if not shape.has(below[0]):
                    raise CertificateFlaw(
                        f"/records/0/formulas/{k}", f"nothing is known of {node.function} from {text_of(below[0][0])}"
                    )
                lies = shape.range(below[0])
            if polynomial is not None:
                low, high = range_of(polynomial, self.domain)
                lies = max(lies[0], low), min(lies[1], high)
            found.append(lies)
        return found


def _added(one: Bounds, other: Bounds) -> Bounds:
    return one[0] + other[0], one[1] + other[1]


def _scaled(factor: Fraction, bounds: Bounds) -> Bounds:
    ends = factor * bounds[0], factor * bounds[1]
    return min(ends), max(ends)


def _product(one: Bounds, other: Bounds) -> Bounds:
    corners = [a * b for a, b in itertools.product(one, other)]
    return min(corners), max(corners)


# ------------------------------------------------------------------------------------------------------------- reading


def formulas_in(node: DocumentNode, size: int, domain: Bounds | None) -> FormulaMap:
    """The formulas in the document."""
    field = node.fields("formulas", "values")
    if domain is None:
        raise node.flaw("formulas are of numbers of a domain")
    if size > MAX_ENTRIES:
        raise node.flaw(f"there are formulas of up to {MAX_ENTRIES} numbers, not of {size}")
    entries = field["formulas"].entries()
    if len(entries) > MAX_NODES:
        raise field["formulas"].flaw(f"at most {MAX_NODES} nodes are allowed")
    nodes = tuple(_node(entry, k, size) for k, entry in enumerate(entries))
    values = tuple(entry.whole(most=len(nodes) - 1) for entry in field["values"].entries())
    return FormulaMap(size, nodes, values, domain)


def _node(node: DocumentNode, place: int, size: int) -> FormulaNode:
    function = node.mapping()["function"].one_of((SUM, PRODUCT, *SHAPES)) if "function" in node.mapping() else SUM
    if function == SUM:
        field = node.fields("function", "of", "data", "constant")
        of: Mapping[int, Fraction] = coefficients_in(field["of"], range(place), "node before here")
        data = coefficients_in(field["data"], range(size), "entry of the data")
        return FormulaNode(
            SUM, tuple(of), tuple(of.values()), tuple(sorted(data.items())), field["constant"].rational()
        )
    field = node.fields("function", "of")
    of_places = tuple(entry.whole(most=place - 1) for entry in field["of"].entries())
    wanted = 2 if function == PRODUCT else 1
    if len(of_places) != wanted:
        raise field["of"].flaw(f"{wanted} needed, not {len(of_places)}")
    return FormulaNode(function, of_places)
