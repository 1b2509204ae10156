"""Mechanisms from real objects of other libraries, batched functions and commands."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from diffprivlib import mechanisms as ibm
from diffprivlib.mechanisms.transforms import RoundedInteger

import veridp
from veridp.adjacency import Scaled, adjacency
from veridp.claim import Claim
from veridp.errors import BadInput, BadOutput, MechanismFailed, MechanismHung, NotExplorable
from veridp.mechanism import adapters, as_mechanism
from veridp.notions import ApproximateBound, GaussianDP, RenyiDP, ZeroConcentrated
from veridp.report.exact import judged
from veridp.target import load

dp.enable_features("contrib")
NUMBERS = dp.atom_domain(T=float, nan=False)
BOUNDED = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=5)


def frequency(mechanism: Any, data: Any, event: Any, count: int) -> float:
    outputs = veridp.sample(mechanism, data, count, seed=1)
    return float(np.mean([event(output) for output in outputs]))


def within(found: float, expected: float, count: int) -> bool:
    """Five standard errors: a false alarm in fewer than two of a million runs."""
    return abs(found - expected) <= 5 * math.sqrt(expected * (1 - expected) / count)


# ---------------------------------------------------------------------------------------------------- opendp


def test_an_opendp_measurement_brings_its_claim_and_its_neighbours() -> None:
    scalar = as_mechanism(dp.m.make_laplace(NUMBERS, dp.absolute_distance(T=float), 2.0))
    assert (scalar.claim.epsilon, scalar.claim.delta) == (pytest.approx(0.5), 0)  # type: ignore[union-attr]
    assert (scalar.adjacency.name, scalar.size, scalar.domain) == ("linf", 1, (-10.0, 10.0))
    vector = as_mechanism(dp.m.make_laplace(dp.vector_domain(NUMBERS), dp.l1_distance(T=float), 2.0))
    assert (vector.adjacency.name, vector.size) == ("l1", 5)
    summed = as_mechanism(dp.t.make_sum(BOUNDED, dp.symmetric_distance()) >> dp.m.then_laplace(20.0))
    assert (summed.adjacency.name, summed.size, summed.domain) == ("replace-unordered", 5, (0.0, 10.0))
    assert summed.claim.epsilon == pytest.approx(0.5, rel=1e-6)  # type: ignore[union-attr]  # one replaced: 10 apart, 10 / 20
    whole = as_mechanism(dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 1.0))
    assert whole.domain == range(-10, 11)
    bit = as_mechanism(dp.m.make_randomized_response_bool(0.75))
    assert (bit.adjacency.name, list(bit.domain)) == ("any", [False, True])
    assert bit.claim.epsilon == pytest.approx(math.log(3))  # type: ignore[union-attr]


def summing(metric: Any, size: int | None = None) -> Any:
    """A sum of numbers between 0 and 10 with noise of scale 20: a record more, or another one, costs 1/2."""
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 10)), **({} if size is None else {"size": size}))
    return dp.t.make_sum(domain, metric) >> dp.m.then_laplace(20.0)


@pytest.mark.parametrize(
    ("measurement", "relation", "epsilon"),
    [
        (lambda: summing(dp.symmetric_distance()), "add-remove-unordered", 0.5),
        (lambda: summing(dp.insert_delete_distance()), "add-remove", 0.5),
        (lambda: summing(dp.symmetric_distance(), 5), "replace-unordered", 0.5),
        (lambda: summing(dp.insert_delete_distance(), 5), "replace", 0.5),
        (lambda: changed(dp.change_one_distance()) >> summing(dp.symmetric_distance(), 5), "replace-unordered", 0.5),
        (lambda: changed(dp.hamming_distance()) >> summing(dp.insert_delete_distance(), 5), "replace", 0.5),
        (lambda: noisy_max(monotonic=False), "linf", 1.0),
        (lambda: noisy_max(monotonic=True), "monotone", 0.5),
    ],
)
def test_the_metric_of_opendp_says_who_is_a_neighbour(measurement: Any, relation: str, epsilon: float) -> None:
    found = as_mechanism(measurement())
    assert found.adjacency.name == relation
    assert found.claim is not None
    assert found.claim.epsilon == pytest.approx(epsilon)


def changed(metric: Any) -> Any:
    """From data of which records are replaced, by this metric, to data of which records are added and removed."""
    return dp.t.make_metric_unbounded(dp.vector_domain(dp.atom_domain(bounds=(0, 10)), size=5), metric)


def noisy_max(monotonic: bool) -> Any:
    metric = dp.linf_distance(T=float, monotonic=monotonic)
    return dp.m.make_noisy_max(dp.vector_domain(NUMBERS), metric, dp.max_divergence(), 2.0)


def test_a_relation_of_ones_own_is_priced_by_the_map_of_opendp_or_refused() -> None:
    added = summing(dp.symmetric_distance())
    assert veridp.adapters.opendp(added, adjacency="replace").claim.epsilon == pytest.approx(1.0)  # type: ignore[union-attr]
    vector = dp.m.make_laplace(dp.vector_domain(NUMBERS), dp.l1_distance(T=float), 2.0)
    farther = veridp.adapters.opendp(vector, adjacency=Scaled(adjacency("l1"), 3.0))
    assert farther.claim.epsilon == pytest.approx(1.5)  # type: ignore[union-attr]
    with pytest.raises(
        BadInput, match=r"L1Distance\(f64\) does not bound the distance of neighbours under linf.*epsilon=…"
    ):
        veridp.adapters.opendp(vector, adjacency="linf")
    assert str(veridp.adapters.opendp(vector, adjacency="linf", epsilon=2.5).claim) == "2.5-DP"
    with pytest.raises(BadInput, match=r"InsertDeleteDistance.* under add-remove-unordered"):
        veridp.adapters.opendp(summing(dp.insert_delete_distance()), adjacency="add-remove-unordered")


def test_a_metric_or_measure_of_opendp_that_is_unknown_is_refused_with_a_remedy() -> None:
    dp.enable_features("honest-but-curious")
    numbers = dp.vector_domain(NUMBERS, size=2)
    for metric, measure in [
        (dp.user_distance("persons"), dp.max_divergence()),
        (dp.l1_distance(T=float), dp.user_divergence("surprise")),
    ]:
        made = dp.m.make_user_measurement(numbers, metric, measure, lambda data: data[0], lambda d_in: 1.0, TO=float)
        with pytest.raises(BadInput, match=r"opendp's .*epsilon=…"):
            as_mechanism(made)
        stated = veridp.adapters.opendp(made, adjacency="l1", epsilon=1.0)
        assert str(stated.claim) == "1-DP"


def test_the_measure_of_opendp_is_the_notion_of_the_claim() -> None:
    gaussian = dp.m.make_gaussian(NUMBERS, dp.absolute_distance(T=float), 2.0)
    assert keywords(gaussian) == {"rho": pytest.approx(1 / 8, rel=1e-12)}  # Δ²/2σ²
    assert str(as_mechanism(gaussian).claim) == "0.125-zCDP"
    laplace = dp.m.make_laplace(NUMBERS, dp.absolute_distance(T=float), 2.0)
    assert keywords(dp.c.make_pureDP_to_zCDP(laplace)) == {"rho": pytest.approx(1 / 8)}  # ε²/2
    assert keywords(dp.c.make_approximate(laplace)) == {"epsilon": pytest.approx(0.5), "delta": 0.0}
    assert keywords(dp.c.make_approximate(gaussian)) == {"rho": pytest.approx(1 / 8, rel=1e-12)}
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), 1e-5)
    found = keywords(fixed)
    assert found["delta"] == 1e-5
    assert exact_gaussian_epsilon(0.5, 1e-5) < found["epsilon"] < 1 / 8 + 2 * math.sqrt(math.log(1e5) / 8)


def keywords(measurement: Any) -> dict[str, Any]:
    claim = as_mechanism(measurement).claim
    assert claim is not None
    return claim.keywords


def exact_gaussian_epsilon(mu: float, delta: float) -> float:
    return GaussianDP(mu).epsilon(delta)


def user_measurement(measure: Any, loss: Any) -> Any:
    dp.enable_features("honest-but-curious")
    numbers = dp.vector_domain(NUMBERS, size=2)
    return dp.m.make_user_measurement(numbers, dp.l1_distance(T=float), measure, min, lambda d_in: loss, TO=float)


def test_renyi_divergences_of_opendp_are_claimed_order_by_order() -> None:
    claim = as_mechanism(user_measurement(dp.renyi_divergence(), lambda alpha: alpha / 2)).claim
    assert claim is not None
    assert isinstance(claim.notion, RenyiDP)
    assert dict(claim.notion.points)[8.0] == 4.0
    assert claim.covers_proof(ApproximateBound(1.0))  # 1-DP implies 1/2-zCDP, and so every order
    assert not claim.covers_proof(ApproximateBound(1.1))


def test_a_claim_of_opendp_that_no_notion_says_is_taken_at_a_delta() -> None:
    gaussian = dp.m.make_gaussian(NUMBERS, dp.absolute_distance(T=float), 1.0)
    for measurement, delta in [(gaussian, 1e-5), (dp.c.make_zCDP_to_approxDP(gaussian), None)]:
        claim = veridp.adapters.opendp(measurement, delta=delta).claim
        assert claim is not None
        assert (claim.notion, claim.delta) == (None, delta or 1e-6)
        assert exact_gaussian_epsilon(1.0, claim.delta) < claim.epsilon < 0.5 + math.sqrt(-2 * math.log(claim.delta))
    approximate = user_measurement(dp.approximate(dp.zero_concentrated_divergence()), (0.5, 1e-3))
    claim = veridp.adapters.opendp(approximate, delta=2e-3).claim
    assert claim is not None
    assert claim.delta == 2e-3
    assert claim.epsilon == pytest.approx(ZeroConcentrated(0.5).epsilon(1e-3 / (1 - 1e-3)), rel=1e-9)
    assert as_mechanism(approximate).claim.delta == pytest.approx(1e-3 + 1e-6 * (1 - 1e-3))  # type: ignore[union-attr]
    with pytest.raises(BadInput, match=r"alone has δ = 0\.001; give a larger delta than 0\.0005"):
        veridp.adapters.opendp(approximate, delta=5e-4)


def test_opendp_is_sampled_and_not_explored() -> None:
    bit = dp.m.make_randomized_response_bool(0.75)
    assert within(frequency(bit, True, lambda kept: kept, 4000), 0.75, 4000)
    scalar = dp.m.make_laplace(NUMBERS, dp.absolute_distance(T=float), 1.0)
    assert within(frequency(scalar, [3.0], lambda value: value > 4.0, 4000), math.exp(-1) / 2, 4000)
    with pytest.raises(NotExplorable, match="draws its noise out of sight"):
        veridp.explore(scalar, [3.0])


def test_opendp_with_a_domain_that_cannot_be_listed_asks_for_one() -> None:
    words = dp.m.make_randomized_response(["a", "b", "c"], 0.5)
    with pytest.raises(BadInput, match=r"domain=\[…\]"):
        as_mechanism(words)
    assert veridp.adapters.opendp(words, domain=["a", "b", "c"]).claim.epsilon == pytest.approx(math.log(2))  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------- diffprivlib


def test_a_diffprivlib_object_brings_its_claim_and_its_sensitivity() -> None:
    laplace = as_mechanism(ibm.Laplace(epsilon=0.5, sensitivity=2))
    assert str(laplace.claim) == "0.5-DP"
    assert laplace.adjacency == Scaled(adjacency("linf"), 2.0)
    assert laplace.adjacency.adjacent([1.0], [3.0])
    assert not laplace.adjacency.adjacent([1.0], [3.5])
    assert as_mechanism(ibm.Geometric(epsilon=1)).domain == range(-10, 11)
    assert as_mechanism(ibm.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=5)).domain == (0, 5)
    assert str(as_mechanism(ibm.Gaussian(epsilon=0.5, delta=1e-5, sensitivity=1)).claim) == "(0.5, 1e-05)-DP"


@pytest.mark.parametrize("kind", [ibm.Exponential, ibm.PermuteAndFlip])
@pytest.mark.parametrize("sensitivity", [1, 50])
def test_monotonic_utilities_move_together(kind: Any, sensitivity: float) -> None:
    options = {"epsilon": 1, "sensitivity": sensitivity, "utility": [0, 0, 0]}
    free, together = (as_mechanism(kind(**options, monotonic=monotonic)) for monotonic in (False, True))
    low, high = [0, 0, 0], [sensitivity] * 3
    opposed = [0, sensitivity, 0], [sensitivity, 0, 0]
    assert together.adjacency.adjacent(low, high)
    assert not together.adjacency.adjacent(*opposed)
    assert free.adjacency.adjacent(*opposed)
    assert free.domain == together.domain == (-10 * sensitivity, 10 * sensitivity)
    for relation in (free.adjacency, together.adjacency):  # pairs as far apart as the sensitivity
        pairs = list(relation.pairs(3, free.domain))
        assert max(abs(a - b) for p in pairs for a, b in zip(p.left, p.right, strict=True)) == sensitivity  # type: ignore[call-overload]


def test_a_monotonic_exponential_mechanism_costs_what_it_claims() -> None:
    """Closed forms: ε for utilities that move together, twice that for those that do not."""
    together = as_mechanism(ibm.Exponential(epsilon=1, sensitivity=1, utility=[0, 0], monotonic=True))
    for left, right in ([0.0, 0.0], [1.0, 0.0]), ([5.0, 0.0], [5.0, 1.0]):
        weights = [[math.exp(u) for u in side] for side in (left, right)]
        odds = [[w / sum(side) for w in side] for side in weights]
        expected = max(abs(math.log(p / q)) for p, q in zip(*odds, strict=True))
        assert veridp.exact.compare(together, left, right).epsilon == pytest.approx(expected, abs=1e-9)
        assert expected <= 1
    assert veridp.exact.compare(together.function, [-9.0, 9.0], [-10.0, 10.0]).epsilon == pytest.approx(2.0, abs=1e-6)
    with pytest.raises(BadInput, match="not neighbours under monotone"):
        veridp.exact.compare(together, [-9.0, 9.0], [-10.0, 10.0])


def test_what_a_library_loses_to_rounding_is_left_out() -> None:
    """The true ε is at most 4: the probability of the last candidate, e^-40, is lost to the sum of the others."""
    comparison = veridp.exact.compare(
        ibm.Exponential(epsilon=4, sensitivity=1, utility=[0, 0, 0]), [9.0, -9.0, -9.0], [10.0, -10.0, -10.0]
    )
    assert comparison.is_lower_bound
    assert "but for branches as rare as rounding errors" in str(comparison)
    assert not comparison.refutes(Claim(4.0))
    assert judged(comparison, Claim(4.0)) == "kept between these two"
    fair = veridp.exact.compare(comparison.mechanism, [1.0, 1.0, 1.0], [0.0, 2.0, 2.0])
    assert fair.refutes(Claim(3.5))
    assert judged(fair, Claim(3.5)) == "exceeded"
    assert judged(fair, Claim(4.0)) == "kept between these two"


def test_categories_are_neighbours_of_each_other() -> None:
    utilities = [("a", "b", 1), ("b", "c", 1), ("a", "c", 2)]
    categories = as_mechanism(ibm.ExponentialCategorical(epsilon=1, utility_list=utilities))
    assert (categories.adjacency.name, categories.domain) == ("any", ["a", "b", "c"])
    near, far = math.exp(-1 / 4), math.exp(-2 / 4)  # halved: the totals differ
    assert veridp.exact.compare(categories, "a", "b").epsilon == pytest.approx(
        max(abs(math.log(p / q * (1 + 2 * near) / (1 + near + far))) for p, q in ((1, near), (near, 1), (far, near)))
    )
    tree = as_mechanism(ibm.ExponentialHierarchical(epsilon=1, hierarchy=[["x", "y"], ["z", "w"]]))
    assert set(tree.domain) == set("xyzw")


def test_whole_numbers_move_by_the_whole_sensitivity() -> None:
    counts = as_mechanism(ibm.Geometric(epsilon=1, sensitivity=3))
    moves = {abs(p.left[0] - p.right[0]) for p in counts.adjacency.pairs(1, counts.domain)}  # type: ignore[index]
    assert max(moves) == 3


@pytest.mark.parametrize(
    ("machine", "complaint"),
    [
        (lambda: ibm.Laplace(epsilon=1, sensitivity=0), "sensitivity must be > 0 for data to have neighbours"),
        (lambda: RoundedInteger(ibm.Laplace(epsilon=1, sensitivity=1)), "RoundedInteger wraps a mechanism; give that"),
    ],
)
def test_what_diffprivlib_does_not_say_is_refused_with_a_remedy(machine: Any, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        as_mechanism(machine())


def test_diffprivlib_draws_from_the_seed() -> None:
    for machine in (ibm.Laplace(epsilon=1, sensitivity=1), ibm.Snapping(epsilon=1, sensitivity=1, lower=0, upper=5)):
        first, again = (veridp.sample(machine, [2.0], 50, seed=7).matrix() for _ in range(2))
        assert np.array_equal(first, again)
        assert len(np.unique(first)) > 3  # snapping leaves few values


def test_diffprivlib_has_the_law_it_should() -> None:
    count = 40_000
    laplace = ibm.Laplace(epsilon=0.5, sensitivity=1)
    assert within(frequency(laplace, [3.0], lambda value: value > 5.0, count), math.exp(-1) / 2, count)
    geometric, ratio = ibm.Geometric(epsilon=1), math.exp(-1)
    assert within(frequency(geometric, [0], lambda value: value >= 1, count), ratio / (1 + ratio), count)


def test_affine_diffprivlib_objects_are_exact() -> None:
    binary = veridp.exact.compare(ibm.Binary(epsilon=1, value0="a", value1="b"), "a", "b")
    assert binary.epsilon == pytest.approx(1.0, abs=1e-12)
    chosen = ibm.Exponential(epsilon=1, sensitivity=1, utility=[0, 0, 0])
    comparison = veridp.exact.compare(chosen, [1.0, 0.0, 0.0], [0.0, 1.0, 1.0])
    e = math.exp(0.5)
    assert comparison.epsilon == pytest.approx(math.log((e / (e + 2)) / (1 / (1 + 2 * e))), abs=1e-12)


# ------------------------------------------------------------------------------------ batched functions, commands


def test_a_batched_function() -> None:
    source = np.random.default_rng(3)
    mechanism = veridp.adapters.batched(lambda data, n: data[0] + source.laplace(size=n), epsilon=1.0, size=1)
    assert within(frequency(mechanism, [1.0], lambda value: value > 2.0, 40_000), math.exp(-1) / 2, 40_000)
    assert str(mechanism.claim) == "1-DP"
    with pytest.raises(NotExplorable):
        veridp.explore(mechanism, [1.0])
    with pytest.raises(BadInput, match="is not a function of"):
        veridp.adapters.batched(3)  # type: ignore[arg-type]


PROGRAM = """
import json, random, sys
random.seed(5)
for line in sys.stdin:
    value = json.loads(line)["value"]
    print(json.dumps(value if random.random() < 0.75 else 1 - value))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "flip.py"
    file.write_text(PROGRAM)
    return file


