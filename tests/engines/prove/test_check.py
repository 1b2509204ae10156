"""The checker: what it accepts, every kind of tampering and where it is found, and that it stands on its own."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from tests.engines.prove.judging import LAWS as LAW
from tests.engines.prove.tampering import Document, Tampering, drop, put, run, tampered

from veridp import catalogue, mechanism
from veridp.adjacency import BY_NAME, OwnAdjacency, adjacency
from veridp.engines.prove import prove
from veridp.engines.prove.certificate import certificate_of, save_certificate
from veridp.engines.prove.replay import arguments_of, spot_check
from veridp.engines.prove.target import RecordingGenerator
from veridp.errors import BadInput, MechanismFailed
from veridp_check.checker import CheckResult, check, check_file
from veridp_check.document import NotACertificate
from veridp_check.enclosures import log_above
from veridp_check.noise import NoiseDraw

PACKAGE = Path(__file__).parents[3] / "src" / "veridp"


def loop_argmax(rng, queries, *, epsilon=0.1):
    best, index = None, 0
    for i, query in enumerate(queries):
        noisy = query + rng.laplace(scale=2 / epsilon)
        if best is None or noisy > best:
            best, index = noisy, i
    return index


def coin_or_threshold(rng, queries):
    """A finite choice decides which query is compared, and with what noise."""
    if rng.integers(3):
        return bool(queries[0] + rng.laplace(scale=10) > 0)
    return bool(queries[1] + rng.exponential(scale=20) > rng.laplace(scale=10))


TOGETHER = OwnAdjacency(
    "together",
    lambda left, right: True,
    lambda size: [([0.0] * size, [1.0] * size)],
    lambda size: np.repeat([[1.0], [-1.0]], size, axis=1),
)
TOGETHER_CORNERS = np.array([[1.0] * 5, [-1.0] * 5])


def by_order(rng, queries):
    """Data alone decide which way to go; no neighbour under TOGETHER goes another."""
    if queries[0] == queries[1]:
        return 0
    return [1, queries[0] + rng.laplace(scale=3)]


MECHANISMS = {
    "svt1": catalogue["svt1"],
    "svt4": catalogue["svt4"],
    "gap_svt": catalogue["gap_svt"],
    "adaptive_svt": catalogue["adaptive_svt"],
    "noisy_max1": catalogue["noisy_max1"],
    "noisy_max2": catalogue["noisy_max2"],
    "noisy_max3": catalogue["noisy_max3"],
    "loop_argmax": mechanism()(loop_argmax),
    "prefix_sum_l1": replace(catalogue["prefix_sum"], adjacency=adjacency("l1")),
    "smart_sum": catalogue["smart_sum"],
    "numerical_svt": catalogue["numerical_svt"].bind(cutoff=1),
    "monotone_svt": catalogue["monotone_svt"],
    "geometric": catalogue["geometric"],
    "prefix_sum": catalogue["prefix_sum"],
    "geometric_linf": replace(catalogue["geometric"], adjacency=adjacency("linf")),
    "noisy_max_gumbel": catalogue["noisy_max_gumbel"],
    "noisy_max_sum": catalogue["noisy_max_sum"],
    "coin_or_threshold": mechanism()(coin_or_threshold),
    "by_order": mechanism(adjacency=TOGETHER)(by_order),
}


@cache
def _certified(name: str, size: int, epsilon: float | None) -> Document:
    given = {} if epsilon is None else {"epsilon": epsilon}
    return json.loads(json.dumps(certificate_of(prove(MECHANISMS[name], size, **given))))  # type: ignore[arg-type]


def certified(name: str, size: int = 3, epsilon: float | None = None) -> Document:
    base, _, number = name.rpartition("_")
    if number.isdigit():  # of another size than most
        name, size = base, int(number)
    return copy.deepcopy(_certified(name, size, epsilon))


# -------------------------------------------------------------------------------------------------------- accepted


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_certificate_of_a_proof_is_verified(name, size):
    checked = check(certified(name, size))
    assert checked.rejection is None
    names = [step.name for step in checked.steps]
    assert names == ["neighbours", "outputs", "shifts", "costs", "convexity", "events", "epsilon"]


def test_the_steps_tell_what_was_verified():
    checked = check(certified("gap_svt"))
    assert [step.finding for step in checked.steps] == [
        "[-1, 1]^3, as linf has it for 3 entries",
        "4 outputs, given by 4 events",
        "7 shifts, each of which keeps every condition and every numeric entry",
        "the moves are allowed for laplace noise, and cost what is stated",
        "means of the shifts serve for all differences between the corners",
        "they cover all runs, and no two of them overlap (6 pairs)",
        "the dearest shift costs 3/40, and ε is 3/40",
    ]


def test_weights_are_accounted_for():
    document = certified("coin_or_threshold", 2)
    assert {event["weight"] for event in document["events"]} == {"1/3"}
    assert check(document).steps[5].finding == "for all noise and data, the weights of the events that hold sum to 1"


def test_under_differences_that_are_listed_the_claim_is_for_these():
    checked = check(certified("svt1") | {"adjacency": "listed"})
    assert checked.verified
    assert checked.steps[0].finding == "data that differ as 1 polytope of the certificate says, and no others"
    assert certified("by_order", 2)["adjacency"] == "listed"


def test_a_larger_epsilon_is_true_as_well():
    assert check(certified("svt1") | {"epsilon": "1"}).verified


# -------------------------------------------------------------------------------------------------------- tampering


def drop_corner(document: Document) -> None:
    del document["polytopes"][0]["corners"][2]
    for event in document["events"]:
        del event["shifts"][0]["table"][2]


def double_corner(document: Document) -> None:
    document["polytopes"][0]["corners"][2] = document["polytopes"][0]["corners"][1]
    for event in document["events"]:
        event["shifts"][0]["table"][2] = event["shifts"][0]["table"][1]


def drop_event(document: Document) -> None:
    del document["events"][-1]
    del document["outputs"][-1]


def all_shifts(document: Document, shift: dict[str, Any]) -> None:
    for event in document["events"]:
        for tables in event["shifts"]:
            tables["table"] = [shift for _ in tables["table"]]


# svt1 at size 3, ε = 0.1: noise 0 is Lap(20) on the threshold, noise 1..3 are Lap(40); event 0 answers at once, event
# 3 not at all. No entry is mixed, so each event has one shift. gap_svt has a table of two corners for the entry that is
# answered. prefix_sum, where every entry is mixed, has a rule. smart_sum is under l1, by corners.
TAMPERINGS = [
    Tampering(
        "shift too small",
        "svt1",
        put("/events/0/shifts/0/table/0/moves/1", "0"),
        "/events/0/shifts/0/table/0",
        "however the data move it changes condition /events/0/conditions/0 by -1",
    ),
    Tampering(
        "shift too large",
        "svt1",
        put("/events/0/shifts/0/table/0/moves/1", "2"),
        "/events/0/shifts/0/table/0/cost",
        "the moves cost 1/20, not 1/40",
    ),
    Tampering(
        "cost lowered",
        "svt1",
        put("/events/0/shifts/0/table/0/cost", "1/41"),
        "/events/0/shifts/0/table/0/cost",
        "cost 1/40",
    ),
    Tampering(
        "cost raised",
        "svt1",
        put("/events/0/shifts/0/table/0/cost", "1/39"),
        "/events/0/shifts/0/table/0/cost",
        "cost 1/40",
    ),
    Tampering(
        "cost negative",
        "svt1",
        put("/events/0/shifts/0/table/0/cost", "-1/40"),
        "/events/0/shifts/0/table/0/cost",
        "1/40",
    ),
    Tampering(
        "ε lowered",
        "svt1",
        put("/epsilon", "3/41"),
        "/events/",
        "the cost 3/40 is above ε = 3/41",
    ),
    Tampering("box shrunk", "svt1", put("/polytopes/0/high/1", "1/2"), "/polytopes/0/high/1", "it is 1, not 1/2"),
    Tampering("box turned", "svt1", put("/polytopes/0/high/1", "-2"), "/polytopes/0/high", "entry 1 ends at -2, below"),
    Tampering("end of a box cut", "svt1", drop("/polytopes/0/high/1"), "/polytopes/0/high", "has 3 entries"),
    Tampering(
        "corners for a box",
        "svt1",
        put("/polytopes/0", {"corners": [["1", "1", "1"]]}),
        "/polytopes/0",
        "a box is needed under linf",
    ),
    Tampering(
        "a box for corners",
        "smart_sum",
        put("/polytopes/0", {"low": ["0"] * 3, "high": ["0"] * 3}),
        "/polytopes/0",
        "corners are needed under l1",
    ),
    Tampering("corner dropped, l1", "smart_sum", drop_corner, "/polytopes/0/corners", "l1 has 6 corners, not 5"),
    Tampering(
        "box dropped, monotone",
        "monotone_svt",
        put("/polytopes/0/low/1", "-1"),
        "/polytopes/0/low/1",
        "it is 0, not -1",
    ),
    Tampering(
        "corner without shift", "smart_sum", drop("/events/0/shifts/0/table/3"), "/events/0/shifts/0/table", "6 shifts"
    ),
    Tampering(
        "corner of an entry without shift",
        "gap_svt",
        drop("/events/0/shifts/0/table/1"),
        "/events/0/shifts/0/table",
        "2 shifts needed, one for each corner of the entries, not 1",
    ),
    Tampering(
        "entry left out",
        "gap_svt",
        lambda d: d["events"][0]["shifts"][0].update(entries=[], table=d["events"][0]["shifts"][0]["table"][:1]),
        "/events/0/shifts/0/table/0",
        "however the data move it changes the numeric entry /events/0/numbers/0",
    ),
    Tampering(
        "shifts of two corners exchanged",
        "gap_svt",
        lambda d: d["events"][0]["shifts"][0]["table"].reverse(),
        "/events/0/shifts/0/table/0",
        "where the data move by (0: -1) it changes condition /events/0/conditions/0 by -2",
    ),
    Tampering(
        "entries twice",
        "gap_svt",
        put("/events/0/shifts/0/entries", [0, 0]),
        "/events/0/shifts/0/entries",
        "none twice",
    ),
    Tampering(
        "so many entries that their corners would fill the memory",
        "prefix_sum_17",
        put("/events/0/shifts/0", {"entries": list(range(17)), "at": "corners", "table": []}),
        "/events/0/shifts/0/entries",
        "more than 2^16 differences",
    ),
    Tampering(
        "slope lowered",
        "prefix_sum",
        put("/events/0/shifts/0/rule/1/data/1", "-1/2"),
        "/events/0/shifts/0/rule",
        "for some difference it changes the numeric entry /events/0/numbers/1 by -1/2",
    ),
    Tampering(
        "constant raised",
        "prefix_sum",
        put("/events/0/shifts/0/rule/1/constant", "1"),
        "/events/0/shifts/0/rule",
        "for some difference it changes the numeric entry /events/0/numbers/1 by 1",
    ),
    Tampering(
        "cost of a rule lowered",
        "prefix_sum",
        put("/events/0/shifts/0/cost", "1/5"),
        "/events/0/shifts/0/cost",
        "the moves may cost 3/10, not only 1/5",
    ),
    Tampering(
        "a move of a rule dropped",
        "prefix_sum",
        drop("/events/0/shifts/0/rule/1"),
        "/events/0/shifts/0/rule",
        "3 moves are needed",
    ),
    Tampering(
        "a rule for corners",
        "smart_sum",
        put("/events/0/shifts/0", {"rule": [{"constant": "0", "data": {}}] * 3, "cost": "0"}),
        "/events/0/shifts/0/rule",
        "a rule is for a box",
    ),
    Tampering(
        "a rule for noise that only moves upwards",
        "prefix_sum",
        put("/noises/0/kind", "exponential"),
        "/events/0/shifts/0/rule/0",
        "exponential noise must not be moved by -1",
    ),
    Tampering("corner doubled", "smart_sum", double_corner, "/polytopes/0/corners/2", "listed twice: it is corner 1"),
    Tampering(
        "corner shrunk", "smart_sum", put("/polytopes/0/corners/1/1", "1/2"), "/polytopes/0/corners/1", "(0, 1/2, 0) is"
    ),
    Tampering("corner cut", "smart_sum", drop("/polytopes/0/corners/1/1"), "/polytopes/0/corners/1", "has 3 entries"),
    Tampering(
        "polytope dropped", "monotone_svt", drop("/polytopes/1"), "/polytopes", "2 polytopes under monotone, not 1"
    ),
    Tampering("adjacency renamed", "svt1", put("/adjacency", "l1"), "/polytopes/0", "corners are needed under l1"),
    Tampering(
        "adjacency widened", "monotone_svt", put("/adjacency", "linf"), "/polytopes", "1 polytope under linf, not 2"
    ),
    Tampering("size", "svt1", put("/size", 2), "/polytopes/0/low", "has 2 entries"),
    Tampering("kind of certificate", "svt1", put("/kind", "promise"), "/kind", "one of alignment"),
    Tampering("event dropped", "svt1", drop_event, "/events", "no event covers the run with noise 0 = "),
    Tampering(
        "event doubled", "svt1", lambda d: d["events"].append(d["events"][0]), "/events/4", "it overlaps event 0"
    ),
    Tampering("condition dropped", "svt1", drop("/events/1/conditions/0"), "/events/1", "it overlaps event 0"),
    Tampering(
        "condition weakened", "svt1", put("/events/0/conditions/0/constant", "0"), "/events/1", "it overlaps event 0"
    ),
    Tampering(
        "condition strengthened", "svt1", put("/events/0/conditions/0/constant", "-1"), "/events", "no event covers"
    ),
    Tampering(
        "condition turned",
        "svt1",
        put("/events/3/conditions/2/data/2", "2"),
        "/events/3/shifts/0/table/0",
        "however the data move it changes condition /events/3/conditions/2 by -1",
    ),
    Tampering(
        "condition on noise never drawn",
        "svt1",
        put("/events/0/conditions/0/noise/3", "1"),
        "/events/0/conditions/0/noise/3",
        "'3' is no noise that this event draws",
    ),
    Tampering(
        "condition on data that are not there",
        "svt1",
        put("/events/0/conditions/0/data/3", "1"),
        "/events/0/conditions/0/data/3",
        "'3' is no entry of the data",
    ),
    Tampering(
        "relation made an equation",
        "svt1",
        put("/events/3/conditions/2/relation", "=="),
        "/events/3/shifts/0/",
        "it changes condition /events/3/conditions/2",
    ),
    Tampering(
        "relation unknown",
        "svt1",
        put("/events/3/conditions/2/relation", "!="),
        "/events/3/conditions/2/relation",
        "one of >=, >, ==",
    ),
    Tampering(
        "number changed",
        "gap_svt",
        put("/events/0/numbers/0/noise/1", "2"),
        "/events/0/shifts/0/",
        "changes the numeric entry /events/0/numbers/0",
    ),
    Tampering(
        "number lowered at one corner",
        "smart_sum",
        put("/events/0/shifts/0/table/0/moves/0", "-3"),
        "/events/0/shifts/0/table/0",
        "where the data move by (0: 1, 1: 0, 2: 0) it changes the numeric entry /events/0/numbers/0 by -2",
    ),
    Tampering(
        "number dropped", "gap_svt", drop("/events/0/numbers/0"), "/events/0/numbers", "has 1 numeric entries, not 0"
    ),
    Tampering("scale raised", "svt1", put("/noises/0/scale", "21"), "/events/", "the moves cost"),
    Tampering("scale lowered", "svt1", put("/noises/0/scale", "19"), "/events/", "the moves cost"),
    Tampering(
        "scale negative",
        "svt1",
        put("/noises/0/scale", "-20"),
        "/noises/0/scale",
        "a number above 0 is needed, not -20",
    ),
    Tampering(
        "kind changed to one that only moves upwards",
        "smart_sum",
        put("/noises/0/kind", "exponential"),
        "/events/0/shifts/0/table/",
        "exponential noise must not be moved by -1",
    ),
    Tampering(
        "kind changed to one that has no rule",
        "noisy_max2",
        put("/noises/0/kind", "normal"),
        "/events/",
        "normal noise must not be moved by",
    ),
    Tampering("kind unknown", "svt1", put("/noises/1/kind", "wald"), "/noises/1/kind", "'wald' is not known"),
    Tampering("output renamed to collide", "svt1", put("/outputs/1", "[True]"), "/outputs/1", "it is output 0 too"),
    Tampering(
        "output taken from an event", "svt1", put("/events/1/output", 0), "/outputs/1", "no event gives this output"
    ),
    Tampering(
        "weight lowered", "svt1", put("/events/1/weight", "1/2"), "/events", "the weights of the events do not sum"
    ),
    Tampering("weight of a choice", "coin_or_threshold", put("/events/1/weight", "1/4"), "/events", "the weights of"),
    Tampering("weight 0", "svt1", put("/events/1/weight", "0"), "/events/1/weight", "a probability above 0 is needed"),
    Tampering(
        "draws out of order", "svt1", put("/events/0/draws", [1, 0]), "/events/0/draws/0", "noise 1 is draw 1 of a run"
    ),
    Tampering(
        "draw left out", "svt1", drop("/events/0/draws/1"), "/events/0/conditions/0/noise/1", "'1' is no noise that"
    ),
    Tampering(
        "shifts for whole differences, of data that need not be",
        "gap_svt",
        put("/events/0/shifts/0/at", "whole"),
        "/events/0/shifts/0/table",
        "3 shifts needed, one for each whole difference",
    ),
    Tampering(
        "a table of whole differences said to be for all",
        "geometric_linf",
        put("/data", "real"),
        "/events/0/shifts/0/at",
        "the data must be whole",
    ),
    Tampering(
        "the whole difference 0 left out",
        "geometric_linf_1",
        lambda d: d["events"][0]["shifts"][0].update(
            at="corners", table=[d["events"][0]["shifts"][0]["table"][k] for k in (0, 2)]
        ),
        "/events/0/shifts/0/entries",
        "whole differences of entry 0 need not be corners",
    ),
    Tampering(
        "data said to be real",
        "geometric",
        put("/data", "real"),
        "/events/0/shifts/0/table/3/moves/0",
        "whole noise is moved, which only carries over whole differences",
    ),
    Tampering(
        "a price that is a logarithm, lowered",
        "geometric",
        put("/events/0/shifts/0/table/0/cost", "99999999/1000000000"),
        "/events/0/shifts/0/table/0/cost",
        "the moves cost just under 0.1",
    ),
    Tampering(
        "half a step of whole noise",
        "geometric",
        put("/events/0/shifts/0/table/0/moves/0", "1/2"),
        "/events/0/shifts/0/table/0",
        "it changes the numeric entry",
    ),
    Tampering("no rational", "svt1", put("/epsilon", 0.1), "/epsilon", 'a rational such as "-3/40" is needed, not 0.1'),
    Tampering("denominator 0", "svt1", put("/epsilon", "1/0"), "/epsilon", "the denominator is 0"),
    Tampering("field missing", "svt1", drop("/data"), "/", "the field 'data' is missing"),
    Tampering("field added", "svt1", put("/events/0/note", "trust me"), "/events/0/note", "there is no such field"),
    Tampering("no events", "svt1", lambda d: d.update(events=[], outputs=[]), "/events", "there is no event"),
]


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.what)
def test_tampering_is_rejected_at_its_place(tampering):
    tampering.assert_rejected(certified(tampering.name))


def test_no_shift_at_all_is_rejected():
    document = certified("noisy_max1")
    all_shifts(document, {"moves": ["0", "0", "0"], "cost": "0"})
    assert check(document).rejection.place == "/events/0/shifts/0/table/0"


def test_one_direction_is_not_enough_where_differences_are_listed():
    document = certified("smart_sum") | {"adjacency": "listed"}
    drop_corner(document)
    rejection = check(document).rejection
    assert (rejection.place, "one direction" in rejection.reason) == ("/polytopes/0", True)


def test_one_direction_of_a_box_is_not_enough_where_differences_are_listed():
    document = certified("monotone_svt") | {"adjacency": "listed"}
    assert check(document).verified
    del document["polytopes"][1]
    assert check(document).rejection.place == "/polytopes/0"


def test_a_claim_for_whole_data_follows_from_one_for_all_data():
    checked = check(certified("svt1") | {"data": "whole"})
    assert checked.verified
    assert "nothing is said of data that are not whole, though it would hold" in checked.steps[4].finding


def uncovered_noise(document: Document) -> Fraction:
    found = re.match("no event covers the run with noise 0 = ([^,]+),", check(document).rejection.reason)
    return Fraction(found[1])


def test_runs_with_noise_outside_of_its_support_need_no_event():
    def coin(rng, queries):
        return bool(rng.uniform() > 0.5)

    document = json.loads(json.dumps(certificate_of(prove(coin, 1))))
    at_least_0 = {"noise": {"0": "1"}, "data": {}, "constant": "0", "relation": ">="}
    at_most_1 = {"noise": {"0": "-1"}, "data": {}, "constant": "1", "relation": ">="}
    for event in document["events"]:
        event["conditions"] += [at_least_0, at_most_1]
    assert check(document).verified
    put("/noises/0/kind", "exponential")(document)
    assert uncovered_noise(document) > 1
    for event in document["events"]:
        event["conditions"].remove(at_most_1)
    assert check(document).verified
    put("/noises/0/kind", "laplace")(document)
    assert uncovered_noise(document) < 0


def test_boundaries_count_where_whole_noise_decides():
    def whole(rng, queries):
        return bool(rng.geometric(0.5) > 3)

    document = json.loads(json.dumps(certificate_of(prove(whole, 2))))
    assert check(document).verified
    put("/events/1/conditions/0/relation", ">")(document)
    assert check(document).rejection.place == "/events"
    assert uncovered_noise(document) == 3
    put("/events/1/conditions/0/relation", ">=")(document)
    put("/events/0/conditions/0/relation", ">=")(document)
    assert check(document).rejection.reason.startswith("it overlaps event 0, for the run with noise 0 = 3,")


def test_boundaries_count_where_data_alone_decide():
    document = certified("by_order", 2)
    relations = [event["conditions"][0]["relation"] for event in document["events"]]
    assert sorted(relations) == ["==", ">", ">"]
    drop(f"/events/{relations.index('==')}")(document)
    drop("/outputs/0")(document)
    for event in document["events"]:
        event["output"] = 0
    gap = re.fullmatch(
        r"no event covers the run with .*, data\[0\] = (.+), data\[1\] = (.+)", check(document).rejection.reason
    )
    assert gap[1] == gap[2]
    document = certified("by_order", 2)
    put(f"/events/{relations.index('>')}/conditions/0/relation", ">=")(document)
    assert "overlaps" in check(document).rejection.reason


# -------------------------------------------------------------------- tampering at random, judged by another means

FUZZED = [("svt1", 2), ("gap_svt", 2), ("noisy_max2", 2), ("smart_sum", 2), ("coin_or_threshold", 2), ("geometric", 2)]
FUZZED += [("prefix_sum", 3), ("geometric_linf", 2)]


def law(noise: dict[str, Any]) -> Any:
    return LAW[noise["kind"]](*(float(Fraction(v)) for k, v in noise.items() if k not in ("draw", "kind")))


def logarithm(noise: dict[str, Any], value: float) -> float:
    frozen = law(noise)
    return float(
        frozen.logpmf(value) if hasattr(frozen, "pmf") and not hasattr(frozen, "pdf") else frozen.logpdf(value)
    )


def value_of(linear: dict[str, Any], noise: dict[str, float], data: np.ndarray) -> float:
    total = float(Fraction(linear["constant"]))
    total += sum(float(Fraction(c)) * noise[row] for row, c in linear["noise"].items())
    return total + sum(float(Fraction(c)) * data[int(entry)] for entry, c in linear["data"].items())


def carries_random_runs(document: Document, rng: np.random.Generator, runs: int = 60) -> bool:
    """Whether the mechanism that the document describes, run on random data, is carried to random neighbours at ε.

    This is what a certificate means, tried out in floats: each run is in events of total weight 1; the mean of the
    shifts carries it to a run with the same output on the neighbour, at a change of density of at most ε.
    """
    if document["adjacency"] in BY_NAME:
        wanted = BY_NAME[document["adjacency"]].vertices(document["size"])
        if {tuple(c + 0.0) for c in wanted} != {c for polytope in document["polytopes"] for c in corners_of(polytope)}:
            return False
    laws = [law(noise) for noise in document["noises"]]
    whole = document["data"] == "whole"
    for _ in range(runs):
        data: Any = rng.normal(scale=3, size=document["size"])
        data = np.rint(data) if whole else data
        noise = {str(row): float(frozen.rvs(random_state=rng)) for row, frozen in enumerate(laws)}
        which = int(rng.integers(len(document["polytopes"])))
        corners = np.array(corners_of(document["polytopes"][which]))
        means = rng.dirichlet(np.full(len(corners), 0.3))
        difference = means @ corners
        if whole:
            difference = corners[rng.integers(len(corners))] if rng.random() < 0.5 else np.rint(difference)
        holding = [event for event in document["events"] if _holds(event, noise, data)]
        if abs(sum(float(Fraction(event["weight"])) for event in holding) - 1) > 1e-9:
            return False
        if not all(_carried(document, e, noise, data, difference, which) for e in holding):
            return False
    return True


def corners_of(polytope: dict[str, Any]) -> list[tuple[float, ...]]:
    if "corners" in polytope:
        return [tuple(float(Fraction(x)) + 0.0 for x in corner) for corner in polytope["corners"]]
    ends = [(float(Fraction(a)), float(Fraction(b))) for a, b in zip(polytope["low"], polytope["high"], strict=True)]
    return list(itertools.product(*ends))


def moves_at(shifts: dict[str, Any], polytope: dict[str, Any], difference: np.ndarray) -> np.ndarray:
    """The shift that a rule or table has for a difference: the mean of those of its corners, for a table."""
    if "rule" in shifts:
        rows = [(float(Fraction(m["constant"])), m["data"]) for m in shifts["rule"]]
        return np.array([c + sum(float(Fraction(s)) * difference[int(i)] for i, s in d.items()) for c, d in rows])
    table = np.array([[float(Fraction(x)) for x in shift["moves"]] for shift in shifts["table"]])
    if "corners" in polytope:
        corners = np.array(corners_of(polytope))
        if not np.any(difference):
            return np.zeros(table.shape[1])
        found = optimize.linprog(
            np.zeros(len(corners)), A_eq=np.vstack([corners.T, np.ones(len(corners))]), b_eq=[*difference, 1.0]
        )
        return np.asarray(found.x @ table)
    entries = shifts["entries"]
    ends = [(float(Fraction(polytope["low"][i])), float(Fraction(polytope["high"][i]))) for i in entries]
    grids: list[tuple[float, ...]] = [*ends]
    if shifts["at"] == "whole":
        grids = [tuple(range(int(low), int(high) + 1)) for low, high in ends]
    weights = [
        math.prod(_hat(difference[i], value, values) for i, value, values in zip(entries, corner, grids, strict=True))
        for corner in itertools.product(*grids)
    ]
    return np.array(weights) @ table


def _hat(x: float, value: float, values: tuple[float, ...]) -> float:
    """The share of a value in the linear interpolation at x between the values."""
    return float(np.interp(x, values, [float(v == value) for v in values]))


def _holds(event: Document, noise: dict[str, float], data: np.ndarray, slack: float = 0.0) -> bool:
    values = [(value_of(c, noise, data), c["relation"]) for c in event["conditions"]]
    return all(abs(v) <= slack if relation == "==" else v >= -slack for v, relation in values)


def _carried(document, event, noise, data, difference, which) -> bool:
    moves = moves_at(event["shifts"][which], document["polytopes"][which], difference)
    moved = noise | {str(row): noise[str(row)] + move for row, move in zip(event["draws"], moves, strict=True)}
    if not _holds(event, moved, data + difference, slack=1e-9):
        return False
    numbers = [(value_of(n, noise, data), value_of(n, moved, data + difference)) for n in event["numbers"]]
    if not all(math.isclose(a, b, abs_tol=1e-9) for a, b in numbers):
        return False
    drawn = [(document["noises"][row], noise[str(row)], moved[str(row)]) for row in event["draws"]]
    spent = sum(logarithm(n, before) - logarithm(n, after) for n, before, after in drawn)
    return spent <= float(Fraction(document["epsilon"])) + 1e-9


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_accepted_after_random_tampering_is_still_true(data):
    """Whatever one value is changed to, the checker rejects it, or it describes a mechanism that is ε-private still."""
    name, size = data.draw(st.sampled_from(FUZZED))
    document = certified(name, size, 2.0 if name in catalogue else None)
    before = copy.deepcopy(document)
    pointer = tampered(document, data.draw)
    if check(document).verified and document != before:
        assert carries_random_runs(document, np.random.default_rng(5)), pointer
        assert Fraction(document["epsilon"]) >= Fraction(before["epsilon"]), pointer


@pytest.mark.parametrize(("name", "size"), FUZZED)
def test_the_means_by_which_tampering_is_judged_accepts_what_is_true(name, size):
    assert carries_random_runs(certified(name, size, 2.0 if name in catalogue else None), np.random.default_rng(3))


@pytest.mark.parametrize(
    "edit",
    [
        put("/epsilon", "1/4"),
        put("/events/0/shifts/0/table/0/moves/1", "0"),
        put("/events/1/conditions/0/constant", "3"),
        drop("/events/1"),
        put("/noises/1/scale", "1/10"),
    ],
)
def test_the_means_by_which_tampering_is_judged_sees_what_is_false(edit):
    document = certified("svt1", 2, 2.0)
    edit(document)
    assert not carries_random_runs(document, np.random.default_rng(3), runs=2000)


# --------------------------------------------------------------------------------------------------- prices of noise


@pytest.mark.parametrize("move", [Fraction(1), Fraction(-1), Fraction(5, 2), Fraction(-1, 3)])
@pytest.mark.parametrize("kind", ["laplace", "exponential", "gumbel", "logistic", "normal", "uniform"])
def test_the_price_of_a_move_is_the_most_that_it_changes_the_density(kind, move):
    price = NoiseDraw(0, kind, (Fraction(3),)).price(move)
    frozen = LAW[kind](3.0)

    def loss(reach: float) -> float:
        low, high = frozen.support()
        points = np.linspace(max(low, -reach), min(high, reach), 100_001)
        with np.errstate(divide="ignore"):
            return float(np.max(frozen.logpdf(points) - frozen.logpdf(points + float(move))))

    if price is None:  # without bound: it leaves the support, or the loss grows with the reach
        assert loss(100) == math.inf or loss(100) > 1.9 * loss(50)
    else:
        assert not price.rounded
        assert loss(100) == pytest.approx(float(price.amount), rel=1e-6)


@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(1, 2), Fraction(0.6321205588285577), Fraction(999, 1000)])
def test_the_price_of_geometric_noise_is_just_above_the_logarithm(p):
    price = NoiseDraw(0, "geometric", (p,)).price(Fraction(3))
    ratio = stats.geom(float(p)).pmf(4) / stats.geom(float(p)).pmf(7)
    assert price.rounded
    assert float(price.amount) == pytest.approx(math.log(ratio), rel=1e-9)
    assert NoiseDraw(0, "geometric", (p,)).price(Fraction(-1)) is None
    assert NoiseDraw(0, "geometric", (p,)).price(Fraction(1, 2)) is None


@pytest.mark.parametrize("kind", ["poisson", "binomial"])
def test_noise_without_a_rule_must_stay(kind):
    noise = NoiseDraw(0, kind, (Fraction(40), Fraction(1, 2))[: 1 + (kind == "binomial")])
    assert noise.price(Fraction(1)) is None
    assert noise.price(Fraction(0)).amount == 0


@settings(derandomize=True, deadline=None)
@given(st.fractions(min_value=1, max_value=10**6, max_denominator=10**6))
@example(Fraction(2**80 + 1, 2**80 - 1))  # so small that the first term is exact, and what is left out decides
def test_the_logarithm_is_bounded_from_above_and_closely(x):
    with localcontext() as context:
        context.prec = 80
        true = (Decimal(x.numerator) / Decimal(x.denominator)).ln()
        above = log_above(x)
        excess = Decimal(above.numerator) / Decimal(above.denominator) - true
        assert Decimal(0) <= excess < Decimal(10) ** -44


# ------------------------------------------------------------------------------------------------------ the program


def spotted(name: str, function: Callable[..., Any] | None = None, size: int = 3, seed: int = 1) -> CheckResult:
    return spot_check(check(certified(name, size)), function or MECHANISMS[name].bound(), 200, seed)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_program_does_what_its_certificate_says(name):
    checked = spotted(name)
    assert checked.rejection is None
    assert checked.steps[-1].finding.startswith("200 random runs of the program agree")
    assert "not a proof" in checked.steps[-1].finding


def test_another_program_is_found_out():
    noise = spotted("svt1", catalogue["svt4"].bound()).rejection
    assert noise.place == "/noises"
    assert "laplace(40), laplace(13.3333)" in noise.reason

    threshold = spotted("svt1", catalogue["svt1"].bind(threshold=4).bound()).rejection
    assert threshold.place.startswith("/events")
    assert "the program returned" in threshold.reason

    leak = spotted("gap_svt", catalogue["bad_gap_svt"].bound()).rejection
    assert leak.place.startswith("/events/")


def test_a_program_that_goes_on_where_the_certificate_stops_is_found_out():
    def all_at_once(rng, queries):
        threshold = 0.5 + rng.laplace(scale=20)
        noisy = queries + rng.laplace(scale=40, size=len(queries))
        return [bool(query >= threshold) for query in noisy]

    rejection = spotted("svt1", all_at_once).rejection
    assert (rejection.place, "and no event holds" in rejection.reason) == ("/events", True)


def test_what_the_steps_cannot_see_a_spot_check_does():
    """Outputs swapped, and a constant added to a released number: as private as before, but another mechanism."""
    document = certified("svt1")
    document["outputs"][0], document["outputs"][1] = document["outputs"][1], document["outputs"][0]
    checked = check(document)
    assert checked.verified
    assert not spot_check(checked, MECHANISMS["svt1"].bound(), 200, 1).verified

    document = certified("gap_svt")
    put("/events/0/numbers/0/constant", "7")(document)
    checked = check(document)
    assert checked.verified
    found = spot_check(checked, MECHANISMS["gap_svt"].bound(), 200, 1).rejection
    assert found.place == "/events/0"


def test_a_program_that_fails_or_draws_what_has_no_word_is_told():
    def weibull(rng, queries):
        return rng.weibull(2.0)

    with pytest.raises(MechanismFailed, match=r"run 0, on .*: it raised AttributeError: .*weibull"):
        spotted("svt1", weibull)


def test_the_recording_generator_writes_noise_down_in_order():
    recorder = RecordingGenerator(np.random.default_rng(2))
    both = recorder.laplace(loc=[10.0, 20.0], scale=[2.0, 0.0])
    low = recorder.uniform(5, 9)
    count = recorder.geometric(0.5, size=2)
    recorder.integers(4)
    recorder.binomial(3, 0.5)
    many = recorder.binomial(40, 0.5)
    (laplace, uniform, first, second, binomial) = recorder.draws
    assert (laplace.kind, laplace.parameters, laplace.value) == ("laplace", (2.0,), pytest.approx(both[0] - 10))
    assert both[1] == 20.0
    assert (uniform.kind, 5 + 4 * uniform.value) == ("uniform", pytest.approx(low))
    assert [first.value, second.value] == count.tolist()
    assert (binomial.parameters, binomial.value) == ((40.0, 0.5), many)


def test_arguments_come_back_from_their_text():
    document = certified("svt1") | {"arguments": {"epsilon": "1/10", "threshold": "0.5", "mode": "'x'"}}
    stated = check(document).certificate
    assert arguments_of(stated, {"threshold": 0.5}) == {"epsilon": Fraction(1, 10), "mode": "x"}
    odd = check(document | {"arguments": {"f": "<function f>"}}).certificate
    with pytest.raises(BadInput, match="the argument f = <function f> of the certificate is not a literal"):
        arguments_of(odd, {})


# ------------------------------------------------------------------------------------------------ files and commands


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file or directory; give the file of a certificate"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"svt1 is private", "not a certificate: Expecting value"),
        (b"[1, 2]", 'this is not a certificate: it has no "format"'),
        (b'{"format": "another"}', 'this is not a certificate: it has no "format"'),
        (
            b'{"format": "veridp-certificate", "version": 2}',
            "version 2 cannot be checked, only of version 3",
        ),
        (b'{"format": "veridp-certificate"}', "a certificate of version None cannot be checked"),
        (b'{"format": "veridp-certificate", "version": true}', "a certificate of version True cannot be checked"),
        (b'{"format": "veridp-certificate", "version": 3.0}', "a certificate of version 3.0 cannot be checked"),
        (b'{"format": 1, "format": "veridp-certificate"}', "the name 'format' is given twice in one object"),
        (b'{"format": NaN}', "NaN is no number of JSON"),
        (b"[" * 100_000, "not a certificate"),
    ],
)
def test_what_is_no_certificate_cannot_be_judged(monkeypatch, capfd, tmp_path, content, complaint):
    file = tmp_path / "file.json"
    if content is not None:
        file.write_bytes(content)
    status, out, err = run(monkeypatch, capfd, "check", str(file))
    assert (status, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_folder_is_no_certificate(tmp_path):
    with pytest.raises(NotACertificate, match="give the file of a certificate"):
        check_file(tmp_path)


def test_the_command_rejects_with_status_1_and_the_place(monkeypatch, capfd, tmp_path):
    document = certified("svt1")
    put("/events/0/shifts/0/table/0/cost", "1/41")(document)
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(document))
    status, out, err = run(monkeypatch, capfd, "check", str(file))
    assert (status, err) == (1, "")
    assert out.splitlines()[-1] == (
        f"{file} is rejected at /events/0/shifts/0/table/0/cost: the moves cost 1/40, not 1/41"
    )
    assert len(out.splitlines()) == 4

    status, out, err = run(monkeypatch, capfd, "check", str(file), "--json")
    (found,) = json.loads(out)["results"]
    assert (status, found["verified"]) == (1, False)
    assert found["rejection"] == {"place": "/events/0/shifts/0/table/0/cost", "reason": "the moves cost 1/40, not 1/41"}
    assert [step["name"] for step in found["steps"]] == ["neighbours", "outputs", "shifts"]


def test_the_command_with_a_target(monkeypatch, capfd, tmp_path):
    save_certificate(prove(catalogue["svt1"], 3, threshold=2.0), tmp_path / "proof.json")
    words = ["check", str(tmp_path / "proof.json"), "--target", "svt1", "--runs", "50"]
    status, out, _ = run(monkeypatch, capfd, *words, "--size", "3", "--arg", "threshold=2.0")
    assert status == 0
    assert "program:    50 random runs of the program agree; this is evidence, not a proof" in out
    status, out, _ = run(monkeypatch, capfd, "check", str(tmp_path / "proof.json"), "--target", "svt4")
    assert status == 1
    assert "rejected at /noises" in out


def test_from_proof_to_file_to_check_in_another_process(tmp_path):
    file = tmp_path / "proof.json"
    save_certificate(prove(catalogue["svt4"], 4), file)
    command = [sys.executable, "-m", "veridp.cli", "check", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)["results"]
    assert (found["verified"], found["epsilon"], found["size"]) == (True, "7/40", 4)
    file.write_text(file.read_text().replace('"7/40"', '"6/40"', 1))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert json.loads(done.stdout)["results"][0]["rejection"]["reason"] == "the cost 7/40 is above ε = 3/20"


def test_the_differences_of_a_relation_are_those_that_it_has():
    """The polytopes that the checker wants are those of the relation: listed by hand for two entries."""
    wanted = {
        "linf": [{(-1, -1), (-1, 1), (1, -1), (1, 1)}],
        "l1": [{(1, 0), (-1, 0), (0, 1), (0, -1)}],
        "monotone": [set(itertools.product((0, 1), repeat=2)), set(itertools.product((0, -1), repeat=2))],
    }
    for name, polytopes in wanted.items():
        document = certificate_of(prove(replace(catalogue["partial_sum"], adjacency=adjacency(name)), 2))
        assert [set(corners_of(polytope)) for polytope in document["polytopes"]] == polytopes
        assert check(json.loads(json.dumps(document))).verified
