"""Forged certificates of (ε, δ): each is false in one step of the checker's argument, and is rejected in that step.

What is accepted after a change of one value is judged by a numerical integral of the mechanism that it describes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.engines.prove.judging import LAWS, neighbours
from tests.engines.prove.small_certificates import Document, event, header, linear, where
from tests.engines.prove.tampering import at, drop, mutants, put

from veridp_check.checker import KINDS, check

READING = "reading"
TABLE = {"entries": [], "at": "corners"}


def rule(*slopes: dict[str, str]) -> Document:
    return {"rule": [{"constant": "0", "data": slope} for slope in slopes]}


def released(kind: str, scale: str, epsilon: str, delta: str) -> Document:
    """data[0] with noise."""
    return header("divergence", "linf", 1, epsilon) | {
        "delta": delta,
        "rho": None,
        "mu": None,
        "data": "real",
        "polytopes": [{"low": ["-1"], "high": ["1"]}],
        "outputs": ["#"],
        "noises": [{"draw": 0, "kind": kind, "scale": scale}],
        "events": [
            event(0, [], [linear({"0": "1"}, {"0": "1"})], paths=1, draws=[0], shifts=[rule({"0": "-1"})]),
        ],
    }


GAUSSIAN = released("normal", "2", "1/2", "55/1000")  # δ is 0.0524
LAPLACE = released("laplace", "1", "1/2", "2212/10000")
UNIFORM = released("uniform", "4", "0", "1/4")
ASKED = released("normal", "2", "1/2", "55/1000") | {
    "outputs": ["True", "False"],
    "events": [
        event(o, [where({"0": s}, {"0": s}, "0", r)], paths=1, draws=[0], shifts=[rule({"0": "-1"})])
        for o, s, r in ((0, "1", ">="), (1, "-1", ">"))
    ],
}


def key(count: int, threshold: int = 7) -> list[Document]:
    """The noisy count of a key where it is at least the threshold, and nothing where it is below."""
    up, down = (where({"0": s}, {}, str(c), r) for s, c, r in (("1", count - 7, ">="), ("-1", 7 - count, ">")))
    return [event("#", [up], [linear({"0": "1"}, {}, str(count))], draws=[0]), event("None", [down], draws=[0])]


def coupling(left: int, right: int, cost: str, delta: str, *moves: str) -> Document:
    transports = [{"from": 0, "to": 0, "share": "1", "shifts": TABLE | {"table": [{"moves": [m]}]}} for m in moves]
    return {"left": left, "right": right, "cost": cost, "delta": delta, "transports": transports}


# On 0 there is no key; on 1 it has probability e^-6/2 = 0.00124, on 2 e^-5/2 = 0.00337.
KEY = header("approximate", "linf", 1, "1") | {
    "delta": "125/100000",
    "polytopes": [],
    "noises": [{"draw": 0, "kind": "laplace", "scale": "1"}],
    "shape": None,
    "parts": [
        {"entries": None, "events": [event("None", [], draws=[])]},
        {"entries": None, "events": key(1)},
        {"entries": None, "events": key(2)},
    ],
    "cases": [{"value": f"[{count}]", "conditions": [], "parts": [count]} for count in range(3)],
    "couplings": [
        coupling(0, 1, "0", "125/100000"),
        coupling(1, 0, "0", "125/100000"),
        coupling(1, 2, "1", "0", "-1"),
        coupling(2, 1, "1", "0", "1"),
    ],
    "pairs": [
        {"left": left, "right": right, "polytope": None, "couplings": [number]}
        for number, (left, right) in enumerate(((0, 1), (1, 0), (1, 2), (2, 1)))
    ],
}
SMALL = {"gaussian": GAUSSIAN, "laplace": LAPLACE, "uniform": UNIFORM, "asked": ASKED, "key": KEY}


# ------------------------------------------------------------------------------------------------------------ the judge

STEP = 0.01
GRID = np.arange(-100, 100, STEP) + STEP / 2 + 1e-4
Law = dict[Any, Any]  # the probability of each output, or its density at each number of the grid


def worst_delta(document: Document) -> float:
    """The largest δ at ε over the neighbours tried; ∞ where probabilities do not sum to 1."""
    pairs = [(left, right) for left, right in neighbours(document) if left != right]
    laws = {str(data): _law(document, data) for data in {str(d): d for pair in pairs for d in pair}.values()}
    return max((_delta(document, laws[str(left)], laws[str(right)]) for left, right in pairs), default=math.inf)


def _delta(document: Document, mine: Law, theirs: Law) -> float:
    if any(abs(sum(map(_mass, law.values())) - 1) > 1e-3 for law in (mine, theirs)):
        return math.inf
    factor = math.exp(min(float(Fraction(document["epsilon"])), 500.0))
    return sum(_mass(np.maximum(p - factor * theirs.get(output, 0.0), 0)) for output, p in mine.items())


def _mass(chance: Any) -> float:
    return float(chance.sum() * STEP) if np.ndim(chance) else float(chance)


def _law(document: Document, data: Any) -> Law:
    events, numbers = document.get("events"), data
    if events is None:
        (case,) = (case for case in document["cases"] if case["value"] == str(data))
        events, numbers = document["parts"][case["parts"][0]]["events"], ()
    found: Law = {}
    for each in events:
        name = document["outputs"][each["output"]] if "outputs" in document else each["output"]
        chance: Any = float(Fraction(each["weight"]))
        ends: dict[str, tuple[float, float]] = {}
        for c in each["conditions"]:
            ((row, slope),) = c["noise"].items()
            bound = -_rest(c, numbers) / float(Fraction(slope))
            low, high = ends.get(row, (-math.inf, math.inf))
            ends[row] = (max(low, bound), high) if Fraction(slope) > 0 else (low, min(high, bound))
        if each["numbers"]:
            (number,) = each["numbers"]
            ((row, slope),) = number["noise"].items()
            at_noise = (GRID - _rest(number, numbers)) / float(Fraction(slope))
            low, high = ends.pop(row, (-math.inf, math.inf))
            density = _noise(document, row).pdf(at_noise) / abs(float(Fraction(slope)))
            chance = chance * np.where((at_noise >= low) & (at_noise <= high), density, 0.0)
        for row, (low, high) in ends.items():
            noise = _noise(document, row)
            chance = chance * max(noise.cdf(high) - noise.cdf(low), 0.0)
        found[name] = found.get(name, 0.0) + chance
    return found


def _rest(form: Document, data: Any) -> float:
    return float(Fraction(form["constant"])) + sum(
        float(Fraction(c)) * float(data[int(i)]) for i, c in form["data"].items()
    )


def _noise(document: Document, row: str) -> Any:
    noise = document["noises"][int(row)]
    return LAWS[noise["kind"]](float(Fraction(noise["scale"])))


@pytest.mark.parametrize("name", SMALL)
def test_the_small_certificates_are_verified_and_true(name):
    document = copy.deepcopy(SMALL[name])
    checked = check(document)
    assert checked.rejection is None
    delta = float(Fraction(document["delta"]))
    assert 0.85 * delta < worst_delta(document) <= 1.002 * delta


@pytest.mark.parametrize("name", SMALL)
def test_whatever_value_is_changed_the_checker_accepts_nothing_false(name):
    document = copy.deepcopy(SMALL[name])
    tried = [(what, forged) for what, forged in mutants(document) if forged != document]
    accepted = [(what, forged) for what, forged in tried if check(forged).verified]
    assert len(tried) > 60
    assert len(accepted) < len(tried) / 3
    assert [what for what, f in accepted if worst_delta(f) > 1.01 * float(Fraction(f["delta"])) + 1e-6] == []


# -------------------------------------------------------------------------------------------------------------- by hand


def both(*edits: Callable[[Document], object]) -> Callable[[Document], object]:
    return lambda document: [edit(document) for edit in edits]


def second_draw(document: Document) -> None:
    """The same number with the same noise once more, as if it were another draw: two releases at the price of one."""
    document["noises"].append(document["noises"][0] | {"draw": 1})
    document["outputs"] = ["[#, #]"]
    only = document["events"][0]
    only |= {"draws": [0, 1], "numbers": [linear({"0": "1"}, {"0": "1"}), linear({"1": "1"}, {"0": "1"})]}
    only["shifts"] = [rule({"0": "-1"}, {"0": "-1"})]


def two_shifts(document: Document) -> None:
    """The second event moves its noise the other way round by a constant: a shift of its own, at the price of none."""
    document["events"][0]["shifts"] = [{"rule": [{"constant": "1", "data": {}}]}]


def weight_of_data(document: Document) -> None:
    """A coin whose bias the data decide, said to cost nothing."""
    for place in range(2):
        terms = [{"factor": "1", "data": {"0": s}, "constant": "0"} for s in ("1", "-1")]
        piece = {"conditions": [], "numerator": [terms[place]], "divisors": [terms], "by": []}
        document["events"][place] |= {"conditions": [], "weight": {"pieces": [piece], "costs": ["0"]}, "draws": []}
        document["events"][place]["shifts"] = [rule()]


def function_of_noise(document: Document) -> None:
    """A condition on a function of a number, which the shift of the number keeps; but the number is not released."""
    document["events"][0]["functions"] = [{"name": "f", "of": [0]}]


def opaque(document: Document) -> None:
    """A number is released with one text or another as a function of its noise says, which a shift changes."""
    document["noises"].append({"draw": 1, "kind": "opaque", "of": [0]})
    for part in document["parts"][1:]:
        first = part["events"][0] | {"draws": [0, 1]}
        signs = [where({"1": "1"}, {}, "0", ">="), where({"1": "-1"}, {}, "0", ">")]
        part["events"][0], other = (first | {"conditions": [*first["conditions"], sign]} for sign in signs)
        part["events"].append(other)
    for each in document["couplings"][2:]:
        each["transports"].append(each["transports"][0] | {"from": 2, "to": 2})


def two_parts(document: Document) -> None:
    """The key is decided twice, by parts that both pay δ."""
    document["shape"] = "[#, #]"
    for part in document["parts"][:]:
        document["parts"].append(copy.deepcopy(part) | {"entries": [1]})
        part["entries"] = [0]
    document["noises"].append(document["noises"][0] | {"draw": 1})
    for part in document["parts"][3:]:
        for each in part["events"]:
            for form in (*each["conditions"], *each["numbers"]):
                form["noise"] = {"1": form["noise"]["0"]}
            each["draws"] = [1] * len(each["draws"])
    for case in document["cases"]:
        case["parts"].append(case["parts"][0] + 3)
    for number in range(4):
        twin = copy.deepcopy(document["couplings"][number])
        document["couplings"].append(twin | {"left": twin["left"] + 3, "right": twin["right"] + 3})
        document["pairs"][number]["couplings"].append(4 + number)


def same_noise_in_two_parts(document: Document) -> None:
    two_parts(document)
    document["noises"][1]["draw"] = 0


TRANSPORT = "/couplings/3/transports/0"
FORGERIES = [
    ("gaussian", "twice the sensitivity", put("/events/0/numbers/0/data/0", "2"), "shifts"),
    ("gaussian", "a constant shift", put("/events/0/shifts/0/rule/0/constant", "1"), "shifts"),
    ("gaussian", "a second number at the price of one", second_draw, "delta"),
    ("gaussian", "a shift of noise that is not drawn", put("/events/0/draws", []), READING),
    ("gaussian", "an interval, which no such relation has", put("/domain", ["0", "1"]), "neighbours"),
    ("gaussian", "differences of more entries", put("/polytopes/0", {"low": ["-1", "0"], "high": ["1", "0"]}), READING),
    ("gaussian", "a relation of records", put("/adjacency", "replace"), "neighbours"),
    ("gaussian", "one-sided neighbours", put("/adjacency", "monotone"), "neighbours"),
    ("gaussian", "every size", put("/size", None), READING),
    ("gaussian", "a rule for corners", put("/polytopes/0", {"corners": [["-1"], ["1"]]}), "neighbours"),
    ("gaussian", "ρ below that of the shift", put("/rho", "12/100"), "notions"),
    ("gaussian", "μ below that of the shift", put("/mu", "49/100"), "notions"),
    ("gaussian", "μ below 0", put("/mu", "-1/2"), READING),
    ("gaussian", "no noise", put("/noises/0/scale", "0"), READING),
    ("gaussian", "noise below 0", put("/noises/0/scale", "-2"), READING),
    ("gaussian", "Poisson noise", put("/noises/0", {"draw": 0, "kind": "poisson", "rate": "9"}), "moves"),
    ("gaussian", "geometric noise down", put("/noises/0", {"draw": 0, "kind": "geometric", "p": "1/2"}), "moves"),
    ("gaussian", "an opaque number", put("/noises/0", {"draw": 0, "kind": "opaque", "of": []}), READING),
    ("gaussian", "a number too few", put("/outputs/0", "[#, #]"), "outputs"),
    ("laplace", "μ of noise that is not normal", put("/mu", "100"), "notions"),
    ("laplace", "ρ of another scale", put("/rho", "49/100"), "notions"),
    ("laplace", "the δ of a smaller shift", put("/delta", "22/100"), "delta"),
    ("uniform", "all of the support", put("/noises/0/scale", "1"), "delta"),
    ("uniform", "less δ at more ε", both(put("/epsilon", "5"), put("/delta", "24/100")), "delta"),
    ("asked", "an event whose runs its shift leaves", put("/events/0/shifts/0/rule/0/data/0", "-1/2"), "shifts"),
    ("asked", "different shifts at the price of one", two_shifts, "delta"),
    ("asked", "a gap between the events", put("/events/0/conditions/0/constant", "-1"), "events"),
    ("asked", "an overlap", put("/events/0/conditions/0/constant", "1"), "events"),
    ("asked", "a weight above 1", put("/events/0/weight", "2"), "events"),
    ("asked", "a coin that the data bias, for nothing", weight_of_data, "events"),
    ("asked", "a function that nothing has", function_of_noise, READING),
    ("key", "the threshold of another mechanism", put("/parts/1/events/0/conditions/0/constant", "-5"), "parts"),
    ("key", "neighbours left out", drop("/pairs/0"), "neighbours"),
    ("key", "a case left out", drop("/cases/2"), READING),
    ("key", "a case twice", put("/cases/2/value", "[1]"), "cases"),
    ("key", "a text that is no value", put("/cases/2/value", "2 "), "cases"),
    ("key", "other parts", put("/couplings/0/right", 2), "couplings"),
    ("key", "less than is given up", put("/couplings/1/delta", "12/10000"), "couplings"),
    ("key", "less than is missing on the right", put("/couplings/0/delta", "12/10000"), "couplings"),
    ("key", "more on the right than there is", put(f"{TRANSPORT}/to", 1), "couplings"),
    ("key", "a move that loses the number", put(f"{TRANSPORT}/shifts/table/0/moves/0", "1/2"), "couplings"),
    ("key", "a move too many", put(f"{TRANSPORT}/shifts/table/0/moves", ["1", "0"]), "couplings"),
    ("key", "a share above 1", put(f"{TRANSPORT}/share", "3/2"), "couplings"),
    ("key", "a share below 0", put(f"{TRANSPORT}/share", "-1"), "couplings"),
    ("key", "a cost below that of the move", put("/couplings/3/cost", "9/10"), "couplings"),
    ("key", "a cost below 0", put("/couplings/0/cost", "-1"), "couplings"),
    ("key", "a δ below what a pair pays", put("/delta", "1/1000"), "totals"),
    ("key", "an ε below what a pair costs", put("/epsilon", "1/2"), "totals"),
    ("key", "an interval", put("/domain", ["0", "2"]), "cases"),
    ("key", "a polytope", put("/polytopes", [{"low": ["-1"], "high": ["1"]}]), READING),
    (
        "key",
        "a rule between values",
        put(f"{TRANSPORT}/shifts", {"rule": [{"constant": "1", "data": {}}]}),
        "couplings",
    ),
    ("key", "a function of noise that is shifted", opaque, "couplings"),
    ("key", "the δ of one part for two", two_parts, "totals"),
    ("key", "two parts of one noise", same_noise_in_two_parts, "parts"),
    ("key", "less noise", put("/noises/0/scale", "1/2"), "couplings"),
]


@pytest.mark.parametrize(
    ("name", "edit", "step"), [(n, e, s) for n, _, e, s in FORGERIES], ids=[w for _, w, _, _ in FORGERIES]
)
def test_a_forgery_is_rejected_in_the_step_that_it_falsifies(name, edit, step):
    document = copy.deepcopy(SMALL[name])
    edit(document)
    assert document != SMALL[name]
    checked = check(document)
    assert checked.rejection is not None
    steps = [word for word, _ in KINDS[document["kind"]].steps]
    assert (READING if checked.certificate is None else steps[len(checked.steps)]) == step
    assert at(document, "/format") == "veridp-certificate"