def test_a_command(program: Path) -> None:
    mechanism = veridp.adapters.command([sys.executable, str(program)], epsilon=math.log(3), adjacency="any")
    assert within(frequency(mechanism, {"value": 1}, lambda value: value == 1, 4000), 0.75, 4000)
    target = load(f"command:{sys.executable} {program}")
    assert set(veridp.tally(target, {"value": np.int64(0)}, 100).counts) == {0, 1}


@pytest.mark.parametrize(
    ("program", "error", "complaint"),
    [
        ("print('[1')", BadOutput, "wrote 1 lines for 3 of input"),
        ("print('1\\n[2\\n3')", BadOutput, "line 2 of its output: '\\[2' is not JSON"),
        ("raise SystemExit('no luck')", MechanismFailed, "ended with status 1: no luck"),
        ("import time; time.sleep(9)", MechanismHung, "did not answer within 1 s"),
    ],
)
def test_a_command_that_misbehaves(program: str, error: type[Exception], complaint: str) -> None:
    mechanism = veridp.adapters.command([sys.executable, "-c", program], seconds=1.0)
    with pytest.raises(error, match=complaint):
        veridp.sample(mechanism, [1], 3)


def test_a_command_that_is_none() -> None:
    with pytest.raises(BadInput, match="is not a command"):
        veridp.adapters.command([])
    with pytest.raises(BadInput, match="no-such-program: No such file or directory"):
        veridp.sample(veridp.adapters.command("no-such-program"), [1], 3)
    with pytest.raises(BadInput, match="cannot be written as JSON"):
        veridp.sample(veridp.adapters.command([sys.executable, "-c", ""]), {1, 2}, 3)


