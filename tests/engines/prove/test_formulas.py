"""Proofs for mechanisms of formulas of their data, against closed forms and against changes that are looked for."""

import contextlib
import math
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veridp
from veridp_check.checker import check
from veridp_check.document import CertificateFlaw
from veridp_check.formulas import PRODUCT, SUM, FormulaMap, FormulaNode
from veridp_check.records import ends_of

Formula = Callable[[Any], Any]


def proved(formula: Formula, adjacency: str, domain: tuple[float, float], size: int) -> float:
    return veridp.prove(
        lambda rng, data: formula(data) + rng.laplace(), size, adjacency=adjacency, domain=domain
    ).epsilon


@pytest.mark.parametrize(
    ("formula", "adjacency", "domain", "size", "sensitivity"),
    [
        (np.var, "replace", (0, 1), 4, 3 / 16),  # (n - 1) / n²
        (lambda x: np.var(x, ddof=1), "replace", (0, 1), 4, 1 / 4),  # 1 / n
        (np.std, "replace", (0, 1), 4, math.sqrt(3) / 4),  # from equal ends
        (lambda x: sum((v - sum(x) / 3) ** 2 for v in x), "replace", (-1, 1), 3, 4 * 2 / 3),
        (lambda x: np.log(x).mean(), "replace", (1, 100), 3, math.log(100) / 3),
        (lambda x: math.log10(x[0]), "l1", (1, 10), 2, math.log10(2)),
        (lambda x: math.sqrt(x[0]), "linf", (0, 4), 1, 1.0),
        (lambda x: math.exp(x[0] / 2), "l1", (-3, 2), 1, math.e - math.exp(0.5)),
        (lambda x: x[0] ** 2, "l1", (-4, 4), 1, 7.0),  # 4² - 3²
        (lambda x: x[0] ** 3 - x[1] ** 2, "linf", (0, 2), 2, 10.0),  # 2³ - 1, and 2² - 1
        (lambda x: x[0] * x[1], "linf", (0, 3), 2, 5.0),  # 9 - 4
        (lambda x: 1 / x[0], "l1", (0.5, 8), 1, 2 - 1 / 1.5),
        (lambda x: np.linalg.norm(x), "replace", (0, 3), 2, 3.0),
        (lambda x: 2 * np.log1p(x[0]) - x[0], "l1", (0, 9), 1, 2 * math.log(2) + 1),  # parts add up: no least bound
    ],
)
def test_a_formula_is_proved_at_the_most_that_it_changes(
    formula: Formula, adjacency: str, domain: tuple[float, float], size: int, sensitivity: float
) -> None:
    assert proved(formula, adjacency, domain, size) == pytest.approx(sensitivity, rel=1e-9)


@pytest.mark.parametrize(
    ("formula", "domain"),
    [
        (lambda x: math.sqrt(x[0]), (-1, 4)),  # fails on some data
        (lambda x: math.log(x[0]), (0, 4)),  # has no bound
        (lambda x: 1 / x[0], (-1, 1)),
        (lambda x: math.sin(x[0]), (0, 1)),  # there is no rule for it
        (lambda x: np.var(x) if x[0] > 0.5 else 0.0, (0, 1)),  # data decide
    ],
)
def test_what_is_not_known_of_a_formula_is_not_proved(formula: Formula, domain: tuple[float, float]) -> None:
    with contextlib.suppress(veridp.errors.VeridpError):
        assert proved(formula, "l1", domain, 2) == math.inf


def test_post_processing_and_several_values_of_formulas_are_proved_together() -> None:
    def summary(rng: Any, data: Any) -> Any:
        logs = np.log(np.asarray(data, dtype=float))
        middle = logs.mean() + rng.laplace(scale=1.0)
        return np.exp(middle), np.var(logs) + rng.laplace(scale=1.0)

    spread = math.log(10)  # of the logarithms
    proof = veridp.prove(summary, 3, adjacency="replace", domain=(1, 10))
    assert spread / 3 + spread**2 * 2 / 9 < proof.epsilon < 5  # no more than bounds part by part add up to
    assert check(proof.certificate).verified


