"""All four readings of one function have one distribution: the one that its closed form gives.

Every test that compares frequencies uses fixed seeds and a level of 1e-6, so that a correct sampler fails one of the
about 60 comparisons of this file with probability below 1e-4 over the choice of seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from veridp.errors import BadInput
from veridp.kernel.output import DictItems
from veridp.mechanism import Mechanism
from veridp.sampling.outputs import Outputs
from veridp.sampling.plan import LARGEST_DOUBLE, RareGenerator
from veridp.sampling.sample import sample

LEVEL = 1e-6
COUNTS = {"batch": 200_000, "compiled": 200_000, "one-by-one": 20_000, "vectorised": 200_000}


# ------------------------------------------------------------------------------------------------- the mechanisms


def svt(rng, queries, *, epsilon=0.5, threshold=0.5):
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers = []
    for query in queries:
        if query + rng.laplace(scale=4 / epsilon) >= noisy_threshold:
            answers.append(True)
            break
        answers.append(False)
    return answers


def arg_max(rng, queries):
    return np.argmax(np.asarray(queries) + rng.laplace(scale=2.0, size=len(queries)))


def arg_max_by_hand(rng, queries):
    best, winner = -1e300, 0
    for index, query in enumerate(queries):
        noisy = query + rng.laplace(scale=2.0)
        if noisy > best:
            best, winner = noisy, index
    return winner


def arg_max_with_max(rng, queries):
    noisy = [query + rng.laplace(scale=2.0) for query in queries]
    return noisy.index(max(noisy))


def randomised_response(rng, truth):
    return rng.choice([truth, not truth], p=[0.75, 0.25])


def randomised_response_by_comparison(rng, truth):
    return truth if rng.random() < 0.75 else not truth


def two_sided_geometric(rng, value):
    return value + rng.geometric(0.3) - rng.geometric(0.3)


def exponential_mechanism(rng, scores):
    weights = np.exp(np.asarray(scores) / 2)
    return rng.choice(["red", "green", "blue"], p=weights / weights.sum())


def clipped(rng, value):
    return np.clip(value + rng.laplace(scale=1.0), 0.0, 1.0)


def shuffled(rng, values):
    return list(rng.permutation(values))


def shuffled_in_place(rng, values):
    copy = list(values)
    rng.shuffle(copy)
    return copy


def nested(rng, data):
    coin = rng.integers(2)
    return (["heads"] if coin else []), {"b": rng.random() < 0.25, "a": None}


def two_of_three(rng, data):
    return sorted(rng.choice(3, size=2, replace=False, p=[0.5, 0.3, 0.2]))


def binomial_and_poisson(rng, data):
    return [min(rng.poisson(1.5), 4), rng.binomial(3, 0.4)]


def walk(rng, steps):
    place = 0
    for _ in range(rng.integers(1, steps, endpoint=True)):
        place += 1 if rng.uniform(-1.0, 1.0) > 0 else -1
    return place


# ------------------------------------------------------------------------------------------------ their closed forms


def laplace_law(scale: float) -> Any:
    return stats.laplace(scale=scale)


def svt_law(queries: list[float], epsilon: float = 0.5, threshold: float = 0.5) -> dict[Any, float]:
    noise, law = laplace_law(4 / epsilon), {}

    def probability(stop: int) -> float:
        def density(t: float) -> float:
            below = math.prod(float(noise.cdf(t - query)) for query in queries[:stop])
            last = float(noise.sf(t - queries[stop])) if stop < len(queries) else 1.0
            return float(laplace_law(2 / epsilon).pdf(t - threshold)) * below * last

        return integrate.quad(density, -200, 200, points=sorted({threshold, *queries}), limit=400)[0]

    for stop in range(len(queries) + 1):
        law[(False,) * stop + (True,) * (stop < len(queries))] = probability(stop)
    return law


def arg_max_law(queries: list[float]) -> dict[Any, float]:
    noise = laplace_law(2.0)

    def probability(winner: int) -> float:
        def density(x: float) -> float:
            others = (float(noise.cdf(x - query)) for index, query in enumerate(queries) if index != winner)
            return float(noise.pdf(x - queries[winner])) * math.prod(others)

        return integrate.quad(density, -80, 80, points=sorted(set(queries)), limit=400)[0]

    return {winner: probability(winner) for winner in range(len(queries))}


def geometric_law() -> dict[Any, float]:
    a = 0.7  # P[k] of the difference of two geometric draws of success 1 - a
    return {5 + k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-60, 61)}


def exponential_law(scores: list[float]) -> dict[Any, float]:
    weights = [math.exp(score / 2) for score in scores]
    return {colour: w / sum(weights) for colour, w in zip(("red", "green", "blue"), weights, strict=True)}


def two_of_three_law() -> dict[Any, float]:
    p = [0.5, 0.3, 0.2]
    law: dict[Any, float] = dict.fromkeys([(0, 1), (0, 2), (1, 2)], 0.0)
    for first, second in itertools.permutations(range(3), 2):
        law[tuple(sorted((first, second)))] += p[first] * p[second] / (1 - p[first])
    return law


def product_law() -> dict[Any, float]:
    poisson = [float(stats.poisson(1.5).pmf(k)) for k in range(4)]
    poisson.append(1 - sum(poisson))
    return {(k, j): poisson[k] * float(stats.binom(3, 0.4).pmf(j)) for k in range(5) for j in range(4)}


def walk_law() -> dict[Any, float]:
    law: dict[Any, float] = {}
    for steps in range(1, 4):
        for signs in itertools.product((-1, 1), repeat=steps):
            law[sum(signs)] = law.get(sum(signs), 0) + 1 / 3 / 2**steps
    return law


QUERIES = [0.0, 2.0, 1.0]
SCORES = [1.0, 2.0, 0.0]
UNIFORM = dict.fromkeys(itertools.permutations([1.5, 2.5, 3.5]), 1 / 6)
NESTED = {
    (coin, DictItems((("a", None), ("b", hit)))): 0.5 * (0.25 if hit else 0.75)
    for coin in ((), ("heads",))
    for hit in (True, False)
}


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    data: Any
    law: Callable[[], dict[Any, float]]
    readings: tuple[str, ...] = ("batch", "compiled", "one-by-one")


CASES = [
    Case(svt, QUERIES, lambda: svt_law(QUERIES)),
    Case(arg_max, QUERIES, lambda: arg_max_law(QUERIES)),
    Case(arg_max_by_hand, QUERIES, lambda: arg_max_law(QUERIES)),
    Case(arg_max_with_max, QUERIES, lambda: arg_max_law(QUERIES)),
    Case(randomised_response, True, lambda: {True: 0.75, False: 0.25}, ("batch", "one-by-one")),
    Case(randomised_response_by_comparison, True, lambda: {True: 0.75, False: 0.25}),
    Case(two_sided_geometric, 5, geometric_law),
    Case(exponential_mechanism, SCORES, lambda: exponential_law(SCORES), ("batch", "one-by-one")),
    Case(shuffled, [1.5, 2.5, 3.5], lambda: UNIFORM, ("batch", "one-by-one")),
    Case(shuffled_in_place, [1.5, 2.5, 3.5], lambda: UNIFORM, ("batch", "one-by-one")),
    Case(nested, None, lambda: NESTED, ("batch", "one-by-one")),
    Case(two_of_three, None, two_of_three_law, ("batch", "one-by-one")),
    Case(binomial_and_poisson, None, product_law, ("batch", "one-by-one")),
    Case(walk, 3, walk_law, ("batch", "one-by-one")),
]


def p_value(outputs: Outputs, law: dict[Any, float]) -> float:
    """Of the chi-square test of fit; rare outputs are put together."""
    counts = outputs.distinct()
    assert set(counts) <= set(law), "an output that the law does not know"
    assert abs(sum(law.values()) - 1) < 1e-7
    expected = {output: probability * len(outputs) for output, probability in law.items()}
    common = [output for output, times in expected.items() if times >= 10]
    observed = [counts.get(output, 0) for output in common]
    hoped = [expected[output] for output in common]
    rest = len(outputs) - sum(observed)
    if len(outputs) - sum(hoped) >= 10:
        observed.append(rest)
        hoped.append(len(outputs) - sum(hoped))
    else:
        assert rest <= 60
    scale = sum(observed) / sum(hoped)
    return float(stats.chisquare(observed, np.array(hoped) * scale).pvalue)


@pytest.mark.parametrize(
    ("case", "reading"),
    [(case, reading) for case in CASES for reading in case.readings],
    ids=lambda value: value if isinstance(value, str) else value.function.__name__,
)
def test_frequencies_follow_the_closed_form(case: Case, reading: str) -> None:
    outputs = sample(case.function, case.data, COUNTS[reading], seed=11, reading=reading)
    assert outputs.reading == reading
    assert len(outputs) == COUNTS[reading]
    assert p_value(outputs, case.law()) > LEVEL


def test_the_rows_of_a_batch_are_in_no_order() -> None:
    """Splits leave the rows where they were drawn: both halves, and even and odd rows, follow the law."""
    outputs = sample(svt, QUERIES, 200_000, seed=4, reading="batch")
    for part in (outputs[:100_000], outputs[100_000:], outputs[::2], outputs[1::2]):
        assert p_value(part, svt_law(QUERIES)) > LEVEL


def vector(rng, values):
    return np.asarray(values) + rng.laplace(scale=3.0, size=len(values))


@pytest.mark.parametrize("reading", ["batch", "compiled", "one-by-one", "vectorised"])
def test_each_entry_of_a_noisy_vector_is_laplace_and_independent(reading: str) -> None:
    mechanism = Mechanism(
        vector, vectorised=lambda rng, values, count: values + rng.laplace(scale=3.0, size=(count, len(values)))
    )
    data = np.array([1.0, -2.0, 0.5])
    noise = (sample(mechanism, data, COUNTS[reading], seed=5, reading=reading).matrix() - data) / 3.0
    for entry in noise.T:
        assert stats.kstest(entry, "laplace").pvalue > LEVEL
    for one, two in itertools.combinations(noise.T, 2):  # under independence √n times the rank correlation is normal
        assert stats.spearmanr(one, two).pvalue > LEVEL


CONTINUOUS = {
    "laplace": (lambda rng, data: rng.laplace(1.0, 2.0), stats.laplace(1.0, 2.0)),
    "normal": (lambda rng, data: rng.normal(1.0, 2.0), stats.norm(1.0, 2.0)),
    "standard_normal": (lambda rng, data: rng.standard_normal(), stats.norm()),
    "exponential": (lambda rng, data: rng.exponential(2.0), stats.expon(scale=2.0)),
    "standard_exponential": (lambda rng, data: rng.standard_exponential(), stats.expon()),
    "gumbel": (lambda rng, data: rng.gumbel(1.0, 2.0), stats.gumbel_r(1.0, 2.0)),
    "logistic": (lambda rng, data: rng.logistic(1.0, 2.0), stats.logistic(1.0, 2.0)),
    "uniform": (lambda rng, data: rng.uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "random": (lambda rng, data: rng.random(), stats.uniform()),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_batch_draws_from_the_named_distribution(name: str) -> None:
    function, law = CONTINUOUS[name]
    column = sample(function, None, 200_000, seed=6, reading="batch").matrix()[:, 0]
    assert stats.kstest(column, law.cdf).pvalue > LEVEL


def test_clipping_leaves_atoms_of_the_right_mass() -> None:
    for reading in ("batch", "one-by-one"):
        values = sample(clipped, 0.25, COUNTS[reading], seed=7, reading=reading).matrix()[:, 0]
        for atom, mass in ((0.0, laplace_law(1.0).cdf(-0.25)), (1.0, laplace_law(1.0).sf(0.75))):
            hits = int(np.count_nonzero(values == atom))
            assert stats.binomtest(hits, len(values), float(mass)).pvalue > LEVEL
        inner = values[(values > 0) & (values < 1)]
        low, high = laplace_law(1.0).cdf(-0.25), laplace_law(1.0).cdf(0.75)
        assert (
            stats.kstest(inner, lambda x, a=low, b=high: (laplace_law(1.0).cdf(x - 0.25) - a) / (b - a)).pvalue > LEVEL
        )


def numeric_svt(rng, queries):
    """False for each query below, and then a number: truth values and floats mixed."""
    threshold = rng.laplace(scale=2.0)
    answers = []
    for query in queries:
        noisy = query + rng.laplace(scale=4.0)
        if noisy >= threshold:
            return [*answers, noisy]
        answers.append(False)
    return answers


@pytest.mark.parametrize("reading", ["batch", "one-by-one"])
def test_a_mixture_of_truth_values_and_numbers(reading: str) -> None:
    outputs = sample(numeric_svt, [1.0, 1.0], COUNTS[reading], seed=8, reading=reading)
    lengths, kinds = outputs.lengths(), outputs.kinds()
    law = svt_law([1.0, 1.0], epsilon=1.0, threshold=0.0)
    stopped_first = kinds[:, 0] == 4
    hits = int(np.count_nonzero(stopped_first))
    assert stats.binomtest(hits, len(outputs), law[(True,)]).pvalue > LEVEL
    assert (lengths[stopped_first] == 1).all()
    neither = int(np.count_nonzero((lengths == 2) & (kinds[:, 1] == 2)))
    assert stats.binomtest(neither, len(outputs), law[(False, False)]).pvalue > LEVEL
    assert outputs.matrix()[~stopped_first, 0].max() == 0.0


@pytest.mark.parametrize("function", [svt, arg_max, arg_max_by_hand, two_sided_geometric])
def test_compiled_code_gives_what_the_plain_function_gives_with_the_same_generator(function: Any) -> None:
    from veridp.sampling.compiled import compiled_outputs
    from veridp.sampling.encode import scalar_outputs

    data = 5 if function is two_sided_geometric else QUERIES
    compiled = compiled_outputs(function, data, np.random.default_rng(3), 5000)
    assert compiled == scalar_outputs(function, data, np.random.default_rng(3), 5000)


def test_a_requested_reading_that_cannot_serve_is_an_error_that_says_why() -> None:
    with pytest.raises(BadInput, match="no vectorised function"):
        sample(svt, QUERIES, 10, reading="vectorised")
    with pytest.raises(BadInput, match="numba does not compile it"):
        sample(nested, None, 10, reading="compiled")
    with pytest.raises(BadInput, match=r"test_readings.py:\d+: noise of \d+ different values is made into a float"):
        sample(lambda rng, data: math.exp(rng.laplace()), None, 1000, reading="batch")
    with pytest.raises(BadInput, match="'batch', 'one-by-one'"):
        sample(svt, QUERIES, 10, reading="quickly")


def many_runs(rng, queries):
    return [1 if query + rng.laplace() > 0 else None for query in queries]


def test_rare_draws_of_geometric_noise_end() -> None:
    """NumPy adds up its probabilities until they exceed a number, which those of p do not if it is next to 1."""
    p = 1 - math.exp(-0.5)
    total, term = p, p
    while total + term * (1 - p) > total:
        total, term = total + term * (1 - p), term * (1 - p)
    assert total < 1 - 2.0**-53  # so NumPy never ends on the largest number below 1
    assert RareGenerator(1).random(4000).max() <= LARGEST_DOUBLE < total
    assert RareGenerator(1).geometric(p, size=4000).max() > 40


def test_the_reading_is_chosen_by_a_rule() -> None:
    assert sample(svt, QUERIES, 1000).reading == "batch"
    assert sample(Mechanism(svt, vectorised=lambda rng, data, n: [True] * n), QUERIES, 10).reading == "vectorised"
    assert sample(many_runs, [0.0] * 8, 1000).reading == "one-by-one"
    assert sample(many_runs, [0.0] * 8, 20_000).reading == "batch"
    assert sample(many_runs, [0.0] * 8, 2**20, workers=1).reading == "compiled"
    assert sample(many_runs, [0.0] * 8, 1000, expected=2**20).reading == "compiled"
    one_by_one = sample(lambda rng, data: math.floor(math.exp(rng.random())), None, 1000)
    assert one_by_one.reading == "one-by-one"
    assert "made into a float" in one_by_one.notes[0]
    assert set(one_by_one.distinct()) == {1, 2}


def rarely_unfit(rng, data):
    x = rng.random()
    return math.floor(math.exp(x)) if x < data else 7


def test_a_reading_that_turns_out_unfit_gives_way_from_the_start() -> None:
    """A short trial of a batch meets few of the rare cases, and can do those one at a time; a whole block cannot."""
    alone = sample(rarely_unfit, 2e-3, 60_000, seed=9, workers=1)
    assert alone.reading == "one-by-one"
    assert "made into a float" in alone.notes[0]
    assert alone == sample(rarely_unfit, 2e-3, 60_000, seed=9, workers=2, reading="one-by-one")
