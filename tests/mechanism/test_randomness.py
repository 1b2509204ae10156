"""Mechanisms as strangers write them: they draw from whatever source they like, and veridp finds their true cost."""
# ruff: noqa: NPY002

from __future__ import annotations

import copy
import functools
import math
import pickle
import random
import secrets
import threading
from collections.abc import Callable
from fractions import Fraction
from random import gauss, randint
from secrets import randbelow
from types import BuiltinMethodType, FunctionType
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng, laplace
from scipy.stats import ks_2samp

import veridp
from veridp.errors import BadInput, ExplorationDisagrees, Nondeterministic, NotExplorable, VeridpError
from veridp.kernel.noise import Exponential
from veridp.kernel.path import Path
from veridp.kernel.replay.agreement import Listing
from veridp.mechanism import as_mechanism
from veridp.mechanism.randomness import AdoptedRandom, AdoptedState
from veridp.mechanism.sources import sources_of

RNG = np.random.default_rng(12345)
OLD = np.random.RandomState(6)
DICE = random.Random(8)
SYSTEM = random.SystemRandom()
DRAW = OLD.laplace
TOOLBOX = {"noise": np.random.laplace, "list": [random.Random(9)]}

SCALE = 2.0  # so that a count under l1 costs 1/2
NUMBER: dict[str, Any] = {"adjacency": "l1", "size": 1, "domain": (0, 1)}
BIT = {"adjacency": "any", "size": 1, "domain": [0, 1]}
Function = Callable[..., Any]


class Released:
    """Keeps a generator, and counts its releases."""

    shared = np.random.default_rng(1)

    def __init__(self, seed: int = 3) -> None:
        self.rng, self.old, self.plain = np.random.default_rng(seed), np.random.RandomState(seed), random.Random(seed)
        self.releases = 0

    def by_generator(self, data: Any) -> Any:
        self.releases += 1
        return data[0] + self.releases + self.rng.laplace(scale=SCALE)

    def by_random_state(self, data: Any) -> Any:
        return data[0] + self.old.laplace(scale=SCALE)

    def of_the_class(self, data: Any) -> Any:
        return data[0] + Released.shared.laplace(scale=SCALE)

    def with_rng(self, data: Any, rng: Any) -> Any:
        return data[0] + rng.laplace(scale=SCALE)

    def answer(self, bit: int) -> int:
        return bit if self.plain.random() < 0.75 else 1 - bit


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(4)

    def release(self, data: Any) -> Any:
        return data[0] + self.rng.laplace(scale=SCALE)


# ------------------------------------------------------------------------------- a number with Laplace noise costs 1/2


def global_laplace(data):
    return data[0] + np.random.laplace(scale=SCALE)


def global_with_unused_rng(rng, data):
    return data[0] + np.random.laplace(0.0, SCALE)


def imported_laplace(data):
    return data[0] + laplace(scale=SCALE)


def imported_inside(data):
    import numpy.random as npr

    return data[0] + npr.laplace(scale=SCALE)


def of_an_array(data):
    return data[0] + np.random.laplace(0, SCALE, 1)[0]


def state_made_inside(data):
    return data[0] + np.random.RandomState().laplace(scale=SCALE)


def state_of_the_same_bits(rng, data):
    return data[0] + np.random.RandomState(rng.bit_generator).laplace(scale=SCALE)


def generator_of_the_same_bits(rng, data):
    return data[0] + np.random.Generator(rng.bit_generator).laplace(scale=SCALE)


def generator_of_new_bits(data):
    return data[0] + np.random.Generator(np.random.PCG64()).laplace(scale=SCALE)


def unseeded_inside(data):
    return data[0] + np.random.default_rng().laplace(scale=SCALE)


def imported_default_rng(data):
    return data[0] + default_rng().laplace(scale=SCALE)


def default_rng_of_rng(rng, data):
    return data[0] + np.random.default_rng(rng).laplace(scale=SCALE)


def optional_seed(data, seed=None):
    return data[0] + np.random.default_rng(seed).laplace(scale=SCALE)


def module_generator(data):
    return data[0] + RNG.laplace(scale=SCALE)


def module_state(data):
    return data[0] + OLD.laplace(scale=SCALE)


def method_of_a_generator(data):
    return data[0] + DRAW(scale=SCALE)


def in_a_container(data):
    return data[0] + TOOLBOX["noise"](scale=SCALE)


def default_argument(data, noise=np.random.laplace):
    return data[0] + noise(scale=SCALE)


def helper(x, rng=RNG):
    return x + rng.laplace(scale=SCALE)


def by_a_helper(data):
    return helper(data[0])


