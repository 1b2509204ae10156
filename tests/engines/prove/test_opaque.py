"""Public randomness: seeds from ranges that are too long to list, and functions of them that need not be understood."""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from typing import Any

import pytest

import veridp
from veridp.engines.prove.replay import spot_check
from veridp.kernel.explore import explore
from veridp.kernel.noise import Integers
from veridp_check.checker import check

PRIME = 2**31 - 1


def prove(function: Any, domain: list[Any]) -> Any:
    return veridp.prove(veridp.mechanism(adjacency="any", domain=domain)(function), 1)


def hadamard(rng, value):
    row = int(rng.integers(2**16))
    sign = -1 if (row & value).bit_count() % 2 else 1
    if rng.random() < 0.25:
        sign = -sign
    return row, sign


def hadamard_as_a_text(rng, value):
    row = int(rng.integers(2**16))
    parity = bin(row & value).count("1") & 1
    parity ^= rng.random() < 0.25
    return f"{row:016b} {parity}"


def looked_up(rng, value):
    row = int(rng.integers(2**16))
    sign = (-1, 1)[row >> value & 1]
    return row, sign if rng.random() < 0.75 else -sign


def universal(rng, value):
    a, b = int(rng.integers(1, PRIME)), int(rng.integers(PRIME))
    bit = ((a * value + b) % PRIME) % 4 == 2
    return {"a": a, "b": b, "bit": bool(bit) if rng.random() < 0.75 else not bit}


def numbered(rng, value):
    return int(rng.integers(2**31)), value if rng.random() < 0.75 else 1 - value


def numpy_hadamard(rng, value):
    row = rng.integers(100_000)
    sign = 1 - 2 * ((row & value) % 2)
    return row, int(sign) * (1 if rng.random() < 0.75 else -1)


@pytest.mark.parametrize(
    ("function", "domain"),
    [
        (hadamard, [1, 2, 500]),
        (hadamard_as_a_text, [1, 500, 40_000]),
        (looked_up, [0, 7]),
        (universal, [0, 1, 5]),
        (numbered, [0, 1]),
    ],
)
def test_what_a_seed_separates_costs_what_is_reported_of_it(function: Any, domain: list[Any]) -> None:
    """A bit that is kept with probability 3/4: ln 3, whatever the function is."""
    proof = prove(function, domain)
    assert proof.epsilon == pytest.approx(math.log(3), rel=1e-12)
    assert check(proof.certificate).verified
    assert not proof.recognised


def test_numbers_of_numpy_have_bits_too() -> None:
    paths = explore(lambda rng, data: [rng.integers(2**40) & 5, ~rng.integers(2**40), rng.integers(2**40) >> 3], None)
    assert [str(path) for path in paths] == ["[(n0) & (5), -n1 - 1, floor(0.125·n2)] where always"]
    assert [noise.distribution for noise in paths[0].noises] == [Integers(2**40)] * 3


def test_a_secret_seed_saves_nothing() -> None:
    """Without the row, the sign is the same for both values; but which rows give which is not known to the proof."""
    assert prove(lambda rng, value: hadamard(rng, value)[1], [1, 2]).epsilon == pytest.approx(math.log(3), rel=1e-12)


def test_a_hash_that_is_released_is_no_proof() -> None:
    assert prove(lambda rng, value: (seed := int(rng.integers(2**31)), seed * value % 7), [1, 2]).epsilon == math.inf


def test_a_seed_that_hides_the_value_is_no_proof() -> None:
    assert prove(lambda rng, value: int(rng.integers(2**31)) ^ value, [0, 1]).epsilon == math.inf


def test_a_report_that_only_some_hashes_give_has_no_bound() -> None:
    def mechanism(rng, value):
        row = int(rng.integers(2**31))
        return row, (rng.random() < 0.5 if (row & value) % 2 else True)

    assert prove(mechanism, [1, 2]).epsilon == math.inf


def test_a_coin_before_the_hash_leaves_no_cells_apart() -> None:
    """Both kinds of runs hold at once, and the search does not add up what overlaps."""

    def mechanism(rng, value):
        row, coin = int(rng.integers(2**31)), rng.random() < 0.5
        return row, bool((row & value) % 2 == 0) if coin else rng.random() < 0.5

    assert prove(mechanism, [1, 2]).epsilon in (math.inf, pytest.approx(math.log(3)))


def forged(**fields: Any) -> Any:
    """The certificate of `hadamard` with a ratio that is too small, or with other changes."""
    document = copy.deepcopy(prove(hadamard, [1, 2]).certificate)
    for name, value in fields.items():
        document[name] = value
    return document


