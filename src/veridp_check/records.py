"""Records of an interval: what a certificate says that a mechanism sees of them, and by how much that can differ.

Part of the checker. Records are numbers x_0, x_1, … of the domain. The events of such a certificate do not name them:
their data are *sums* over the records, the constant of the size plus a function of each record. A function is given on
cells, intervals that divide the domain, by the coefficients of the powers of the record. So neighbours differ, in these
sums, by what one record changes; and by what the functions of the other records change where the sizes differ.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add, sub

from veridp_check.document import (
    HEADER,
    MOVES,
    RECORDS,
    CertificateFlaw,
    DocumentNode,
    LinearCondition,
    LinearForm,
    Stated,
    coefficients_in,
)
from veridp_check.formulas import FormulaMap, formulas_in
from veridp_check.maps import PiecewiseMap, map_in

Vector = tuple[Fraction, ...]
Polynomial = Mapping[int, Fraction]  # coefficients by power
ENDS = ("[]", "[)", "(]", "()")  # which ends belong to a cell
MAX_POWER = 16
PARTS = 4  # of a cell in which a record adds more than a multiple of itself
MAX_SUMS = 2**16  # of vectors that are added up, one of each set
ZERO = Fraction(0)


@dataclass(frozen=True)
class RecordCell:
    """An interval of values of a record, and what the record adds to each of the sums there."""

    low: Fraction
    high: Fraction
    ends: str
    terms: tuple[Polynomial, ...]

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and self.ends != "[]")

    def has(self, value: Fraction) -> bool:
        above = self.low <= value if self.ends[0] == "[" else self.low < value
        return above and (value <= self.high if self.ends[1] == "]" else value < self.high)

    def at(self, value: Fraction) -> Vector:
        """What a record of this value adds."""
        return tuple(sum((c * value**power for power, c in each.items()), start=ZERO) for each in self.terms)

    def corners(self) -> frozenset[Vector]:
        """Vectors whose means are all that a record of the cell can add, and maybe more.

        A polynomial of degree d has on an interval values that are means of its d + 1 Bernstein coefficients. These are
        taken on parts of the cell, so that they are close to the values; where d is 1, they are those at the ends.
        """
        degree = max((power for each in self.terms for power in each), default=0)
        parts = PARTS if degree > 1 else 1
        step = (self.high - self.low) / parts
        found = set()
        for part, k in itertools.product(range(parts), range(degree + 1)):
            low, high = self.low + part * step, self.low + (part + 1) * step
            of = [_bernstein(power, degree, k, low, high) for power in range(degree + 1)]
            found.add(tuple(sum((c * of[power] for power, c in each.items()), start=ZERO) for each in self.terms))
        return frozenset(found)

    def less(self, other: RecordCell) -> RecordCell:
        """The values that both cells have, with what this one adds less what the other does."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        left, right = (
            all(cell.ends[end] in "[]" for cell in (self, other) if (cell.low, cell.high)[end] == value)
            for end, value in enumerate((low, high))
        )
        terms = [
            {power: mine.get(power, ZERO) - theirs.get(power, ZERO) for power in {**mine, **theirs}}
            for mine, theirs in zip(self.terms, other.terms, strict=True)
        ]
        kept = tuple({power: c for power, c in each.items() if c} for each in terms)
        return RecordCell(low, high, f"{'[' if left else '('}{']' if right else ')'}", kept)


def _bernstein(power: int, degree: int, k: int, low: Fraction, high: Fraction) -> Fraction:
    """The coefficient k of a power as a polynomial of this degree: its polar form where k arguments are the upper end,
    and the others the lower one, which is the mean of the products of as many of these as the power says."""
    chosen = range(max(0, power - (degree - k)), min(k, power) + 1)  # of the factors, how many are the upper end
    ways = [math.comb(k, j) * math.comb(degree - k, power - j) * high**j * low ** (power - j) for j in chosen]
    return sum(ways, start=ZERO) / math.comb(degree, power)


@dataclass(frozen=True)
class RecordSums:
    """The sums of data of one size: constants, and the cells of each record."""

    constants: Vector
    places: tuple[tuple[RecordCell, ...], ...]

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self.places)

    @property
    def count(self) -> int:
        """How many sums there are."""
        return len(self.constants)

    def of(self, data: Sequence[Fraction]) -> list[Fraction]:
        """The sums of these data."""
        added = [next(cell.at(x) for cell in cells if cell.has(x)) for x, cells in zip(data, self.places, strict=True)]
        return [sum(column) for column in zip(self.constants, *added, strict=True)]

    def of_any(self, data: Sequence[Fraction]) -> list[Fraction]:
        """The sums of any number of records, each of which adds what the last one does."""
        added = [next(cell.at(x) for cell in self.places[-1] if cell.has(x)) for x in data]
        return [sum(column) for column in zip(self.constants, *added, strict=True)]

    def ends(self) -> Iterator[tuple[Fraction, Fraction]]:
        """The least and the largest value of each sum, or more."""
        for e, constant in enumerate(self.constants):
            added = [[corner[e] for cell in cells for corner in cell.corners()] for cells in self.places]
            yield constant + sum(map(min, added)), constant + sum(map(max, added))


