"""Tests of fit that the catalogue's tests share. Each fails with probability 1e-6 where the mechanism is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
import pytest
from scipy import stats

from veridp.mechanism import Mechanism

FALSE_ALARM = 1e-6
FEW = 10  # cells that expect fewer are counted together


@pytest.fixture
def draw() -> Callable[..., list]:
    """`count` outputs of the mechanism on the data, from a seed."""

    def outputs(mechanism: Mechanism, data: object, count: int, seed: int, **arguments: object) -> list:
        rng = np.random.default_rng(seed)
        return [mechanism(rng, data, **arguments) for _ in range(count)]

    return outputs


@pytest.fixture
def assert_probabilities() -> Callable[[Iterable[Hashable], Mapping[Hashable, float]], None]:
    """Chi-square test that the outputs have these probabilities, which must sum to 1."""

    def check(outputs: Iterable[Hashable], probabilities: Mapping[Hashable, float]) -> None:
        seen = Counter(outputs)
        assert set(seen) <= set(probabilities)
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-9)
        total = seen.total()
        cells = {output: (seen[output], total * p) for output, p in probabilities.items()}
        large = [cell for cell in cells.values() if cell[1] >= FEW]
        small = [cell for cell in cells.values() if cell[1] < FEW]
        if small:
            large.append((sum(o for o, _ in small), sum(e for _, e in small)))
        observed, expected = np.array(large, dtype=float).T
        statistic = np.sum((observed - expected) ** 2 / np.maximum(expected, 1e-300))
        assert len(large) > 1
        assert stats.chi2.sf(statistic, len(large) - 1) > FALSE_ALARM

    return check


@pytest.fixture
def assert_uniform() -> Callable[[object], None]:
    """Kolmogorov-Smirnov test that each column is uniform, and chi-square test that three of them are independent.

    The columns are draws put through their distribution functions, so that this tests a distribution exactly. With k
    columns the false-alarm rate is at most (k + 1) times the one above.
    """

    def check(columns: object) -> None:
        table = np.asarray(columns, dtype=float)
        for column in table.T:
            assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM
        few = table[:, [0, table.shape[1] // 2, -1][: table.shape[1]]]
        if few.shape[1] > 1:
            cells = np.floor(few * 3).clip(0, 2) @ 3.0 ** np.arange(few.shape[1])
            counts = np.bincount(cells.astype(int), minlength=3 ** few.shape[1])
            assert stats.chisquare(counts).pvalue > FALSE_ALARM

    return check


@pytest.fixture
def assert_cdf() -> Callable[[Sequence[float], Callable[[np.ndarray], np.ndarray]], None]:
    """Kolmogorov-Smirnov test that the values have this distribution function."""

    def check(values: Sequence[float], cdf: Callable[[np.ndarray], np.ndarray]) -> None:
        assert len(values) > 500
        assert stats.kstest(values, cdf).pvalue > FALSE_ALARM

    return check
