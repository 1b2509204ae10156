"""Which mechanisms a function calls: a composed function's release, as it runs.

A function that calls mechanisms is a mechanism itself. Each call of a `Mechanism` that claims something, made while it
runs, is a leaf; `part` tells which calls look at a part of the data of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from veridp.accounting.calibration import gaussian_scale
from veridp.accounting.mechanisms import BLOCKS
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.accounting.tree import DominatingPairs, GuaranteeBasis, Leaf, Parallel, ReleaseNode, Sequential
from veridp.errors import BadInput, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.identity import output_of
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.mechanism.declared import AROUND_CALLS

RUNS = 100  # of a function whose paths cannot be listed


def leaf_of_call(mechanism: Mechanism, data: Any) -> Leaf | None:
    """The leaf that a call amounts to; None where the mechanism claims nothing.

    Building blocks of `veridp.accounting.mechanisms` are known better than by their claim: one number with Laplace
    noise, and any with normal noise, by their losses.
    """
    claim = mechanism.claim
    if claim is None:
        return None
    block = BLOCKS.get(mechanism.name)
    if block is None or block.function is not mechanism.function:
        return Leaf.of(mechanism)
    pair: DominatingPair = Finite.claimed(claim.epsilon, claim.delta)
    if block.name == "laplace" and _single(data):
        pair = LaplacePair(claim.epsilon)
    elif block.name == "gaussian":
        pair = GaussianPair(1 / gaussian_scale(claim.epsilon, claim.delta))
    return Leaf(str(mechanism), DominatingPairs.both(pair), GuaranteeBasis.PROVED, claim=claim)


def _single(data: Any) -> bool:
    try:
        return len(data) == 1
    except TypeError:
        return True


@dataclass
class Recorder:
    """What was called so far: the node being written down, innermost last."""

    frames: list[list[ReleaseNode | dict[str, list[ReleaseNode]]]] = field(default_factory=lambda: [[]])
    signature: list[str] = field(default_factory=list)

    def called(self, mechanism: Mechanism, rng: Any, data: Any) -> Any:
        """Write the call down, then run it; what it calls in turn is its own affair."""
        leaf = leaf_of_call(mechanism, data)
        if leaf is None:
            return mechanism.function(rng, data, **mechanism.arguments)
        self.frames[-1].append(leaf)
        self.signature.append(leaf.name)
        return _unheard(mechanism, rng, data)

    @property
    def release(self) -> Sequential:
        return Sequential([_node(entry) for entry in self.frames[0]])


def _unheard(mechanism: Mechanism, rng: Any, data: Any) -> Any:
    token = AROUND_CALLS.set(None)
    try:
        return mechanism.function(rng, data, **mechanism.arguments)
    finally:
        AROUND_CALLS.reset(token)


def _node(entry: ReleaseNode | dict[str, list[ReleaseNode]]) -> ReleaseNode:
    if isinstance(entry, dict):
        return Parallel({name: Sequential(nodes) for name, nodes in entry.items()})
    return entry


RECORDER: ContextVar[Recorder | None] = ContextVar("RECORDER", default=None)
# By signature. A function that is explored must not change what it can reach: so they are kept here, not in a closure.
RELEASES: ContextVar[dict[tuple[str, ...], Sequential]] = ContextVar("RELEASES")


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder of the mechanisms that are called inside the block."""
    recorder = Recorder()
    heard, current = AROUND_CALLS.set(recorder.called), RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        AROUND_CALLS.reset(heard)
        RECORDER.reset(current)


@contextmanager
def part(name: str) -> Iterator[None]:
    """What is called inside the block looks at this part of the data alone, and no record is in two parts.

    It is taken at its word: `veridp.audit` finds out where parts overlap.
    """
    recorder = RECORDER.get()
    if recorder is None:
        yield
        return
    recorder.signature.append(f"part {name}(")
    recorder.frames.append([])
    try:
        yield
    finally:
        inside = Sequential([_node(entry) for entry in recorder.frames.pop()])
        recorder.signature.append(")")
        here = recorder.frames[-1]
        if not here or not isinstance(here[-1], dict):
            here.append({})
        parts = here[-1]
        assert isinstance(parts, dict)  # noqa: S101 - told to the type checker
        parts.setdefault(name, []).append(inside)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The releases that a function makes on its ways through it, each once; `every` tells whether these are all."""

    releases: tuple[Sequential, ...]
    every: bool


def releases_of(mechanism: Mechanism | Function, *data: Any, seed: int = 0, **arguments: Any) -> Recorded:
    """The releases of a composed function on these inputs: on all its paths, or on as many random runs as is usual.

    Nothing is said of inputs that were not given, nor of noise that the function draws, or data that it shows, past the
    mechanisms that it calls: what it costs in truth is for `veridp.exact` and `veridp.audit` to find out.
    """
    import numpy as np

    mechanism = as_mechanism(mechanism, **arguments)

    def recorded(rng: Any, given: Any) -> Any:
        with recording() as recorder:
            output = output_of(mechanism.bound(), rng, given)  # what was released before it raised counts too
        RELEASES.get()[tuple(recorder.signature)] = recorder.release
        return output

    every, found = True, dict[tuple[str, ...], Sequential]()
    outer = RELEASES.set(found)
    try:
        for number, given in enumerate(data):
            try:
                explore(Mechanism(recorded), given)
            except NotExplorable:
                every = False
                rng = np.random.default_rng([seed, number])
                for _ in range(RUNS):
                    recorded(rng, given)
    finally:
        RELEASES.reset(outer)
    if not found:
        raise BadInput(f"{mechanism}: no input to run it on; give at least one")
    return Recorded(tuple(found.values()), every)
