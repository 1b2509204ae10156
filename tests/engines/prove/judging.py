"""A judge of certificates that looks at the mechanism alone: does what is described lose more than ε?

It reads nothing of the proof (shifts, couplings, bounds, places) and shares nothing with the checker: for small
documents, in which every event compares at most one noise, it computes the probability or density of each output on a
grid of data by scipy, and compares neighbours by its own definition of the adjacency.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

from scipy import stats

Document = dict[str, Any]
LAWS: dict[str, Callable[..., Any]] = {
    "laplace": lambda scale: stats.laplace(scale=scale),
    "exponential": lambda scale: stats.expon(scale=scale),
    "normal": lambda scale: stats.norm(scale=scale),
    "uniform": lambda scale: stats.uniform(scale=scale),
    "gumbel": lambda scale: stats.gumbel_r(scale=scale),
    "logistic": lambda scale: stats.logistic(scale=scale),
    "geometric": lambda p: stats.geom(p),
    "poisson": lambda rate: stats.poisson(rate),
    "binomial": lambda trials, p: stats.binom(int(trials), p),
}
WHOLE = ("geometric", "poisson", "binomial")
PROBES = [Fraction(k, 7) for k in (-40, -23, -9, -4, 1, 3, 6, 10, 19, 33)]  # numbers that may be released
WHOLE_PROBES = [Fraction(k) for k in range(-4, 9)]
POINTS = [Fraction(k, 3) for k in (-7, -3, -1, 0, 1, 2, 6)]  # data

Chances = dict[tuple[Any, ...], float]  # of each output, and each number that may be released with it


def is_private(document: Document) -> bool:
    """Whether no output is more than e^ε times as likely on one of the data tried as on a neighbour."""
    bound = math.exp(float(Fraction(document["epsilon"]))) * (1 + 1e-9)
    described: dict[Any, list[list[Chances]]] = {}
    for left, right in neighbours(document):
        for data in (left, right):
            if repr(data) not in described:
                described[repr(data)] = list(_descriptions(document, data))
        for mine, theirs in itertools.product(described[repr(left)], described[repr(right)]):
            if len(mine) != len(theirs):
                return False
            worst = 1.0
            for part, other in zip(mine, theirs, strict=True):
                if abs(part[()] - 1) > 1e-9:
                    return False  # the probabilities do not sum to 1
                ratios = [
                    chance / other[key] if other.get(key, 0) > 0 else math.inf
                    for key, chance in part.items()
                    if chance > 1e-14
                ]
                worst *= max(ratios)
            if worst > bound:
                return False
        if not described[repr(left)]:
            return False  # nothing is said of these data
    return True


# ------------------------------------------------------------------------------------------------------- neighbours


def neighbours(document: Document) -> Iterator[tuple[Any, Any]]:
    cases = document.get("cases") or [{"value": None}]
    if cases[0]["value"] is not None:
        values = [ast.literal_eval(case["value"]) for case in cases]
        if document["adjacency"] == "pairs":
            sides = [(values[pair["left"]], values[pair["right"]]) for pair in document["pairs"]]
            yield from (both for left, right in sides for both in ((left, right), (right, left)))
            return
        for left, right in itertools.permutations(values, 2):
            if _adjacent(document["adjacency"], left, right):
                yield left, right
        return
    if document["adjacency"] == "any":
        low, high = map(Fraction, document["domain"])
        points = [low + (high - low) * Fraction(k, 6) for k in range(7)]
        if document.get("data") == "whole":
            points = [Fraction(k) for k in range(math.ceil(low), math.floor(high) + 1)]
        yield from (((a,), (b,)) for a, b in itertools.permutations(points, 2))
        return
    size = document["size"] or 2
    for base in itertools.product(POINTS if size == 1 else POINTS[1::2], repeat=size):
        for move in _moves(document, size):
            if document.get("data") == "whole" and any(x.denominator > 1 for x in (*base, *move)):
                continue
            yield base, tuple(x + by for x, by in zip(base, move, strict=True))


def _moves(document: Document, size: int) -> list[tuple[Fraction, ...]]:
    steps = [Fraction(k, 2) for k in range(-2, 3)]
    match document["adjacency"]:
        case "linf":
            return list(itertools.product(steps, repeat=size))
        case "monotone":
            return [m for m in itertools.product(steps, repeat=size) if min(m) >= 0 or max(m) <= 0]
        case "l1":
            return [tuple(by * (i == k) for i in range(size)) for k in range(size) for by in steps]
        case "listed":
            corners = [tuple(map(Fraction, c)) for p in document["polytopes"] for c in _corners(p)]
            return [*corners, *(tuple(x / 2 for x in corner) for corner in corners)]
    raise AssertionError(document["adjacency"])


def _corners(polytope: Document) -> list[Any]:
    if "corners" in polytope:
        return list(polytope["corners"])
    return list(itertools.product(*zip(polytope["low"], polytope["high"], strict=True)))


def _adjacent(name: str, left: Any, right: Any) -> bool:
    if name == "any":
        return True
    moves = [y - x for x, y in zip(left, right, strict=True)]
    if max(map(abs, moves)) > 1:
        return False
    return {"linf": True, "l1": sum(map(bool, moves)) <= 1, "monotone": min(moves) >= 0 or max(moves) <= 0}[name]


# ------------------------------------------------------------------------------------------------- what is described


def _descriptions(document: Document, data: Any) -> Iterator[list[Chances]]:
    """For each case that the data are of: the chances of the outputs of each part."""
    noises = document["noises"]
    if document["kind"] == "alignment":
        outputs = document["outputs"]
        events = [event | {"output": outputs[event["output"]]} for event in document["events"]]
        yield [_chances(noises, events, data)]
    elif document["kind"] == "induction":
        yield [_looped(document, data)]
    else:
        for case in document["cases"]:
            if case["value"] is not None:
                if ast.literal_eval(case["value"]) != data:
                    continue
                numbers: tuple[Fraction, ...] = ()
            else:
                numbers = data
                if not all(_stands(_rest(c, data), c["relation"]) for c in case.get("conditions", ())):
                    continue
            parts = [case["events"]] if "events" in case else [document["parts"][p]["events"] for p in case["parts"]]
            yield [_chances(noises, events, numbers) for events in parts]


def _chances(noises: list[Document], events: list[Document], data: tuple[Fraction, ...]) -> Chances:
    """The probability of each output, or its density at each number; under () the sum of all probabilities."""
    found: Chances = {(): 0.0}
    for event in events:
        for key, chance in _event(noises, event, data):
            found[key] = found.get(key, 0.0) + chance
    return found


def _event(noises: list[Document], event: Document, data: tuple[Fraction, ...]) -> Iterator[tuple[Any, float]]:
    weight = _weight(event["weight"], data)
    spans: dict[str, list[tuple[Fraction, Fraction, str]]] = {}
    for c in event["conditions"]:
        rows = {row: Fraction(x) for row, x in c["noise"].items() if Fraction(x)}
        if not rows:
            if not _stands(_rest(c, data), c["relation"]):
                return
            continue
        ((row, slope),) = rows.items()
        spans.setdefault(row, []).append((slope, _rest(c, data), c["relation"]))
    released = [(row, Fraction(x)) for n in event["numbers"] for row, x in n["noise"].items() if Fraction(x)]
    atoms = tuple(_rest(n, data) for n in event["numbers"])
    yield (), weight * math.prod(_probability(noises[int(row)], span) for row, span in spans.items())
    for row, span in spans.items():
        if row not in [each for each, _ in released]:
            weight *= _probability(noises[int(row)], span)
    if not released:
        yield (event["output"], *atoms), weight
        return
    ((row, slope),) = released
    noise = noises[int(row)]
    law = _law(noise)
    for y in WHOLE_PROBES if noise["kind"] in WHOLE else PROBES:
        x = (y - atoms[0]) / slope
        inside = all(_stands(a * x + b, relation) for a, b, relation in spans.get(row, ()))
        if noise["kind"] in WHOLE:
            height = float(law.pmf(float(x))) if x.denominator == 1 else 0.0
        else:
            height = float(law.pdf(float(x))) / abs(float(slope))
        yield (event["output"], y), weight * height * inside


def _weight(weight: Any, data: tuple[Fraction, ...]) -> float:
    """The weight on the data: a number, or a quotient of sums of exponentials in the region that they are in."""
    if isinstance(weight, str):
        return float(Fraction(weight))
    here = [p for p in weight["pieces"] if all(_stands(_rest(c, data), c["relation"]) for c in p["conditions"])]
    if len(here) != 1:
        return math.nan
    sums = [
        sum(float(Fraction(term["factor"])) * math.exp(_rest(term, data)) for term in total)
        for total in (here[0]["numerator"], *here[0]["divisors"])
    ]
    return float(sums[0] / math.prod(sums[1:]))


def _probability(noise: Document, span: list[tuple[Fraction, Fraction, str]]) -> float:
    return _probability_of(tuple(noise.items()), tuple(span))


@cache
def _probability_of(noise: tuple[tuple[str, Any], ...], span: tuple[tuple[Fraction, Fraction, str], ...]) -> float:
    law = _law_of(noise)
    if dict(noise)["kind"] in WHOLE:
        values = range(200)
        return sum(float(law.pmf(k)) for k in values if all(_stands(a * k + b, relation) for a, b, relation in span))
    low, high = -math.inf, math.inf
    for a, b, relation in span:
        bound = float(-b / a)
        if a > 0 or relation == "==":
            low = max(low, bound)
        if a < 0 or relation == "==":
            high = min(high, bound)
    return max(float(law.cdf(high) - law.cdf(low)), 0.0)


def _looped(document: Document, data: tuple[Fraction, ...]) -> Chances:
    """The chances of all that a loop without symbols does on the queries, one step after the other."""
    found: Chances = {(): 0.0}
    queue: list[tuple[int | None, list[tuple[str, Fraction]], float, tuple[Any, ...]]] = [
        (None, [("start", Fraction(0)), *(("step", x) for x in data), ("end", Fraction(0))], 1.0, ())
    ]
    while queue:
        state, (now, *later), chance, output = queue.pop()
        for step in document["steps"]:
            if (step["when"], step["from"]) != (now[0], state):
                continue
            event = {"output": tuple(step["output"]), "weight": "1"}
            for field in ("conditions", "numbers"):
                event[field] = [each | {"data": {"0": each["query"]}} for each in step[field]]
            each = dict(_event(document["noises"], event, (now[1],)))
            if step["to"] is None:
                found[()] += chance * each[()] if not step["numbers"] else 0.0
            for key, part in each.items():
                if key and part:
                    if step["to"] is None:
                        found[(*output, *key)] = found.get((*output, *key), 0.0) + chance * part
                    else:
                        queue.append((step["to"], later, chance * part, (*output, *key)))
    if any(step["numbers"] for step in document["steps"]):
        found[()] = 1.0  # densities: not summed
    return found


def _law(noise: Document) -> Any:
    return _law_of(tuple(noise.items()))


@cache
def _law_of(noise: tuple[tuple[str, Any], ...]) -> Any:
    return LAWS[dict(noise)["kind"]](*(float(Fraction(v)) for k, v in noise if k not in ("draw", "kind")))


def _rest(linear: Document, data: tuple[Fraction, ...]) -> Fraction:
    terms = [Fraction(c) * data[int(entry)] for entry, c in linear["data"].items()]
    return sum(terms, start=Fraction(linear["constant"]))


def _stands(value: Fraction, relation: str) -> bool:
    return {">=": value >= 0, ">": value > 0, "==": value == 0}[relation]
