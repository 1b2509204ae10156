"""Whether the cases of a certificate of couplings are all that it must speak of, and its pairs all neighbours.

Part of the checker.
"""

from __future__ import annotations

import ast
import itertools
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from veridp_check.alignment.checker import check_differences, check_interval, check_symmetry
from veridp_check.alignment.reader import DifferenceBox, DifferenceHull
from veridp_check.coupling.reader import Cases, CouplingCase
from veridp_check.coverage import counterexample, data_name, deciding, in_words, relation_of
from veridp_check.document import LISTED, NUMERIC, PAIRS, RECORDS, CertificateFlaw, Stated
from veridp_check.linear import Ask, LinearRelation, LinearSystem, number, variable
from veridp_check.records import bounds_of
from veridp_check.shifts import count

MARGIN = Fraction(1, 10**9)  # how far apart beyond 1 two numbers still count as neighbours


def check_cases(certificate: Cases) -> str:
    """The cases are different values, or regions that make up all data; their parts decide all entries of the output.

    Regions may overlap: every pair of them that has neighbours needs couplings, whichever of them describes the data.
    """
    if not certificate.cases:
        raise CertificateFlaw("/cases", "there is no case")
    _check_entries(certificate)
    if certificate.by_value:
        if certificate.domain is not None:
            raise CertificateFlaw("/domain", "values are listed, and no interval is proved")
        if certificate.adjacency == LISTED:
            raise CertificateFlaw("/adjacency", "between values, a relation that the checker knows is needed")
        for value, place in zip(values_of(certificate.cases), places_of(certificate.cases), strict=True):
            _check_length(value, certificate, place)
        return f"{count(len(certificate.cases), 'value')} of the data; nothing is said of others"
    _check_polytopes(certificate)
    _check_covered(certificate)
    return f"{count(len(certificate.cases), 'region')} that make up all data"


def _check_covered(certificate: Cases) -> None:
    """Any data are in one of the regions; sums over records lie between their bounds."""
    regions = [[relation_of(condition) for condition in case.conditions] for case in certificate.cases]
    bounds = [relation_of(bound) for bound in bounds_of(certificate.records)]

    def covered(ask: Ask) -> bool:
        return any(all(map(ask, relations)) for relations in regions)

    found = counterexample("/cases", "they cover all data", covered, bool, bounds)
    if found is not None:
        raise CertificateFlaw("/cases", f"no case covers the data {in_words(found[1])}")


class Valued(Protocol):
    """A case that may be a value of the data."""

    @property
    def value(self) -> str | None: ...


def places_of(cases: Sequence[Valued]) -> list[str]:
    return [f"/cases/{k}/value" for k in range(len(cases))]


def values_of(cases: Sequence[Valued]) -> list[Any]:
    """The values of the cases, each written as Python writes it; raises Flaw where one is not, or two are the same."""
    values: dict[str, Any] = {}
    for case, place in zip(cases, places_of(cases), strict=True):
        value = literal_in(case.value, place)
        if repr(value) != case.value:
            raise CertificateFlaw(place, f"the value has to be written as Python does, {value!r}")
        if case.value in values:
            raise CertificateFlaw(place, f"the value {case.value} is listed twice")
        values[case.value] = value
    return list(values.values())