def test_a_smaller_ratio_is_rejected_with_the_place_where_it_fails() -> None:
    document = forged(epsilon=str(Fraction(1)))
    for coupling in document["couplings"]:
        coupling["ratio"] = "5/2"
    rejected = check(document).rejection
    assert rejected.place == "/couplings/0/ratio"
    assert "wherever the noise lies" in rejected.reason


def test_noise_that_a_function_is_of_must_not_be_shifted() -> None:
    document = forged()
    draws = len(document["parts"][0]["events"][0]["draws"])
    table = [{"moves": ["0"] * (draws - 1), "cost": "0"}]
    shifts = {"entries": [], "at": "corners", "table": table}
    document["couplings"][0]["transports"] = [{"from": 0, "to": 0, "share": "1", "shifts": shifts}]
    rejected = check(document).rejection
    assert rejected.place == "/couplings/0/transports/0"
    assert "which has another value then" in rejected.reason


def test_functions_are_for_couplings_of_values_only() -> None:
    document = veridp.prove(lambda rng, data: data[0] + rng.laplace(), 1, adjacency="l1").certificate
    document["noises"][0] = {"draw": 0, "kind": "opaque"}
    assert check(document).rejection.place == "/noises/0/kind"


def test_runs_are_compared_with_a_certificate_of_seeds() -> None:
    checked = check(prove(numbered, [0, 1]).certificate)
    assert spot_check(checked, numbered, 40, 1).rejection is None
    other = spot_check(checked, lambda rng, value: (int(rng.integers(2**30)), value), 40, 1).rejection
    assert other is not None


def told_apart(rng, value):
    """The half of the range that the seed is in, and its highest bit, which says the same.

    True has the probability 1/4 for one value and 3/4 for the other.
    """
    seed = int(rng.integers(2**16))
    if (seed & 2**15) >= 1:
        return seed < 2**15 if value == 0 else seed >= 2**15
    return rng.random() < 0.5


def test_a_seed_that_a_function_is_of_is_no_finite_choice() -> None:
    assert prove(told_apart, [0, 1]).epsilon == math.inf


def event_of(of: list[int], *, kept: bool = True) -> Any:
    """A certificate of `told_apart`: the bit is noise 2, a function of these draws."""
    bit = {"noise": {"2": "1"}, "data": {}, "constant": "-1", "relation": ">="}
    no_bit = {"noise": {"2": "-1"}, "data": {}, "constant": "0", "relation": ">="}
    low = {"noise": {"0": "-1"}, "data": {}, "constant": str(2**15 - 1), "relation": ">="}
    high = {"noise": {"0": "1"}, "data": {}, "constant": str(-(2**15)), "relation": ">="}
    heads = {"noise": {"1": "-1"}, "data": {}, "constant": "1/2", "relation": ">"}
    tails = {"noise": {"1": "1"}, "data": {}, "constant": "-1/2", "relation": ">="}
    draws = [0, 1, 2] if kept else [1, 2]

    def event(output: str, *conditions: Any) -> Any:
        return {"output": output, "weight": "1", "draws": draws, "conditions": list(conditions), "numbers": []}

    def part(yes: Any, no: Any) -> Any:
        halves = [event("True", bit, yes), event("False", bit, no)]
        return {"entries": None, "events": [*halves, event("True", no_bit, heads), event("False", no_bit, tails)]}

    document = copy.deepcopy(prove(hadamard, [1, 2]).certificate)
    document["noises"] = [
        {"draw": 0, "kind": "integers", "count": str(2**16)},
        {"draw": 1, "kind": "uniform", "scale": "1"},
        {"draw": 2, "kind": "opaque", "of": of},
    ]
    document["parts"] = [part(low, high), part(high, low)]
    document["epsilon"] = "0"
    for coupling in document["couplings"]:
        coupling.update(cost="0", ratio="1", transports=[])
    return document


def test_the_checker_keeps_what_a_function_is_of() -> None:
    """Were the bit not a function of the seed, every output would have the weight 1/2 wherever the bit lies."""
    assert check(event_of([])).verified
    rejected = check(event_of([0])).rejection
    assert rejected.place == "/couplings/0/ratio"
    assert "wherever the noise lies" in rejected.reason


def test_a_function_is_of_draws_before_it() -> None:
    rejected = check(event_of([0], kept=False)).rejection
    assert "a function of draws that are not before it" in rejected.reason


def test_what_a_function_is_of_has_to_be_said() -> None:
    document = event_of([0])
    del document["noises"][2]["of"]
    assert "'of'" in check(document).rejection.reason
