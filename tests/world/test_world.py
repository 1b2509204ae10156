"""What is proved or computed of mechanisms that nobody wrote for veridp never contradicts their derivations."""

import importlib
import math
from pathlib import Path
from typing import Any

import pytest

import veridp
from veridp.errors import VeridpError

from .entry import ENTRIES, Entry

for _file in sorted(Path(__file__).parent.glob("*.py")):
    if not _file.stem.startswith(("_", "test_", "entry")):
        importlib.import_module(f"{__package__}.{_file.stem}")

MOST_SECONDS = 10.0  # of one proof or search: past this it has no answer, which contradicts nothing
EVERY = 9  # of these mechanisms one is tried here; benchmarks/world.py audits them all
ROUNDING = 1e-9


def claimed(entry: Entry) -> veridp.Mechanism:
    settings: dict[str, Any] = {"adjacency": entry.adjacency, "domain": entry.domain, "size": entry.size}
    stated = {name: value for name, value in settings.items() if value is not None}
    return veridp.mechanism(epsilon=entry.claim, **stated)(entry.target)


@pytest.mark.parametrize("entry", ENTRIES[::EVERY], ids=lambda entry: entry.name)
def test_no_proof_is_below_the_truth_and_no_witness_above_it(entry: Entry) -> None:
    mechanism = claimed(entry)
    try:
        proved = veridp.prove(mechanism, seconds=MOST_SECONDS).epsilon
    except VeridpError:
        proved = math.inf
    assert proved >= entry.truth * (1 - ROUNDING) - ROUNDING
    try:
        found = veridp.exact.worst(mechanism, max_pairs=4, seconds=MOST_SECONDS).epsilon
    except VeridpError:
        found = 0.0
    assert found <= entry.truth * (1 + ROUNDING) + ROUNDING


def test_every_mechanism_has_a_derivation_and_a_name_of_its_own() -> None:
    assert len(ENTRIES) >= 80
    functions = [getattr(entry.target, "__func__", entry.target) for entry in ENTRIES]
    names = [(function.__module__, entry.name) for entry, function in zip(ENTRIES, functions, strict=True)]
    assert len(set(names)) == len(ENTRIES)
    assert [entry.name for entry, function in zip(ENTRIES, functions, strict=True) if not function.__doc__] == []
    phrased = {entry.phrasing_of for entry in ENTRIES if entry.phrasing_of is not None}
    assert phrased <= {entry.name for entry in ENTRIES}
