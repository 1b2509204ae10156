"""Certificates beside programs: random mechanisms are told right, and what a certificate leaves out is noticed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from tests.engines.prove.small_certificates import event, header, linear, small, table

from veridp import mechanism
from veridp.engines.prove import prove
from veridp.engines.prove.replay import spot_check
from veridp.engines.prove.target import RecordingGenerator
from veridp.errors import BadInput, ExplorationDisagrees, MechanismFailed, NotExplorable
from veridp_check.checker import check

# ------------------------------------------------------------------------------------------------ random mechanisms


def random_program(rng: np.random.Generator, depth: int) -> Any:
    """A random decision tree: by noisy queries, by coins, by data alone; with labels and noisy numbers as leaves."""
    scale, query, bound = float(rng.integers(1, 9)), int(rng.integers(2)), float(rng.integers(-2, 3)) / 2
    if depth == 0 or rng.random() < 0.15:
        return ("release", query, scale) if rng.random() < 0.4 else ("label", str(rng.choice(["a", "b", "c"])))
    kind = str(rng.choice(["noise", "noise", "coin", "uniform", "data"]))
    return (kind, query, scale, bound, random_program(rng, depth - 1), random_program(rng, depth - 1))


def run_program(node: Any, rng: Any, queries: Any) -> Any:
    while True:
        match node:
            case ("label", text):
                return text
            case ("release", query, scale):
                return [queries[query] + rng.laplace(scale=scale)]
            case (kind, query, scale, bound, yes, no):
                asked = {
                    "noise": lambda: queries[query] + rng.laplace(scale=scale) > bound,
                    "coin": lambda: rng.integers(3) == 0,
                    "uniform": lambda: rng.random() < 0.25,
                    "data": lambda: queries[query] > bound,
                }[kind]
                node = yes if asked() else no


@pytest.mark.parametrize("seed", range(24))
def test_certificates_of_random_mechanisms_are_verified_and_tell_the_program(seed):
    rng = np.random.default_rng(seed)
    tree = random_program(rng, 3)
    relation = ["linf", "l1", "monotone"][seed % 3]
    domain = [0, 1] if seed % 4 == 0 else (-10, 10)

    @mechanism(adjacency=relation, size=2, domain=domain)
    def program(rng, queries):
        return run_program(tree, rng, queries)

    try:
        proof = prove(program)
    except NotExplorable:
        pytest.skip("this one cannot be explored")
    if math.isinf(proof.epsilon):
        return
    checked = check(json.loads(json.dumps(proof.certificate)))
    assert checked.rejection is None
    assert float(checked.certificate.epsilon) == pytest.approx(proof.epsilon, rel=1e-9, abs=1e-12)
    assert spot_check(checked, program.bound(), 60, seed=seed).rejection is None


# ----------------------------------------------------------------------------------------- what a run must give away


def test_an_output_of_another_shape_is_noticed():
    checked = check(small("parts"))
    honest = spot_check(checked, lambda rng, v: (v[0] + rng.laplace(scale=2), rng.random() >= 0.5), 40, 1)
    assert honest.rejection is None
    for function in (
        lambda rng, v: (v[0] + rng.laplace(scale=2), rng.random() >= 0.5, v[0]),
        lambda rng, v: (v[0] + rng.laplace(scale=2), [rng.random() >= 0.5]),
    ):
        assert spot_check(checked, function, 40, 1).rejection.place == "/shape"


def chosen() -> dict[str, Any]:
    """Nothing, or the value itself, with probability 1/2 each: described as telling nothing at ε = 0."""
    shifts = {"entries": [], "at": "corners", "table": [{"moves": [], "cost": "0"}]}
    events = [
        event(k, [], paths=1, draws=[]) | {"weight": weight, "shifts": [shifts]}
        for k, weight in enumerate(("1/2", "1/2"))
    ]
    return header("alignment", "linf", 1, "0") | {
        "data": "real",
        "polytopes": [{"low": ["-1"], "high": ["1"]}],
        "outputs": ["0", "1"],
        "noises": [],
        "events": events,
    }


def test_choices_that_come_about_too_often_are_noticed():
    checked = check(chosen())
    assert checked.verified
    assert spot_check(checked, lambda rng, data: int(rng.integers(2)), 300, 1).rejection is None
    found = spot_check(checked, lambda rng, data: int(rng.choice(2, p=[0.05, 0.95])), 300, 1).rejection
    assert found.place == "/events/0/weight"
    assert "0.46 less often than stated" in found.reason
    assert not spot_check(checked, lambda rng, data: int(rng.random() < 0.5), 300, 1).verified  # draws noise


def test_the_generator_is_genuine_and_refuses_what_has_no_word():
    rng = RecordingGenerator(np.random.default_rng(3))
    assert isinstance(rng, np.random.Generator)
    assert rng.integers(5) in range(5)
    assert rng.choice(3, p=[0.0, 1.0, 0.0]) == 1
    assert rng.draws == []
    for name in ("pareto", "weibull", "spawn", "bytes"):
        with pytest.raises(AttributeError, match=name):
            getattr(rng, name)(1)
    with pytest.raises(AttributeError, match="bit_generator"):
        _ = rng.bit_generator
    assert [draw.kind for draw in rng.draws] == ["pareto", "weibull", "spawn", "bytes", "bit_generator"]


def test_a_program_that_knows_the_genuine_generator_is_found_out():
    checked = check(small("released"))

    def leaking(rng, data):
        return data[0] if isinstance(rng, np.random.Generator) else data[0] + rng.laplace(scale=1.0)

    def swallowing(rng, data):
        try:
            rng.weibull(2)
        except Exception:
            return data[0] + rng.laplace(scale=1.0)

    honest = spot_check(checked, lambda rng, data: data[0] + rng.laplace(scale=1.0), 40, 1)
    assert honest.rejection is None
    for function in (leaking, swallowing):
        assert spot_check(checked, function, 40, 1).rejection.place == "/noises"
    with pytest.raises(MechanismFailed, match="weibull"):
        spot_check(checked, lambda rng, data: rng.weibull(2.0), 10, 1)


def test_the_data_tried_are_small_large_and_whole():
    seen: list[float] = []

    def program(rng, data):
        seen.extend(data)
        return data[0] + rng.laplace(scale=1.0)

    spot_check(check(small("released")), program, 200, 1)
    assert max(map(abs, seen)) > 100
    assert 0.0 in map(abs, seen)
    assert sum(x == round(x) for x in seen) > 50
    assert sum(x != round(x) for x in seen) > 50


def test_a_number_between_values_needs_a_shift():
    """The certificate of a released value, kept honest: the shift is what makes it verified."""
    document = small("parts")
    document["couplings"][0]["transports"][0]["shifts"] = table("0", cost="0")
    assert "it changes number 0 of the right event by 1" in check(document).rejection.reason
    document["parts"][1]["events"][0]["numbers"] = [linear({"0": "1"}, {}, "0")]
    document["couplings"][1]["transports"][0]["shifts"] = table("0", cost="0")
    assert check(document).verified  # nothing is told of the value any more


def test_draws_of_noise_made_by_hand_are_not_those_of_the_certificate():
    def inverted(rng, data):
        return data[0] - np.log(rng.random()) + np.log(rng.random())

    checked = check(prove(inverted, 1, adjacency="l1").certificate)
    assert checked.verified
    with pytest.raises(BadInput, match=r"computes -log\(uniform\) - -log\(uniform\), which .* laplace noise"):
        spot_check(checked, inverted, 10, 1)


def test_noise_with_a_shape_is_recorded_as_certificates_have_it():
    def heavy(rng, data):
        return [data[0] + 2 * rng.standard_t(3), data[1] + rng.standard_cauchy()]

    checked = check(prove(heavy, 2, adjacency="l1").certificate)
    assert spot_check(checked, heavy, 40, 1).rejection is None
    assert (
        spot_check(checked, lambda rng, data: [data[0] + 2 * rng.standard_t(4), data[1]], 40, 1).rejection is not None
    )


def test_very_many_data_are_all_run_plainly():
    """Records in another order have the same paths as others had: what code hides there is found all the same."""

    def counting(rng, data):
        noise = rng.laplace()
        if data == [2, 1, 0, 0] and type(noise) is float:
            noise = 0.0
        return sum(data) + noise

    with pytest.raises(ExplorationDisagrees, match=r"on \[2, 1, 0, 0\]"):
        prove(mechanism(adjacency="replace", domain=[0, 1, 2], size=4)(counting))
