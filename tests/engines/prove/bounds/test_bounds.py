"""Proofs by bounds of densities: any two numbers of an interval, or values of a list, with uniform noise."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.prove.tampering import Document, drop, put, run, tampered

from veridp import audit, exact, mechanism, prove
from veridp.engines.prove import AlignmentProof, BoundedProof, CouplingProof
from veridp.engines.prove.replay import spot_check
from veridp.mechanism import Mechanism
from veridp.verdict import Standing
from veridp_check.checker import check


@mechanism(adjacency="any", domain=(0.0, 1.0), size=1)
def blurred(rng, value):
    """The value moved up by less than 1, or with probability 1/4 anything from 0 to 2."""
    if rng.random() < 0.25:
        return rng.uniform(0, 2)
    return value + rng.uniform(0, 1)


@mechanism(adjacency="any", domain=(-1.0, 1.0), size=1)
def sign(rng, value):
    """A sign that is 1 with probability 1/4 to 3/4."""
    return 1 if rng.random() < (2 + value) / 4 else -1


@mechanism(adjacency="any", domain=(0.0, 3.0), size=1)
def rounded(rng, value):
    """A level around the value, at random, and then by chance another of the four."""
    level = 0 if value < 1 else 1 if value < 2 else 2
    level += rng.random() < value - level
    return level if rng.random() < 0.5 else int(rng.integers(4))


@mechanism(adjacency="any", domain=(0.0, 1.0), size=1)
def steep(rng, value):
    """A number whose range and density both depend on the value: uniform up to 1, or to 2 the rarer the larger."""
    if rng.random() < 0.25 + value / 2:
        return "narrow", 3 * rng.uniform(0, 1) - value
    return "wide", -rng.uniform(0, 1 / 2)


@mechanism(adjacency="any", domain=[(0, "a"), (1, "a"), (1, "b")], size=1)
def listed(rng, pair):
    """A number from an overlapping range for each of three records, or from all of them."""
    start = {"a": 0.25 * pair[0], "b": 0.5}[pair[1]]
    return start + rng.uniform(0, 0.5) if rng.random() < 0.75 else rng.uniform(0, 1)


KNOWN: dict[str, tuple[Mechanism, Fraction]] = {
    "blurred": (blurred, Fraction(7)),  # 1/8 + 3/4 against 1/8
    "sign": (sign, Fraction(3)),  # 3/4 against 1/4
    "rounded": (rounded, Fraction(5)),  # 1/2 + 1/8 against 1/8
    "listed": (listed, Fraction(7)),  # 1/4 + 3/2 against 1/4
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_ratio_is_the_one_by_hand(name):
    mech, ratio = KNOWN[name]
    proof = prove(mech)
    assert isinstance(proof, BoundedProof)
    assert proof.worst.ratio == ratio
    assert proof.epsilon == pytest.approx(math.log(ratio), rel=1e-14)


@pytest.mark.parametrize("name", KNOWN)
def test_no_pair_loses_more_and_some_pair_loses_as_much(name):
    """Against the exact engine, which knows nothing of bounds: on random pairs, and on the ends."""
    mech, _ = KNOWN[name]
    proof, rng = prove(mech), np.random.default_rng(3)
    if isinstance(mech.domain, tuple):
        pairs = [tuple(pair) for pair in rng.uniform(*mech.domain, size=(40, 2)).tolist()]
    else:
        pairs = [(a, b) for a in mech.domain for b in mech.domain if a != b]
    found = [exact.compare(mech, left, right).epsilon for left, right in pairs]
    assert max(found) <= proof.epsilon * (1 + 1e-12)
    assert exact.worst(mech, seconds=60).epsilon == pytest.approx(proof.epsilon, rel=1e-12)


def test_a_height_that_is_affine_is_bounded_at_the_ends_of_its_cells():
    """ "narrow" is (1/4 + x/2)/3 high from -x to 3-x: at x = 1, up to 2, it is 1/4; at x = 0, from 0 on, 1/12."""
    proof = prove(steep)
    assert math.isinf(proof.epsilon)  # what is between 2 and 3 is impossible at x = 1
    layers = {
        str(bounds.output): [(slab.stop, slab.least, slab.most) for slab in bounds.slabs]
        for bounds in _bounds_of(steep).densities
    }
    narrow = layers["['narrow', #]"]
    assert (Fraction(2), Fraction(1, 12), Fraction(1, 4)) in narrow
    assert layers["['wide', #]"][1] == (Fraction(0), Fraction(1, 2), Fraction(3, 2))


def _bounds_of(mech: Mechanism) -> BoundedProof:
    from veridp.engines.prove.bounds.proof import prove_by_bounds
    from veridp.engines.prove.events import explored
    from veridp.kernel.expressions import unknowns

    proof = prove_by_bounds(mech, 1, explored(mech, unknowns("data", 1)[0]))
    assert proof is not None
    return proof


@mechanism(adjacency="any", domain=(0.0, 1.0), size=1)
def leaking(rng, value):
    return value + rng.uniform(0, 1)


@mechanism(adjacency="any", domain=(0.0, 10.0), size=1)
def special(rng, value):
    """Private, but for one value."""
    return "found" if value == 5 and rng.random() < 0.5 else "nothing"


@mechanism(adjacency="any", domain=(0.0, 10.0), size=1)
def unequal(rng, value):
    return rng.random() < (0.75 if value == 10 else 0.5)


@mechanism(adjacency="any", domain=(0.0, 1.0), size=1)
def two_coins(rng, value):
    """Two chances that depend on the value: no bound is known here."""
    return rng.random() < (1 + value) / 3, rng.random() < (1 + value) / 3


def test_what_is_impossible_on_some_data_is_not_proved():
    for mech in (leaking, special):
        proof = prove(mech)
        assert math.isinf(proof.epsilon)
        assert math.isinf(exact.worst(mech, seconds=60).epsilon) or mech is special


def test_a_single_value_that_is_told_apart_is_not_overlooked():
    proof = prove(unequal)
    assert isinstance(proof, BoundedProof)
    assert proof.worst.ratio == Fraction(2)  # 1/2 against 1/4


def test_what_is_not_of_this_kind_is_left_to_others():
    assert math.isinf(prove(two_coins).epsilon)


# ------------------------------------------------------------------------------------- other noise on an interval


@mechanism(adjacency="any", domain=(2.0, 5.0), size=1)
def noisy(rng, value, *, epsilon=0.5):
    return value + rng.laplace(scale=3 / epsilon)


@mechanism(adjacency="any", domain=(-1.0, 1.0), size=1)
def response(rng, value):
    """Randomised response to whether the value is positive, and the value itself with Laplace noise."""
    positive = value > 0
    return bool(positive if rng.random() < 0.75 else not positive), value + rng.laplace(scale=10)


def test_laplace_noise_is_shifted_by_the_length_of_the_interval():
    proof = prove(noisy)
    assert isinstance(proof, AlignmentProof)
    assert proof.exact_epsilon == Fraction(1, 2)
    assert proof.restriction == "for numbers from 2 to 5"
    assert str(proof).endswith("0.5-DP is proved for numbers from 2 to 5")
    assert exact.worst(noisy, seconds=60).epsilon == pytest.approx(0.5, rel=1e-12)
    verdict = audit(noisy, epsilon=0.5, seconds=60)
    assert verdict.standing is Standing.PROVED
    assert verdict.epsilon.lower == pytest.approx(0.5, rel=1e-9)


def test_where_the_number_decides_it_is_proved_region_by_region():
    proof = prove(response)
    assert isinstance(proof, CouplingProof)
    assert proof.epsilon == pytest.approx(math.log(3) + 0.2, rel=1e-12)
    assert proof.restriction == "for numbers from -1 to 1"


def test_what_all_data_of_the_interval_answer_alike_is_not_asked():
    @mechanism(adjacency="any", domain=(-10, 40))
    def clamped(rng, value):
        if value > 100:
            return value
        return min(max(value, -10.0), 40.0) + rng.laplace(scale=25.0)

    @mechanism(adjacency="any", domain=(-10, 40))
    def warned(rng, value):
        return value + rng.laplace(scale=25.0) if value < 50 else None

    assert prove(clamped).epsilon == 2
    assert prove(warned).epsilon == 2
    assert math.isinf(prove(warned.stating(domain=(-10, 60))).epsilon)
    assert math.isinf(prove(clamped.stating(domain=(-10, 110))).epsilon)


def test_an_interval_is_of_one_number_whatever_size_is_asked_for():
    assert prove(noisy, 3).size == 1


# ----------------------------------------------------------------------------------------------------- certificates

CERTIFIED = {"noisy": noisy, "response": response, **{name: mech for name, (mech, _) in KNOWN.items()}}


def document_of(mech: Mechanism) -> Document:
    document: Document = json.loads(json.dumps(prove(mech).certificate))
    return document


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_certificate_is_verified_and_tells_the_program(name):
    checked = check(document_of(CERTIFIED[name]))
    assert checked.rejection is None
    told = spot_check(checked, CERTIFIED[name].bound(), 200, 1)
    assert told.rejection is None
    assert told.steps[-1].finding.startswith("200 random runs")


def test_another_program_is_found_out():
    checked = check(document_of(blurred))
    rejection = spot_check(checked, lambda rng, value: blurred.function(rng, value / 2), 200, 1).rejection
    assert rejection is not None
    assert rejection.place == "/cases/0/events"
    rejection = spot_check(check(document_of(noisy)), noisy.bind(epsilon=1.0).bound(), 200, 1).rejection
    assert rejection is not None
    assert rejection.place == "/noises"


TAMPERINGS: dict[str, tuple[str, Callable[[Document], None], str]] = {
    "a smaller ε": ("blurred", put("/epsilon", "19/10"), "/epsilon"),
    "a bound too high": ("blurred", put("/bounds/0/slabs/1/least", "1/7"), "/bounds/0/slabs/1/least"),
    "a bound too low": ("blurred", put("/bounds/0/slabs/1/most", "3/4"), "/bounds/0/slabs/1/most"),
    "a slab that is missing": ("blurred", drop("/bounds/0/slabs/1"), "/bounds/0/slabs/1/most"),
    "an end that is missing": ("blurred", put("/bounds/0/slabs/2/to", "5"), "/bounds/0/slabs"),
    "slabs out of order": ("blurred", put("/bounds/0/slabs/1/to", "-1"), "/bounds/0/slabs"),
    "no bounds": ("blurred", put("/bounds", []), "/bounds"),
    "a wider domain": ("blurred", put("/domain", ["0", "2"]), "/bounds/0/slabs/2/most"),
    "a domain of no length": ("blurred", put("/domain", ["1", "1"]), "/domain"),
    "no domain": ("blurred", put("/domain", None), "/cases/0/value"),
    "a domain left out": ("blurred", drop("/domain"), "/"),
    "another adjacency": ("blurred", put("/adjacency", "linf"), "/adjacency"),
    "two numbers": ("blurred", put("/size", 2), "/cases"),
    "other noise": ("blurred", put("/noises/1/kind", "exponential"), "/cases/0/events/0/draws"),
    "an event that is missing": ("blurred", drop("/cases/0/events/0"), "/cases/0/events"),
    "a rarer event": ("blurred", put("/cases/0/events/0/weight", "1/2"), "/cases/0/events"),
    "another chance": ("sign", put("/cases/0/events/0/conditions/0/data/0", "1/8"), "/cases/0/events/1"),
    "slabs without a number": (
        "sign",
        put(
            "/bounds/0/slabs", [{"to": "0", "least": "1/4", "most": "3/4"}, {"to": None, "least": "1/4", "most": "3/4"}]
        ),
        "/bounds/0/slabs",
    ),
    "a value twice": ("listed", put("/cases/1/value", "(0, 'a')"), "/cases/1/value"),
    "a value that is none": ("listed", put("/cases/1/value", "open()"), "/cases/1/value"),
    "a longer interval, by regions": ("response", put("/domain", ["-2", "1"]), "/polytopes"),
    "a longer interval": ("noisy", put("/domain", ["1", "5"]), "/polytopes"),
    "a shorter interval": ("noisy", put("/domain", ["3", "5"]), "/polytopes"),
    "no interval": ("noisy", put("/domain", None), "/domain"),
    "an interval of vectors": ("noisy", put("/adjacency", "linf"), "/domain"),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_is_rejected_at_its_place(what):
    name, edit, place = TAMPERINGS[what]
    document = document_of(CERTIFIED[name])
    edit(document)
    rejection = check(document).rejection
    assert rejection is not None
    assert rejection.place == place


def density(document: Document, case: Any, output: str, x: float, y: float) -> float:
    """The density of an output by the certificate's events, in floats and by nothing of the checker."""
    total = 0.0
    for event in case["events"]:
        if event["output"] != output:
            continue
        rows = {int(row): document["noises"][row] for row in event["draws"]}
        known: dict[int, float] = {}
        part = float(Fraction(event["weight"]))
        for number in event["numbers"]:
            ((row, slope),) = [(int(r), float(Fraction(c))) for r, c in number["noise"].items() if Fraction(c)]
            known[row] = (y - _rest(number, x)) / slope
            scale = float(Fraction(rows[row]["scale"]))
            part *= (0 < known[row] < scale) / (scale * abs(slope))
        spans = {row: [0.0, float(Fraction(noise["scale"]))] for row, noise in rows.items() if row not in known}
        for condition in event["conditions"]:
            terms = {int(row): float(Fraction(c)) for row, c in condition["noise"].items() if Fraction(c)}
            rest = _rest(condition, x) + sum(c * known.get(row, 0.0) for row, c in terms.items())
            unknown = [row for row in terms if row not in known]
            if not unknown:
                part *= rest >= 0 if condition["relation"] != "==" else rest == 0
            else:
                (row,) = unknown
                bound = -rest / terms[row]
                spans[row] = (
                    [max(spans[row][0], bound), spans[row][1]]
                    if terms[row] > 0
                    else [spans[row][0], min(spans[row][1], bound)]
                )
        for row, (low, high) in spans.items():
            part *= max(high - low, 0.0) / float(Fraction(rows[row]["scale"]))
        total += part
    return total


