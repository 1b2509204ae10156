"""Whether the cases of a certificate of couplings are all that it must speak of, and its pairs all neighbours.

Part of the checker.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import z3

from veridp.prove.aligned import Box, Hull
from veridp.prove.carrying import count
from veridp.prove.check_alignment import check_interval
from veridp.prove.covering import RELATION, rational, solution
from veridp.prove.document import Condition, Flaw
from veridp.prove.paired import Case, Cases

RECORDS = ("add-remove", "add-remove-unordered", "replace", "replace-unordered")
KNOWN = ("any", "linf", "l1", "monotone", *RECORDS)


def check_cases(certificate: Cases) -> str:
    """The cases are different values, or regions that make up all data under an adjacency that is known."""
    if not certificate.cases:
        raise Flaw("/cases", "there is no case")
    if certificate.by_value:
        if certificate.domain is not None:
            raise Flaw("/domain", "values are listed, and no interval is proved")
        seen: set[str | None] = set()
        for k, case in enumerate(certificate.cases):
            _check_length(_value(case, f"/cases/{k}"), certificate, f"/cases/{k}/value")
            if case.value in seen:
                raise Flaw(f"/cases/{k}/value", f"the value {case.value} is listed twice")
            seen.add(case.value)
        return f"{count(len(seen), 'value')} of the data; nothing is said of others"
    _check_polytopes(certificate)
    outside = [_none_of(case.conditions) for case in certificate.cases]
    point = solution("/cases", "they cover all data", outside)
    if point is not None:
        raise Flaw("/cases", f"no case covers the data {point}")
    return f"{count(len(certificate.cases), 'region')} that make up all data"


def _value(case: Case, place: str) -> Any:
    return literal_in(case.value, f"{place}/value")


def literal_in(text: str | None, place: str) -> Any:
    """The value that a text writes down."""
    try:
        return ast.literal_eval(text or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Flaw(place, f"a Python literal is needed, not {text}") from None


def _check_length(value: Any, certificate: Cases, place: str) -> None:
    """Data are of the size stated; where a record may be added, they may have one more."""
    if certificate.adjacency == "any":
        return
    sizes = [certificate.size, certificate.size + certificate.adjacency.startswith("add-remove")]
    if not isinstance(value, list | tuple) or len(value) not in sizes:
        raise Flaw(place, f"{count(certificate.size, 'entry')} needed")


def _check_polytopes(certificate: Cases) -> None:
    """linf: a box. monotone: two. l1: a segment for each entry, as regions may tell which of them moves. any: a box."""
    size, name = certificate.size, certificate.adjacency
    if name == "any":
        check_interval(certificate.polytopes, certificate)
        return
    if certificate.domain is not None:
        raise Flaw("/domain", f"the data under {name} are no single number")
    ends = {"linf": [(-1, 1)], "monotone": [(0, 1), (-1, 0)]}
    if name in ends:
        wanted = [Box(_all(low, size), _all(high, size)) for low, high in ends[name]]
    elif name == "l1":
        units = [tuple(Fraction(i == moved) for i in range(size)) for moved in range(size)]
        wanted = [Box(tuple(-x for x in unit), unit) for unit in units]
    else:
        raise Flaw("/adjacency", f"the differences of {name!r} are not known here")
    if len(certificate.polytopes) != len(wanted):
        raise Flaw("/polytopes", f"{count(len(wanted), 'polytope')} under {name}, not {len(certificate.polytopes)}")
    for p, (given, needed) in enumerate(zip(certificate.polytopes, wanted, strict=True)):
        if given != needed:
            raise Flaw(f"/polytopes/{p}", f"this is not what {name} has there")


def _all(value: int, size: int) -> tuple[Fraction, ...]:
    return (Fraction(value),) * size


def check_neighbours(certificate: Cases) -> str:
    """All pairs of cases that can be neighbours are there."""
    listed: dict[tuple[int, int, int | None], int] = {}
    for k, pair in enumerate(certificate.pairs):
        key = (pair.left, pair.right, pair.polytope)
        if listed.setdefault(key, k) != k:
            raise Flaw(f"/pairs/{k}", f"this pair is listed twice: it is pair {listed[key]} too")
    cases = range(len(certificate.cases))
    if certificate.by_value:
        if certificate.adjacency not in KNOWN:
            raise Flaw("/adjacency", f"who is a neighbour under {certificate.adjacency!r} is not known here")
        values = [_value(case, f"/cases/{k}") for k, case in enumerate(certificate.cases)]
        for a, b in itertools.permutations(cases, 2):
            if (a, b, None) not in listed and _adjacent(certificate.adjacency, values[a], values[b], a, b):
                raise Flaw("/pairs", f"cases {a} and {b} are neighbours under {certificate.adjacency}, and not listed")
        return f"{count(len(listed), 'ordered pair')}, all those of {certificate.adjacency} among the values"
    for p, polytope in enumerate(certificate.polytopes):
        for a, b in itertools.product(cases, repeat=2):
            if (a, b, p) not in listed:
                _check_apart(certificate.cases[a], certificate.cases[b], polytope, f"cases {a} and {b}")
    return f"{count(len(listed), 'ordered pair')}; no data of other regions are neighbours"


def _adjacent(name: str, left: Any, right: Any, a: int, b: int) -> bool:
    if name == "any":
        return True
    try:
        if name in RECORDS:
            return _adjacent_records(name, left, right)
        moves = [Fraction(y) - Fraction(x) for x, y in zip(left, right, strict=True)]
    except (TypeError, ValueError):
        raise Flaw("/cases", f"whether cases {a} and {b} are neighbours under {name} cannot be told") from None
    if any(abs(move) > 1 + Fraction(1, 10**9) for move in moves):
        return False
    if name == "l1":
        return sum(move != 0 for move in moves) <= 1
    return name == "linf" or all(move >= 0 for move in moves) or all(move <= 0 for move in moves)


def _adjacent_records(name: str, left: Any, right: Any) -> bool:
    """Whether two different data sets are neighbours; the records that they share keep their order, or need not."""
    sides: list[list[Any]] = [[tuple(r) if isinstance(r, list) else r for r in data] for data in (left, right)]
    fewer, more = sorted(sides, key=len)
    added = name.startswith("add-remove")
    if len(more) - len(fewer) > added:
        return False
    if name.endswith("-unordered"):
        surplus = (Counter(fewer) - Counter(more)).total(), (Counter(more) - Counter(fewer)).total()
        return surplus in ([(0, 0), (0, 1)] if added else [(0, 0), (1, 1)])
    if added:
        return any(more[:k] + more[k + 1 :] == fewer for k in range(len(more)))
    return sum(bool(mine != theirs) for mine, theirs in zip(fewer, more, strict=True)) <= 1


def _check_apart(left: Case, right: Case, polytope: Box | Hull, who: str) -> None:
    """No data of the one region move into the other by a difference of the polytope."""
    if not isinstance(polytope, Box):
        raise Flaw("/polytopes", "boxes are needed")
    moved = [z3.Real(f"moved data[{i}]") for i in range(len(polytope.low))]
    claims = [_claim(c, _data) for c in left.conditions] + [_claim(c, moved.__getitem__) for c in right.conditions]
    for i, value in enumerate(moved):
        claims += [
            value - _data(i) >= rational(polytope.low[i]),
            value - _data(i) <= rational(polytope.high[i]),
        ]
    point = solution("/pairs", f"{who} are no neighbours", claims)
    if point is not None:
        raise Flaw("/pairs", f"{who} are neighbours, and not listed: {point}")


def _data(entry: int) -> Any:
    return z3.Real(f"data[{entry}]")


def _claim(condition: Condition, entry: Any) -> Any:
    terms = [rational(c) * entry(i) for i, c in condition.slack.data.items()]
    return RELATION[condition.relation](sum(terms, start=rational(condition.slack.constant)))


def _none_of(conditions: Sequence[Condition]) -> Any:
    return z3.Or([z3.Not(_claim(condition, _data)) for condition in conditions])
