"""The batch reading computes on each row what Python and NumPy compute on its draws alone."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veridp.errors import BadOutput, Nondeterministic
from veridp.kernel.noise import Laplace
from veridp.kernel.output import Raised
from veridp.sampling import batch as batched
from veridp.sampling.batch import EVERY_RUN, FEW_ROWS, RowsCompared, batch_outputs
from veridp.sampling.outputs import Outputs
from veridp.sampling.sample import sample
from veridp.sampling.tape import Unfit


def batch(function: Any, data: Any = None, count: int = 500, seed: int = 0) -> Outputs:
    return batch_outputs(function, data, np.random.default_rng(seed), count)


class EveryRow:
    """Replays every row of every run through the plain function, not only the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared = 0
        self.part: object = None
        compare = batched._compare

        def compare_all(function: Any, data: Any, generator: Any, tape: Any, part: Any, row: int) -> None:
            for each in () if part is self.part else range(tape.size):
                compare(function, data, generator, tape, part, each)
                self.compared += 1
            self.part = part

        monkeypatch.setattr(batched, "_compare", compare_all)


@pytest.fixture
def every_row(monkeypatch: pytest.MonkeyPatch) -> EveryRow:
    return EveryRow(monkeypatch)


def arithmetic(rng, data):
    x, y = rng.laplace(), rng.normal(1, 2)
    return [x + y, 1 - x, x * 3, 2 / y, x // 0.5, x % 0.75, x**2, 2.0**x, -x, +y, abs(x), divmod(x, 2.0), x / 7, 5 % y]


def integers(rng, data):
    n, m = rng.geometric(0.4), rng.poisson(3) + 1
    return [n + m, n - 2 * m, n // m, n % m, n / m, n**2, -n, n << 2, m >> 1, n & m, n | m, n ^ m, ~n, abs(n - m)]


def truth_values_of_python(rng, data):
    a, b = rng.random() < 0.5, rng.random() < 0.5
    return [a + b, a * 3, a - b, -a, a & b, a | b, a ^ b, sum([a, b, True]), a == b, not a, a and b, 0.5 * a]


def truth_values_of_numpy(rng, data):
    x = rng.random(size=2) < 0.5
    return [x[0] + x[1], x[0] * x[1], ~x[0], x[0] & x[1], x[0] * 2, x.sum(), x.any(), x.all(), np.logical_not(x[0])]


def rounding(rng, data):
    x = rng.normal(0, 5)
    return [round(x), math.floor(x), math.ceil(x), int(abs(round(x)) > 3), round(x, 1), np.floor(x), np.round(x)]


def numpy_functions(rng, data):
    x = np.asarray([0.5, -1.0, 2.0]) + rng.laplace(size=3)
    return [
        np.argmax(x), np.argmin(x), np.max(x), x.min(), np.sum(x), x.mean(), np.cumsum(x), np.clip(x, -1, 1),
        np.where(x > 0, x, 0.0), np.where(x > 0, 1, 2), np.exp(x), np.sqrt(np.abs(x)), np.maximum(x, 0.25),
        np.minimum(x[0], x[1]), np.dot(x, [1.0, 2.0, 3.0]), np.sign(x), (x > 0).astype(int), x[::-1], np.abs(x[0]),
    ]  # fmt: skip


def scalars_in_numpy_functions(rng, data):
    x = rng.laplace()
    return [np.exp(x), np.maximum(x, 0.0), np.clip(x, -0.5, 0.5), np.float64(2.0) * x, np.abs(x), x + np.arange(2)]


def python_functions(rng, data):
    values = [rng.laplace() for _ in range(3)]
    return [
        max(values),
        min(values),
        sorted(values),
        sum(values),
        values.index(max(values)),
        any(v > 1 for v in values),
    ]


def control_flow(rng, data):
    steps, total = 0, 0.0
    while total < 1.5 and steps < 6:
        total += rng.exponential(0.7)
        steps += 1
        if steps == 2 and total > 1:
            continue
        if total > 3:
            return "far"
    return {"steps": steps, "total": total if total < 2 else None}


def indexing(rng, data):
    names = ["a", "b", "c"]
    index = rng.integers(3)
    table = {0: "zero", 1: "one", 2: "two"}
    return [names[index], table[index], [0.5, 1.5, 2.5][index], len(range(index)), f"{index}", float(index)]


def noisy_parameters(rng, data):
    scale = abs(rng.normal()) + 0.1
    return [rng.laplace(loc=scale, scale=scale), rng.uniform(scale, scale + 1), rng.binomial(5, 1 / (1 + scale))]


def sizes(rng, data):
    return [
        rng.laplace(size=rng.integers(1, 4)),
        rng.normal(size=(2, 2)),
        rng.laplace([1.0, 2.0], 0.5),
        rng.random(3),
        rng.integers(0, 5, size=2),
    ]


def choices(rng, data):
    x = rng.laplace(size=3)
    return [rng.choice(x), rng.choice(4), rng.choice([True, False], p=[0.1, 0.9]), rng.choice(["u", "v"], size=2),
            rng.permutation(4), rng.choice([1.5, 2.5], size=2, replace=False), rng.choice([None, 1])]  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [
        arithmetic, integers, truth_values_of_python, truth_values_of_numpy, rounding, numpy_functions,
        scalars_in_numpy_functions, python_functions, control_flow, indexing, noisy_parameters, sizes, choices,
    ],
)  # fmt: skip
def test_every_row_is_what_the_plain_function_gives_on_its_draws(function: Any, every_row: EveryRow) -> None:
    assert len(batch(function, count=300)) == 300
    assert every_row.compared == 300


def test_laplace_draws_have_their_closed_form() -> None:
    draws = np.empty(1_000_003)  # no multiple of eight
    Laplace.fill(np.random.default_rng(2), draws)
    assert stats.kstest(draws, "laplace").pvalue > 1e-6  # false alarm: 1e-6
    assert stats.binomtest(int(np.count_nonzero(draws > 0)), len(draws)).pvalue > 1e-6
    signs, sizes = draws[:-1] > 0, np.abs(draws[1:])  # the sign of a draw tells nothing of the next one
    assert stats.ks_2samp(sizes[signs], sizes[~signs]).pvalue > 1e-6


def test_constants_and_functions_that_draw_nothing() -> None:
    assert batch(lambda rng, data: [data, None, "x"], 3, count=4).distinct() == {(3, None, "x"): 4}
    assert len(batch(lambda rng, data: 1, count=0)) == 0


def test_division_by_zero_is_an_error_on_the_rows_that_divide_by_zero() -> None:
    def guarded(rng, data):
        n = rng.poisson(1)
        try:
            return 6 / n
        except ZeroDivisionError:
            return "none"

    outputs = batch(guarded, count=2000)
    share = outputs.distinct()["none"] / 2000
    assert abs(share - math.exp(-1)) < 5 * math.sqrt(0.25 / 2000)  # false alarm: below 1e-6
    outputs = batch(lambda rng, data: 6 / rng.poisson(1), count=2000)
    share = outputs.distinct()[Raised("ZeroDivisionError", "division by zero")] / 2000
    assert abs(share - math.exp(-1)) < 5 * math.sqrt(0.25 / 2000)  # false alarm: below 1e-6
    with pytest.raises(Unfit, match="integer division or modulo by zero"):  # a batch words it otherwise than Python
        batch(lambda rng, data: 6 // rng.poisson(1))


def test_a_rare_exception_is_the_output_of_its_rows() -> None:
    def fragile(rng, data):
        if rng.random() < 0.01:
            raise KeyError("lost")
        return 1

    counts = batch(fragile, count=5000).distinct()
    assert set(counts) == {1, Raised("KeyError", "'lost'")}
    assert abs(counts[Raised("KeyError", "'lost'")] - 50) < 5 * math.sqrt(50)  # false alarm: below 1e-5


def test_an_exception_that_tells_of_the_row_or_that_only_a_batch_raises_is_not_an_output() -> None:
    def talkative(rng, data):
        x = rng.laplace()
        if x > 0:
            raise ValueError(x)
        return 0

    def written(rng, data):
        raise ValueError(f"drew {rng.laplace()}")

    def foreign(rng, data):
        x = rng.laplace()
        if not hasattr(x, "hex"):
            raise TypeError("a batch has no hex")
        return 0

    for function in (talkative, written, foreign):
        with pytest.raises(Unfit):
            batch(function, count=500)


def test_catching_exceptions_does_not_break_the_reading() -> None:
    def catches(rng, data):
        answers = []
        for _ in range(3):
            try:
                if rng.laplace() > 0:
                    answers.append(1)
            except Exception:
                answers.append("caught")
        return answers

    assert set(batch(catches).distinct()) == {(), (1,), (1, 1), (1, 1, 1)}

    def catches_everything(rng, data):
        try:
            return math.exp(rng.laplace())
        except BaseException:
            return "caught"

    with pytest.raises(Unfit, match="made into a float"):
        batch(catches_everything)

    def catches_and_goes_on(rng, data):
        total = 0.0
        for _ in range(2):
            try:
                total += math.sqrt(abs(rng.laplace()))
            except BaseException:
                total += 1
        return total

    with pytest.raises(Unfit, match="made into a float"):
        batch(catches_and_goes_on)


def hidden_counter():
    calls = []

    def counting(rng, data):
        calls.append(1)
        return len(calls) + rng.laplace()

    return counting


def hidden_branches():
    calls = []

    def alternating(rng, data):
        calls.append(1)
        return 1 if rng.laplace() > (0 if len(calls) % 2 else 0.5) else 0

    return alternating


def kept_noise():
    kept = []

    def keeping(rng, data):
        kept.append(rng.laplace())
        return 1 if kept[0] > 0 else 0

    return keeping


@pytest.mark.parametrize(
    "function",
    [
        hidden_counter(),
        hidden_branches(),
        kept_noise(),
        lambda rng, data: np.random.default_rng().random(),
        lambda rng, data: rng.laplace() + np.random.default_rng().random(),
    ],
)
def test_hidden_state_and_randomness_are_detected(function: Any) -> None:
    with pytest.raises(Nondeterministic, match="draw from rng alone"):
        batch(function)


def test_what_a_batch_cannot_do_is_refused_with_its_place() -> None:
    refused = {
        "different values is made into a float": lambda rng, data: math.log(rng.random()),
        "rng.zipf is not supported": lambda rng, data: rng.zipf(2.0),
        "more than 4096 different runs": lambda rng, data: [1 if rng.laplace() > 0 else 0 for _ in range(20)],
        "integers leave 64 bits": lambda rng, data: (rng.geometric(0.5) + 2) ** 200,
        "noise is cast to": lambda rng, data: rng.laplace(size=2).astype(complex),
    }
    for message, function in refused.items():
        with pytest.raises(Unfit, match=rf"test_batch.py:\d+: .*{message}"):
            batch(function, count=10_000)


def test_a_batch_that_would_not_do_as_the_function_does_is_refused() -> None:
    with pytest.raises(Unfit, match="output is 'float' on draws for which that of a batch is 'other'"):
        batch(lambda rng, data: "float" if isinstance(rng.laplace(), float) else "other")


def test_a_truth_value_tested_by_identity_is_found_however_rare() -> None:
    def rare(rng, data):
        return 1 if (rng.random() < 1e-3) is True else 0

    def in_a_pattern(rng, data):
        match rng.random() > 1e-3:
            case False:
                return 1
        return 0

    for function in (rare, in_a_pattern):
        with pytest.raises(Unfit, match="its output is 1 on draws for which that of a batch is 0"):
            batch(function, count=20_000)  # without such a draw with probability e^-20


def scale_by_type(rng, data):
    return data[0] + rng.laplace(scale=[0.1, 1.0][type(rng.laplace()) is float])


def chance_by_type(rng, data):
    chance = [0.99, 0.6][type(rng.laplace()) is float]
    return int(rng.choice(2, p=[chance, 1 - chance]))


def threshold_by_type(rng, data):
    coin = rng.random()
    return bool(coin < [0.7, 0.6][type(coin) is float])


def scale_by_generator(rng, data):
    return data[0] + rng.laplace(scale=1.0 if type(rng) is np.random.Generator else 0.05)


@pytest.mark.parametrize("function", [scale_by_type, chance_by_type])
def test_a_batch_that_draws_from_something_else_is_refused(function: Any) -> None:
    with pytest.raises(Unfit, match="the plain function asks for others: rng"):
        batch(function, data=[0.0])


def warnings_as_errors(rng, data):
    noisy = data[0] + rng.laplace()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            np.log(-abs(noisy) - 1)
        except RuntimeWarning:  # always: numbers below 0 have no logarithm
            return noisy
    return data[0]


@pytest.mark.parametrize(
    "function", [scale_by_type, chance_by_type, threshold_by_type, scale_by_generator, warnings_as_errors]
)
def test_what_is_sampled_is_what_the_plain_function_gives(function: Any) -> None:
    found = sample(function, [0.0], 2000, seed=1)
    assert found.reading == "one-by-one"


def test_parameters_that_depend_on_draws_are_compared_row_by_row() -> None:
    def dependent(rng, data):
        scale = rng.exponential() + 1
        drawn = rng.laplace(loc=[scale, 2.0], scale=np.array([scale, 1.0]))
        return rng.normal(drawn[0], scale=scale), rng.choice(["a", "b"], p=[0.25, 0.75]), rng.integers(0, high=3)

    assert len(batch(dependent)) > 0


def by_type(plain: Any, batch: Any, value: Any) -> Any:
    """One of the two, as code has it that tells plain numbers from others."""
    return plain if type(value) in (float, np.float64) else batch


def threshold(rng, data):
    coin = rng.random()
    return bool(coin < by_type(0.7003, 0.7, coin))


def reversed_threshold(rng, data):
    value = rng.laplace()
    return "low" if by_type(1.0, 1.0005, value) > value else "high"


def second_threshold(rng, data):
    first, second = rng.laplace(), rng.laplace()
    if first > 0:
        return bool(second > first + by_type(0, 5e-4, first))
    return None


def clipped(rng, data):
    value = rng.laplace()
    return min(value, by_type(7.001, 7, value))


def clipped_by_numpy(rng, data):
    value = rng.laplace()
    return np.maximum(value, -by_type(7.001, 7, value))


def largest(rng, data):
    values = list(rng.laplace(size=3))
    values[2] += by_type(5e-4, 0, values[2])
    return int(np.argmax(values))


def truncated(rng, data):
    value = rng.laplace()
    return int(value + by_type(5e-4, 0, value))


def rounded(rng, data):
    value = rng.normal()
    return round(value + by_type(5e-4, 0, value))


@pytest.mark.parametrize(
    "function",
    [threshold, reversed_threshold, second_threshold, clipped, clipped_by_numpy, largest, truncated, rounded],
)
def test_a_threshold_that_depends_on_a_type_is_found_however_near(function: Any) -> None:
    """The rows between the two thresholds are few, but they are the nearest to the one of the batch."""
    outputs = sample(function, 0.0, 200_000, seed=1)
    assert outputs.reading == "one-by-one", outputs.notes
    assert "on draws for which that of a batch is" in outputs.notes[0]


def test_nan_is_an_output() -> None:
    outputs = batch(lambda rng, data: np.log(np.sign(rng.laplace())), count=2000)
    assert set(map(str, outputs.distinct())) == {"nan", "0.0"}
    assert abs(outputs.distinct()[math.nan] - 1000) < 5 * math.sqrt(500)  # false alarm: below 1e-6


def test_an_operation_that_raises_on_some_rows_is_not_taken_to_raise_on_all() -> None:
    def powers(rng, data):
        return 2 ** rng.integers(-1, 3, size=2)  # NumPy's integers have no negative powers

    for seed in range(5):
        with pytest.raises(Unfit, match=r"raises ValueError on some rows"):
            batch(powers, seed=seed)


def test_bad_outputs_are_reported() -> None:
    with pytest.raises(BadOutput, match="of type set"):
        batch(lambda rng, data: {rng.integers(2)})


def test_the_generator_is_one() -> None:
    def asks(rng, data):
        return isinstance(rng, np.random.Generator) and np.random.default_rng(rng).random() < 2

    assert batch(asks).distinct() == {True: 500}


def test_mechanisms_may_write_into_their_draws(every_row: EveryRow) -> None:
    def writes(rng, data):
        noise = rng.laplace(size=3)
        noise[0] = 0.5
        noise *= 2
        noise += 1
        return noise

    outputs = batch(writes, count=50)
    assert (outputs.matrix()[:, 0] == 2.0).all()
    assert every_row.compared == 50


@pytest.mark.parametrize(("compared", "calls"), [(EVERY_RUN, 32 + 2 * 32), (FEW_ROWS, 32 + 2 * 2)])
def test_how_many_rows_go_through_the_plain_function(compared: RowsCompared, calls: int) -> None:
    """Five coins part into 32 runs: outputs that are tested are compared in two rows of each, others in four in all."""
    called = 0

    def coins(rng, data):
        nonlocal called
        called += 1
        return [bool(rng.integers(2)) for _ in range(5)]

    outputs = batch_outputs(coins, None, np.random.default_rng(0), 5_000, compared)
    assert outputs.distinct() == batch(coins, count=5_000).distinct()
    assert called - 32 - 2 * 32 == calls