def helper_of_a_module(x, source=np.random):
    return x + source.laplace(scale=SCALE)


def by_a_module_as_an_argument(data):
    return helper_of_a_module(data[0])


def difference_of_exponentials(data):
    return data[0] + random.expovariate(1 / SCALE) - random.expovariate(1 / SCALE)


def data_first(data, rng):
    return data[0] + rng.laplace(scale=SCALE)


def named_state(data, random_state):
    return data[0] + random_state.laplace(scale=SCALE) + 0 * random_state.randint(1)


def by_keyword(data, scale=SCALE, *, generator):
    return data[0] + generator.laplace(scale=scale)


def annotated(values, source: np.random.Generator):
    return values[0] + source.laplace(scale=SCALE)


def optional_generator(data, rng: np.random.Generator | None = None):
    return data[0] + (np.random.default_rng() if rng is None else rng).laplace(scale=SCALE)


def budget_second(values, epsilon):
    return values[0] + np.random.laplace(scale=1 / epsilon)


def closure() -> Function:
    own = np.random.default_rng(77)

    def release(data):
        return data[0] + own.laplace(scale=SCALE)

    return release


COSTS_A_HALF = [
    global_laplace, global_with_unused_rng, imported_laplace, imported_inside, of_an_array, state_made_inside,
    state_of_the_same_bits, generator_of_the_same_bits, generator_of_new_bits, unseeded_inside, imported_default_rng,
    default_rng_of_rng, optional_seed, module_generator, module_state, method_of_a_generator, in_a_container,
    default_argument, by_a_helper, by_a_module_as_an_argument, difference_of_exponentials, data_first, named_state,
    by_keyword, annotated, optional_generator, functools.partial(budget_second, epsilon=1 / SCALE), closure(),
    Released().by_generator, Released().by_random_state, Released().of_the_class, Released().with_rng,
    Slotted().release,
]  # fmt: skip


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", "partial")


def explored(function: Any, data: Any, **settings: Any) -> tuple[Path, ...]:
    """The paths, which plain runs have confirmed."""
    mechanism = as_mechanism(function, **settings)
    paths = veridp.explore(mechanism, data)
    Listing.of(mechanism, data, paths).replay(runs=2)
    return paths


def twin(rng, data):
    return data[0] + rng.laplace(scale=SCALE)


@pytest.mark.parametrize("function", COSTS_A_HALF, ids=_name)
def test_laplace_noise_from_any_source_has_the_paths_of_its_twin(function: Function) -> None:
    (path,), (same,) = explored(function, [0.25]), explored(twin, [0.25])
    if function is difference_of_exponentials:
        assert [noise.distribution for noise in path.noises] == [Exponential(1)] * 2
        assert veridp.exact.compare(function, [0.0], [1.0]).epsilon == pytest.approx(0.5)
    else:
        assert [noise.distribution for noise in path.noises] == [noise.distribution for noise in same.noises]
        releases = function.__name__ == "by_generator" if not isinstance(function, functools.partial) else False
        assert str(path.output - releases) == str(same.output)


def test_a_method_with_the_name_of_a_module_is_no_module() -> None:
    assert sources_of(lambda rng, data: data[0] + rng.random()) is None


def test_a_proof_and_its_cost() -> None:
    owner = Released()
    before = owner.rng.bit_generator.state
    assert str(veridp.audit(owner.by_generator, epsilon=0.5, **NUMBER)) == "by_generator: 0.5-DP is PROVED, ε = 0.5"
    assert (owner.releases, owner.rng.bit_generator.state) == (0, before)
    assert veridp.prove(global_laplace, **NUMBER).epsilon == Fraction(1, 2)


# ------------------------------------------------------------------------------------- a bit that is kept with chance p


def coin(bit):
    return bit if random.random() < 0.75 else 1 - bit


def system_coin(bit):
    return bit if SYSTEM.random() < 0.75 else 1 - bit


def own_dice(bit):
    return bit if DICE.uniform(0, 4) < 3 else 1 - bit


def fresh_dice(bit):
    return bit if random.Random().random() < 0.75 else 1 - bit


def fresh_system_dice(bit):
    return bit if secrets.SystemRandom().randrange(4) else 1 - bit


def below(bit):
    return 1 - bit if secrets.randbelow(4) == 0 else bit


def imported_below(bit):
    return bit if randbelow(4) else 1 - bit


def bits(bit):
    return bit if secrets.randbits(2) else 1 - bit


def random_bits(bit):
    return bit if random.getrandbits(2) > 0 else 1 - bit


def dice(bit):
    return bit if randint(1, 4) > 1 else 1 - bit


def stepped(bit):
    return bit if random.randrange(10, 2, -2) != 4 else 1 - bit


