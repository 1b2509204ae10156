"""A first run of the user's code, in which everything that is wrong with it as code comes to light."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from veridp.audit.case import Case
from veridp.errors import BadOutput, MechanismFailed
from veridp.program.identity import Raised
from veridp.program.sample import check_returns, sample

RUNS = 16
PAIRS = 8  # of neighbours, on one of which it has to return where it only raises on an ordinary input
LONGEST = 30.0  # seconds for these runs

_forks = 0  # of this process, since this module was loaded


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_count_fork)


def run_once(case: Case, seconds: float) -> None:
    """Run the mechanism a few times; raises what is wrong with it: it fails, hangs, prints, forks or returns None.

    Only one that raises in every run fails: elsewhere an exception is an output.
    """
    name, process, forks = case.mechanism.name, os.getpid(), _forks
    plain = None if case.mechanism.vectorised is not None else "one-by-one"  # what is wrong with it shows on plain runs
    with _captured() as written:
        limit = min(LONGEST, seconds)
        outputs = sample(
            case.mechanism, case.example, RUNS, case.seed_of(0), reading=plain, workers=1, time_limit=limit
        )
    if os.getpid() != process:  # a child that came back out of the mechanism
        os._exit(0)
    if _forks != forks:
        raise MechanismFailed(f"{name} forks: a copy of the process, with the data, goes its own way; do without it")
    if written:
        raise MechanismFailed(
            f"{name} prints {written[0]!r}: whatever it prints is released beside its output; remove the print"
        )
    counts = outputs.distinct()
    if set(counts) == {None}:
        raise BadOutput(f"{name} returns None; let it return what it releases")
    if all(isinstance(output, Raised) for output in counts):
        pairs = case.mechanism.adjacency.pairs(case.size, case.mechanism.domain)
        sides = [side for pair in itertools.islice(pairs, PAIRS) for side in (pair.left, pair.right)]
        check_returns(case.mechanism, [*sides, case.example], min(LONGEST, seconds))


@contextmanager
def _captured() -> Iterator[list[str]]:
    """Collects what the body writes to stdout, by whatever means: the first line of it, if any."""
    lines: list[str] = []
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        original, sys.stdout = sys.stdout, os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
        try:
            yield lines
        finally:
            sys.stdout.close()
            sys.stdout = original
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            lines += file.read(200).decode("utf-8", "replace").splitlines()[:1]