def test_what_is_not_of_the_library_is_refused() -> None:
    with pytest.raises(BadInput, match="is not an opendp Measurement"):
        veridp.adapters.opendp(3)
    with pytest.raises(BadInput, match="is not of diffprivlib"):
        veridp.adapters.diffprivlib(3)
    with pytest.raises(BadInput, match="is not a mechanism"):
        as_mechanism(3)


def test_functions_with_randomness_of_their_own_are_sampled_and_follow_from_the_seed() -> None:
    def noisy(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
        return [data[0] + np.random.laplace(scale=1 / epsilon), random.random()]  # noqa: NPY002

    mechanism = adapters.unseeded(noisy, adjacency="l1", size=1)
    state = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]  # noqa: NPY002
    first, again, other = (veridp.sample(mechanism, [0.0], 4000, seed=seed, workers=2).matrix() for seed in (1, 1, 2))
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index, union-attr]  # noqa: NPY002
    assert (first == again).all()
    assert len(np.unique(np.concatenate([first, other]), axis=0)) == 8000  # no block repeats another
    assert abs(np.mean(np.abs(first[:, 0])) - 1) < 0.1  # six standard errors
    assert (mechanism.claim, mechanism.assumed) == (Claim(1.0), {"domain"})
    with pytest.raises(NotExplorable, match="draws its noise out of sight"):
        veridp.explore(mechanism, [0.0])


def test_what_a_library_does_not_say_is_assumed() -> None:
    assert adapters.diffprivlib(ibm.Laplace(epsilon=1, sensitivity=1)).assumed == {"domain"}
    bounded = ibm.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=1)
    assert adapters.diffprivlib(bounded).assumed == set()