def chosen(bit):
    return random.choice((bit, bit, bit, 1 - bit))


def chosen_secretly(bit):
    return secrets.choice([bit, bit, bit, 1 - bit])


def weighted(bit):
    return random.choices([bit, 1 - bit], weights=[3, 1])[0]


def weighted_cumulatively(bit):
    return random.choices([bit, 1 - bit], cum_weights=[3, 4], k=1)[0]


def sampled(bit):
    return random.sample([bit, bit, bit, 1 - bit], 2)[0]


def shuffled(bit):
    values = [bit, bit, bit, 1 - bit]
    random.shuffle(values)
    return values[-1]


def legacy_choice(bit):
    return int(np.random.choice([bit, 1 - bit], p=[0.75, 0.25]))


def legacy_uniform(bit):
    return bit if np.random.uniform(1, 0) < 0.75 else 1 - bit


def legacy_rand(bit):
    return bit if np.random.rand() < 0.75 else 1 - bit


def legacy_randint(bit):
    return bit if np.random.randint(4) else 1 - bit


def legacy_random_sample(bit):
    return bit if np.random.RandomState().random_sample() < 0.75 else 1 - bit


def legacy_permutation(bit):
    return bit if np.random.permutation(4)[0] else 1 - bit


def in_a_nested_container(bit):
    return bit if TOOLBOX["list"][0].random() < 0.75 else 1 - bit


def annotated_random(bit, source: random.Random):
    return bit if source.randint(1, 4) > 1 else 1 - bit


def annotated_as_text(source: random.Random | None, bit):
    return bit if source.randint(1, 4) > 1 else 1 - bit


COSTS_LN_3 = [
    coin, system_coin, own_dice, fresh_dice, fresh_system_dice, below, imported_below, bits, random_bits, dice, stepped,
    chosen, chosen_secretly, weighted, weighted_cumulatively, sampled, shuffled, legacy_choice, legacy_uniform,
    legacy_rand, legacy_randint, legacy_random_sample, legacy_permutation, in_a_nested_container, annotated_random,
    annotated_as_text, Released().answer,
]  # fmt: skip


@pytest.mark.parametrize("function", COSTS_LN_3, ids=_name)
def test_randomised_response_from_any_source_keeps_a_bit_with_its_probability(function: Function) -> None:
    mass: dict[Any, float] = {0: 0.0, 1: 0.0}
    for path in explored(function, 1):
        chances = [float(fork.option.weight) for fork in path.forks if not fork.option.conditions]  # type: ignore[arg-type]
        conditions = [fork.option.conditions for fork in path.forks if fork.option.conditions]
        threshold = 1.0 if not conditions else 0.75 if path.output == 1 else 0.25
        mass[path.output] += math.prod(chances) * threshold
    assert mass == pytest.approx({0: 0.25, 1: 0.75})


@pytest.mark.parametrize("function", [coin, below, weighted, legacy_uniform, Released().answer], ids=_name)
def test_randomised_response_costs_ln_3(function: Function) -> None:
    assert veridp.exact.compare(as_mechanism(function, **BIT), 0, 1).epsilon == pytest.approx(math.log(3), rel=1e-12)


# ----------------------------------------------------------------------------------------------------- other draws


def normal(data):
    return data[0] + gauss(0, 2)


def normal_variate(data):
    return data[0] + random.normalvariate(0.0, -2.0)


def legacy_normal(data):
    return data[0] + np.random.randn() * 2


@pytest.mark.parametrize("function", [normal, normal_variate, legacy_normal], ids=_name)
def test_normal_noise_has_no_epsilon(function: Function) -> None:
    explored(function, [0.0])
    comparison = veridp.exact.compare(function, [0.0], [1.0])
    assert comparison.epsilon == math.inf
    # Gaussian of σ = 2, sensitivity 1: δ(0) = 2 Φ(1/4) - 1
    assert comparison.delta(0.0) == pytest.approx(math.erf(0.25 / math.sqrt(2)), rel=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda data: data[0] + random.vonmisesvariate(1, 2),
        lambda data: data[0] + np.random.zipf(2.0),
        lambda data: data[0] + secrets.token_bytes(1)[0],
        lambda data: data[0] + float(np.random.get_state()[2]) + np.random.laplace(),  # type: ignore[index]
        lambda data, rng: data[0] + np.random.default_rng([rng.integers(2**32), 1]).laplace(),
        lambda data, rng: data[0] + copy.deepcopy(rng.spawn(1)[0]).laplace() + rng.laplace(),
        lambda data: data[0] + pickle.loads(pickle.dumps(DICE)).random(),  # noqa: S301
    ],
)
def test_what_the_kernel_does_not_know_is_refused_and_sampled(function: Function) -> None:
    with pytest.raises(NotExplorable):
        veridp.explore(function, [0.0])


