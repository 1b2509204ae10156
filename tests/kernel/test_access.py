"""Names of parts of outputs are what Python would write to reach them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.kernel.output import leaf_names
from veridp.kernel.returned import tree_of


@pytest.mark.parametrize(
    "output",
    [
        3.0,
        [1.0, 2.0],
        {"n": 1.0, "m": [2.0, 3.0]},
        [{"a": 1.0, "b": {"c": [2.0]}}, 3.0],
        {"x y": 1.0, "quo'te": (2.0, [3.0])},
        np.arange(6.0).reshape(2, 3),
        [[1.0, 2.0], [3.0, 4.0]],
    ],
)
def test_a_name_reaches_its_leaf(output: Any) -> None:
    leaves: list[Any] = []
    tree = tree_of(output, lambda value, kind: leaves.append(value) or value, lambda value: None)  # type: ignore[func-returns-value]
    names = [name for name in leaf_names(tree) if not name.startswith("key ")]
    assert [eval(name, {"output": output}) for name in names] == leaves  # noqa: S307


def both(rng: Any, data: Any) -> Any:
    return {"n": data[0] + rng.laplace(scale=0.5), "m": [1, data[1] + rng.laplace(scale=1)]}


@pytest.mark.parametrize("black_box", [False, True])
def test_events_of_verdicts_name_entries_of_dicts(black_box: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 1_000)
    monkeypatch.setattr(sniper, "FINAL", 10_000)
    options: dict[str, Any] = {"adjacency": "l1", "size": 2, "domain": (0, 1), "seconds": 120, "seed": 1}
    verdict = veridp.audit(both, 1.0, black_box=black_box, **options)
    assert verdict.witness is not None
    assert "leaf" not in str(verdict.witness.event)
    assert black_box or "output['n'] " in str(verdict.witness.event)