Way = tuple[frozenset[Vector], ...]
Seen = RecordSums | PiecewiseMap | FormulaMap  # what a mechanism sees of its data


def ways_to_differ(sums: Sequence[Seen], adjacency: str) -> list[Way]:
    """How the sums of neighbours can differ, in one direction: by means of what vectors, one of each set, add up to.

    With one size a record moves from a cell to a cell. With two, a record is added somewhere; each of the others stays
    what it is, and adds to the larger data what its new place has. Under linf and monotone every number moves, by 1 at
    most, and under l1 one of them.
    """
    if isinstance(sums[0], PiecewiseMap | FormulaMap):
        return [*sums[0].ways(adjacency)]
    first, *more = (each for each in sums if isinstance(each, RecordSums))
    if adjacency in MOVES:
        moved = [_moved(cells, *MOVES[adjacency]) for cells in first.places]
        if adjacency == "l1":
            return _different((points,) for each in moved for points in each)
        return [tuple(frozenset().union(*each) for each in moved)]
    if not more:
        pairs = {(one.corners(), other.corners()) for cells in first.places for one in cells for other in cells}
        return _different((frozenset(_minus(b, a) for a in left for b in right),) for left, right in pairs)
    (larger,) = more
    constant = frozenset([_minus(larger.constants, first.constants)])
    found = []
    for added in range(len(larger.places)):
        stay = zip(first.places, [*larger.places[:added], *larger.places[added + 1 :]], strict=True)
        moves = [[there.less(here) for here in left for there in right] for left, right in stay]
        others = [frozenset().union(*(cell.corners() for cell in cells if not cell.is_empty)) for cells in moves]
        moving = [each for each in (constant, *others) if any(map(any, each))]
        found += [(cell.corners(), *moving) for cell in larger.places[added]]
    return _different(found)


def _moved(cells: Sequence[RecordCell], least: int, most: int) -> list[frozenset[Vector]]:
    """What a number adds more after it moved, for each cell from which and to which it may move by so much.

    In either cell it adds affine functions of itself, so the difference is affine in both values. These are in a
    polygon, so it is a mean of what it is at the corners: where one value is at an end of its cell, and the other at
    such an end or as far away as it can be. Cells that are too far apart, once their open ends are left out, have none.
    """
    if any(power > 1 for cell in cells for each in cell.terms for power in each):
        raise CertificateFlaw("/records", "numbers that move by up to 1 may add multiples of themselves alone")
    found = []
    for here, there in itertools.product(cells, repeat=2):
        olds, news = (here.low, here.high), (there.low, there.high)
        nearest, farthest = news[0] - olds[1], news[1] - olds[0]
        if nearest == most and (there.ends[0] == "(" or here.ends[1] == ")"):
            continue
        if farthest == least and (there.ends[1] == ")" or here.ends[0] == "("):
            continue
        corners = [(x, y) for x in olds for y in (*news, x + least, x + most)]
        corners += [(y - move, y) for y in news for move in (least, most)]
        points = {
            _minus(there.at(y), here.at(x))
            for x, y in corners
            if olds[0] <= x <= olds[1] and news[0] <= y <= news[1] and least <= y - x <= most
        }
        found += [frozenset(points)] if points else []
    return found


def _different(ways: Iterable[Way]) -> list[Way]:
    """The ways, each once, whatever the order of their sets."""
    return list({frozenset(Counter(way).items()): way for way in ways}.values())


def sums_of(way: Way, most: int = MAX_SUMS) -> frozenset[Vector] | None:
    """What vectors, one of each set, add up to; None where these are too many."""
    found, *sets = way
    for each in sets:
        if len(found) * len(each) > most:
            return None
        found = frozenset(tuple(map(add, a, b)) for a in found for b in each)
    return found


def ends_of(way: Way) -> tuple[Vector, Vector]:
    """The least and the largest value of each entry of what vectors add up to."""
    ends = [[(min(column), max(column)) for column in zip(*each, strict=True)] for each in way]
    low, high = (tuple(sum((e[k] for e in entry), start=ZERO) for entry in zip(*ends, strict=True)) for k in (0, 1))
    return low, high


def _minus(one: Vector, other: Vector) -> Vector:
    return tuple(map(sub, one, other))


def bounds_of(sums: Sequence[Seen]) -> list[LinearCondition]:
    """That each sum lies between the least and the largest value that it has for records of the domain."""
    found = []
    over_records = [each for each in sums if isinstance(each, RecordSums)]
    for e, ends in enumerate(zip(*(each.ends() for each in over_records), strict=True)):
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        found.append(LinearCondition(LinearForm({}, {e: Fraction(1)}, -low), ">="))
        found.append(LinearCondition(LinearForm({}, {e: Fraction(-1)}, high), ">="))
    return found


