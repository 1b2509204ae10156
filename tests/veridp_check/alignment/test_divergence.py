"""Certificates of (ε, δ): those that are true are verified, and what is false in one step is rejected there."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from veridp_check.checker import KINDS, check

Document = dict[str, Any]


def linear(noise: dict[str, str], data: dict[str, str], constant: str = "0") -> Document:
    return {"noise": noise, "data": data, "constant": constant}


def rule(*slopes: dict[str, str]) -> Document:
    return {"rule": [{"constant": "0", "data": slope} for slope in slopes]}


def event(draws: list[int], numbers: list[Document], shifts: list[Document], **more: Any) -> Document:
    plain = {"output": 0, "weight": "1", "paths": 1, "draws": draws, "conditions": [], "numbers": numbers}
    return plain | {"shifts": shifts} | more


def certificate(noises: list[Document], events: list[Document], epsilon: str, delta: str, **more: Any) -> Document:
    return {
        "format": "veridp-certificate",
        "version": 3,
        "kind": "divergence",
        "mechanism": "m",
        "arguments": {},
        "adjacency": "linf",
        "size": 1,
        "domain": None,
        "epsilon": epsilon,
        "delta": delta,
        "rho": None,
        "mu": None,
        "data": "real",
        "polytopes": [{"low": ["-1"], "high": ["1"]}],
        "outputs": ["#"],
        "noises": noises,
        "events": events,
    } | more


def noise(kind: str, scale: str, draw: int = 0) -> Document:
    return {"draw": draw, "kind": kind, "scale": scale}


RELEASED = [event([0], [linear({"0": "1"}, {"0": "1"})], [rule({"0": "-1"})])]
GAUSSIAN = certificate([noise("normal", "4")], RELEASED, "1", "1/100000")  # the least ε is 0.9263
LAPLACE = certificate([noise("laplace", "1")], RELEASED, "1/2", "2212/10000")
UNIFORM = certificate([noise("uniform", "10")], RELEASED, "0", "1/10")
TRUNCATED = certificate([noise("truncatedlaplace", "1") | {"low": "-6", "high": "7"}], RELEASED, "1/2", "2225/10000")
BOTH = certificate(  # data[0] with Laplace noise, and with normal noise
    [noise("laplace", "2"), noise("normal", "3", draw=1)],
    [event([0, 1], [linear({n: "1"}, {"0": "1"}) for n in "01"], [rule({"0": "-1"}, {"0": "-1"})])],
    "18/10",
    "1/100000",
    outputs=["[#, #]"],
)


VECTOR = certificate(  # two entries of Laplace noise
    [noise("laplace", "2"), noise("laplace", "3", draw=1)],
    [event([0, 1], [linear({n: "1"}, {n: "1"}) for n in "01"], [rule({"0": "-1"}, {"1": "-1"})])],
    "1/2",
    "1/10",
    outputs=["[#, #]"],
    polytopes=[{"low": ["-1", "-1"], "high": ["1", "1"]}],
    size=2,
)


def comparison(sign: int, shift: str) -> Document:
    """Whether data[0] + normal noise is at least 0, or below."""
    s = str(sign)
    asked = linear({"0": s}, {"0": s}) | {"relation": ">=" if sign > 0 else ">"}
    return event([0], [], [rule({"0": shift})], conditions=[asked], output=int(sign < 0))


ASKED = certificate(
    [noise("normal", "4")], [comparison(1, "-1"), comparison(-1, "-1")], "1", "1/100000", outputs=["True", "False"]
)


@pytest.mark.parametrize("document", [GAUSSIAN, LAPLACE, UNIFORM, TRUNCATED, VECTOR, BOTH, ASKED])
def test_true_certificates_are_verified(document):
    checked = check(document)
    assert checked.rejection is None
    assert [step.name for step in checked.steps] == [name for name, _ in KINDS["divergence"].steps]


def delta_of_normal(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def delta_of_truncated(epsilon: float, scale: float, low: float, high: float) -> float:
    """Σ (f(x) - e^ε f(x ± 1))₊ over intervals that end where the densities have kinks or meet, by quadrature."""

    def f(x: float) -> float:
        return math.exp(-abs(x) / scale) if low <= x <= high else 0.0

    def lost(sign: int) -> float:
        kinks = sorted({low, -1.0 * sign, 0.0, (epsilon * scale - 1) / 2 * sign, low - sign, high - sign, high})
        ends = [x for x in kinks if low <= x <= high]
        parts = itertools.pairwise(ends)
        return math.fsum(quad(lambda x: max(f(x) - math.exp(epsilon) * f(x + sign), 0.0), *part)[0] for part in parts)

    return max(lost(1), lost(-1)) / (quad(f, low, 0)[0] + quad(f, 0, high)[0])


@pytest.mark.parametrize(
    ("document", "truth"),
    [
        (GAUSSIAN, lambda epsilon: delta_of_normal(epsilon, 1 / 4)),
        (LAPLACE, lambda epsilon: 1 - math.exp((epsilon - 1) / 2)),
        (UNIFORM, lambda epsilon: 0.1),
        (TRUNCATED, lambda epsilon: delta_of_truncated(epsilon, 1, -6, 7)),
        (ASKED, lambda epsilon: delta_of_normal(epsilon, 1 / 4)),
    ],
)
def test_delta_is_refused_just_where_it_is_too_small(document, truth: Callable[[float], float]):
    for epsilon in (0.05, 0.4, 0.7):
        delta = truth(epsilon)
        for share, verified in ((1 + 1e-6, True), (1 - 1e-6, False)):
            stated = document | {"epsilon": str(Fraction(epsilon)), "delta": str(Fraction(delta * share))}
            assert check(stated).verified is verified


def delta_of_both(epsilon: float) -> float:
    """δ of the normal number, given the loss |x + 1/2| - |x| of the Laplace one."""

    def given(x: float) -> float:
        return math.exp(-abs(x)) / 2 * delta_of_normal(epsilon - abs(x + 1 / 2) + abs(x), 1 / 3)

    return math.fsum(quad(given, *part, epsabs=1e-14)[0] for part in itertools.pairwise([-40, -1 / 2, 0, 40]))


def test_delta_of_two_kinds_of_noise_is_refused_where_it_is_too_small():
    for epsilon in (0.05, 0.7, 1.5):
        for share, verified in ((1 + 1e-4, True), (1 - 1e-8, False)):
            delta = Fraction(delta_of_both(epsilon) * share)
            assert check(BOTH | {"epsilon": str(Fraction(epsilon)), "delta": str(delta)}).verified is verified


def delta_of_two(epsilon: float, first: float, second: float) -> float:
    """δ of two Laplace numbers, shifted by these many scales: that of the second, given the loss of the first."""

    def alone(rest: float) -> float:
        return 0.0 if rest >= second else 1 - math.exp(rest) if rest <= -second else 1 - math.exp((rest - second) / 2)

    ends = alone(epsilon - first) / 2 + math.exp(-first) / 2 * alone(epsilon + first)
    kinks = [x for x in (epsilon - second, epsilon + second) if -first < x < first]
    parts = itertools.pairwise([-first, *kinks, first])
    middle = sum(
        quad(lambda loss: math.exp((loss - first) / 2) / 4 * alone(epsilon - loss), *part)[0] for part in parts
    )
    return ends + middle


def test_laplace_numbers_are_composed_by_their_losses():
    for epsilon in (0.1, 0.4, 0.7):
        delta = delta_of_two(epsilon, 1 / 2, 1 / 3)
        for share, verified in ((1 + 1e-6, True), (1 - 1e-6, False)):
            stated = VECTOR | {"epsilon": str(Fraction(epsilon)), "delta": str(Fraction(delta * share))}
            assert check(stated).verified is verified
    assert check(VECTOR | {"epsilon": "5/6", "delta": "0"}).verified
    assert not check(VECTOR | {"epsilon": "8/10", "delta": "0"}).verified


SEGMENTS = VECTOR | {
    "adjacency": "l1",
    "polytopes": [{"low": ["-1", "0"], "high": ["1", "0"]}, {"low": ["0", "-1"], "high": ["0", "1"]}],
    "events": [VECTOR["events"][0] | {"shifts": [rule({"0": "-1"}, {}), rule({}, {"1": "-1"})]}],
}


def test_under_l1_one_entry_moves():
    delta = 1 - math.exp((0.1 - 1 / 2) / 2)
    for share, verified in ((1 + 1e-9, True), (1 - 1e-9, False)):
        assert check(SEGMENTS | {"epsilon": "1/10", "delta": str(Fraction(delta * share))}).verified is verified
    for polytopes in (
        SEGMENTS["polytopes"][:1],
        SEGMENTS["polytopes"][::-1],
        [SEGMENTS["polytopes"][0]] * 2,
        [SEGMENTS["polytopes"][0], {"low": ["0", "0"], "high": ["0", "1"]}],
    ):
        assert check(SEGMENTS | {"polytopes": polytopes}).rejection.place.startswith("/polytopes")
    assert check(SEGMENTS | {"adjacency": "linf"}).rejection.place.startswith("/polytopes")


def test_shifts_of_different_events_add_up():
    """Kept apart, the two events of a comparison need a shift one way each: 0 for one of them, which costs nothing."""
    apart = changed(ASKED, epsilon="93/100")  # δ is 9.5e-6 here
    apart["polytopes"] = [{"low": ["0"], "high": ["1"]}, {"low": ["-1"], "high": ["0"]}]
    apart["adjacency"] = "monotone"
    for number, one in enumerate(apart["events"]):
        one["shifts"] = [rule({}), rule({"0": "-1"})] if number == 0 else [rule({"0": "-1"}), rule({})]
    assert check(apart).verified
    apart["events"][0]["shifts"][0] = rule({"0": "1"})  # another shift, which keeps the event: its δ is added
    assert check(apart).rejection.place == "/delta"
    assert check(apart | {"delta": "2/100000"}).verified
    assert check(apart | {"delta": "2/100000", "rho": "100"}).rejection.place == "/rho"


@pytest.mark.parametrize(
    ("document", "rho", "mu"),
    [
        (GAUSSIAN, "1/32", "1/4"),
        (ASKED, "1/32", "1/4"),
        (BOTH, "13/72", None),
        (LAPLACE, "1/2", None),
        (VECTOR, "13/72", None),
    ],
)
def test_other_notions_are_verified_just_where_they_hold(document, rho, mu):
    assert check(document | {"rho": rho, "mu": mu}).verified
    assert "ρ" in check(document | {"rho": rho, "mu": mu}).certificate.privacy
    for name, value in (("rho", rho), ("mu", mu)):
        less = str(Fraction(value or 10**6) * Fraction(999_999, 1_000_000))
        assert check(document | {name: less}).rejection.place == f"/{name}"


def test_numbers_far_out_are_checked_in_no_time():
    for document in (GAUSSIAN, LAPLACE, BOTH):
        assert check(changed(document, epsilon=str(10**300))).verified
    for kind in ("laplace", "normal", "logistic"):
        little = changed(LAPLACE, noises=[noise(kind, f"1/{10**300}")])
        assert check(little).rejection.place == "/delta"


def changed(document: Document, **fields: Any) -> Document:
    return copy.deepcopy(document) | fields


def with_events(document: Document, edit: Callable[[list[Document]], object]) -> Document:
    forged = copy.deepcopy(document)
    edit(forged["events"])
    return forged


def with_one_way_noise() -> Document:
    """Exponential noise that moves up by 1 whatever the data do, for no reason: its loss is 1, and ρ is not 1/2."""
    up = {"rule": [{"constant": "1", "data": {}}]}
    nothing = event([0], [], [up], output=0)
    return certificate([noise("exponential", "1")], [nothing], "1", "1/100000", outputs=["None"], rho="1/2")


FORGERIES = [
    ("an ε below the truth", changed(GAUSSIAN, epsilon="9/10"), "delta"),
    ("no δ at all", changed(GAUSSIAN, delta="0"), "delta"),
    ("a δ of 1", changed(GAUSSIAN, delta="1"), "reading"),
    ("a δ below 0", changed(GAUSSIAN, delta="-1/2"), "reading"),
    ("no field delta", {k: v for k, v in GAUSSIAN.items() if k != "delta"}, "reading"),
    ("a δ for an alignment", changed(GAUSSIAN, kind="alignment"), "reading"),
    ("less noise", changed(GAUSSIAN, noises=[noise("normal", "3")]), "delta"),
    ("noise of no known kind", changed(GAUSSIAN, noises=[noise("student", "4")]), "reading"),
    ("noise that moves upwards only", changed(GAUSSIAN, noises=[noise("exponential", "4")]), "moves"),
    ("half the neighbours", changed(GAUSSIAN, polytopes=[{"low": ["0"], "high": ["1"]}]), "neighbours"),
    ("neighbours who are closer", changed(GAUSSIAN, polytopes=[{"low": ["-1/2"], "high": ["1/2"]}]), "neighbours"),
    (
        "a shift that changes the number",
        with_events(GAUSSIAN, lambda events: events[0].update(shifts=[rule({"0": "-1/2"})])),
        "shifts",
    ),
    ("no shift", with_events(GAUSSIAN, lambda events: events[0].update(shifts=[rule({})])), "shifts"),
    ("no shift for the polytope", with_events(GAUSSIAN, lambda events: events[0].update(shifts=[])), "shifts"),
    (
        "a cost in place of a price",
        with_events(GAUSSIAN, lambda events: events[0]["shifts"][0].update(cost="0")),
        "reading",
    ),
    ("an event left out", with_events(ASKED, lambda events: events.pop()), "outputs"),
    ("half the runs", changed(with_events(ASKED, lambda events: events.pop()), outputs=["True"]), "events"),
    ("an event twice", with_events(ASKED, lambda events: events.append(events[0])), "events"),
    ("a weight below 1", with_events(ASKED, lambda events: events[0].update(weight="1/2")), "events"),
    (
        "a condition that fails on the neighbour",
        with_events(ASKED, lambda events: events[1].update(shifts=[rule({"0": "1"})])),
        "shifts",
    ),
    ("two outputs of one text", changed(ASKED, outputs=["True", "True"]), "outputs"),
    ("another Laplace noise at the price of one", changed(LAPLACE, noises=[noise("logistic", "1")]), "delta"),
    ("less room for uniform noise", changed(UNIFORM, noises=[noise("uniform", "9")]), "delta"),
    (
        "less room for truncated noise",
        changed(TRUNCATED, noises=[TRUNCATED["noises"][0] | {"high": "3"}]),
        "delta",
    ),
    ("truncated noise without 0", changed(TRUNCATED, noises=[TRUNCATED["noises"][0] | {"low": "1"}]), "reading"),
    ("no end of truncated noise", changed(TRUNCATED, noises=[noise("truncatedlaplace", "1")]), "reading"),
    ("ρ of truncated noise", changed(TRUNCATED, rho="100"), "notions"),
    ("ρ where noise leaves its support", changed(UNIFORM, rho="100"), "notions"),
    ("μ where noise leaves its support", changed(UNIFORM, mu="100"), "notions"),
    ("ρ of noise that moves one way", with_one_way_noise(), "notions"),
    ("a ρ below 0", changed(GAUSSIAN, rho="-1"), "reading"),
    ("a pure loss left out", changed(BOTH, epsilon="13/10"), "delta"),
]


@pytest.mark.parametrize(
    ("document", "step"), [(d, s) for _, d, s in FORGERIES], ids=[what for what, _, _ in FORGERIES]
)
def test_forgeries_are_rejected_in_their_step(document, step):
    checked = check(document)
    assert checked.rejection is not None
    steps = [name for name, _ in KINDS[document["kind"]].steps]
    assert (steps[len(checked.steps)] if checked.certificate is not None else "reading") == step


def test_a_table_of_corners_is_priced_at_its_dearest_corner():
    hull = {"corners": [["1", "0"], ["-1", "0"], ["0", "1"], ["0", "-1"]]}
    moves = [["-1", "0"], ["1", "0"], ["0", "-1"], ["0", "1"]]
    shifts = [{"entries": [0, 1], "at": "corners", "table": [{"moves": move} for move in moves]}]
    document = certificate(
        [noise("normal", "4"), noise("normal", "2", draw=1)],
        [event([0, 1], [linear({n: "1"}, {n: "1"}) for n in "01"], shifts)],
        "2",
        "1/100000",
        adjacency="l1",
        size=2,
        polytopes=[hull],
        outputs=["[#, #]"],
    )
    least = 1.9930905
    assert delta_of_normal(least, 1 / 2) == pytest.approx(1e-5, rel=1e-5)
    assert check(document).verified
    assert not check(document | {"epsilon": str(Fraction(least * (1 - 1e-5)))}).verified
