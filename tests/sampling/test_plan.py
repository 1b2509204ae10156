"""How trials of a reading are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veridp
from veridp.sampling import plan
from veridp.sampling.plan import SharedTrials


def shifted(rng, data):
    return data[0] + rng.laplace()


def test_inputs_of_the_form_of_an_example_are_tried_on_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, made = [], plan._batch_job

    def noted(order: plan.Order, notes: list[str]) -> Any:
        tried.append(order.data)
        return made(order, notes)

    monkeypatch.setattr(plan, "_batch_job", noted)
    inputs = [[2.0], [3.0], [2], [2.0, 0.0], np.array([2.0]), np.array([3.0])]
    by_example, by_input = SharedTrials([[1.0]]), SharedTrials()
    for data in inputs:
        outputs = veridp.sample(shifted, data, 1_000, seed=1, trials=by_example)
        same = veridp.sample(shifted, data, 1_000, seed=1, trials=by_input)
        assert outputs.reading == same.reading == "batch"
        assert np.array_equal(outputs.matrix(), same.matrix())  # the data are those of the order, not of the example
    of_example = [data for data in tried if isinstance(data, list) and data == [1.0]]
    assert len(of_example) == 1  # once, for [2.0] and [3.0]; others have a form of their own
    assert len(tried) == 1 + 4 + len(inputs)