def _rest(expression: Any, x: float) -> float:
    return float(Fraction(expression["constant"])) + sum(float(Fraction(c)) * x for c in expression["data"].values())


def loses_no_more(document: Document, rng: np.random.Generator) -> bool:
    """Whether no output is more than e^ε times as likely on some of many data as on others."""
    epsilon = float(Fraction(document["epsilon"]))
    ends = [float(Fraction(end)) for end in document["domain"] or ["0", "0"]]
    data = [(case, x) for case in document["cases"] for x in (*ends, *rng.uniform(ends[0], ends[-1], size=6))]
    for output in {event["output"] for case in document["cases"] for event in case["events"]}:
        for y in rng.uniform(-1, 3, size=12) if "#" in output else [0.0]:
            found = [density(document, case, output, x, y) for case, x in data]
            if max(found) > math.exp(epsilon) * min(found) * (1 + 1e-9):
                return False
    return True


@pytest.mark.parametrize("name", KNOWN)
def test_the_means_by_which_tampering_is_judged(name):
    document = document_of(CERTIFIED[name])
    assert loses_no_more(document, np.random.default_rng(1))
    document["epsilon"] = str(Fraction(document["epsilon"]) * Fraction(9, 10))
    assert not loses_no_more(document, np.random.default_rng(1))


@pytest.mark.slow
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_accepted_after_random_tampering_is_still_true(data):
    document = document_of(CERTIFIED[data.draw(st.sampled_from(sorted(KNOWN)))])
    before = copy.deepcopy(document)
    pointer = tampered(document, data.draw)
    if check(document).verified and document != before:
        assert loses_no_more(document, np.random.default_rng(5)), pointer


def test_the_command_from_proof_to_check(monkeypatch, capfd, tmp_path):
    program, file = tmp_path / "own.py", tmp_path / "proof.json"
    program.write_text("def sign(rng, value):\n    return 1 if rng.random() < (2 + value / 10) / 4 else -1\n")
    target = f"{program}:sign"
    settings = "--adjacency", "any", "--epsilon", "1.1"
    status, out, _ = run(monkeypatch, capfd, "prove", target, *settings, "--certificate", str(file))
    assert status == 0
    assert "1.09861-DP is proved for numbers from -10 to 10" in out
    status, out, _ = run(monkeypatch, capfd, "check", str(file), "--target", target, *settings)
    assert status == 0
    assert "under any, numbers from -10 to 10, as described, is ε-differentially private with ε = 1.098612" in out
