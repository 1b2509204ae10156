"""Without the packages of an extra, veridp does what it can, and names the extra where it cannot."""

from __future__ import annotations

import importlib
import sys

import pytest

import veridp
from veridp.errors import BadInput, MissingExtra
from veridp.verdict import Standing

COMPILING = ("compiled", "compiled_loop", "checked")


@pytest.fixture
def without_sklearn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.ensemble"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in COMPILING:
        monkeypatch.delitem(sys.modules, f"veridp.sampling.{name}", raising=False)


def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)


@pytest.mark.usefixtures("without_sklearn")
def test_an_attack_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"attacks by classifiers need sklearn; .* pip install 'veridp\[attack\]'"):
        veridp.sniper.search(halved, 1)


@pytest.mark.usefixtures("without_sklearn")
def test_an_audit_attacks_by_simple_models_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 1_000)
    monkeypatch.setattr(sniper, "FINAL", 10_000)
    verdict = veridp.audit(halved, epsilon=1.0, size=1, black_box=True, seconds=600)
    assert verdict.standing is Standing.REFUTED
    (attack,) = [one.finding for one in verdict.evidence if one.engine == "sniper"]
    assert attack.startswith("ε >= 1.")
    assert verdict.witness is not None
    assert str(verdict.witness.event).startswith("output ")  # in words, not as a score
    assert verdict.caveats == (
        "no boosted trees were tried: attacks by classifiers need sklearn; "
        "install it with: pip install 'veridp[attack]'",
    )


@pytest.mark.usefixtures("without_numba")
def test_sampling_does_without_compiling() -> None:
    svt6 = veridp.catalogue["svt6"]
    outputs = veridp.sample(svt6, [1.0] * 10, 30_000, seed=1)
    assert outputs.reading != "compiled"
    with pytest.raises(BadInput, match=r"it needs numba; install it with: pip install 'veridp\[fast\]'"):
        veridp.sample(svt6, [1.0] * 10, 1000, seed=1, reading="compiled")