def seeded_with_many_bits(data):
    return data[0] + np.random.default_rng(secrets.randbits(128)).laplace(scale=SCALE)


def seeded_bits_of_a_generator(data):
    return data[0] + np.random.Generator(np.random.PCG64(random.getrandbits(64))).laplace(scale=SCALE)


def seeded_state_at_random(data, rng):
    return data[0] + np.random.RandomState(int(rng.integers(2**32))).laplace(scale=SCALE)


def seeded_global_at_random(data):
    np.random.seed(secrets.randbelow(2**31))
    return data[0] + np.random.laplace(scale=SCALE)


def spawned(data, rng):
    first, second = rng.spawn(2)
    return data[0] + first.laplace(scale=SCALE), second.laplace()


def seeded_by_spawned_seeds(data, rng):
    seeds = rng.integers(2**32, size=2)
    first, second = (np.random.default_rng(seed) for seed in seeds)
    return data[0] + first.laplace(scale=SCALE), second.laplace()


@pytest.mark.parametrize(
    "function",
    [
        seeded_with_many_bits, seeded_bits_of_a_generator, seeded_state_at_random, seeded_global_at_random, spawned,
        seeded_by_spawned_seeds,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_a_generator_with_a_random_seed_or_a_child_draws_new_numbers(function: Function) -> None:
    assert veridp.prove(function, 1, adjacency="l1").epsilon == 1 / SCALE


def test_children_are_sampled_as_numpy_has_them() -> None:
    drawn = veridp.sample(spawned, [3.0], 2000, seed=1).matrix()
    assert ks_2samp(drawn[:, 0], np.random.default_rng(2).laplace(3, SCALE, 2000)).pvalue > 1e-6
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.15  # type: ignore[index]


def released_seed(data):
    seed = secrets.randbits(64)
    return data[0] + random.Random(seed).gauss(0, 1), seed


def compared_seed(data, rng):
    seed = rng.integers(2**32)
    return data[0] + np.random.default_rng(seed).laplace() if seed > 9 else 0.0


def seed_used_twice(data, rng):
    seed = rng.integers(2**32)
    return data[0] + np.random.default_rng(seed).laplace(), np.random.default_rng(seed).laplace()


def related_seeds(data, rng):
    seed = int(rng.integers(2**32))
    return data[0] + np.random.default_rng(seed).laplace(), random.Random(seed + 1).gauss(0, 1)


def part_of_a_seed(data):
    seed = secrets.randbits(64)
    return data[0] + np.random.default_rng(seed).laplace(), seed % 16


@pytest.mark.parametrize("function", [released_seed, compared_seed, seed_used_twice, related_seeds, part_of_a_seed])
def test_a_seed_that_tells_of_its_numbers_is_refused(function: Function) -> None:
    with pytest.raises(NotExplorable):
        veridp.explore(function, [0.0])


def few_seeds(data, rng):
    return data[0] + np.random.default_rng(rng.integers(5)).laplace()


def test_few_seeds_hide_little() -> None:
    assert veridp.exact.compare(few_seeds, [0.0], [1.0]).epsilon == math.inf


def test_a_child_of_another_class_is_noticed() -> None:
    def noticing(data, rng):
        return data[0] + rng.spawn(1)[0].laplace(scale=1 if type(rng) is np.random.Generator else 5)

    with pytest.raises(ExplorationDisagrees):
        veridp.prove(noticing, 1, adjacency="l1")


def test_such_a_draw_is_sampled_from_the_seed() -> None:
    def beta(data: Any) -> Any:
        return data[0] + random.betavariate(1, 2) + random.Random(random.getrandbits(64)).random() / 1000

    first, again, other = (veridp.sample(beta, [0.0], 400, seed=seed).matrix() for seed in (1, 1, 2))
    assert (first == again).all()
    assert len(np.unique([first, other])) == 800
    assert abs(first.mean() - 1 / 3) < 0.07  # six standard errors


# ------------------------------------------------------------------------------------------------- no noise at all


def seeded_global(data):
    np.random.seed(0)
    return data[0] + np.random.laplace(scale=SCALE)


def seeded_generator(data):
    return data[0] + np.random.default_rng(42).laplace(scale=SCALE)


def seeded_rng_parameter(data, rng=None):
    rng = np.random.default_rng(42)
    return data[0] + rng.laplace(scale=SCALE)


def seeded_state(data):
    return data[0] + np.random.RandomState(7).laplace(scale=SCALE)


def seeded_state_by_name(data):
    return data[0] + np.random.RandomState(seed=7).laplace(scale=SCALE)


def seeded_module(data):
    random.seed(1)
    return data[0] + random.gauss(0, 1)


def seeded_dice(data):
    return data[0] + random.Random(3).gauss(0, 1)


def seeded_again(data):
    OLD.seed(5)
    return data[0] + OLD.laplace(scale=SCALE)


STATE = np.random.RandomState(5).get_state()


def set_back(data):
    np.random.set_state(STATE)
    return data[0] + np.random.laplace(scale=SCALE)


def seeded_bits(data):
    return data[0] + np.random.Generator(np.random.PCG64(5)).laplace(scale=SCALE)


TRUE_NUMBERS = {
    seeded_global: np.random.RandomState(0).laplace(scale=SCALE),
    seeded_generator: np.random.default_rng(42).laplace(scale=SCALE),
    seeded_rng_parameter: np.random.default_rng(42).laplace(scale=SCALE),
    seeded_state: np.random.RandomState(7).laplace(scale=SCALE),
    seeded_state_by_name: np.random.RandomState(7).laplace(scale=SCALE),
    seeded_module: random.Random(1).gauss(0, 1),
    seeded_dice: random.Random(3).gauss(0, 1),
    seeded_again: np.random.RandomState(5).laplace(scale=SCALE),
    set_back: np.random.RandomState(5).laplace(scale=SCALE),
    seeded_bits: np.random.Generator(np.random.PCG64(5)).laplace(scale=SCALE),
}


@pytest.mark.parametrize("function", TRUE_NUMBERS, ids=_name)
def test_a_fixed_seed_gives_its_genuine_numbers_which_hide_nothing(function: Function) -> None:
    (path,) = explored(function, [0.0])
    assert path.noises == ()
    assert path.output == pytest.approx(TRUE_NUMBERS[function], rel=1e-15)
    assert veridp.exact.compare(function, [0.0], [1.0]).epsilon == math.inf
    assert set(veridp.sample(function, [0.0], 10).distinct()) == {path.output}


def test_a_seed_of_none_is_no_seed() -> None:
    def unseeded(data: Any) -> Any:
        np.random.seed(3)
        np.random.seed()
        return data[0] + np.random.laplace(scale=SCALE)

    (path,) = explored(unseeded, [0.0])
    assert len(path.noises) == 1


def test_seeding_one_generator_leaves_the_others_random() -> None:
    def half(data: Any) -> Any:
        OLD.seed(5)
        return [data[0] + OLD.laplace(scale=SCALE), data[0] + np.random.laplace(scale=SCALE)]

    (path,) = explored(half, [0.0])
    assert len(path.noises) == 1


# ---------------------------------------------------------------------------------------- everything is given back


def states() -> list[object]:
    numpy, held = np.random.get_state()[1].tobytes(), [OLD.get_state()[1].tobytes(), DICE.getstate()]  # type: ignore[index]
    return [numpy, random.getstate(), RNG.bit_generator.state, *held]


def places() -> list[object]:
    modules = [dict(vars(module)) for module in (np.random, np.random.mtrand, random, secrets)]
    return [*modules, RNG, OLD, DICE, DRAW, laplace, gauss, randbelow, dict(TOOLBOX), helper.__defaults__]


def everything(data):
    np.random.laplace(), random.random(), RNG.normal(), OLD.rand(), DICE.random(), laplace(), gauss(0, 1), randbelow(3)
    if data[0] == 7:
        raise ValueError("seven")
    if data[0] == 8:
        raise KeyboardInterrupt
    return helper(data[0]) + DRAW() + TOOLBOX["noise"]()


@pytest.mark.parametrize("run", [veridp.explore, lambda f, data: veridp.sample(f, data, 50)])
@pytest.mark.parametrize("value", [0.0, 7.0, 8.0])
def test_all_is_as_it_was_whatever_happens(run: Function, value: float) -> None:
    before, held = states(), places()
    try:
        run(everything, [value])
    except KeyboardInterrupt:
        assert value == 8
    assert states() == before
    assert all(now is then or now == then for now, then in zip(places(), held, strict=True))


def test_a_refused_run_gives_everything_back() -> None:
    def refused(data: Any) -> Any:
        try:
            return [0.0][np.random.laplace() * RNG.laplace()]  # type: ignore[call-overload]
        except BaseException:
            return 0.0

    before, held = states(), places()
    with pytest.raises(NotExplorable):
        veridp.explore(refused, [0.0])
    assert (states(), places()) == (before, held)


def test_other_threads_draw_from_the_global_generators_as_ever() -> None:
    drawn: list[Any] = []

    def slow(data: Any) -> Any:
        noise = np.random.laplace()
        thread = threading.Thread(target=lambda: drawn.append(np.random.laplace()))
        thread.start()
        thread.join()
        return noise + data[0]

    np.random.seed(3)
    with pytest.raises(Nondeterministic, match="global randomness"):
        veridp.explore(slow, [0.0])  # what its own thread draws is not adopted
    assert drawn[0] == np.random.RandomState(3).laplace()


def test_a_run_inside_a_run_draws_from_its_own_generator() -> None:
    inner = as_mechanism(global_laplace).bound()

    def outer(data: Any) -> Any:
        before = np.random.laplace()
        inside = inner(np.random.default_rng(5), [0.0])
        return [before, inside, np.random.laplace()]

    first, middle, last = as_mechanism(outer).bound()(np.random.default_rng(4), [0.0])
    assert [first, last] == np.random.default_rng(4).laplace(size=2).tolist()
    assert middle == np.random.default_rng(5).laplace(scale=SCALE)


# -------------------------------------------------------------------------------------- sampling follows from the seed


@pytest.mark.parametrize("function", [global_laplace, module_state, Released().by_generator, coin, sampled], ids=_name)
def test_samples_follow_from_the_seed(function: Function) -> None:
    data: Any = [0.0] if function not in (coin, sampled) else 1
    first, again, other = (veridp.sample(function, data, 3000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert veridp.sample(function, data, 3000, seed=1, workers=2) == first


def test_samples_in_batches_are_those_of_the_twin() -> None:
    ours, theirs = veridp.sample(global_laplace, [0.0], 5000, seed=3), veridp.sample(twin, [0.0], 5000, seed=3)
    assert ours.reading == theirs.reading == "batch"
    assert ours == theirs


# -------------------------------------------------------------------------------------------------- what is not adopted


class Loaded(random.Random):
    def random(self) -> float:
        return super().random() ** 2


LOADED, TWIN, OTHER_TWIN = Loaded(1), np.random.default_rng(99), np.random.default_rng(99)
PAIR = (np.random.default_rng(5), "in a tuple")


@pytest.mark.parametrize(
    "function",
    [
        lambda data: data[0] + (LOADED.random() < 0.5),
        lambda data: data[0] + TWIN.laplace() - OTHER_TWIN.laplace(),  # which is data[0]
        lambda data: data[0] + PAIR[0].laplace(),
        lambda data: data[0] + np.random.Generator(np.random.mtrand._rand._bit_generator).laplace() + PAIR[0].random(),
    ],
)
def test_what_is_not_adopted_is_found(function: Function) -> None:
    with pytest.raises((Nondeterministic, NotExplorable)):
        veridp.explore(function, [0.0])


def by_identity(data):
    return data[0] if RNG is not TWIN else data[0] + RNG.laplace()


def by_identity_with_rng(data, rng):
    return data[0] + rng.laplace() if rng is RNG else data[0]


def by_class(data):
    return data[0] if OLD.__class__ is np.random.RandomState else data[0] + OLD.laplace()


def by_kind_of_function(data):
    return data[0] + np.random.laplace() if isinstance(np.random.laplace, FunctionType) else data[0]


def by_type(data):
    return data[0] if type(OLD) is np.random.RandomState else data[0] + OLD.laplace()


def cancelled_by_a_copy(data):
    own = np.random.RandomState()
    twin = copy.deepcopy(own)
    np.random.laplace()
    return data[0] + own.laplace() - twin.laplace()


def cancelled_by_its_state(data):
    own, twin = random.Random(), random.Random()
    twin.setstate(own.getstate())
    return data[0] + own.gauss(0, 1) - twin.gauss(0, 1)


def cancelled_by_going_back(data):
    state = np.random.get_state()
    noise = np.random.laplace()
    np.random.set_state(state)
    return data[0] + noise - np.random.laplace()


def cancelled_by_a_pickle(data):
    return data[0] + pickle.loads(pickle.dumps(OLD)).laplace() - OLD.laplace()  # noqa: S301


def cancelled_by_a_copy_of_rng(data, rng):
    twin = copy.deepcopy(rng)
    np.random.laplace()
    return data[0] + rng.laplace() - twin.laplace()


NO_NOISE = [
    by_identity, by_identity_with_rng, by_class, by_kind_of_function, by_type, cancelled_by_a_copy,
    cancelled_by_its_state, cancelled_by_going_back, cancelled_by_a_pickle,
]  # fmt: skip


@pytest.mark.parametrize("function", NO_NOISE, ids=_name)
def test_noise_that_code_avoids_or_cancels_is_not_taken_for_noise(function: Function) -> None:
    try:
        (path,) = explored(function, [0.0])
    except (NotExplorable, Nondeterministic):
        pass
    else:
        assert path.output == 0.0
    assert np.abs(veridp.sample(function, [0.0], 50, reading="one-by-one").matrix()).max() < 1e-12


def notices_a_python_function(data):
    if isinstance(np.random.default_rng, FunctionType):
        return data[0] + np.random.default_rng().laplace()
    return data[0]


def notices_it_without_a_branch(data):
    noise = random.expovariate(1) - random.expovariate(1)
    return data[0] + noise * (not isinstance(random.random, BuiltinMethodType))


@pytest.mark.parametrize("function", [notices_a_python_function, notices_it_without_a_branch])
def test_code_that_notices_adoption_is_found_by_runs_without_it(function: Function) -> None:
    with pytest.raises(ExplorationDisagrees, match="without adopted randomness"):
        veridp.prove(function, 1, adjacency="l1")


def test_runs_without_adoption_leave_all_generators_as_they_were() -> None:
    released = Released()
    before = np.random.get_state()[2], random.getstate(), released.rng.bit_generator.state  # type: ignore[index]
    for function in (global_laplace, coin, released.by_generator):
        veridp.exact.compare(function, [0.0], [1.0])
    assert before == (np.random.get_state()[2], random.getstate(), released.rng.bit_generator.state)  # type: ignore[index]


def test_a_copy_of_one_of_several_generators_is_refused() -> None:
    with pytest.raises(NotExplorable, match="one of several generators"):
        veridp.explore(cancelled_by_a_copy_of_rng, [0.0])


class Hidden:
    """Its generator is out of reach, so a copy of the object would draw the same numbers in every run."""

    def __init__(self) -> None:
        self.pair = (np.random.default_rng(3), 1.0)
        self.lock: Any = None

    def release(self, data: Any) -> Any:
        return data[0] + self.pair[0].laplace()


def test_a_generator_of_an_object_that_is_not_adopted_is_not_copied() -> None:
    with pytest.raises(Nondeterministic):
        veridp.explore(Hidden().release, [0.0])
    assert len(veridp.sample(Hidden().release, [0.0], 50, reading="one-by-one").distinct()) == 50


def test_an_object_that_cannot_be_copied_is_named() -> None:
    owner = Hidden()
    owner.lock = threading.Lock()
    with pytest.raises(VeridpError, match="release: its object cannot be copied for each run"):
        veridp.explore(owner.release, [0.0])


def test_code_that_compares_classes_sees_the_genuine_ones() -> None:
    def particular(rng: Any, data: Any) -> Any:
        fresh = np.random.RandomState()
        if type(fresh) is np.random.RandomState and isinstance(rng, np.random.Generator):
            return data[0]
        return data[0] + np.random.laplace()

    with pytest.raises((Nondeterministic, NotExplorable)):
        veridp.explore(particular, [0.0])
    assert set(veridp.sample(particular, [0.0], 20, reading="one-by-one").distinct()) == {0.0}


# ------------------------------------------------------------------------------------- the interfaces, on genuine draws

NO_DRAWS = {"seed", "getstate", "setstate", "get_state", "set_state"}


@pytest.mark.parametrize("name", sorted(set(dir(random.Random)) & set(random.__all__) - NO_DRAWS))
def test_every_method_of_random_has_the_distribution_of_pythons(name: str) -> None:
    """By a Kolmogorov-Smirnov test of 1000 draws each; false alarm 1e-9 for each name."""
    arguments: dict[str, tuple[Any, ...]] = {
        "uniform": (3, 1), "triangular": (0, 4, 1), "expovariate": (-2.0,), "gammavariate": (2, 3),
        "choice": (range(5),), "betavariate": (2, 3), "paretovariate": (3,), "weibullvariate": (2, 3),
        "vonmisesvariate": (1, 2), "gauss": (1, -2), "normalvariate": (1, 2), "lognormvariate": (0, 1),
        "getrandbits": (70,), "randbytes": (2,), "randint": (-2, 9), "randrange": (9, -4, -3),
        "choices": ([1, 2, 4], [1, 0, 3]), "sample": ([1, 2, 4], 2), "binomialvariate": (5, 0.3),
    }  # fmt: skip
    ours, theirs = AdoptedRandom(np.random.default_rng(5)), random.Random(5)

    def number(source: random.Random) -> float:
        if name == "shuffle":
            value: Any = [1, 2, 4]
            source.shuffle(value)
        else:
            value = getattr(source, name)(*arguments.get(name, ()))
        digits = list(value) if isinstance(value, list | bytes) else [value]
        return float(sum(digit * 0.01**place for place, digit in enumerate(digits)))

    assert ks_2samp([number(ours) for _ in range(1000)], [number(theirs) for _ in range(1000)]).pvalue > 1e-9


LEGACY_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "beta": (2, 3), "binomial": (9, 0.3), "chisquare": (3,), "choice": (5,), "dirichlet": ([1, 2],), "f": (5, 6),
    "gamma": (2,), "geometric": (0.3,), "hypergeometric": (5, 6, 4), "logseries": (0.5,),
    "multinomial": (5, [0.3, 0.7]), "multivariate_normal": ([0, 1], [[1, 0.5], [0.5, 2]]),
    "negative_binomial": (3, 0.4), "noncentral_chisquare": (3, 1), "noncentral_f": (5, 6, 1), "pareto": (3,),
    "permutation": (5,), "power": (2,), "randint": (-3, 9), "rayleigh": (2,), "standard_gamma": (2,),
    "standard_t": (5,), "triangular": (0, 1, 4), "uniform": (3, 1), "vonmises": (1, 2), "wald": (1, 2),
    "weibull": (2,), "zipf": (3,), "bytes": (2,), "random_integers": (6,), "shuffle": ([1, 2, 4],),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(set(dir(np.random.RandomState)) & set(np.random.__all__) - NO_DRAWS))
def test_every_method_of_random_state_has_the_distribution_of_numpys(name: str) -> None:
    """By a Kolmogorov-Smirnov test of 1000 draws each; false alarm 1e-9 for each name."""
    ours, theirs = AdoptedState(np.random.default_rng(5)), np.random.RandomState(5)

    def number(source: np.random.RandomState) -> float:
        arguments = copy.deepcopy(LEGACY_ARGUMENTS.get(name, ()))
        value = getattr(source, name)(*arguments)
        value = arguments[0] if value is None else value
        assert isinstance(value, type(getattr(theirs, name)(*arguments)) | list), "another type"
        return float(
            sum(
                digit * 0.01**place
                for place, digit in enumerate(np.ravel(list(value) if isinstance(value, bytes) else value))
            )
        )

    assert ks_2samp([number(ours) for _ in range(1000)], [number(theirs) for _ in range(1000)]).pvalue > 1e-9


# ---------------------------------------------------------------------------------------------------------- signatures


def test_the_generator_is_recognised_wherever_it_stands() -> None:
    shapes: dict[Function, tuple[str | None, str]] = {
        lambda rng, data: 0: ("rng", "data"),
        lambda data, rng: 0: ("rng", "data"),
        lambda data: 0: (None, "data"),
        lambda values, epsilon=1.0: 0: (None, "values"),
        lambda r, d: 0: ("r", "d"),
        lambda _, data: np.random.laplace(): ("_", "data"),
        lambda source, data: source.laplace() + np.random.laplace(): ("source", "data"),
        lambda values, epsilon: np.random.laplace(): (None, "values"),
        lambda data, epsilon=1.0, rng=None: 0: ("rng", "data"),
        lambda data, *, prng: 0: ("prng", "data"),
    }
    for function, (generator, data) in shapes.items():
        roles = as_mechanism(function).roles
        assert (roles.generator, roles.data) == (generator, data)


@pytest.mark.parametrize("function", [lambda: 0, lambda rng: 0, lambda *, data: 0])
def test_a_function_without_data_is_refused_with_what_works(function: Function) -> None:
    with pytest.raises(
        BadInput, match=r"is not a mechanism; give a function of \(rng, data\), \(data, rng\) or \(data\)"
    ):
        as_mechanism(function)


def test_arguments_of_any_shape_are_bound_and_claimed() -> None:
    mechanism = as_mechanism(budget_second, epsilon=0.25, **NUMBER)
    assert mechanism.claim == veridp.claim.Claim(0.25)
    assert veridp.exact.compare(mechanism, [0.0], [1.0]).epsilon == pytest.approx(0.25)
    with pytest.raises(BadInput, match="budget_second needs a value for epsilon"):
        as_mechanism(budget_second).bound()


def test_a_decorated_function_is_called_as_its_author_wrote_it() -> None:
    @veridp.mechanism(epsilon=0.5)
    def decorated(data: Any) -> Any:
        return data[0] + np.random.laplace(scale=SCALE)

    def twice(data: Any) -> Any:
        return [decorated(data), decorated(data)]

    assert isinstance(decorated([1.0]), float)
    assert len(explored(twice, [0.0])[0].noises) == 2
    recorded = veridp.accounting.releases_of(twice, [0.0])
    assert recorded.every
    assert len(list(recorded.releases[0].leaves())) == 2
