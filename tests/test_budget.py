"""Deadlines."""

from __future__ import annotations

import math
import time

import pytest

from veridp.budget import Deadline
from veridp.errors import BadInput


def test_a_deadline_passes() -> None:
    assert Deadline(10.0, started=time.monotonic() - 11).passed
    assert Deadline(10.0, started=time.monotonic() - 11).left == 0
    assert not Deadline(1000.0).passed
    assert not Deadline().passed
    assert Deadline().left == math.inf


def test_a_part_ends_before_the_whole() -> None:
    whole = Deadline(1000.0, started=time.monotonic() - 500)
    assert 200 < whole.part(0.5).left <= 250
    assert Deadline(1.0, started=time.monotonic() - 2).part(0.5).seconds > 0


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_no_time_is_an_error(seconds: float) -> None:
    with pytest.raises(BadInput, match="leaves no time"):
        Deadline(seconds)
