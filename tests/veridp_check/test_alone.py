"""The checker stands alone: the standard library is all it needs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veridp
import veridp_check
from veridp.engines.prove import prove, prove_for_every_size
from veridp_check.checker import KINDS

PACKAGE = Path(veridp_check.__file__).parent


@veridp.mechanism(epsilon=1.2, adjacency="any", domain=(-1.0, 1.0), size=1)
def noisy_sign(rng, value):
    return 1 if rng.random() < (2 + value) / 4 else -1


@veridp.mechanism(epsilon=1.0, adjacency="any", domain=[0, 1], size=1)
def flipped_bit(rng, bit):
    return 1 - bit if rng.random() < 0.25 else bit


@veridp.mechanism(epsilon=1.0, adjacency="l1", size=3)
def noisy_sum(rng, data):
    total = 0.0
    for value in data:
        total += value
    return total + rng.laplace()


@veridp.mechanism(epsilon=1.0, delta=0.05, adjacency="any", domain=[0, 1], size=1)
def sometimes_told(rng, bit):
    if rng.random() < 0.05:
        return bit
    return 1 - bit if rng.random() < 0.25 else bit


@veridp.mechanism(epsilon=2.0, delta=1e-3, adjacency="l1", size=1)
def normal_number(rng, data):
    return data[0] + rng.normal(scale=2.0)


@veridp.mechanism(epsilon=2.0, adjacency="l1", domain=(0.0, 1.0), size=2)
def positive_sum(rng, data):
    while True:
        noisy = sum(data) + rng.laplace(scale=1.0)
        if noisy > 0:
            return noisy


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=(0.0, 1.0), size=2)
def sampled_sum(rng, data):
    return sum(x for x in data if rng.random() < 0.25) + rng.laplace(scale=1.0)


@veridp.mechanism(epsilon=3.0, delta=1e-4, adjacency="add-remove", domain=(-2, 2), size=1)
def rounds_of_sums(rng, data):
    w = 0.5
    for _ in range(2):
        gradient = sum(np.clip(w - x, -1, 1) for x in data if rng.random() < 0.25)
        w -= 0.1 * (gradient + rng.normal(scale=2.0))
    return w


PROOFS: dict[str, Callable[[], Any]] = {
    "alignment": lambda: prove(noisy_sum),
    "approximate": lambda: prove(sometimes_told),
    "bounds": lambda: prove(noisy_sign),
    "composition": lambda: prove(sampled_sum),
    "coupling": lambda: prove(flipped_bit),
    "divergence": lambda: prove(normal_number),
    "induction": lambda: prove_for_every_size(veridp.catalogue["svt1"]),
    "redrawn": lambda: prove(positive_sum),
    "rounds": lambda: prove(rounds_of_sums),
}


def test_it_imports_the_standard_library_and_itself_alone() -> None:
    for module in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            roots = {name.split(".")[0] for name in names}
            assert roots <= {"veridp_check", *sys.stdlib_module_names}, module.name


def alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m veridp_check` where no package is installed."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-S", "-m", "veridp_check", *arguments]
    return subprocess.run(  # noqa: S603 - this Python
        command, capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_verified_without_a_package(kind: str, tmp_path: Path) -> None:
    certificate = PROOFS[kind]().certificate
    assert certificate["kind"] == kind
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    right.write_text(json.dumps(certificate), encoding="utf-8")
    wrong.write_text(json.dumps({**certificate, "epsilon": "1/1000"}), encoding="utf-8")
    done = alone(str(right))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{right}: verified: ")
    done = alone(str(wrong), str(right))
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{wrong}: rejected at /" in done.stdout


def test_what_is_no_certificate_is_told_apart_from_a_false_one(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    done = alone(str(tmp_path / "other.json"), str(tmp_path / "missing.json"))
    assert done.returncode == 2
    assert "not a certificate" in done.stderr
    assert "No such file" in done.stderr
    assert alone("--help").stdout.startswith("usage: python -m veridp_check")
