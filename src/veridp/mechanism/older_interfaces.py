"""The methods of `RandomState` and of `random.Random`, as functions of a `Generator`.

Those of the same name and meaning in both are not listed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _whole(value: Any) -> Any:
    """An integer that was drawn, as Python holds it, also where it is a stand-in."""
    return value.as_python() if hasattr(value, "as_python") else int(value)


def _randint(rng: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
    drawn = rng.integers(low, high, size, **({} if dtype is int else {"dtype": dtype}))
    return _whole(drawn) if dtype is int and np.ndim(drawn) == 0 else drawn


def _random_integers(rng: Any, low: Any, high: Any = None, size: Any = None) -> Any:
    first, last = (1, low) if high is None else (low, high)
    return rng.integers(first, last + 1, size)


def _legacy_uniform(rng: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    swapped = isinstance(low, int | float) and isinstance(high, int | float) and high < low  # which Generator refuses
    return rng.uniform(high, low, size) if swapped else rng.uniform(low, high, size)


LEGACY: dict[str, Callable[..., Any]] = {
    "rand": lambda rng, *shape: rng.random(shape or None),
    "randn": lambda rng, *shape: rng.standard_normal(shape or None),
    "randint": _randint,
    "random_integers": _random_integers,
    "tomaxint": lambda rng, size=None: _randint(rng, 0, 2**63 - 1, size),
    "random_sample": lambda rng, size=None: rng.random(size),
    "uniform": _legacy_uniform,
}


def _below(rng: Any, count: int) -> Any:
    """An integer of range(count)."""
    if count <= 2**62:
        return _whole(rng.integers(count))
    bits = count.bit_length()
    while (drawn := _getrandbits(rng, bits)) >= count:
        pass
    return drawn


def _getrandbits(rng: Any, k: int) -> Any:
    if k > 62 and hasattr(rng, "takes_as_seed"):
        parts = -(-k // 62)
        bits = [k // parts + (part < k % parts) for part in range(parts)]
        places = itertools.accumulate([0, *bits[:-1]])
        return rng.as_one(sum(_below(rng, 1 << n) * (1 << place) for n, place in zip(bits, places, strict=True)))
    size = -(-k // 8)
    return _below(rng, 1 << k) if k <= 62 else int.from_bytes(rng.bytes(size), "little") >> (8 * size - k)


def _randrange(rng: Any, start: int, stop: int | None = None, step: int = 1) -> Any:
    values = range(start) if stop is None else range(start, stop, step)
    if values[:1] == range(0):
        raise ValueError(f"empty range for randrange({start}, {stop}, {step})")
    drawn = _below(rng, max(-((values.start - values.stop) // step), 0))
    return values.start + step * drawn


def _choices(rng: Any, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
    if cum_weights is not None:
        if weights is not None:
            raise TypeError("Cannot specify both weights and cumulative weights")
        weights = [high - low for low, high in itertools.pairwise([0, *cum_weights])]
    if weights is None:
        return [_choice(rng, population) for _ in range(k)]
    weights = list(weights)
    if len(weights) != len(population):
        raise ValueError("The number of weights does not match the population")
    total = sum(weights)
    if total <= 0:
        raise ValueError("Total of weights must be greater than zero")
    chances = [weight / total for weight in weights]
    return [population[int(rng.choice(len(chances), p=chances))] for _ in range(k)]


def _choice(rng: Any, seq: Any) -> Any:
    if not len(seq):
        raise IndexError("Cannot choose from an empty sequence")
    return seq[int(_below(rng, len(seq)))]


def _sample(rng: Any, population: Any, k: int, *, counts: Any = None) -> list[Any]:
    if not isinstance(population, Sequence):
        raise TypeError("Population must be a sequence.  For dicts or sets, use sorted(d).")
    if counts is not None:
        population = [value for value, count in zip(population, counts, strict=True) for _ in range(count)]
    if not 0 <= k <= len(population):
        raise ValueError("Sample larger than population or is negative")
    return [population[int(index)] for index in rng.choice(len(population), k, replace=False)] if k else []


def _shuffle(rng: Any, x: Any) -> None:
    x[:] = [x[int(index)] for index in rng.permutation(len(x))]


def _normal(rng: Any, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
    return rng.normal(mu, abs(sigma))


PYTHON: dict[str, Callable[..., Any]] = {
    "uniform": lambda rng, a, b: a + (b - a) * rng.random(),
    "triangular": lambda rng, low=0.0, high=1.0, mode=None: rng.triangular(
        low, (low + high) / 2 if mode is None else mode, high
    ),
    "gauss": _normal,
    "normalvariate": _normal,
    "lognormvariate": lambda rng, mu=0.0, sigma=1.0: rng.lognormal(mu, sigma),
    "expovariate": lambda rng, lambd=1.0: rng.exponential() / lambd,
    "gammavariate": lambda rng, alpha, beta: rng.gamma(alpha, beta),
    "betavariate": lambda rng, alpha, beta: rng.beta(alpha, beta),
    "paretovariate": lambda rng, alpha: 1 + rng.pareto(alpha),
    "weibullvariate": lambda rng, alpha, beta: alpha * rng.weibull(beta),
    "vonmisesvariate": lambda rng, mu, kappa: rng.vonmises(mu, kappa) % (2 * math.pi),
    "binomialvariate": lambda rng, n=1, p=0.5: rng.binomial(n, p),
    "getrandbits": _getrandbits,
    "randbytes": lambda rng, n=None: rng.bytes(32 if n is None else n),
    "randrange": _randrange,
    "randint": lambda rng, a, b: _randrange(rng, a, b + 1),
    "choice": _choice,
    "choices": _choices,
    "sample": _sample,
    "shuffle": _shuffle,
}
