"""What is judged: a mechanism, its claim and its inputs; and the first runs of the user's code."""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import math
import os
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from veridp.budget import check, time_left
from veridp.claim import Claim
from veridp.errors import BadInput, BadOutput, MechanismFailed
from veridp.kernel.output import Raised, output_of
from veridp.mechanism import Mechanism
from veridp.sampling.blocks import Reading
from veridp.sampling.outputs import Outputs
from veridp.sampling.plan import Order
from veridp.sampling.sample import check_returns, sample

# ---------------------------------------------------------------------------------------------------------------- case
# What is to be judged: a mechanism, its claim, the inputs that count.


@dataclass(frozen=True)
class AuditCase:
    """A mechanism and its claim, for inputs of a size; `alpha` is the false-alarm rate that all engines share."""

    mechanism: Mechanism
    claim: Claim
    size: int
    alpha: float
    seed: int

    @classmethod
    def of(cls, mechanism: Mechanism, size: int | None, alpha: float, seed: int) -> AuditCase:
        """The case of a mechanism as it is bound; BadInput where there is nothing to judge."""
        mechanism = mechanism.stating(size=size)
        mechanism.bound()  # an error if arguments are missing
        claim = mechanism.claim
        if claim is None:
            raise BadInput(f"{mechanism.name} has no claim; state one with epsilon=…, or --epsilon")
        if math.isinf(claim.epsilon) or claim.delta == 1:
            finite = "a finite epsilon and a delta below 1" if claim.notion is None else "less"
            raise BadInput(f"{claim} holds for every function; claim {finite}")
        if not isinstance(alpha, Real) or not 0 < alpha < 1:
            raise BadInput(f"alpha must be in (0, 1), got {alpha!r}")
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise BadInput(f"seed must be an integer >= 0, got {seed!r}")
        return cls(mechanism, claim, int(mechanism.size), alpha, int(seed))

    def of_size(self, size: int) -> AuditCase:
        """The same case for inputs of another size, which remains an assumption where it was one."""
        if size == self.size:
            return self
        return replace(self, mechanism=replace(self.mechanism, size=size), size=size)

    @property
    def leaves_size_open(self) -> bool:
        """Whether nobody said how large data are, and they may be of another size."""
        relation = self.mechanism.adjacency
        return "size" in self.mechanism.assumed and not relation.single and not relation.lists_inputs

    @property
    def example(self) -> object:
        """An ordinary input."""
        return self.mechanism.adjacency.example(self.size, self.mechanism.domain)

    @property
    def scope(self) -> str:
        """The neighbours that a proof speaks of."""
        relation = self.mechanism.adjacency
        return f"for {relation}" if relation.lists_inputs else f"for all neighbours under {relation}, size {self.size}"

    def seed_of(self, stage: int) -> int:
        """A seed of its own for each stage."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(stage,)).generate_state(1)[0])

    def defined_at(self) -> tuple[str, int]:
        """The file and line where the author's function begins; nothing where that is not known."""
        function = inspect.unwrap(self.mechanism.function)
        try:
            return inspect.getsourcefile(function) or "", inspect.getsourcelines(function)[1]
        except (TypeError, OSError, IndexError):  # no source, or one that has changed
            return "", 0


# --------------------------------------------------------------------------------------------------------------- pilot
# The first runs of the user's code, which show what is wrong with it as code.


RUNS = 16
PAIRS = 8  # of neighbours, on one of which it has to return something where it does not on an ordinary input

_forks = 0  # of this process, since this module was loaded


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_count_fork)


def run_once(case: AuditCase) -> Outputs:
    """What the mechanism returns in one run, in all of the time that is left; MechanismHung if it does not return.

    The same whenever it is called, unless the mechanism keeps state or its noise cannot be seeded. Raises what else one
    run shows: it prints, or forks.
    """
    mechanism, limit = case.mechanism, max(time_left(), 1e-3)
    reading = Reading.ONE_BY_ONE if mechanism.vectorised is None else Reading.VECTORISED
    order = Order(mechanism, copy.deepcopy(case.example), 1, case.seed_of(0), reading, None, 1, limit, None)
    with _watched(mechanism.name):
        outputs: Outputs = order.job(reading).run(0)
    return outputs


def run_again(case: AuditCase) -> None:
    """Run the mechanism a few times; raises what is wrong with it: it fails, prints, forks or returns None.

    Only one that raises, or returns None, on every input that is tried fails: elsewhere both are outputs. Raises
    CutShort where the limit in force leaves no time for so many runs.
    """
    mechanism = case.mechanism
    plain = None if mechanism.vectorised is not None else "one-by-one"  # what is wrong with it shows on plain runs
    with _watched(mechanism.name):
        outputs = sample(
            mechanism,
            case.example,
            RUNS,
            case.seed_of(0),
            reading=plain,
            workers=1,
            time_limit=None,
            progress=lambda *_: check(),
        )
    counts = outputs.distinct()
    if any(output is not None and not isinstance(output, Raised) for output in counts):
        return
    pairs = itertools.islice(mechanism.adjacency.pairs(case.size, mechanism.domain), PAIRS)
    inputs = [*(side for pair in pairs for side in (pair.left, pair.right)), case.example]
    if set(counts) == {None} and not _means_none(mechanism):
        function, rng = mechanism.bound(), np.random.default_rng(case.seed_of(0))
        if all(output_of(function, rng, copy.deepcopy(data)) is None for data in inputs):
            raise BadOutput(f"{mechanism.name} returns None; return the released value")
    elif set(counts) != {None}:
        check_returns(mechanism, inputs, None)


def _means_none(mechanism: Mechanism) -> bool:
    """Whether its author wrote that None is one of several outputs."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(mechanism.function))))
    except (OSError, TypeError, SyntaxError):
        return False
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    written = [any(map(_is_none, ast.walk(value))) for value in values]
    return any(written) and not all(map(_is_none, values))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Raises MechanismFailed if the mechanism of this name, run in the body, forks or prints."""
    process, forks = os.getpid(), _forks
    with _captured() as written:
        yield
    if os.getpid() != process:  # a child that came back out of the mechanism
        os._exit(0)
    if _forks != forks:
        raise MechanismFailed(f"{name} forks: a copy of the process keeps the data; do not fork")
    if written:
        raise MechanismFailed(f"{name} prints {written[0]!r}: printed text is released too; remove the print")


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
