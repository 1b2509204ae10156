"""The gallery of real mistakes, and what the audit does where nobody says how large data are or what they may hold.

`benchmarks/gallery.py` audits all of it; here are its structure, and the quickest of its exhibits.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diffprivlib import mechanisms as ibm
from scipy.optimize import brentq

import veridp
from veridp.adjacency import adjacency
from veridp.target import load
from veridp.verdict import Standing

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import gallery  # noqa: E402 - it lies beside the other benchmarks

EXHIBITS = {exhibit.name: exhibit for exhibit in gallery.exhibits()}
QUICK = {  # what it costs, by hand
    "unary_encoding": math.log((0.5621765 + 0.4378235**2) / 0.4378235 * 0.5621765 / (0.4378235 - 0.4378235**2)),
    "randomized_response": math.log(13),
}


def test_every_mistake_is_cited_and_stands_beside_its_repair() -> None:
    assert len(EXHIBITS) >= 24
    assert len({exhibit.source for exhibit in EXHIBITS.values()}) == len(EXHIBITS)
    for exhibit in EXHIBITS.values():
        assert exhibit.source.startswith("https://github.com/")
        assert exhibit.report.rpartition("#")[2].isdecimal()
        broken, fixed = (load(f"{exhibit.file}:{exhibit.name}{suffix}") for suffix in ("", gallery.REPAIRED))
        assert broken.claim is not None
        assert (str(broken.adjacency), str(broken.domain)) == (str(fixed.adjacency), str(fixed.domain))


@pytest.mark.parametrize("name", QUICK)
def test_mistakes_are_refuted_by_the_default_call_and_their_repairs_are_not(name: str) -> None:
    broken = EXHIBITS[name].audited("", 120.0)
    assert broken.standing is Standing.REFUTED
    assert broken.epsilon.lower == pytest.approx(QUICK[name], rel=1e-5)
    assert EXHIBITS[name].audited(gallery.REPAIRED, 120.0).standing is Standing.PROVED


# -------------------------------------------------------------------------------------------------------- other sizes


def sum_of_few(rng: Any, data: Any) -> Any:
    """Noise for one record, but from eight records on for a tenth of one."""
    return sum(data) + rng.laplace(scale=1.0 if len(data) < 8 else 0.1)


SETTINGS: dict[str, Any] = {"epsilon": 1.0, "adjacency": "replace", "domain": (0, 1), "seconds": 120.0}


def test_a_size_that_nobody_stated_is_not_the_only_one() -> None:
    verdict = veridp.audit(sum_of_few, **SETTINGS)
    assert verdict.standing is Standing.REFUTED
    assert verdict.epsilon.lower == pytest.approx(10.0)
    assert verdict.assumed["size"] == 8
    assert verdict.witness is not None
    assert isinstance(verdict.witness.left, list)
    assert len(verdict.witness.left) == 8
    assert not math.isfinite(verdict.epsilon.upper)  # what was proved at size 5 is not claimed of size 8
    stated = veridp.audit(sum_of_few, size=5, **SETTINGS)
    assert stated.standing is Standing.PROVED
    assert stated.epsilon.upper == pytest.approx(1.0)


def test_a_size_on_which_it_raises_is_left_out() -> None:
    def third(rng: Any, data: Any) -> Any:
        return data[2] + rng.laplace(scale=1.0)

    settings = SETTINGS | {"adjacency": "add-remove"}
    verdict = veridp.audit(third, **settings)
    assert verdict.standing is not Standing.REFUTED
    assert verdict.assumed["size"] == 5


# ---------------------------------------------------------------------------------------------- what data may hold


def test_a_listed_domain_may_hold_nan() -> None:
    relation = adjacency("add-remove")
    assert relation.adjacent([math.nan, 1.0], [math.nan, 1.0, float("nan")])
    assert not relation.adjacent([math.nan, 1.0], [1.0, 1.0, math.nan])
    assert adjacency("replace").adjacent([math.nan, 1.0], [float("nan"), 2.0])

    def skipping(rng: Any, data: Any) -> Any:
        return sum(value for value in data if not math.isnan(value)) + rng.laplace(scale=1.0)

    found = veridp.exact.worst(skipping, 2, [0.0, 1.0, math.nan], adjacency="replace")
    assert found.epsilon == pytest.approx(1.0)
    assert found.tried > 9
    with pytest.raises(veridp.errors.BadInput, match="has to be finite"):
        veridp.mechanism(domain=(0.0, math.inf))(skipping)


def test_data_sets_of_listed_values_that_are_too_many_are_drawn() -> None:
    """Only records that are neither the first nor the last of the domain tell the two sides apart."""

    def odd_one(rng: Any, data: Any) -> Any:
        return 5.0 * data.count("b") + rng.laplace(scale=1.0)

    found = veridp.exact.worst(odd_one, 5, ["a", "b", "c"], adjacency="replace")
    assert found.epsilon == pytest.approx(5.0)


# -------------------------------------------------------------------------------------- a law that is checked apart


def likely_second_axis(rows: tuple[int, int], envelopes: int) -> float:
    """P[|u₂| > 0.95] for density exp(-uᵀAu) (uᵀΩu)^-(3·envelopes) on the sphere of six dimensions, by integration.

    A is diagonal, with 1.5 times the differences from the largest count; uniform directions are the integration points.
    """
    points = np.random.default_rng(0).standard_normal((200_000, 6)) ** 2
    squares = points / points.sum(axis=1, keepdims=True)
    shape = 1.5 * (max(rows) - np.array([*rows, 0, 0, 0, 0]))
    width = brentq(lambda b: (1 / (b + 2 * shape)).sum() - 1, 1.0, 6.0)
    across = squares @ shape
    weights = np.exp(-across) / (1 + 2 * across / width) ** (3 * envelopes)
    return float(weights[squares[:, 1] > 0.95**2].sum() / weights.sum())


def test_the_eigenvector_of_two_libraries_costs_more_than_they_state_and_its_repair_less() -> None:
    """A row more costs log 60 where 3 is claimed: one envelope comes from the proposal, one from the wrong quotient."""
    sides, first, second = ((3, 2), (3, 3)), *(load(f"{EXHIBITS['eigenvector'].file}:eigenvector").domain)
    wrong, right = ([likely_second_axis(rows, envelopes) for rows in sides] for envelopes in (2, 0))
    assert math.log(wrong[1] / wrong[0]) > 4
    assert math.log(right[1] / right[0]) < 1.5
    for suffix, (_, expected) in (("", wrong), (gallery.REPAIRED, right)):
        port = load(f"{EXHIBITS['eigenvector'].file}:eigenvector{suffix}")
        outputs = veridp.sample(port, [first] * 3 + [second] * 3, 500, seed=1, reading="one-by-one", workers=1)
        observed = float((np.abs(outputs.matrix()[:, 1]) > 0.95).mean())
        assert abs(observed - expected) <= 5 * math.sqrt(expected / 500)
    machine = ibm.Bingham(epsilon=6, random_state=1)  # the same sampler, as it is installed
    observed = float(np.mean([abs(machine.randomise(np.diag([3.0, 3, 0, 0, 0, 0]))[1]) > 0.95 for _ in range(500)]))
    assert abs(observed - wrong[1]) <= 5 * math.sqrt(wrong[1] / 500)
    assert abs(observed - right[1]) > 5 * math.sqrt(right[1] / 500)
