"""Functions of noisy numbers: what they are on a path, and what comparing them means."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.errors import ExplorationDisagrees, NotAffine
from veridp.kernel import functions
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.path import leaves
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.symbols import Derived, PureFunction
from veridp.mechanism import as_mechanism


def only(mechanism, data=None):
    (path,) = explore(mechanism, data)
    return path


def replayed(mechanism, data=None):
    return Listing.of(as_mechanism(mechanism), data, explore(mechanism, data)).replay()


RISING = [value for value in vars(functions).values() if isinstance(value, PureFunction) and value.at_least is not None]
RISING += [functions.odd_power(3), functions.power_of_positive(2), functions.exponential(2.5)]


@pytest.mark.parametrize("function", RISING, ids=lambda function: function.name)
@pytest.mark.parametrize("strict", [False, True])
def test_a_rising_function_reaches_a_level_where_its_threshold_says(function, strict):
    rng = np.random.default_rng(0)
    positive = any(word in function.name for word in ("log", "sqrt", "from 0"))
    for x in rng.uniform(0.05 if positive else -6, 6, 300).tolist():
        for level in (-3, -1, -0.5, 0, 0.25, 0.5, 1, 2, 2.5, 7):
            reached = function.compute(x) > level if strict else function.compute(x) >= level
            bound, excluded = function.at_least(Fraction(level), strict)
            assert reached == (x > bound if excluded else x >= bound), (x, level)


@pytest.mark.parametrize(
    ("function", "halves"),
    [(functions.ROUND, [-1.5, -0.5, 0.5, 1.5, 2.5]), (functions.TRUNC, [-2, -1, 0, 1]), (functions.FLOOR, [-1, 0, 1])],
)
def test_step_functions_are_exact_on_their_edges(function, halves):
    for x in halves:
        for level in range(-3, 4):
            bound, excluded = function.at_least(Fraction(level), False)
            assert (function.compute(x) >= level) == (x > bound if excluded else x >= bound)


def test_powers_of_two_by_numpy_are_written_and_released_as_what_they_are():
    def doubling(rng, data):
        return np.exp2(data[0] + rng.laplace())

    assert only(doubling, unknowns("data", 1)).output.text() == "2.0**(data[0] + n0)"
    replayed(doubling, [0.5])
    assert veridp.exact.compare(doubling, [0], [1]).epsilon == 1


def test_what_is_computed_from_noise_is_written_in_its_words():
    def computed(rng, data):
        noisy = data[0] + rng.laplace()
        return noisy * (data[1] + rng.laplace()), round(noisy, 1), noisy**2, 1 / noisy, noisy // 2, noisy % 2

    path = only(computed, unknowns("data", 2))
    assert [leaf.text() for leaf in leaves(path.output)] == [
        "(data[0] + n0) * (data[1] + n1)",
        "0.1·round(10·data[0] + 10·n0)",
        "(data[0] + n0)**2",
        "1/(data[0] + n0)",
        "floor(0.5·data[0] + 0.5·n0)",
        "data[0] + n0 - 2·floor(0.5·data[0] + 0.5·n0)",
    ]
    assert not path.conditions


def test_comparing_a_rising_function_compares_its_argument():
    def compared(rng, data):
        noisy = rng.laplace()
        return [
            np.exp(noisy) > 2,
            round(noisy) >= 1,
            np.tanh(noisy) < 0.5,
            noisy**3 > 8,
            np.float64(2.0) ** noisy <= 0.0,
        ]

    texts = {condition.text() for path in explore(compared, None) for condition in path.conditions}
    ln2, half = f"{math.log(2):.6g}", f"{math.atanh(0.5):.6g}"
    assert {f"n0 > {ln2}", "n0 > 0.5", "n0 > 2", f"{half} > n0"} <= texts
    assert not any("(" in text for text in texts)
    assert all(path.output[4] is False for path in explore(compared, None))


def test_equality_with_a_rounded_number_is_an_interval():
    def rounded(rng, data):
        return "three" if round(rng.laplace()) == 3 else "other"

    three, above, below = explore(rounded, None)
    assert [condition.text() for condition in three.conditions] == ["n0 > 2.5", "3.5 > n0"]
    assert (above.output, below.output) == ("other", "other")


def test_a_function_may_not_be_defined_everywhere():
    def logarithm(rng, data):
        return math.log(rng.laplace())

    def roots(rng, data):
        return np.sqrt(rng.laplace(size=1))

    defined, raising = explore(logarithm, None)
    assert str(raising.output) == "raises ValueError('math domain error')"
    assert defined.conditions[0].text() == "n0 > 0"
    outputs = [str(leaf) for path in explore(roots, None) for leaf in leaves(path.output)]
    assert sorted(outputs) == ["nan", "sqrt(n0)"]
    assert replayed(logarithm).reached == replayed(roots).reached == 2


def test_functions_are_equal_if_their_names_and_arguments_are():
    first, second = (only(lambda rng, data: np.exp(2 * rng.laplace() + 1)).output for _ in range(2))
    assert isinstance(first, Affine)
    assert first.functions == second.functions
    assert first.functions != only(lambda rng, data: np.exp(2 * rng.laplace())).output.functions
    (copied,) = pickle.loads(pickle.dumps(first.functions))  # noqa: S301
    assert copied == first.functions[0]
    assert isinstance(copied, Derived)


def counted_at(rng):
    counts = np.zeros((2, 3))
    np.add.at(counts, ([0, 1, 0], [2, 0, 2]), 1)  # the first entry is counted twice
    np.subtract.at(counts, (slice(None), 1), rng.laplace(size=2))
    return counts + rng.laplace()


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda rng, data: rng.laplace() * rng.normal() / rng.exponential(),
        lambda rng, data: np.exp(rng.laplace(size=3)) / np.exp(rng.laplace(size=3)).sum(),
        lambda rng, data: [
            round(rng.laplace(), 3),
            int(7 * rng.random()),
            math.floor(rng.laplace()),
            rng.laplace() // 3,
        ],
        lambda rng, data: np.std(rng.laplace(size=4)) + np.percentile(rng.laplace(size=4), 30),
        lambda rng, data: np.linalg.lstsq(np.array([[1.0], [2.0]]), rng.laplace(size=2), rcond=None)[0],
        lambda rng, data: "high" if rng.laplace() * rng.laplace() > 1 else rng.laplace() ** 2,
        lambda rng, data: np.polyfit([0, 1, 2], rng.laplace(size=3), 1),
        lambda rng, data: np.convolve([0.5, 0.5], rng.laplace(size=4), mode="valid"),
        lambda rng, data: np.trace(np.diag(rng.laplace(size=3))) + np.inner([1, 2], rng.laplace(size=2)),
        lambda rng, data: np.maximum.accumulate(rng.laplace(size=3)),
        lambda rng, data: np.multiply.accumulate(rng.laplace(size=(2, 2)), axis=1),
        lambda rng, data: counted_at(rng),
    ],
)
def test_plain_runs_compute_what_functions_say(mechanism):
    replay = replayed(mechanism)
    assert replay.reached == replay.paths


def test_code_that_computes_something_else_from_a_plain_number_is_found_out():
    def lies(rng, data):
        value = rng.laplace()
        return round(value, 2) if type(value) is float else round(value, 1)

    with pytest.raises(ExplorationDisagrees):
        replayed(lies)


def unclear_everywhere(rng, data):
    noise = rng.laplace()
    digits = math.floor(noise * 1e12) % 2
    return (data, digits) if type(noise) is float else (noise, digits)


def unclear_on_one_path(rng, data):
    noise = rng.laplace()
    return unclear_everywhere(rng, data) if noise > 0 else "low"


@pytest.mark.parametrize("mechanism", [unclear_everywhere, unclear_on_one_path])
def test_code_cannot_hide_from_replay_behind_rounding(mechanism):
    with pytest.raises(ExplorationDisagrees, match="rounding decides"):
        replayed(mechanism, 0.0)


def test_functions_of_almost_the_same_constant_are_different_functions():
    def powered(rng, data):
        return (1.5 + 1e-13 * data[0]) ** (data[0] + np.float64(1.0) * rng.laplace())

    claimed = veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1], size=1)(powered)
    assert math.isinf(veridp.prove(claimed).epsilon)


def test_without_functions_what_is_not_affine_is_refused_by_name():
    for mechanism in (lambda rng, data: rng.laplace() * rng.laplace(), lambda rng, data: 1 / rng.laplace()):
        with pytest.raises(NotAffine, match=r"noise .*is not affine"):
            explore(mechanism, None, functions=False)


def test_a_quotient_of_proportional_numbers_is_a_constant():
    def quotients(rng, data):
        noisy = data[0] + rng.laplace()
        return noisy / noisy, 3 * noisy / (2 * noisy), (noisy + 2) / noisy, noisy / (noisy + rng.laplace())

    path = only(quotients, [1.0])
    assert [str(leaf) if isinstance(leaf, float) else leaf.text() for leaf in path.output] == [
        "1.0", "1.5", "(n0 + 3) / (n0 + 1)", "(n0 + 1) / (n0 + n1 + 1)",
    ]  # fmt: skip
    replayed(quotients, [1.0])
    whole = only(lambda rng, data: (x := np.float64(1.0) * rng.poisson(2.0)) / x)  # 0 / 0 is NaN, and no 1
    assert not isinstance(whole.output, float)


SALTED = [
    (lambda salt, value: (31 * salt + 7919 * value) % 4, 4),
    (lambda salt, value: ((value * 2654435761 + salt) % 4294967296) % 6, None),  # not by the salt's remainder alone
    (lambda salt, value: ((value * 2654435761 + salt) % 4294967296) % 8, 8),
    (lambda salt, value: (6 * salt + 5 - 3 * value) % 9, 3),
    (lambda salt, value: (salt + value) & 7, 8),
    (lambda salt, value: (4 * salt - value) % 2, 1),
]


@pytest.mark.parametrize(("bucket", "ways"), SALTED)
def test_a_salted_hash_has_a_path_for_each_remainder_of_its_salt(bucket, ways):
    def salted(rng, value):
        return bucket(int(rng.integers(20_000)), value)

    paths = explore(salted, 5)
    if ways is None:
        assert any(isinstance(path.output, Affine) for path in paths)
        return
    assert len(paths) == ways
    for salt in range(20_000):
        (output,) = (
            path.output
            for path in paths
            if all(c.relation.holds(c.slack.evaluate(dict.fromkeys(path.noises, salt))) for c in path.conditions)
        )
        assert output == bucket(salt, 5)
    assert replayed(salted, 5).reached == ways


def test_a_report_of_a_salted_bucket_costs_what_its_response_costs():
    def report(rng, value, odds):
        salt = int(rng.integers(2**31))
        bucket = (salt * 31 + value * 7919) % 4
        if rng.random() < odds / (odds + 3):
            return salt, bucket
        return salt, (bucket + int(rng.integers(1, 4))) % 4

    for odds in (2, 5):
        claimed = veridp.mechanism(adjacency="any", domain=[0, 1, 2, 3, 4])(report).bind(odds=odds)
        assert veridp.prove(claimed).epsilon == pytest.approx(math.log(odds))


def test_a_bucket_that_shows_the_salted_value_has_no_proof():
    def report(rng, value):
        salt = int(rng.integers(2**31))
        return salt, (salt + value) % 4

    assert veridp.prove(veridp.mechanism(adjacency="any", domain=[0, 1])(report)).epsilon == math.inf


def test_the_largest_integer_of_a_range_is_scripted_within_it():
    def tagged(rng, data):
        return int(rng.integers(2**63)), data[0] + rng.laplace()

    assert veridp.prove(veridp.mechanism(adjacency="linf", size=1)(tagged)).epsilon == 1