# ----------------------------------------------------------------------------------------------------------- reading


def fields_in(document: object, *names: str, optional: Sequence[str] = ()) -> dict[str, DocumentNode]:
    """The fields of a certificate: those of all kinds, these, and `records` where it is for records of an interval.

    One number of an interval may be taken for one record, and numbers that move by up to 1 for as many. Without an
    interval, such numbers may be seen through a function that is affine on pieces, and so may records under replace.
    """
    node = DocumentNode(document)
    found = node.mapping()
    adjacency, domain = (found[name].value if name in found else None for name in ("adjacency", "domain"))
    if adjacency in RECORDS:
        are_records = domain is not None
    else:
        are_records = "records" in found and (adjacency in (*MOVES,) or (adjacency == "any" and domain is not None))
    return node.fields(*HEADER, *names, *["records"] * are_records, optional=optional)


def records_in(field: Mapping[str, DocumentNode], stated: Stated) -> tuple[Seen, ...]:
    """The sums for each size of the data: the size stated, and where a record may be added one more.

    None where the certificate is not for records of an interval.
    """
    if "records" not in field:
        return ()
    node = field["records"]
    if stated.adjacency == "any" and stated.size != 1:
        raise field["size"].flaw(f"one number is needed, not {stated.size}")
    sizes = _sizes(stated)
    nodes = node.entries()
    if len(nodes) != len(sizes):
        raise node.flaw(f"{len(sizes)} needed, one for each size of the data, not {len(nodes)}")
    if stated.size is None and (stated.domain is None or stated.adjacency not in RECORDS):
        raise field["size"].flaw("records of an interval are needed for every size")
    if "formulas" in nodes[0].mapping():
        if stated.size is None or (stated.adjacency in RECORDS and stated.adjacency != "replace"):
            raise nodes[0].flaw("formulas are for one size, and for records under replace")
        return (formulas_in(nodes[0], stated.size, stated.domain),)
    seen_whole = stated.adjacency == "replace" and stated.size is not None and "pieces" in nodes[0].mapping()
    if stated.domain is None or seen_whole:
        return (map_in(nodes[0], sizes[0], stated.domain),)
    found = tuple(_sums(each, size, stated) for each, size in zip(nodes, sizes, strict=True))
    if len({len(each.constants) for each in found}) > 1:
        raise node.flaw("as many sums are needed for each size")
    if stated.size is None and len({each.constants for each in found}) > 1:
        raise node.flaw("the sums of no records must be the same for every size")
    return found


def _sizes(stated: Stated) -> list[int]:
    """The sizes of the data that sums are given for.

    For every size, these are one record, or none and one: the sums are those of no records and what each of them adds.
    """
    may_add = stated.adjacency.startswith("add-remove")
    first = stated.size if stated.size is not None else 0 if may_add else 1
    return [first, first + 1] if may_add else [first]


def _sums(node: DocumentNode, size: int, stated: Stated) -> RecordSums:
    field = node.fields("constants", "places")
    constants = tuple(entry.rational() for entry in field["constants"].entries())
    places = field["places"].entries()
    if len(places) != size:
        raise field["places"].flaw(f"{size} needed, one for each record, not {len(places)}")
    return RecordSums(constants, tuple(_cells(place, len(constants), stated) for place in places))


def _cells(node: DocumentNode, count: int, stated: Stated) -> tuple[RecordCell, ...]:
    """The cells of a record: they follow one another from the lower end of the domain to the upper one."""
    cells = [_cell(entry, count) for entry in node.entries()]
    low, high = stated.domain or (ZERO, ZERO)
    borders = [(low, ")"), *((cell.high, cell.ends[1]) for cell in cells)]
    for entry, cell, (end, side) in zip(node.entries(), cells, borders, strict=False):
        if cell.is_empty or cell.low != end or (cell.ends[0] == "[") != (side == ")"):
            raise entry.flaw("this cell is empty, or does not begin where the one before it, or the domain, leaves off")
    if borders[-1] != (high, "]") or not cells:
        raise node.flaw("the cells do not end where the domain does")
    return tuple(cells)


def _cell(node: DocumentNode, count: int) -> RecordCell:
    field = node.fields("low", "high", "ends", "terms")
    powers = range(MAX_POWER + 1)
    terms = tuple(coefficients_in(entry, powers, "power of a record") for entry in field["terms"].entries())
    if len(terms) != count:
        raise field["terms"].flaw(f"{count} needed, one for each sum, not {len(terms)}")
    return RecordCell(field["low"].rational(), field["high"].rational(), field["ends"].one_of(ENDS), terms)