def literal_in(text: str | None, place: str) -> Any:
    """The value that a text writes down."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in a string: it is compared with what Python writes
            return ast.literal_eval(text or "")
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise CertificateFlaw(place, f"a Python literal is needed, not {text}") from None


def _check_entries(certificate: Cases) -> None:
    """The parts of each case decide every entry of the output once: all of it, or its shape has an entry for each."""
    leaves = (
        None
        if certificate.shape is None
        else _leaf_count(literal_in(certificate.shape.replace(NUMERIC, "..."), "/shape"))
    )
    for c, case in enumerate(certificate.cases):
        entries = [certificate.parts[number].entries for number in case.parts]
        if leaves is None:
            if entries != [None]:
                raise CertificateFlaw(
                    f"/cases/{c}/parts", "one part that decides all of the output is needed without a shape"
                )
        elif sorted(e for each in entries for e in each or [-1]) != list(range(leaves)):
            raise CertificateFlaw(
                f"/cases/{c}/parts", f"each of the {leaves} entries of the output must be decided by one part"
            )


def _leaf_count(shape: Any) -> int:
    """The number of entries that a shape has; raises Flaw where it is none."""
    if isinstance(shape, dict):
        shape = list(shape.values())
    if isinstance(shape, list | tuple):
        return sum(_leaf_count(entry) for entry in shape)
    if shape is not ...:
        raise CertificateFlaw("/shape", f"lists, tuples and dicts of {NUMERIC} are needed, not {shape!r}")
    return 1


def _check_length(value: Any, certificate: Cases, place: str) -> None:
    """Data are of the size stated; where a record may be added, they may have one more."""
    if certificate.adjacency in ("any", PAIRS):
        check_one_value(certificate)
        return
    sizes = [certificate.size, certificate.size + certificate.adjacency.startswith("add-remove")]
    if not isinstance(value, list | tuple) or len(value) not in sizes:
        raise CertificateFlaw(place, f"{count(certificate.size, 'entry')} needed")


def _check_polytopes(certificate: Cases) -> None:
    """linf: a box. monotone: two. l1: a segment for each entry, as regions may tell which of them moves. any: a box."""
    size, name = certificate.size, certificate.adjacency
    if certificate.records:
        check_differences(certificate.records, certificate.polytopes, certificate)
        return
    if name == "any":
        check_interval(certificate.polytopes, certificate)
        return
    if certificate.domain is not None:
        raise CertificateFlaw("/domain", f"the data under {name} are no single number")
    ends = {"linf": [(-1, 1)], "monotone": [(0, 1), (-1, 0)]}
    if name in ends:
        wanted = [DifferenceBox(_all(low, size), _all(high, size)) for low, high in ends[name]]
    elif name == "l1":
        units = [tuple(Fraction(i == moved) for i in range(size)) for moved in range(size)]
        wanted = [DifferenceBox(tuple(-x for x in unit), unit) for unit in units]
    elif name == LISTED:
        check_symmetry(certificate.polytopes)
        return
    else:
        raise CertificateFlaw("/adjacency", f"regions are for differences of numbers, which {name} does not have")
    if len(certificate.polytopes) != len(wanted):
        raise CertificateFlaw(
            "/polytopes", f"{count(len(wanted), 'polytope')} under {name}, not {len(certificate.polytopes)}"
        )
    for p, (given, needed) in enumerate(zip(certificate.polytopes, wanted, strict=True)):
        if given != needed:
            raise CertificateFlaw(f"/polytopes/{p}", f"this is not what {name} has there")


def check_one_value(certificate: Stated) -> None:
    if certificate.size != 1:
        raise CertificateFlaw(
            "/size", f"1 is needed under {certificate.adjacency}, where the data are one value, not {certificate.size}"
        )


def _all(value: int, size: int) -> tuple[Fraction, ...]:
    return (Fraction(value),) * size


def check_neighbours(certificate: Cases) -> str:
    """All pairs of cases that can be neighbours are there."""
    listed: dict[tuple[int, int, int | None], int] = {}
    for k, pair in enumerate(certificate.pairs):
        key = (pair.left, pair.right, pair.polytope)
        if listed.setdefault(key, k) != k:
            raise CertificateFlaw(f"/pairs/{k}", f"this pair is listed twice: it is pair {listed[key]} too")
    cases = range(len(certificate.cases))
    if certificate.by_value:
        values = values_of(certificate.cases)
        if certificate.adjacency == PAIRS:
            _check_both_ways(listed)
            return f"{count(len(listed), 'ordered pair')}; nothing is said of other neighbours"
        for a, b in itertools.permutations(cases, 2):
            if (a, b, None) not in listed and _adjacent(certificate.adjacency, values[a], values[b], a, b):
                raise CertificateFlaw(
                    "/pairs", f"cases {a} and {b} are neighbours under {certificate.adjacency}, and not listed"
                )
        return f"{count(len(listed), 'ordered pair')}, all those of {certificate.adjacency} among the values"
    bounds = bounds_of(certificate.records)
    bounded = [replace(case, conditions=(*case.conditions, *bounds)) for case in certificate.cases]
    for p, polytope in enumerate(certificate.polytopes):
        for a, b in itertools.product(cases, repeat=2):
            if (a, b, p) not in listed:
                _check_apart(bounded[a], bounded[b], polytope, f"cases {a} and {b}")
    return f"{count(len(listed), 'ordered pair')}; no data of other regions are neighbours"


def _check_both_ways(listed: Mapping[tuple[int, int, int | None], int]) -> None:
    """Each pair is there with its reverse, and each case in a pair: the pairs are what is claimed."""
    if not listed:
        raise CertificateFlaw("/pairs", "there is no pair")
    for (a, b, polytope), place in listed.items():
        if (b, a, polytope) not in listed:
            raise CertificateFlaw(f"/pairs/{place}", "its reverse is not listed")


def _adjacent(name: str, left: Any, right: Any, a: int, b: int) -> bool:
    if name == "any":
        return True
    try:
        if name in RECORDS:
            return _adjacent_records(name, left, right)
        moves = [_number(y) - _number(x) for x, y in zip(left, right, strict=True)]
    except (TypeError, ValueError, OverflowError):
        raise CertificateFlaw(
            "/cases", f"whether cases {a} and {b} are neighbours under {name} cannot be told"
        ) from None
    if any(abs(move) > 1 + MARGIN for move in moves):
        return False
    if name == "l1":
        return sum(move != 0 for move in moves) <= 1
    return name == "linf" or all(move >= 0 for move in moves) or all(move <= 0 for move in moves)


def _number(value: object) -> Fraction:
    """A finite number of the data; a text is none, though Fraction would read it."""
    if not isinstance(value, int | float):
        raise TypeError
    return Fraction(value)


def _adjacent_records(name: str, left: Any, right: Any) -> bool:
    """Whether two data sets are neighbours; the records that they share keep their order, or need not."""
    sides: list[list[Any]] = [[tuple(r) if isinstance(r, list) else r for r in data] for data in (left, right)]
    fewer, more = sorted(sides, key=len)
    added = name.startswith("add-remove")
    if len(more) - len(fewer) > added:
        return False
    if name.endswith("-unordered"):
        surplus = (Counter(fewer) - Counter(more)).total(), (Counter(more) - Counter(fewer)).total()
        return surplus in ([(0, 0), (0, 1)] if added else [(0, 0), (1, 1)])
    if added:
        return more == fewer or any(more[:k] + more[k + 1 :] == fewer for k in range(len(more)))
    return sum(bool(mine != theirs) for mine, theirs in zip(fewer, more, strict=True)) <= 1


def _check_apart(left: CouplingCase, right: CouplingCase, polytope: DifferenceBox | DifferenceHull, who: str) -> None:
    """No data of the one region move into the other by a difference of the polytope."""
    size = len(polytope.low if isinstance(polytope, DifferenceBox) else polytope.corners[0])
    relations = [relation_of(c) for c in left.conditions] + [relation_of(c, _moved) for c in right.conditions]
    moves = [variable(_moved(i)) - variable(data_name(i)) for i in range(size)]
    if isinstance(polytope, DifferenceHull):
        shares = [variable(f"share of corner {k}") for k in range(len(polytope.corners))]
        relations += [LinearRelation(share, ">=") for share in shares]
        relations.append(LinearRelation(sum(shares, start=number(-1)), "=="))
        for i, move in enumerate(moves):
            mean = [share * corner[i] for corner, share in zip(polytope.corners, shares, strict=True)]
            relations.append(LinearRelation(sum(mean, start=move * Fraction(-1)), "=="))
    else:
        for move, low, high in zip(moves, polytope.low, polytope.high, strict=True):
            relations += [LinearRelation(move - number(low), ">="), LinearRelation(number(high) - move, ">=")]
    system = LinearSystem()
    with deciding("/pairs", f"{who} are no neighbours"):
        point = system.point() if all(system.assume(relation) for relation in relations) else None
    if point is not None:
        raise CertificateFlaw("/pairs", f"{who} are neighbours, and not listed: {in_words(point)}")


def _moved(entry: int) -> str:
    return f"moved {data_name(entry)}"
