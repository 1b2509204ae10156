"""Where the noise comes from: a seed that is used again and again, or entries that share their noise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from veridp.audit.case import AuditCase
from veridp.claim import Remark
from veridp.errors import VeridpError
from veridp.kernel.site import Site, here
from veridp.sampling.sample import sample

RUNS = 3  # in which a seed that does not follow from rng shows
COMPARED = 32  # outputs in which two entries are compared
SPREAD_TOLERANCE = 1e-9  # the spread of a difference without noise, relative to the noise of its parts


def reused_noise(case: AuditCase) -> list[Remark]:
    """Remarks on noise that is the same in every run, or the same in two entries of the output.

    A mechanism without remarks may have such faults all the same: this is a look, not a proof.
    """
    return [*_fixed_seeds(case), *_shared_noise(case)]


def _fixed_seeds(case: AuditCase) -> list[Remark]:
    runs = [_seeds_of_a_run(case, run) for run in range(RUNS)]
    fixed = set.intersection(*map(set, runs))
    return [
        Remark(f"its noise is seeded with {seed} in every run, so it is always the same", site.file, site.line)
        for site, seed in sorted(fixed, key=lambda entry: (entry[0].file, entry[0].line))
    ]


def _seeds_of_a_run(case: AuditCase, run: int) -> list[tuple[Site, str]]:
    """The places that seed a generator in one run, and the seeds that they use."""
    seen: list[tuple[Site, str]] = []
    function, rng = case.mechanism.bound(), np.random.default_rng([case.seed, run])
    with _watched(seen):
        try:
            function(rng, case.example)
        except Exception:  # classes are watched by standing in for them, which some code notices
            return []
    return seen


@contextmanager
def _watched(seen: list[tuple[Site, str]]) -> Iterator[None]:
    """Records every seed, other than None, that NumPy or `random` is given."""

    def record(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        seed = next(iter([*arguments, *named.values()]), None)
        if isinstance(seed, int | float | str | bytes | tuple | list):
            seen.append((here(), repr(seed)))

    def function(original: Any) -> Any:
        def watched(*arguments: Any, **named: Any) -> Any:
            record(arguments, named)
            return original(*arguments, **named)

        return watched

    def kind(original: Any) -> Any:
        class Watched(original):  # type: ignore[misc]
            def __init__(self, *arguments: Any, **named: Any) -> None:
                record(arguments, named)
                super().__init__(*arguments, **named)

        return Watched

    with (
        patch.object(np.random, "default_rng", function(np.random.default_rng)),
        patch.object(np.random, "seed", function(np.random.seed)),
        patch.object(np.random, "RandomState", kind(np.random.RandomState)),
        patch.object(random, "seed", function(random.seed)),
        patch.object(random, "Random", kind(random.Random)),
    ):
        yield


def _shared_noise(case: AuditCase) -> list[Remark]:
    """Whether two numeric entries of the output always differ by the same amount, though each of them varies."""
    try:
        outputs = sample(case.mechanism, case.example, COMPARED, case.seed_of(4), workers=1)
        numbers = outputs.matrix().astype(float)
    except (VeridpError, ValueError, TypeError):
        return []
    if np.isnan(numbers).any() or numbers.shape[1] < 2 or np.all(numbers == np.round(numbers)):
        return []
    spread = numbers.std(axis=0)
    for first in range(numbers.shape[1]):
        differences = (numbers - numbers[:, [first]]).std(axis=0)
        same = (differences <= SPREAD_TOLERANCE * spread[first]) & (spread > 0)
        same[: first + 1] = False
        if same.any():
            second = int(np.flatnonzero(same)[0])
            sentence = f"entries {first} and {second} of the output carry the same noise: their difference has none"
            return [Remark(sentence, *case.defined_at())]
    return []
