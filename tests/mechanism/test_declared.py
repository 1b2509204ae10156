"""A mechanism: a plain function, what it claims, and the arguments it is given."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from veridp.adjacency import BY_NAME
from veridp.claim import Claim
from veridp.errors import BadInput
from veridp.mechanism import Mechanism, as_mechanism, mechanism
from veridp.notions import GaussianDP, RenyiDP, ZeroConcentrated
from veridp.tradeoff import TradeoffCurve


def shifted(rng, data, *, epsilon=0.5, shift=1.0):
    """The data, shifted.

    And more about it.
    """
    return [value + shift for value in data]


def needy(rng, data, scale, *, epsilon):
    return [value * scale for value in data]


def test_a_plain_function_is_a_mechanism() -> None:
    plain = as_mechanism(shifted)
    assert plain.function is shifted
    assert plain.name == "shifted"
    assert plain.summary == "The data, shifted."
    assert plain.claim == Claim(0.5)
    assert plain.adjacency is BY_NAME["linf"]
    assert plain(None, [1.0]) == [2.0]
    assert plain.true_epsilon(3) is None
    assert plain.keeps_claim() is None
    assert as_mechanism(plain) is plain


def test_the_decorator_adds_claim_and_adjacency_and_leaves_the_function() -> None:
    wrapped = mechanism(epsilon=2.0, delta=0.1, adjacency="l1", size=7, cost=lambda size, shift: size * shift)(shifted)
    assert wrapped.function is shifted
    assert wrapped.claim == Claim(2.0, 0.1)
    assert wrapped.adjacency is BY_NAME["l1"]
    assert wrapped.size == 7
    assert wrapped(None, [1.0]) == shifted(None, [1.0])
    assert wrapped(None, [1.0], shift=5.0) == [6.0]


def test_the_decorator_refuses_an_unknown_adjacency() -> None:
    with pytest.raises(BadInput, match=r"adjacency = 'l7' is unknown"):
        mechanism(adjacency="l7")


def test_binding_makes_a_new_mechanism() -> None:
    first = as_mechanism(shifted)
    second = first.bind(shift=3.0)
    third = second.bind(epsilon=0.25)
    assert first.values == {"epsilon": 0.5, "shift": 1.0}
    assert second.values == {"epsilon": 0.5, "shift": 3.0}
    assert third.values == {"epsilon": 0.25, "shift": 3.0}
    assert third.claim == Claim(0.25)
    assert third(None, [1.0]) == [4.0]
    assert third(None, [1.0], shift=0.0) == [1.0]
    assert third.bound()(None, [1.0]) == [4.0]
    assert first.bind() is first
    assert first.bound() is shifted
    assert str(first) == "shifted"
    assert str(third) == "shifted(shift=3.0, epsilon=0.25)"
    assert as_mechanism(shifted, shift=3.0) == second
    assert hash(as_mechanism(shifted, shift=3.0)) == hash(second)


def test_a_claim_by_default_holds_beside_arguments_of_any_name() -> None:
    def total(data, epsilon=0.5, **ignored):
        return sum(data), epsilon, ignored

    assert as_mechanism(total).claim.epsilon == 0.5  # type: ignore[union-attr]
    assert as_mechanism(total, epsilon=2.0, axis=1)([1]) == (1, 2.0, {"axis": 1})
    assert as_mechanism(total, epsilon=2.0, axis=1).claim.epsilon == 2.0  # type: ignore[union-attr]


def test_an_argument_it_does_not_take_is_named() -> None:
    with pytest.raises(BadInput, match=r"shifted takes no argument 'shfit'; its arguments are: epsilon, shift"):
        as_mechanism(shifted, shfit=1.0)
    with pytest.raises(BadInput, match=r"its arguments are: none"):
        as_mechanism(lambda rng, data: data, anything=1)
    assert as_mechanism(lambda rng, data, **rest: rest, anything=1)(None, None) == {"anything": 1}


def test_missing_arguments_are_named() -> None:
    incomplete = as_mechanism(needy)
    assert incomplete.missing() == ["scale", "epsilon"]
    assert incomplete.claim is None
    with pytest.raises(BadInput, match=r"needy needs a value for scale, epsilon; give scale=…"):
        incomplete.bound()
    complete = incomplete.bind(scale=2.0, epsilon=1.0)
    assert complete.missing() == []
    assert complete.bound()(None, [3.0]) == [6.0]
    assert complete.claim == Claim(1.0)


@pytest.mark.parametrize("function", [lambda: 0, lambda rng: 0, lambda rng, *, data: 0])
def test_a_function_of_another_shape_is_refused(function) -> None:
    with pytest.raises(
        BadInput, match=r"is not a mechanism; give a function of \(rng, data\), \(data, rng\) or \(data\)"
    ):
        as_mechanism(function)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"3 is not a mechanism; give a function of \(rng, data\), \(data, rng\) or \(data\)"
    ):
        as_mechanism(3)  # type: ignore[arg-type]


def test_any_callable_will_do() -> None:
    class Adder:
        def __init__(self, amount: float) -> None:
            self.amount = amount

        def __call__(self, rng, data, *, epsilon=1.0):
            return data + self.amount

    assert as_mechanism(Adder(2.0)).name == "Adder"
    assert as_mechanism(Adder(2.0))(None, 1.0) == 3.0
    assert as_mechanism(lambda *everything: everything)(1, 2) == (1, 2)
    assert as_mechanism(max)(3, 4) == 4  # a builtin without a signature


def test_claims_are_numbers_or_functions_of_arguments() -> None:
    doubled = Mechanism(shifted, epsilon=lambda epsilon, shift: 2 * epsilon + shift, delta=lambda: 0.01)
    assert doubled.claim == Claim(2.0, 0.01)
    assert doubled.bind(shift=0.0).claim == Claim(1.0, 0.01)
    assert Mechanism(shifted, epsilon=0.0).claim == Claim(0.0)
    assert as_mechanism(lambda rng, data: data).claim is None
    assert as_mechanism(lambda rng, data, epsilon=1.0, delta=0.1: data).claim == Claim(1.0, 0.1)
    with pytest.raises(BadInput, match=r"epsilon must be a number >= 0, got -1\.0"):
        _ = as_mechanism(shifted, epsilon=-1.0).claim


def test_the_true_cost_is_a_function_of_size_and_arguments() -> None:
    costly = mechanism(cost=lambda size, epsilon, shift: size * epsilon * shift)(shifted)
    assert costly.true_epsilon(4) == 2.0
    assert costly.true_epsilon(4, epsilon=0.25, shift=3.0) == 3.0
    assert costly.bind(shift=2.0).true_epsilon(1) == 1.0
    assert mechanism(cost=lambda: math.inf)(shifted).true_epsilon(1) == math.inf
    with pytest.raises(BadInput, match="takes no argument 'size2'"):
        costly.true_epsilon(4, size2=1)


def test_a_claim_is_kept_where_the_true_cost_is_within_it() -> None:
    costly = mechanism(cost=lambda size, epsilon: size * epsilon / 3, size=5)(shifted)
    assert costly.keeps_claim(3)
    assert costly.keeps_claim(2)
    assert costly.keeps_claim() is False
    assert costly.keeps_claim(4, epsilon=0.1) is False
    assert mechanism(cost=lambda: 0.1 + 0.2)(shifted).keeps_claim(epsilon=0.3)  # but for rounding
    assert mechanism(cost=lambda: 1.0)(lambda rng, data: data).keeps_claim() is None


def test_a_formula_that_lacks_an_argument_says_so() -> None:
    lacking = mechanism(epsilon=lambda scale: scale, cost=lambda size, scale: scale)(needy)
    message = r"the claim or cost of needy depends on scale; give scale=…"
    with pytest.raises(BadInput, match=message):
        _ = lacking.claim
    with pytest.raises(BadInput, match=message):
        lacking.true_epsilon(1)
    assert lacking.true_epsilon(1, scale=0.5) == 0.5


def test_positional_arguments_after_the_data_count() -> None:
    def noisy(rng, data, scale=2.0):
        return data + rng.laplace(scale=scale)

    assert as_mechanism(noisy).values == {"scale": 2.0}
    rng, same = np.random.default_rng(1), np.random.default_rng(1)
    assert as_mechanism(noisy, scale=3.0)(rng, 0.0) == same.laplace(scale=3.0)


def test_a_budget_is_an_argument_where_there_is_one_and_a_claim_where_there_is_none() -> None:
    with_argument = Mechanism(lambda rng, data, epsilon=1.0: data).claiming(0.5, 1e-6)
    assert with_argument.values == {"epsilon": 0.5}
    assert with_argument.claim == Claim(0.5, 1e-6)
    without = Mechanism(lambda rng, data: data).claiming(0.5)
    assert without.values == {}
    assert without.claim == Claim(0.5)
    assert Mechanism(lambda rng, data: data).claiming().claim is None
    with pytest.raises(BadInput, match="epsilon must be a number >= 0"):
        without.claiming(-1.0)


def test_a_mechanism_claims_in_any_notion() -> None:
    assert mechanism(rho=0.5)(shifted).claim == Claim.of(ZeroConcentrated(0.5))
    assert mechanism(mu=1)(shifted).claim == Claim.of(GaussianDP(1.0))
    assert mechanism(rdp=(2, 0.5))(shifted).claim == Claim.of(RenyiDP.of((2, 0.5)))
    assert mechanism(tradeoff=[(0, 1), (1, 0)])(shifted).claim == Claim.of(TradeoffCurve.of([(0, 1), (1, 0)]))

    def noisy(rng, data, *, scale=2.0):
        return data[0] + rng.normal(scale=scale)

    assert mechanism(mu=lambda scale: 1 / scale)(noisy).bind(scale=4.0).claim == Claim.of(GaussianDP(0.25))
    by_order = mechanism(rdp=lambda alpha, scale: alpha / (2 * scale**2))(noisy).claim
    assert by_order is not None
    assert str(by_order) == "RDP at 73 orders from 1.25 to 1024"
    assert by_order.notion == RenyiDP.of(lambda alpha: alpha / 8)
    with pytest.raises(BadInput, match="claims mu = 'one', which is not a number"):
        _ = mechanism(mu=lambda: "one")(noisy).claim


def test_a_claim_in_another_notion_replaces_what_is_claimed() -> None:
    def noisy(rng, data, *, epsilon=1.0):
        return data[0] + rng.laplace(scale=1 / epsilon)

    stated = Mechanism(noisy).claiming(rho=0.5)
    assert stated.claim == Claim.of(ZeroConcentrated(0.5))
    assert stated.values == {"epsilon": 1.0}
    assert stated.claiming(epsilon=2.0).claim == stated.claim  # an argument of its own
    assert Mechanism(lambda rng, data: data, epsilon=1.0).claiming(mu=2.0).claim == Claim.of(GaussianDP(2.0))
    gaussian = Mechanism(lambda rng, data: data, mu=2.0)
    assert gaussian.claiming(epsilon=1.0).claim == Claim(1.0)
    assert gaussian.claiming(rho=1.0).claim == Claim.of(ZeroConcentrated(1.0))


def test_an_argument_named_as_a_notion_is_set_and_is_the_claim_where_there_is_no_other() -> None:
    def centred(rng, data, *, epsilon=1.0, mu=0.0):
        return data[0] + rng.laplace(loc=mu, scale=1 / epsilon)

    def calibrated(rng, data, *, mu):
        return data[0] + rng.normal(scale=1 / mu)

    assert Mechanism(centred).claiming(mu=3.0).claim == Claim(1.0)
    assert Mechanism(centred).claiming(mu=3.0).values == {"epsilon": 1.0, "mu": 3.0}
    assert Mechanism(calibrated).bind(mu=2.0).claim is None
    assert Mechanism(calibrated).claiming(mu=2.0).claim == Claim.of(GaussianDP(2.0))
    assert Mechanism(calibrated).claiming(mu=2.0).values == {"mu": 2.0}


def test_a_true_cost_above_another_notion_decides_nothing() -> None:
    stated = Mechanism(shifted, rho=0.5, cost=lambda size: float(size))
    assert stated.keeps_claim(1) is True
    assert stated.keeps_claim(2) is None


def test_the_decorator_needs_no_parentheses() -> None:
    bare = mechanism(shifted)
    assert bare.function is shifted
    assert bare.assumed == {"adjacency", "domain", "size"}
    with pytest.raises(BadInput, match=r"takes named settings only, got 1\.0; write epsilon="):
        mechanism(1.0)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": "1"}, "epsilon must be a number >= 0, got '1'"),
        ({"epsilon": -1.0}, "epsilon must be a number >= 0, got -1.0"),
        ({"epsilon": float("nan")}, "epsilon must be a number >= 0, got nan"),
        ({"epsilon": 1.0, "delta": 2}, "delta must be in [0, 1], got 2"),
        ({"epsilon": 1.0, "delta": "small"}, "delta must be in [0, 1], got 'small'"),
        ({"rho": -1.0}, "rho must be a number >= 0, got -1.0"),
        ({"mu": "1"}, "mu must be a number >= 0, got '1'"),
        ({"rdp": 0.5}, "rdp must be (alpha, epsilon), or a function of alpha, got 0.5"),
        ({"rho": 0.5, "epsilon": 1.0}, "epsilon and rho are different claims; give rho alone"),
        ({"rho": 0.5, "mu": 1.0}, "rho and mu are different claims; give rho alone"),
        ({"size": 2.5}, "size must be an integer >= 1, got 2.5"),
        ({"size": 0}, "size must be an integer >= 1, got 0"),
        ({"domain": 5}, "domain must be a pair (low, high) or a list of values, got 5"),
        ({"domain": "abc"}, "domain must be a pair (low, high) or a list of values, got 'abc'"),
        ({"domain": (10, 0)}, "domain = (10, 0) is empty; give a pair (low, high) with low < high"),
    ],
)
def test_the_decorator_refuses_settings_that_mean_nothing(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        mechanism(**settings)(shifted)


def test_an_argument_that_is_no_claim_is_named() -> None:
    def rude(rng: Any, data: Any, *, epsilon: str = "high") -> Any:
        return data

    with pytest.raises(BadInput, match="rude claims epsilon = 'high', which is not a number; set epsilon="):
        _ = as_mechanism(rude).claim


def test_what_is_stated_is_no_longer_assumed() -> None:
    plain = as_mechanism(shifted)
    stated = plain.stating(adjacency="l1").stating(size=3)
    assert plain.assumptions == {"adjacency": "linf", "size": 5, "domain": (-10, 10)}
    assert stated.assumptions == {"domain": (-10, 10)}
    assert (stated.adjacency.name, stated.size) == ("l1", 3)
    assert stated.bind(shift=2.0).assumed == {"domain"}
