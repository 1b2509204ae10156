"""Certificates of couplings: what is accepted, every kind of tampering and where it is found, and the program."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engines.prove.tampering import Document, Tampering, at, drop, put, run, tampered

from veridp import catalogue, mechanism
from veridp.adjacency import adjacency
from veridp.engines.prove import prove
from veridp.engines.prove.replay import spot_check
from veridp_check.checker import check
from veridp_check.enclosures import exp_above


def response(rng, queries):
    """Randomised response to whether the first query is positive; the second one with Laplace noise."""
    bit = queries[0] > 0
    answer = bit if rng.random() < 0.75 else not bit
    return [bool(answer), queries[1] + rng.laplace(scale=10)]


@mechanism(adjacency="any", domain=[0, 1], size=1)
def both(rng, value):
    """Randomised response, and whether the value with Laplace noise is large."""
    kept = value if rng.random() < 0.75 else 1 - value
    return kept, value + rng.laplace(scale=10) > 0.5


MECHANISMS = {
    "coin": catalogue["randomized_response"].bind(epsilon=math.log(3)),
    "rappor": catalogue["rappor"],
    "truncated": catalogue["truncated_geometric"],
    "both": both,
    "response": mechanism(adjacency="linf", size=2)(response),
    "response_l1": mechanism(adjacency="l1", size=2)(response),
    "response_monotone": mechanism(adjacency="monotone", size=2)(response),
    "exponential": replace(catalogue["exponential_mechanism"], domain=range(2), size=2),
    "sum": replace(catalogue["finder_sum"], domain=[0, 1], size=2),
    "replaced": replace(catalogue["partial_sum"], adjacency=adjacency("replace"), domain=[0, 1], size=2),
}


@cache
def _certified(name: str) -> Document:
    return json.loads(json.dumps(prove(MECHANISMS[name]).certificate))


def certified(name: str) -> Document:
    return copy.deepcopy(_certified(name))


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_certificate_of_a_coupling_is_verified(name):
    checked = check(certified(name))
    assert checked.rejection is None
    assert [step.name for step in checked.steps] == ["cases", "neighbours", "parts", "couplings", "epsilon"]
    assert float(checked.certificate.epsilon) == pytest.approx(prove(MECHANISMS[name]).epsilon, rel=1e-11)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_program_does_what_its_certificate_says(name):
    checked = spot_check(check(certified(name)), MECHANISMS[name].bound(), 60, seed=2)
    assert checked.rejection is None
    assert checked.steps[-1].finding.startswith("60 random runs")


def test_another_program_is_found_out():
    honest = spot_check(check(certified("coin")), lambda rng, bit: bit if rng.random() < 0.9 else not bit, 60, seed=2)
    assert "the program returned" in honest.rejection.reason
    shy = spot_check(check(certified("coin")), lambda rng, bit: rng.integers(2) == 1, 60, seed=2)
    assert shy.rejection.place.startswith("/parts/")


def test_the_ratio_of_a_coin_is_kept_as_the_program_has_it():
    document = certified("coin")
    threshold = Fraction(1 / (1 + math.exp(-math.log(3))))
    assert {coupling["ratio"] for coupling in document["couplings"]} == {str(threshold / (1 - threshold))}
    assert Fraction(document["epsilon"]) >= Fraction(math.log(3))


# -------------------------------------------------------------------------------------------------------- tampering


TAMPERINGS = [
    Tampering("ε lowered", "coin", put("/epsilon", "1"), "/pairs/0", "it loses 1.09861228866811, above ε = 1"),
    Tampering("ratio lowered", "truncated", put("/couplings/0/ratio", "1"), "/couplings/0/ratio", "times as likely"),
    Tampering("cost of a coupling lowered", "response", put("/couplings/0/cost", "0"), "/couplings/0/ratio", "event"),
    Tampering("weight raised", "both", put("/parts/0/events/0/weight", "3/4"), "/parts/0/events", "do not sum to 1"),
    Tampering(
        "chance moved",
        "truncated",
        put("/parts/0/events/0/conditions/0/constant", "41473"),
        "/parts/0/events",
        "no event covers",
    ),
    Tampering("event dropped", "coin", drop("/parts/0/events/1"), "/parts/0/events", "no event covers"),
    Tampering("case dropped", "response", drop("/cases/1"), "/pairs/1/right", "there is no case 1"),
    Tampering(
        "region dropped",
        "response",
        lambda d: (d["cases"].pop(), d.update(pairs=d["pairs"][:1])),
        "/cases",
        "no case covers the data data[0] = ",
    ),
    Tampering(
        "pair dropped", "coin", drop("/pairs/0"), "/pairs", "cases 0 and 1 are neighbours under any, and not listed"
    ),
    Tampering(
        "pair of regions dropped", "response", drop("/pairs/1"), "/pairs", "cases 0 and 1 are neighbours, and not"
    ),
    Tampering(
        "pair doubled", "coin", lambda d: d["pairs"].append(d["pairs"][0]), "/pairs/2", "listed twice: it is pair 0"
    ),
    Tampering("value doubled", "coin", put("/cases/1/value", "False"), "/cases/1/value", "False is listed twice"),
    Tampering("value no literal", "coin", put("/cases/1/value", "x"), "/cases/1/value", "a Python literal is needed"),
    Tampering("value too long", "truncated", put("/cases/1/value", "[1, 2]"), "/cases/1/value", "1 entry needed"),
    Tampering("adjacency widened", "truncated", put("/adjacency", "any"), "/pairs", "cases 0 and 2 are neighbours"),
    Tampering("adjacency unknown", "truncated", put("/adjacency", "mine"), "/adjacency", "one of linf, l1"),
    Tampering("polytope shrunk", "response", put("/polytopes/0/high/0", "0"), "/polytopes/0", "not what linf has"),
    Tampering("polytope dropped", "response_l1", drop("/polytopes/1"), "/pairs/4/polytope", "there is no polytope 1"),
    Tampering(
        "share lowered",
        "both",
        put("/couplings/0/transports/0/share", "1/2"),
        "/couplings/0/transports",
        "sum to 1/2, not 1",
    ),
    Tampering(
        "share negative",
        "both",
        put("/couplings/0/transports/0/share", "-1"),
        "/couplings/0/transports/0/share",
        "above 0",
    ),
    Tampering(
        "carried to another output",
        "both",
        put("/couplings/0/transports/0/to", 1),
        "/couplings/0/transports/0",
        "it carries the output",
    ),
    Tampering(
        "shift of noise raised",
        "both",
        put("/couplings/0/transports/1/shifts/table/0/moves/0", "-2"),
        "/couplings/0/transports/1/shifts/table/0/cost",
        "the moves cost 1/5, not 1/10",
    ),
    Tampering(
        "too many moves",
        "both",
        put("/couplings/0/transports/0/shifts/table/0/moves", ["0", "0"]),
        "/couplings/0/transports/0/shifts",
        "1 moves are needed",
    ),
    Tampering(
        "all transports dropped", "both", put("/couplings/0/transports", []), "/couplings/0/transports", "not shared"
    ),
    Tampering("scale lowered", "both", put("/noises/1/scale", "9"), "/couplings/0/transports/", "the moves cost"),
    Tampering(
        "parts that share noise",
        "rappor",
        lambda d: d["cases"][0]["parts"].__setitem__(1, d["cases"][0]["parts"][0]),
        "/cases/0/parts",
        "entries of the output must be decided by one part",
    ),
    Tampering(
        "coupling of other parts", "rappor", put("/pairs/0/couplings/0", 70), "/pairs/0/couplings/0", "other parts"
    ),
    Tampering(
        "coupling left out", "rappor", drop("/pairs/0/couplings/0"), "/pairs/0/couplings", "one is needed for each"
    ),
    Tampering(
        "draws out of order", "both", put("/parts/0/events/0/draws", [1, 0]), "/parts/0/events/0/draws/1", "not after"
    ),
    Tampering("condition on a value", "coin", put("/cases/0/conditions", [{}]), "/cases/0/conditions/0", "missing"),
    Tampering("field added", "coin", put("/cases/0/note", "x"), "/cases/0/note", "there is no such field"),
]


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.what)
def test_tampering_is_rejected_at_its_place(tampering):
    tampering.assert_rejected(certified(tampering.name))


# -------------------------------------------------------------------- tampering at random, judged by another means


def loses_no_more(document: Document, rng: np.random.Generator, draws: int = 20_000) -> bool:
    """Whether the mechanism that the document describes, sampled, loses at most ε between cases: an estimate.

    Outputs with fewer than 300 of the draws are left out, and a loss must exceed ε by 0.35 to count: that is more than
    four standard errors of the logarithm of a ratio of two such counts, √(2/300) = 0.08. False alarms: 1e-5 for each of
    the fewer than 20 comparisons of a document, all by one seed.
    """
    laws = [_drawn(noise, rng, draws) for noise in document["noises"]]
    epsilon = float(Fraction(document["epsilon"]))
    known = {}
    for number, part in enumerate(document["parts"]):
        counts: dict[str, float] = {}
        for event in part["events"]:
            holds = np.ones(draws, dtype=bool)
            for c in event["conditions"]:
                value = float(Fraction(c["constant"])) + sum(
                    float(Fraction(x)) * laws[int(row)] for row, x in c["noise"].items()
                )
                holds &= value > 0 if c["relation"] != "==" else value == 0
            weight = float(Fraction(event["weight"]))
            counts[event["output"]] = counts.get(event["output"], 0.0) + weight * float(holds.sum())
        if abs(sum(counts.values()) - draws) > 1e-6 * draws:
            return False
        known[number] = counts
    for pair in document["pairs"]:
        lefts, rights = (document["cases"][pair[side]]["parts"] for side in ("left", "right"))
        total = 0.0
        for left, right in zip(lefts, rights, strict=True):
            losses = [
                math.log(amount / max(known[right].get(output, 0.0), 1e-9))
                for output, amount in known[left].items()
                if amount >= 300
            ]
            total += max(losses, default=0.0)
        if total > epsilon + 0.35:
            return False
    return True


def _drawn(noise: Document, rng: np.random.Generator, count: int) -> np.ndarray:
    if noise["kind"] == "uniform":
        return rng.random(count) * float(Fraction(noise["scale"]))
    return rng.laplace(scale=float(Fraction(noise["scale"])), size=count)


@pytest.mark.parametrize("name", ["coin", "truncated", "both"])
def test_the_means_by_which_tampering_is_judged(name):
    assert loses_no_more(certified(name), np.random.default_rng(1))


def test_the_means_by_which_tampering_is_judged_sees_what_is_false():
    assert not loses_no_more(certified("coin") | {"epsilon": "1/2"}, np.random.default_rng(1))
    document = certified("coin")
    for event in document["parts"][0]["events"]:
        sign = 1 if event["conditions"][0]["noise"]["0"].startswith("-") else -1
        event["conditions"][0]["constant"] = str(sign * Fraction(19, 20))
    assert not loses_no_more(document, np.random.default_rng(1))


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_accepted_after_random_tampering_is_still_true(data):
    document = certified(data.draw(st.sampled_from(["coin", "truncated", "both"])))
    before = copy.deepcopy(document)
    pointer = tampered(document, data.draw)
    if check(document).verified and document != before:
        assert Fraction(document["epsilon"]) >= Fraction(before["epsilon"]) * Fraction(99, 100), pointer
        if all(noise["kind"] in ("uniform", "laplace") for noise in document["noises"]):
            assert loses_no_more(document, np.random.default_rng(5)), pointer


# --------------------------------------------------------------------------------------------------------- its means


@settings(derandomize=True, deadline=None)
@given(st.fractions(min_value=-40, max_value=40, max_denominator=10**6))
@example(Fraction(0))
@example(Fraction(1, 10**9))
def test_the_exponential_is_bounded_from_above_and_closely(x):
    with localcontext() as context:
        context.prec = 140
        true = (Decimal(x.numerator) / Decimal(x.denominator)).exp()
        above = exp_above(x)
        excess = Decimal(above.numerator) / Decimal(above.denominator) - true
        assert (excess == 0) if x == 0 else (Decimal(0) < excess < true * Decimal(10) ** -40)


def test_the_command_from_proof_to_check(monkeypatch, capfd, tmp_path):
    file = tmp_path / "proof.json"
    status, out, _ = run(monkeypatch, capfd, "prove", "randomized_response", "--certificate", str(file))
    assert status == 0
    assert out.splitlines() == [
        "randomized_response under any, size 1: 0.1-DP is proved for the 2 data of its domain",
        "2 data, 2 ordered pairs of neighbours",
        "what costs most: between False and True, the output False: cost ln 1.10517091808 = 0.1",
        "claimed 0.1-DP: proved for the 2 data of its domain",
        f"certificate: {file}, for size 1",
    ]
    status, out, _ = run(monkeypatch, capfd, "check", str(file), "--target", "randomized_response", "--runs", "20")
    assert status == 0
    assert "verified: randomized_response(epsilon=0.1) under any, size 1, on the 2 data listed, as described" in out
    document = json.loads(file.read_text())
    at(document, "/couplings/0")["ratio"] = "11/10"
    file.write_text(json.dumps(document))
    status, out, _ = run(monkeypatch, capfd, "check", str(file))
    assert (status, "is rejected at /couplings/0/ratio: the output False is" in out) == (1, True)


def test_the_entries_of_a_dict_are_matched_by_key_whatever_order_they_came_in():
    @mechanism(adjacency="any", domain=[0, 1], size=1)
    def crossed(rng, value):
        often, seldom = rng.random() < 0.75, rng.random() < 0.25
        return {"b": often, "a": seldom} if value else {"a": often, "b": seldom}

    proof = prove(crossed)
    assert proof.epsilon == pytest.approx(2 * math.log(3))
    checked = check(json.loads(json.dumps(proof.certificate)))
    assert checked.certificate.shape == "{'a': #, 'b': #}"
    assert spot_check(checked, crossed.bound(), 60, seed=1).rejection is None

    def by_place(rng, value):
        first, second = crossed.function(rng, value).values()
        return {"a": first, "b": second}

    assert not spot_check(checked, by_place, 60, seed=1).verified
