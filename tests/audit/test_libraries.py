"""Audits of real objects of OpenDP and diffprivlib: the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

import veridp
from veridp.claim import Standing
from veridp.target import load

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


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in KEPT.items() for name in names.split()])
def test_what_libraries_claim_is_not_refuted(file: str, name: str) -> None:
    """A right mechanism is refuted by chance in 1 of 1000 audits at most; OpenDP's noise cannot be seeded."""
    verdict = veridp.audit(load(f"{EXAMPLES / file}:{name}"), seconds=4.0, alpha=1e-3)
    assert verdict.standing is not Standing.REFUTED
    assert verdict.epsilon.lower <= verdict.claim.epsilon * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "true_epsilon"), BROKEN)
def test_wrong_uses_of_libraries_are_refuted(file: str, name: str, true_epsilon: float) -> None:
    verdict = veridp.audit(load(f"{EXAMPLES / file}:{name}"), seconds=15.0)
    assert verdict.standing is Standing.REFUTED
    assert verdict.claim.epsilon < verdict.epsilon.lower <= true_epsilon * (1 + 1e-9)
