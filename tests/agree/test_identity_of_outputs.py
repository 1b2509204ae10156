"""All engines agree on which outputs are the same."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

import veridp
from veridp import Mechanism, exact, explore, mechanism, prove, sample, sniper, statdp
from veridp.errors import BadOutput, MechanismFailed
from veridp.kernel.output import Raised
from veridp.verdict import Standing
from veridp_check.checker import check

LEFT, RIGHT = [5.5], [4.5]
NAN, INF = math.nan, math.inf
DIFFERENT = [
    ("#", 3.5),
    ("1", 1),
    ("True", True),
    ("[1, 2]", [1, 2]),
    (1, True),
    ({"a": 1}, [("a", 1)]),
    ([[1], 2], [1, 2]),
    (NAN, INF),
    (INF, -INF),
    (None, "None"),
    (NAN, 1.5),
]
SAME = [(1, 1.0), ([1, 2], (1.0, 2.0)), (0.0, -0.0), (NAN, -NAN), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]


def telling(left: Any, right: Any) -> Mechanism:
    """Returns one thing on large data and another on small ones, beside a coin."""

    @mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
    def tells(rng, data):
        coin = bool(rng.random() < 0.5)
        return [left if data[0] > 5 else right, coin]

    return tells


def lower_bounds(mech: Mechanism) -> tuple[float, float]:
    """What the two sampling engines certify."""
    detected = statdp.detect(mech, pairs=[(LEFT, RIGHT)], selection_samples=2000, samples=2000, seed=1)
    found = sniper.search(mech, pairs=[(LEFT, RIGHT)], samples=2000, final_samples=5000, seed=1, workers=1)
    return detected.epsilon_lower, found.epsilon_lower


@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=repr)
def test_different_outputs_are_different_to_every_engine(left: Any, right: Any) -> None:
    mech = telling(left, right)
    assert prove(mech).epsilon == INF
    comparison = exact.compare(mech, LEFT, RIGHT)
    assert comparison.epsilon == INF
    witness = comparison.witness
    on_left, on_right = (sample(mech, data, 200, seed=1) for data in (witness.left, witness.right))
    event: Any = witness.event
    assert event.count(on_left) > 50
    assert event.count(on_right) == 0
    assert min(lower_bounds(mech)) > 3


@pytest.mark.parametrize(("left", "right"), SAME, ids=repr)
def test_the_same_outputs_are_the_same_to_every_engine(left: Any, right: Any) -> None:
    mech = telling(left, right)
    assert prove(mech).epsilon == 0
    assert exact.compare(mech, LEFT, RIGHT).epsilon == 0
    assert max(lower_bounds(mech)) < 0.5
    assert sample(mech, LEFT, 100, seed=1) == sample(mech, RIGHT, 100, seed=1)


@pytest.mark.parametrize(("left", "right"), DIFFERENT[:4], ids=repr)
def test_the_audit_refutes_what_only_types_tell_apart(left: Any, right: Any) -> None:
    assert veridp.audit(telling(left, right), seconds=60, seed=1).standing is Standing.REFUTED


# --------------------------------------------------------------------------------------------------- exceptions


@mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
def raises_by_noise(rng, data):
    noisy = data[0] + rng.laplace()
    if noisy < 0:
        raise ValueError("negative")
    return noisy


@mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
def raises_by_data(rng, data):
    if data[0] > 5:
        raise ValueError
    return data[0] + rng.laplace()


@mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
def raises_with_data(rng, data):
    if rng.random() < 0.5:
        raise ValueError(f"cannot do {data[0]}")
    return


def test_an_exception_that_noise_decides_costs_what_its_noise_does() -> None:
    proof = prove(raises_by_noise)
    assert proof.epsilon == 1
    assert check(proof.certificate).verified
    assert "raises ValueError('negative')" in proof.certificate["outputs"]
    comparison = exact.compare(raises_by_noise, [0.0], [1.0])
    assert comparison.epsilon == pytest.approx(1, rel=1e-9)
    # P(x + Lap < 0) is exp(-x)/2.
    assert comparison.witness.left_probability.lower == pytest.approx(0.5)
    negative = Raised("ValueError", "negative")
    assert exact.law(raises_by_noise, [1.0]).probability(negative) == pytest.approx(math.exp(-1) / 2)
    for reading in ("batch", "one-by-one"):
        counts = sample(raises_by_noise, [1.0], 4000, seed=1, reading=reading).distinct()
        # Four thousand runs, six deviations: false alarm below 1e-8.
        assert counts[negative] / 4000 == pytest.approx(math.exp(-1) / 2, abs=6 * math.sqrt(0.25 / 4000))


def test_an_exception_that_data_decide_is_refuted() -> None:
    assert prove(raises_by_data).epsilon == INF
    assert [path.output for path in explore(raises_by_data, [6.0])] == [Raised("ValueError")]
    comparison = exact.compare(raises_by_data, LEFT, RIGHT)
    assert comparison.epsilon == INF
    assert str(comparison.witness.event) == "raises ValueError"
    assert min(lower_bounds(raises_by_data)) > 3
    verdict = veridp.audit(raises_by_data, seconds=60, seed=1)
    assert verdict.standing is Standing.REFUTED
    assert str(verdict.witness.event) == "raises ValueError"


def test_a_message_that_tells_of_the_data_is_refuted() -> None:
    assert exact.compare(raises_with_data, LEFT, RIGHT).epsilon == INF
    assert min(lower_bounds(raises_with_data)) > 3


def test_a_mechanism_that_always_raises_or_returns_none_is_reported() -> None:
    @mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
    def broken(rng, data):
        return data[0] + missing  # noqa: F821

    @mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
    def silent(rng, data):
        rng.laplace()

    for engine in (
        prove,
        lambda mech: exact.compare(mech, LEFT, RIGHT),
        lambda mech: statdp.detect(mech, pairs=[(LEFT, RIGHT)]),
        lambda mech: sniper.search(mech, pairs=[(LEFT, RIGHT)], workers=1),
        lambda mech: veridp.audit(mech, seconds=60),
    ):
        with pytest.raises(MechanismFailed, match="NameError"):
            engine(broken)
    with pytest.raises(BadOutput, match="returns None"):
        veridp.audit(silent, seconds=60)


def test_what_an_ordinary_input_raises_or_leaves_out_is_an_output_of_the_audit() -> None:
    @mechanism(epsilon=1.0, domain=(-10.0, 10.0), size=1)
    def raises_above_zero(rng, data):
        if data[0] > 0:
            raise ValueError("too much")
        return rng.laplace()

    @mechanism(epsilon=1.0, domain=(-10.0, 10.0), size=1)
    def silent_above_zero(rng, data):
        return None if data[0] > 0 else INF

    for each in (raises_above_zero, silent_above_zero):
        verdict = veridp.audit(each, seconds=600)
        assert verdict.standing is Standing.REFUTED
        assert verdict.epsilon.lower == INF


def test_none_beside_others_is_an_output() -> None:
    @mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
    def sparse(rng, data):
        noisy = data[0] + rng.laplace()
        return noisy if noisy > 5 else None

    assert prove(sparse).epsilon == 1
    assert exact.compare(sparse, LEFT, RIGHT).epsilon == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("by_noise", [False, True], ids=["data", "noise"])
def test_the_order_of_a_dict_is_no_output_whatever_decides_it(by_noise: bool) -> None:
    @mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)
    def ordered(rng, data):
        noisy, other = data[0] + rng.laplace(), rng.laplace()
        first = noisy > 5 if by_noise else data[0] > 5
        return {"a": noisy, "b": other} if first else {"b": other, "a": noisy}

    assert prove(ordered).epsilon == 1
    assert exact.compare(ordered, LEFT, RIGHT).epsilon == pytest.approx(1, rel=1e-9)


def test_a_mechanism_that_only_raises_on_listed_values_is_reported() -> None:
    def broken(rng, data):
        raise ValueError("no")

    for relation, domain in (("replace", [0, 1]), ("any", ["a", "b"])):
        with pytest.raises(MechanismFailed, match=r"broken raises ValueError\('no'\) on every input"):
            prove(mechanism(epsilon=1.0, domain=domain, size=1, adjacency=relation)(broken))


def ends_the_program(rng, data):
    if rng.random() < 0.5:
        sys.exit(3)
    return data[0] + rng.laplace()


class Ended(BaseException):
    pass


def raises_no_exception(rng, data):
    if data[0] + rng.laplace() > 4:
        raise Ended(3)
    return 0


def closes(rng, data):
    try:
        return [data[0] + rng.laplace()][rng.integers(2)]
    except Exception:
        raise GeneratorExit from None


@pytest.mark.parametrize(
    ("function", "raised"),
    [(ends_the_program, "SystemExit: 3"), (raises_no_exception, "Ended: 3"), (closes, "GeneratorExit: ")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ending_the_program_is_no_output_of_any_engine(function: Any, raised: str) -> None:
    mech = mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)(function)
    for engine in (
        prove,
        lambda mech: explore(mech, LEFT),
        lambda mech: exact.compare(mech, LEFT, RIGHT),
        lambda mech: sample(mech, LEFT, 100, seed=1),
        lambda mech: sample(mech, LEFT, 100, seed=1, reading="one-by-one"),
        lambda mech: statdp.detect(mech, pairs=[(LEFT, RIGHT)]),
        lambda mech: sniper.search(mech, pairs=[(LEFT, RIGHT)], workers=1),
        lambda mech: veridp.audit(mech, seconds=60),
    ):
        with pytest.raises(MechanismFailed, match=f"{raised}; that ends the program"):
            engine(mech)


def test_what_only_stand_ins_raise_is_no_fault_of_the_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    def tells_them_apart(rng, data):
        noise = rng.laplace()
        if type(noise) not in (float, np.float64):
            raise Ended
        return data[0] + noise

    mech = mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1)(tells_them_apart)
    assert sample(mech, LEFT, 100, seed=1).reading == "one-by-one"
    with pytest.raises(MechanismFailed, match="raised Ended"):  # and the audit goes on as with a black box
        explore(mech, LEFT)
    asked: list[str] = []
    for engine in ("look_quickly", "attack"):
        monkeypatch.setattr(f"veridp.audit.sampled.{engine}", lambda _, engine=engine: asked.append(engine))
    assert veridp.audit(mech, seconds=INF).standing is Standing.NOT_REFUTED
    assert asked == ["look_quickly", "attack"]


def test_an_exception_of_a_vectorised_function_is_an_error() -> None:
    def vectorised(rng, data, count):
        raise ValueError("of no run")

    mech = mechanism(epsilon=1.0, domain=(0.0, 10.0), size=1, vectorised=vectorised)(ends_the_program)
    with pytest.raises(MechanismFailed, match="ValueError: of no run"):
        sample(mech, LEFT, 100, seed=1)
