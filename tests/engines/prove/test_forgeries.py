"""Forged certificates: each is false in one step of the checker's argument, and is rejected in that step.

By hand, from small certificates whose every line is understood; and by changing every value of these in every way of a
list. What is accepted after a change is judged by other means: the mechanism that it describes must be private.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from tests.engines.prove.judging import is_private
from tests.engines.prove.small_certificates import LAPLACE, SMALL, Document, event, header, linear, small, table, where
from tests.engines.prove.tampering import at, drop, mutants, pointers, put

from veridp.adjacency import BY_NAME
from veridp_check.checker import KINDS, CheckResult, check
from veridp_check.coupling.cases import _adjacent
from veridp_check.document import RECORDS
from veridp_check.noise import NoiseDraw, probability_between

READING = "reading"
NUMBER = re.compile(r"-?[0-9]+(/[0-9]+)?")


def step_of(document: Document, checked: CheckResult) -> str:
    """The step in which a certificate was rejected."""
    return READING if checked.certificate is None else KINDS[document["kind"]].steps[len(checked.steps)][0]


@pytest.mark.parametrize("name", SMALL)
def test_the_small_certificates_are_verified_and_true(name):
    document = small(name)
    assert check(document).rejection is None
    assert is_private(document)
    assert not is_private(document | {"epsilon": str(Fraction(document["epsilon"]) * Fraction(9, 10))})


# --------------------------------------------------------------------------------------------------------- by hand


@dataclass(frozen=True)
class Forgery:
    """What is forged, from which certificate, and the step and place where it must be rejected."""

    what: str
    name: str
    edit: Callable[[Document], object]
    step: str
    place: str


def both(*edits: Callable[[Document], object]) -> Callable[[Document], object]:
    return lambda document: [edit(document) for edit in edits]


def add(pointer: str, value: Any) -> Callable[[Document], object]:
    return lambda document: at(document, pointer).append(value)


SIGN_OF_DATA = [
    event("True", [where({}, {"0": "1"}, "0", ">")], draws=[]),
    event("False", [where({}, {"0": "-1"}, "0", ">=")], draws=[]),
]


def decided_by_data(document: Document) -> None:
    """A mechanism that returns data[0] > 0, as one region of all data, at ε = 0."""
    document |= {"epsilon": "0", "parts": [{"entries": None, "events": SIGN_OF_DATA}]}
    document["cases"] = [{"value": None, "conditions": [], "parts": [0]}]
    document["couplings"] = [{"left": 0, "right": 0, "cost": "0", "ratio": "1", "transports": []}]
    document["pairs"] = [{"left": 0, "right": 0, "polytope": 0, "couplings": [0]}]


def never_happens(document: Document) -> None:
    """The value itself is returned; on each side the other output has an event that never holds."""
    never = where({}, {}, "-1", ">=")
    document["epsilon"] = "0"
    for k, part in enumerate(document["parts"]):
        outputs = ("True", "False") if k else ("False", "True")
        part["events"] = [event(outputs[0], []), event(outputs[1], [never])]
    for coupling in document["couplings"]:
        coupling["ratio"] = "1"


def data_between_values(document: Document) -> None:
    """Two values 0 and 1 whose noisy numbers are both written as noise + data[0], which does not move."""
    document["epsilon"] = "0"
    for part in document["parts"][:2]:
        part["events"][0]["numbers"] = [linear({"0": "1"}, {"0": "1"})]
    for coupling in document["couplings"]:
        coupling["cost"] = "0"
        for transport in coupling["transports"]:
            transport["shifts"] = table("0", cost="0")


def whole_differences_only(document: Document) -> None:
    """Laplace noise on a number from 0 to 1/2, carried over whole differences: by 0 alone."""
    document |= header("coupling", "any", 1, "0", ["0", "1/2"])
    document["noises"] = [LAPLACE]
    document["polytopes"] = [{"low": ["-1/2"], "high": ["1/2"]}]
    document["parts"] = [{"entries": None, "events": [event("#", [], [linear({"0": "1"}, {"0": "1"})])]}]
    document["cases"] = [{"value": None, "conditions": [], "parts": [0]}]
    shifts = {"entries": [0], "at": "whole", "table": [{"moves": ["0"], "cost": "0"}]}
    transports = [{"from": 0, "to": 0, "share": "1", "shifts": shifts}]
    document["couplings"] = [{"left": 0, "right": 0, "cost": "0", "ratio": "1", "transports": transports}]
    document["pairs"] = [{"left": 0, "right": 0, "polytope": 0, "couplings": [0]}]


def undecided_entry(document: Document) -> None:
    """The noisy number is no entry that a part decides, so that nothing is said of it."""
    document["epsilon"] = "0"
    for case in document["cases"]:
        case["parts"] = [2]
    for pair in document["pairs"]:
        pair["couplings"] = [2]


def one_draw_in_two_parts(document: Document) -> None:
    """The second part reads the draw of the first, by a row of its own."""
    document["noises"][1]["draw"] = 0


def other_noise(document: Document) -> None:
    """The noise of the second value has another scale than that of the first."""
    document["noises"].append(LAPLACE)
    document["parts"][1]["events"] = [event("[#]", [], [linear({"2": "1"}, {}, "1")], draws=[2])]


def query_doubled(document: Document) -> None:
    put("/steps/1/conditions/0/query", "2")(document)
    put("/steps/2/conditions/0/query", "-2")(document)


def merged_events(document: Document) -> None:
    """An event that holds always, in place of two."""
    document["events"][0]["conditions"] = []
    del document["events"][1], document["outputs"][1]


LOOKALIKE = "l\u0456nf"  # a Cyrillic letter in place of the i

FORGERIES = [
    # reading: what is not known is refused
    *(Forgery(f"adjacency in Cyrillic, {n}", n, put("/adjacency", LOOKALIKE), READING, "/adjacency") for n in SMALL),
    Forgery("adjacency in capitals", "released", put("/adjacency", "LINF"), READING, "/adjacency"),
    Forgery("adjacency with a space", "released", put("/adjacency", "linf "), READING, "/adjacency"),
    Forgery("size as a text", "released", put("/size", "1"), READING, "/size"),
    Forgery("size as a truth value", "released", put("/size", True), READING, "/size"),
    Forgery("size as a float", "released", put("/size", 1.0), READING, "/size"),
    Forgery("size without end", "coin", put("/size", 10**30), READING, "/size"),
    Forgery("size below one", "coin", put("/size", 0), READING, "/size"),
    Forgery("period without end", "loop", put("/period", 10**9), READING, "/period"),
    Forgery("a size for phases that count no queries", "loop", put("/size", 3), "neighbours", "/alignments/0/places"),
    Forgery("a size without end", "loop", put("/size", 10**9), READING, "/size"),
    Forgery("ε below 0", "sign", put("/epsilon", "-1"), READING, "/epsilon"),
    Forgery("ε in other digits", "released", put("/epsilon", "\u0661"), READING, "/epsilon"),
    Forgery("ε as a float", "released", put("/epsilon", 1.0), READING, "/epsilon"),
    Forgery("ε with an exponent", "released", put("/epsilon", "1e999999999"), READING, "/epsilon"),
    Forgery("ε that is none", "released", put("/epsilon", "nan"), READING, "/epsilon"),
    Forgery("ε over 0", "released", put("/epsilon", "1/0"), READING, "/epsilon"),
    Forgery("a field left out", "released", drop("/domain"), READING, "/"),
    Forgery("a field of one's own", "released", put("/delta", "1"), READING, "/delta"),
    Forgery("noise of no scale", "released", put("/noises/0/scale", "0"), READING, "/noises/0/scale"),
    Forgery("noise of negative scale", "released", put("/noises/0/scale", "-1"), READING, "/noises/0/scale"),
    Forgery("noise that is not known", "released", put("/noises/0/kind", "wald"), READING, "/noises/0/kind"),
    Forgery("a draw read twice", "released", put("/events/0/draws", [0, 0]), READING, "/events/0/draws/1"),
    Forgery("a draw left out", "released", put("/noises/0/draw", 1), READING, "/events/0/draws/0"),
    Forgery("data between values", "parts", data_between_values, READING, "/parts/0/events/0/numbers/0/data/0"),
    Forgery("no induction for it", "loop", put("/adjacency", "any"), "neighbours", "/adjacency"),
    # alignment
    Forgery("a smaller box", "released", put("/polytopes/0/high/0", "0"), "neighbours", "/polytopes/0/high/0"),
    Forgery("one polytope of two", "above", drop("/polytopes/1"), "neighbours", "/polytopes"),
    Forgery("one direction", "above", both(put("/adjacency", "listed"), drop("/polytopes/1")), "neighbours", "/poly"),
    Forgery("records for an alignment", "released", put("/adjacency", "replace"), "neighbours", "/adjacency"),
    Forgery("a domain under linf", "released", put("/domain", ["0", "1"]), "neighbours", "/domain"),
    Forgery("no domain under any", "released", put("/adjacency", "any"), "neighbours", "/domain"),
    Forgery("two outputs of one text", "above", put("/outputs/1", "True"), "outputs", "/outputs/1"),
    Forgery("a number left out", "released", put("/events/0/numbers", []), "outputs", "/events/0/numbers"),
    Forgery("a number that moves", "released", put("/events/0/numbers/0/data/0", "2"), "shifts", "/events/0"),
    Forgery("a condition that fails", "above", put("/events/0/conditions/0/data/0", "2"), "shifts", "/events/0"),
    Forgery(
        "data alone", "above", add("/events/0/conditions", where({}, {"0": "1"}, "0", ">=")), "shifts", "/events/0"
    ),
    Forgery("a shift of 0", "above", put("/events/0/shifts/1", table("0", cost="0")), "shifts", "/events/0/shifts/1"),
    Forgery("a lower cost", "released", put("/events/0/shifts/0/cost", "1/2"), "costs", "/events/0/shifts/0/cost"),
    Forgery("less noise", "released", put("/noises/0/scale", "1/2"), "costs", "/events/0/shifts/0/cost"),
    Forgery("noise that must stay", "released", put("/noises/0/kind", "normal"), "costs", "/events/0/shifts/0/rule/0"),
    Forgery("noise that must rise", "released", put("/noises/0/kind", "gumbel"), "costs", "/events/0/shifts/0/rule/0"),
    Forgery("support left", "released", put("/noises/0/kind", "uniform"), "costs", "/events/0/shifts/0/rule/0"),
    Forgery("whole tables, real data", "above", put("/events/0/shifts/0/at", "whole"), "convexity", "/events/0"),
    Forgery("an event left out", "above", both(drop("/events/1"), drop("/outputs/1")), "events", "/events"),
    Forgery("a gap", "above", put("/events/0/conditions/0/constant", "-1"), "events", "/events"),
    Forgery("an overlap", "above", put("/events/0/conditions/0/constant", "1"), "events", "/events/1"),
    Forgery(
        "an event twice", "above", lambda d: d["events"].append(copy.deepcopy(d["events"][0])), "events", "/events"
    ),
    Forgery("weights below 1", "released", put("/events/0/weight", "1/2"), "events", "/events"),
    Forgery("a weight above 1", "released", put("/events/0/weight", "2"), "events", "/events/0/weight"),
    Forgery("a negative weight", "released", put("/events/0/weight", "-1"), "events", "/events/0/weight"),
    # weights that depend on the data
    Forgery("a cheaper weight", "choice", put("/events/0/weight/costs/0", "1"), "events", "/events/0/weight/costs/0"),
    Forgery(
        "a steeper weight",
        "choice",
        put("/events/0/weight/pieces/0/numerator/0/data/0", "2"),
        "events",
        "/events/0/weight/costs/0",
    ),
    Forgery("a lower ε of weights", "choice", put("/epsilon", "1"), "epsilon", "/events/0/shifts/0/table/0/cost"),
    Forgery("too few costs", "choice", put("/events/0/weight/costs", []), "shifts", "/events/0/weight/costs"),
    Forgery(
        "a negative divisor",
        "choice",
        put("/events/0/weight/pieces/0/divisors/0/1/factor", "-1"),
        READING,
        "/events/0/weight/pieces/0/divisors/0",
    ),
    Forgery(
        "weights above 1",
        "choice",
        put("/events/0/weight/pieces/0/numerator/0/factor", "2"),
        "events",
        "/events",
    ),
    Forgery(
        "a weight that may be 0",
        "flip",
        put("/events/0/weight/pieces/0/numerator/1/factor", "-1"),
        "events",
        "/events/0/weight/pieces/0",
    ),
    Forgery(
        "a weight that jumps",
        "flip",
        both(
            put("/events/0/weight/pieces/0/numerator/1/factor", "-1/4"),
            put("/events/1/weight/pieces/0/numerator/0/factor", "1/4"),
        ),
        "events",
        "/events/0/weight/pieces/1",
    ),
    Forgery(
        "a region left out of a weight", "flip", drop("/events/0/weight/pieces/1"), "events", "/events/0/weight/pieces"
    ),
    Forgery(
        "a weight bounded elsewhere",
        "flip",
        put("/events/0/weight/pieces/0/conditions/0/data/1", "-2"),
        "events",
        "/events/0/weight/",
    ),
    Forgery("one condition twice", "flip", put("/events/0/weight/pieces/0/by", [0, 0]), "events", "/events/0/weight"),
    Forgery("a weight bounded by nothing", "flip", put("/events/0/weight/pieces/0/by", []), "events", "/events/0/wei"),
    Forgery("a lower ε", "released", put("/epsilon", "1/2"), "epsilon", "/events/0/shifts/0/cost"),
    # couplings
    Forgery("data alone decide", "sign", decided_by_data, "parts", "/parts/0/events/0/conditions/0"),
    Forgery("an event that never holds", "coin", never_happens, "parts", "/parts/0/events/1/conditions/0"),
    Forgery(
        "whole differences only", "sign", whole_differences_only, "couplings", "/couplings/0/transports/0/shifts/at"
    ),
    Forgery("an entry left undecided", "parts", undecided_entry, "cases", "/cases/0/parts"),
    Forgery("a shape of fewer entries", "parts", put("/shape", "#"), "cases", "/cases/0/parts"),
    Forgery("a shape with an entry", "parts", put("/shape", "(#, 1)"), "cases", "/shape"),
    Forgery("no shape", "parts", put("/shape", None), "cases", "/cases/0/parts"),
    Forgery("an entry decided twice", "parts", put("/parts/2/entries", [0]), "cases", "/cases/0/parts"),
    Forgery("two values", "coin", put("/size", 2), "cases", "/size"),
    Forgery("a value written otherwise", "parts", put("/cases/1/value", "[0, ]"), "cases", "/cases/1/value"),
    Forgery("a region left out", "sign", put("/cases/1/conditions/0/constant", "-1"), "cases", "/cases"),
    Forgery("differences of records", "sign", put("/adjacency", "replace"), "cases", "/adjacency"),
    Forgery("values, differences listed", "parts", put("/adjacency", "listed"), "cases", "/adjacency"),
    Forgery(
        "a text for a number",
        "parts",
        both(put("/cases/1/value", "['9']"), put("/pairs", [])),
        "neighbours",
        "/cases",
    ),
    Forgery("an infinite number", "parts", put("/cases/1/value", "[1e999]"), "cases", "/cases/1/value"),
    Forgery("a pair left out", "coin", drop("/pairs/1"), "neighbours", "/pairs"),
    Forgery(
        "a pair in one direction", "coin", both(put("/adjacency", "pairs"), drop("/pairs/1")), "neighbours", "/pai"
    ),
    Forgery("no pair at all", "pair", put("/pairs", []), "neighbours", "/pairs"),
    Forgery("pairs of two people's data", "pair", put("/size", 2), "cases", "/size"),
    Forgery("pairs of regions", "sign", put("/adjacency", "pairs"), "cases", "/adjacency"),
    Forgery("pairs in an alignment", "released", put("/adjacency", "pairs"), "neighbours", "/adjacency"),
    Forgery("a pair of regions left out", "sign", drop("/pairs/0"), "neighbours", "/pairs"),
    Forgery("a draw of two parts", "parts", one_draw_in_two_parts, "parts", "/cases/0/parts"),
    Forgery("events that overlap", "coin", put("/parts/0/events/0/conditions/0/constant", "1/2"), "parts", "/parts/0"),
    Forgery("events with a gap", "coin", put("/parts/0/events/0/conditions/0/constant", "1/8"), "parts", "/parts/0"),
    Forgery("a ratio too small", "coin", put("/couplings/0/ratio", "2"), "couplings", "/couplings/0/ratio"),
    Forgery("a ratio of 0", "coin", put("/couplings/0/ratio", "0"), "couplings", "/couplings/0/ratio"),
    Forgery("an endless cost", "coin", put("/couplings/0/cost", "-9" + "0" * 200), "couplings", "/couplings/0/cost"),
    Forgery("half shared", "parts", put("/couplings/0/transports/0/share", "1/2"), "couplings", "/couplings/0/trans"),
    Forgery(
        "a share too much", "parts", put("/couplings/0/transports/0/share", "2"), "couplings", "/couplings/0/ratio"
    ),
    Forgery("a number that differs", "parts", put("/parts/1/events/0/numbers/0/constant", "2"), "couplings", "/coupl"),
    Forgery("other noise", "parts", other_noise, "couplings", "/couplings/0/transports/0"),
    Forgery("a lower ε of couplings", "coin", put("/epsilon", "1"), "epsilon", "/pairs/0"),
    # bounds
    Forgery("bounds under linf", "likely", put("/adjacency", "linf"), "data", "/adjacency"),
    Forgery("bounds of two values", "halves", put("/size", 2), "data", "/size"),
    Forgery("a wider domain", "likely", put("/domain/1", "2"), "densities", "/bounds/0"),
    Forgery("an event left out of a case", "halves", drop("/cases/0/events/1"), "events", "/cases/0/events"),
    Forgery("an event rarer", "halves", put("/cases/0/events/1/weight", "1/8"), "events", "/cases/0/events"),
    Forgery("most too low", "likely", put("/bounds/0/slabs/0/most", "1/2"), "densities", "/bounds/0/slabs/0/most"),
    Forgery("least too high", "likely", put("/bounds/0/slabs/0/least", "1/2"), "densities", "/bounds/0/slabs/0/least"),
    Forgery("an output without bounds", "likely", drop("/bounds/1"), "densities", "/bounds"),
    Forgery("a slab left out", "halves", drop("/bounds/0/slabs/2"), "densities", "/bounds/0/slabs"),
    Forgery("bounds of 0", "halves", put("/bounds/0/slabs/1/least", "0"), "epsilon", "/bounds/0/slabs/1/least"),
    Forgery("a lower ε of bounds", "likely", put("/epsilon", "1"), "epsilon", "/epsilon"),
    # inductions
    Forgery("alignments left out", "loop", put("/alignments", []), "neighbours", "/alignments"),
    Forgery("a phase of one's own", "loop", put("/alignments/0/places/0/phase", "now"), "neighbours", "/alignments/0"),
    Forgery("a step left out", "loop", drop("/steps/3"), READING, "/alignments/0/moves"),
    Forgery("steps with a gap", "loop", put("/steps/1/conditions/0/constant", "-1"), "system", "/steps"),
    Forgery("steps that overlap", "loop", put("/steps/1/conditions/0/constant", "1"), "system", "/steps/2"),
    Forgery("no step at the end", "loop", put("/steps/3/when", "step"), "system", "/steps"),
    Forgery("a query that counts double", "loop", query_doubled, "shifts", "/alignments/0"),
    Forgery("the query alone", "loop", put("/steps/1/conditions/0/noise", {}), "system", "/steps"),
    Forgery("a place left out", "loop", drop("/alignments/0/places/4"), "shifts", "/alignments/0/places"),
    Forgery("a move left out", "loop", drop("/alignments/0/moves/5"), "shifts", "/alignments/0/moves"),
    Forgery("less noise in a loop", "loop", put("/noises/0/scale", "1/2"), "costs", "/alignments/0/moves"),
    Forgery("a move for nothing", "loop", put("/alignments/0/moves/4/cost", "0"), "costs", "/alignments/0/moves/4"),
    Forgery("nothing left", "loop", put("/alignments/0/places/0/left", "0"), "induction", "/alignments/0/moves"),
    Forgery("less than nothing left", "loop", put("/alignments/0/places/1/left", "-1"), "induction", "/alignments/0"),
    Forgery("a lower ε of a loop", "loop", put("/epsilon", "1/2"), "epsilon", "/alignments/0/moves/0"),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.what)
def test_a_forgery_is_rejected_in_the_step_that_it_falsifies(forgery):
    document = small(forgery.name)
    forgery.edit(document)
    checked = check(json.loads(json.dumps(document)))
    assert checked.rejection is not None
    assert (step_of(document, checked), checked.rejection.place[: len(forgery.place)]) == (forgery.step, forgery.place)


def test_what_is_accepted_is_no_forgery_where_outputs_are_merged():
    """Two outputs made one: the mechanism then says less, and the certificate is true of that."""
    document = small("above")
    merged_events(document)
    for shifts in document["events"][0]["shifts"]:
        shifts["table"][0] = {"moves": ["0"], "cost": "0"}
    assert check(document).verified
    assert is_private(document | {"epsilon": "0"})


def test_records_are_neighbours_as_the_relation_has_it():
    """Every pair of short data sets, by the checker and by the relation itself."""
    values = [list(each) for size in (1, 2, 3) for each in itertools.product((0, 1, 2), repeat=size)]
    for name in RECORDS:
        for left, right in itertools.permutations(values, 2):
            wanted = BY_NAME[name].adjacent(left, right)
            assert _adjacent(name, left, right, 0, 1) == wanted, (name, left, right)


def test_a_lookalike_letter_is_told_by_its_number():
    assert "not 'l\\u0456nf'" in check(small("released") | {"adjacency": LOOKALIKE}).rejection.reason


@pytest.mark.parametrize("name", SMALL)
def test_numbers_of_thousands_of_digits_are_checked_and_told(name):
    """Sums of numbers as long as the grammar allows have more digits than Python writes."""
    chosen = random.Random(0)
    for _ in range(60):
        document = small(name)
        found = {p: at(document, p) for p in pointers(document)}
        numbers = [p for p, value in found.items() if isinstance(value, str) and NUMBER.fullmatch(value)]
        for pointer in chosen.sample(numbers, chosen.randint(2, 8)):
            sign, long = chosen.choice(["", "-"]), f"{chosen.getrandbits(13200)}/{chosen.getrandbits(13200) | 1}"
            put(pointer, sign + long)(document)
        check(document)


def test_a_number_that_no_text_could_hold_is_told_in_words():
    document = small("released") | {"epsilon": 10**5000}
    assert check(document).rejection.reason == 'a rational such as "-3/40" is needed, not a number of too many digits'


@pytest.mark.parametrize("name", SMALL)
def test_an_object_in_place_of_a_word_is_rejected(name):
    document = small(name)
    for field in document.keys() - {"format", "version", "arguments"}:
        assert not check(document | {field: {}, "records": []}).verified


def test_numbers_are_those_that_floats_hold():
    document = small("released")
    put("/events/0/numbers/0/constant", str(int(1.7e308)))(document)
    assert check(document).verified
    put("/events/0/numbers/0/constant", str(int(1.7e308) * 2))(document)
    assert check(document).rejection.place == "/events/0/numbers/0/constant"


def test_probabilities_of_endless_digits_are_not_computed():
    """What would take for ever is no finite choice, and a certificate that needs it is rejected."""
    far = Fraction(10**300)
    assert probability_between(NoiseDraw(0, "geometric", (Fraction(1, 3),)), far, None) is None
    assert probability_between(NoiseDraw(0, "binomial", (far, Fraction(1, 3))), None, far) is None
    assert probability_between(NoiseDraw(0, "geometric", (Fraction(1, 2),)), Fraction(2), Fraction(3)) == Fraction(3, 8)


# ----------------------------------------------------------------------------------------------- every value changed


@pytest.mark.parametrize("name", SMALL)
def test_whatever_value_is_changed_the_checker_accepts_nothing_false(name):
    document = small(name)
    tried = [(what, forged) for what, forged in mutants(document) if forged != document]
    accepted = [(what, forged) for what, forged in tried if check(forged).verified]
    assert len(tried) > 100
    assert len(accepted) < len(tried) / 3
    assert [what for what, forged in accepted if not is_private(forged)] == []
