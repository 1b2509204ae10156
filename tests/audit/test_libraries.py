"""Audits of real objects of OpenDP and diffprivlib: the examples."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diffprivlib import mechanisms as ibm

import veridp
from veridp.audit import explored
from veridp.claim import Claim
from veridp.target import load
from veridp.verdict import Standing

EXAMPLES = Path(__file__).parents[2] / "examples"
KEPT = {
    "opendp_mechanisms.py": "laplace geometric gaussian randomized_response noisy_max clamped_sum",
    "diffprivlib_mechanisms.py": "laplace geometric gaussian exponential binary truncated clamped_sum",
}
BROKEN = [
    ("opendp_mechanisms.py", "wrong_sum", 10 / 3),
    ("diffprivlib_mechanisms.py", "unclamped_sum", 5.0),
    ("diffprivlib_mechanisms.py", "overclaimed", 2.0),
]


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 500)
    monkeypatch.setattr(sniper, "FINAL", 5_000)
    monkeypatch.setattr(explored, "MAX_PAIRS", 16)
    monkeypatch.setattr(explored, "ascend", lambda findings: None)  # climbs add nothing to what exact pairs show here


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in KEPT.items() for name in names.split()])
def test_what_libraries_claim_is_not_refuted(file: str, name: str) -> None:
    """A right mechanism is refuted by chance in 1 of 1000 audits at most; OpenDP's noise cannot be seeded."""
    verdict = veridp.audit(load(f"{EXAMPLES / file}:{name}"), seconds=2.0, alpha=1e-3)
    assert verdict.standing is not Standing.REFUTED
    assert verdict.epsilon.lower <= verdict.claim.epsilon * (1 + 1e-9)


EXPONENTIAL: dict[str, Any] = {"sensitivity": 1, "utility": [0, 0, 0]}


@pytest.mark.parametrize(
    "machine",
    [
        ibm.Exponential(epsilon=1, monotonic=True, **EXPONENTIAL),
        ibm.Exponential(epsilon=4, **EXPONENTIAL),  # near 1e-17, which floats near 1 do not know
    ],
)
def test_what_a_library_rounds_off_refutes_nothing_and_is_said(machine: Any) -> None:
    found = veridp.exact.worst(machine, max_pairs=16)
    assert 0.85 * machine.epsilon < found.epsilon
    verdict = veridp.audit(machine, seconds=600.0)
    assert verdict.standing is Standing.NOT_REFUTED
    assert verdict.epsilon.lower <= machine.epsilon
    (exact,) = [one.finding for one in verdict.evidence if one.engine == "exact"]
    assert ("as floats" in exact) == (machine.epsilon > 1)


@pytest.mark.parametrize(
    ("machine", "claimed"),
    [
        (ibm.Exponential(epsilon=4, **EXPONENTIAL), 3.0),
        (ibm.Exponential(epsilon=1, monotonic=True, **EXPONENTIAL), 0.9),
    ],
)
def test_what_exceeds_its_claim_beyond_rounding_is_refuted(machine: Any, claimed: float) -> None:
    verdict = veridp.audit(veridp.adapters.diffprivlib(machine, epsilon=claimed), seconds=600.0)
    assert verdict.standing is Standing.REFUTED
    assert claimed < verdict.epsilon.lower <= machine.epsilon
    assert verdict.witness is not None
    assert verdict.witness.left_probability.lower > 1e-12


def test_equal_numbers_are_not_hedged() -> None:
    for name in ("laplace", "noisy_max1"):
        verdict = veridp.audit(veridp.catalogue[name], size=1, seconds=600.0)
        assert verdict.standing is Standing.PROVED
        assert not any("but only" in one.finding or "show only" in one.finding for one in verdict.evidence)
    uniform = veridp.audit(ibm.Uniform(delta=0.1, sensitivity=1), seconds=600.0)  # δ(0) is 0.1, computed 0.1 + 8e-17
    assert uniform.epsilon.lower == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "true_epsilon"), BROKEN)
def test_wrong_uses_of_libraries_are_refuted(file: str, name: str, true_epsilon: float) -> None:
    verdict = veridp.audit(load(f"{EXAMPLES / file}:{name}"), seconds=600.0)
    assert verdict.standing is Standing.REFUTED
    assert verdict.claim.epsilon < verdict.epsilon.lower <= true_epsilon * (1 + 1e-9)


# ------------------------------------------------------------------------------------ a published mistake of a library


def permute_and_flip(rng: Any, scores: Any, *, scale: float = 1.0) -> int:
    """What `make_noisy_max` of OpenDP 0.15.1 ran under zCDP (github.com/opendp/opendp/issues/2911)."""
    best = max(scores)
    for candidate in rng.permutation(len(scores)):
        if rng.random() < math.exp((scores[candidate] - best) / scale):
            return int(candidate)
    raise AssertionError("the best score is kept with certainty")


def exponential_noise(rng: Any, scores: Any, *, scale: float = 1.0) -> int:
    """The same distribution (Ding et al., "The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max")."""
    return int(np.argmax(np.array(scores) + rng.exponential(scale, size=len(scores))))


@pytest.mark.parametrize("select", [permute_and_flip, exponential_noise])
def test_a_noisy_max_that_states_the_rho_of_the_exponential_mechanism_is_refuted_from_one_pair(select: Any) -> None:
    """ε²/8 holds for the exponential mechanism alone; this one is only ε-private, which implies ε²/2."""
    epsilon = 2.0  # two scores, each moves by 1 = scale, in opposite directions
    comparison = veridp.exact.compare(select, [0, 0], [1, -1])
    assert comparison.epsilon == pytest.approx(epsilon, abs=1e-9)
    kept = 1 - math.exp(-2) / 2  # the best of [1, -1] loses only if the other comes first and is kept
    assert comparison.renyi(2.0) == pytest.approx(math.log(0.25 / kept + 0.25 / (1 - kept)), abs=1e-9)
    assert comparison.refutes(Claim.stated(rho=epsilon**2 / 8))
    assert not comparison.refutes(Claim.stated(rho=epsilon**2 / 2))
    verdict = veridp.audit(select, rho=epsilon**2 / 8, pairs=[([0, 0], [1, -1])])
    assert verdict.standing is Standing.REFUTED
    assert verdict.witness is not None
    assert verdict.witness.confidence == 1  # computed, without samples


def test_the_exponential_mechanism_keeps_an_eighth_of_its_epsilon_squared() -> None:
    def gumbel_noise(rng: Any, scores: Any) -> int:
        return int(np.argmax(np.array(scores) + rng.gumbel(scale=1.0, size=len(scores))))

    for right in ([1, -1], [-1, 1]):
        comparison = veridp.exact.compare(gumbel_noise, [0, 0], right)
        assert 0.4 < comparison.rho < 0.5
        assert not comparison.refutes(Claim.stated(rho=0.5))