def _random_map(rng: np.random.Generator, size: int, low: Fraction, high: Fraction) -> FormulaMap:
    """Some formulas of positive numbers, so that every function has a value."""
    nodes: list[FormulaNode] = []
    for _ in range(8):
        kind = rng.choice([SUM, SUM, PRODUCT, "sqrt", "log", "exp", "reciprocal"]) if nodes else SUM
        if kind == SUM:
            of = tuple({int(k) for k in rng.integers(len(nodes), size=2)}) if nodes else ()
            data = tuple((i, Fraction(int(rng.integers(-2, 3)))) for i in range(size) if rng.random() < 0.6)
            factors = tuple(Fraction(int(rng.integers(-2, 3)), 2) for _ in of)
            nodes.append(FormulaNode(SUM, of, factors, data, Fraction(int(rng.integers(3)))))
            continue
        place = int(rng.integers(len(nodes)))
        if kind == PRODUCT:
            nodes.append(FormulaNode(PRODUCT, (place, int(rng.integers(len(nodes))))))
            continue
        square = FormulaNode(PRODUCT, (place, place))  # 1 + x² is positive, and a fifth of x² moderate
        nodes += [square, FormulaNode(SUM, (len(nodes),), (Fraction(1, 5),), (), Fraction(1))]
        nodes.append(FormulaNode(str(kind), (len(nodes) - 1,)))
    return FormulaMap(size, tuple(nodes), tuple(range(len(nodes))), (low, high))


@pytest.mark.parametrize("adjacency", ["replace", "l1", "linf", "monotone"])
@pytest.mark.parametrize("seed", range(3))
def test_no_change_is_larger_than_its_bound(adjacency: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = Fraction(-1, 2), Fraction(3, 2)
    try:
        seen = _random_map(rng, 2, low, high)
        ways = [ends_of(way) for way in seen.ways(adjacency)]
    except CertificateFlaw:
        return  # too large a number for exp, of which nothing is said
    least = [min(way[0][k] for way in ways) for k in range(seen.count)]
    most = [max(way[1][k] for way in ways) for k in range(seen.count)]
    for _ in range(60):
        left = [Fraction(float(x)) for x in rng.choice([-0.5, 0, 1.5, rng.uniform(-0.5, 1.5)], size=2)]
        right = list(left)
        places = range(2) if adjacency in ("linf", "monotone") else [int(rng.integers(2))]
        for i in places:
            step = Fraction(float(rng.choice([0, 1, rng.uniform(0, 1)]))) * (
                1 if adjacency == "monotone" else int(rng.choice([-1, 1]))
            )
            moved = Fraction(float(rng.uniform(-0.5, 1.5))) if adjacency == "replace" else left[i] + step
            right[i] = min(max(moved, low), high)
        for k, (a, b) in enumerate(zip(seen.of(left), seen.of(right), strict=True)):
            near = Fraction(1, 10**9) * (1 + abs(a) + abs(b))
            up_and_down = (
                (least[k], most[k]) if adjacency == "monotone" else (min(least[k], -most[k]), max(most[k], -least[k]))
            )
            assert up_and_down[0] - near <= b - a <= up_and_down[1] + near


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    proof = veridp.prove(lambda rng, data: np.std(data) + rng.laplace(), 3, adjacency="replace", domain=(0, 1))
    return proof.certificate


def test_the_certificate_is_accepted_as_it_is(document: dict[str, Any]) -> None:
    assert check(document).verified


@pytest.mark.parametrize(
    "forge",
    [
        lambda d: d.update(domain=["0", "2"]),
        lambda d: d.update(adjacency="replace-unordered"),
        lambda d: d.update(adjacency="add-remove"),
        lambda d: d["records"][0]["formulas"][-1].update(of=[len(d["records"][0]["formulas"]) - 1]),  # of itself
        lambda d: d["records"][0]["formulas"].append({"function": "sin", "of": [0]}),
        lambda d: d["records"][0]["values"].append(0),
    ],
)
def test_a_forged_certificate_is_rejected(document: dict[str, Any], forge: Callable[[dict[str, Any]], None]) -> None:
    forged = deepcopy(document)
    forge(forged)
    assert not check(forged).verified
