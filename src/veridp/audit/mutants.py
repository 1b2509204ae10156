"""Mutants: weakened copies of a mechanism, to see which mistakes an audit by samples would catch."""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.engines.sniper import search
from veridp.errors import BadInput, VeridpError
from veridp.kernel.output import output_of
from veridp.mechanism import Mechanism, as_mechanism

SCALES = (0.9, 0.5)  # by which noise is weakened
MAX_REMOVED_DRAWS = 3
MAX_CHANGES = 6  # of each kind that rewrites code
RUNS_COMPARED = 200  # in which a mutant must differ from the original at least once, with the same random bits
SAMPLES, FINAL_SAMPLES = 4_000, 100_000  # of an audit of a mutant, which draws them one by one
SECONDS = 120.0

# ---------------------------------------------------------------------------------------------------------- generators
# Mutants of noise: the function is given a generator whose draws are weaker.


class WeakGenerator(np.random.Generator):
    """A generator whose noise has its scale multiplied, or one of whose draws gives no noise at all."""

    def __init__(self, rng: np.random.Generator, scale: float = 1.0, removed: int = -1) -> None:
        super().__init__(rng.bit_generator)
        self.scale, self.removed, self.draws = scale, removed, 0

    def weakened(self, noise: Any, location: Any = 0.0) -> Any:
        """The noise around its location, with the scale of this generator; each call counts as a draw."""
        self.draws += 1
        scale = 0.0 if self.draws - 1 == self.removed else self.scale
        return location + scale * (noise - location)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().laplace(loc, scale, size), loc)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().normal(loc, scale, size), loc)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().logistic(loc, scale, size), loc)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().gumbel(loc, scale, size), loc)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().exponential(scale, size))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self.weakened(super().standard_normal(size, dtype, out))

    def standard_exponential(self, *arguments: Any, **named: Any) -> Any:
        return self.weakened(super().standard_exponential(*arguments, **named))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().gamma(shape, scale, size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self.weakened(super().uniform(low, high, size), (np.asarray(low) + high)[()] / 2)

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Whole numbers stay whole: the noise beyond 1 is scaled by a larger p."""
        if self.draws == self.removed:
            return self.weakened(super().geometric(p, size), 1)
        self.draws += 1
        return super().geometric(1 - (1 - np.asarray(p)) ** (1 / self.scale), size)


@dataclass(frozen=True)
class _WithGenerator:
    """The function, given a weak generator."""

    function: Callable[[Any, Any], Any]
    scale: float = 1.0
    removed: int = -1

    def __call__(self, rng: np.random.Generator, data: Any) -> Any:
        return self.function(WeakGenerator(rng, self.scale, self.removed), data)


# ---------------------------------------------------------------------------------------------------------- code
# Mutants of code: one place in the function's source is changed.


class _Change(ast.NodeTransformer):
    """Changes the n-th place at which this kind of change is possible; `name` says which that was."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.found, self.name = wanted, 0, ""

    def changed(self, node: ast.expr, other: ast.expr, name: str) -> ast.expr:
        self.found += 1
        if self.found - 1 != self.wanted:
            return node
        self.name = f"{name} on line {node.lineno}"
        return ast.copy_location(other, node)


class _WithoutClip(_Change):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called.split(".")[-1] in ("clip", "clamp") and node.args:
            return self.changed(node, node.args[0], f"{called} removed")
        inner = node.args[0] if called in ("min", "max") and len(node.args) == 2 else None
        opposite = {"min": "max", "max": "min"}.get(called)
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == opposite and len(inner.args) == 2:
            return self.changed(node, inner.args[0], "clip by min and max removed")
        return node


class _LaterCutoff(_Change):
    """A count that ends a loop or a branch is compared with a limit one larger."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.GtE | ast.Gt | ast.Lt | ast.LtE | ast.Eq):
            return node
        limit = ast.BinOp(node.comparators[0], ast.Add(), ast.Constant(1))
        return self.changed(
            node, ast.Compare(node.left, node.ops, [limit]), f"cutoff of {ast.unparse(node)} off by one"
        )


def _rewritten(mechanism: Mechanism, kind: type[_Change]) -> Iterator[tuple[str, Mechanism]]:
    """The mechanism with one place in its source changed, place by place; nothing where the source cannot be run."""
    source = source_of(mechanism)
    if source is None:
        return
    tree, first = ast.parse(source), inspect.unwrap(mechanism.function).__code__.co_firstlineno
    for place in range(MAX_CHANGES):
        change = kind(place)
        changed = change.visit(copy.deepcopy(tree))
        if not change.name:
            return
        head, _, line = change.name.rpartition(" ")
        yield f"{head} {first + int(line) - 1}", with_code(mechanism, changed)


def source_of(mechanism: Mechanism) -> str | None:
    """The source of the mechanism's function, without indentation; None where it cannot be changed and run."""
    function = inspect.unwrap(mechanism.function)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        defined = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    return source if isinstance(defined, ast.FunctionDef) and not function.__code__.co_freevars else None


def with_code(mechanism: Mechanism, tree: ast.Module) -> Mechanism:
    """The mechanism with a changed definition of its function, among the same global names."""
    function, defined = inspect.unwrap(mechanism.function), tree.body[0]
    if isinstance(defined, ast.FunctionDef):
        defined.decorator_list = []
    names, text = dict(function.__globals__), ast.unparse(ast.fix_missing_locations(tree))
    file = f"<changed {mechanism.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # where engines look for its source
    exec(compile(text, file, "exec"), names)  # noqa: S102
    made = names[function.__name__]
    made.__kwdefaults__, made.__defaults__ = function.__kwdefaults__, function.__defaults__
    return replace(mechanism, function=made, vectorised=None, cost=None)


# ------------------------------------------------------------------------------------------------------------- mutants


@dataclass(frozen=True)
class Mutant:
    """A weakened copy of a mechanism, and what was changed."""

    change: str
    mechanism: Mechanism


@dataclass(frozen=True)
class MutantResult:
    """Whether samples refute the claim of a mutant, and after how many outputs."""

    change: str
    caught: bool
    drawn: int
    epsilon_lower: float
    finished: bool = True
    reason: str = ""  # why it could not be judged

    def __str__(self) -> str:
        if self.reason:
            return f"{self.change}: not judged: {self.reason}"
        found = f"caught after {self.drawn} outputs" if self.caught else f"not caught by {self.drawn} outputs"
        return f"{self.change}: {found}{'' if self.finished else ', cut short'}"


def mutants(mechanism: Mechanism | Callable[..., Any], **arguments: Any) -> list[Mutant]:
    """The weakened copies that differ from the mechanism: noise scaled, a draw or a clip removed, a cutoff off by one.

    A copy may still keep the claim: noise may be larger than needed, and a cutoff need not matter.
    """
    bound = as_mechanism(mechanism, **arguments)
    function = bound.bound()
    stated = replace(bound, arguments={}, vectorised=None, cost=None, **_claimed(bound))
    noisy = [(f"noise × {scale:g}", _WithGenerator(function, scale)) for scale in SCALES]
    noisy += [
        (f"noise draw {1 + place} removed", _WithGenerator(function, 1.0, place)) for place in range(_draws(bound))
    ]
    found = [Mutant(change, replace(stated, function=weak)) for change, weak in noisy]
    for kind in (_WithoutClip, _LaterCutoff):
        found += [Mutant(change, made) for change, made in _rewritten(bound, kind)]
    return [one for one in found if _differs(bound, one.mechanism)]


def audit_mutants(
    mechanism: Mechanism | Callable[..., Any],
    *,
    claim: Claim | None = None,
    seconds: float = SECONDS,
    alpha: float = 0.05,
    seed: int = 0,
    **arguments: Any,
) -> list[MutantResult]:
    """For each mutant, whether an audit by samples refutes the claim on it.

    Each gets the same work and an equal part of the `seconds` that are left.
    """
    bound = as_mechanism(mechanism, **arguments)
    claim = bound.claim if claim is None else claim
    if claim is None:
        raise BadInput(f"{bound.name} claims nothing that mutants could break; give epsilon=...")
    copies, deadline = mutants(bound), Deadline(seconds)
    return [_judged(one, claim, deadline.left / (len(copies) - n), alpha, seed) for n, one in enumerate(copies)]


def _judged(mutant: Mutant, claim: Claim, seconds: float, alpha: float, seed: int) -> MutantResult:
    try:
        result = search(
            mutant.mechanism,
            claim=claim,
            until_refuted=True,
            samples=SAMPLES,
            final_samples=FINAL_SAMPLES,
            confidence=1 - alpha,
            seconds=max(seconds, 1e-3),
            reading="one-by-one",
            seed=seed,
        )
    except VeridpError as error:
        return MutantResult(mutant.change, False, 0, 0.0, False, str(error))
    return MutantResult(mutant.change, result.refuted, result.drawn, result.epsilon_lower, result.finished)


def _claimed(mechanism: Mechanism) -> dict[str, Any]:
    """The mechanism's claim as numbers: a mutant has no arguments that it could depend on."""
    nothing = dict.fromkeys(("epsilon", "delta", "rho", "mu", "rdp", "tradeoff"))
    claim = mechanism.claim
    return nothing if claim is None else {**nothing, **claim.keywords}


def _example(mechanism: Mechanism) -> Any:
    return mechanism.adjacency.example(mechanism.size, mechanism.domain)


def _draws(mechanism: Mechanism) -> int:
    """How many draws of noise a run on the adjacency's example makes, as far as they are removed."""
    rng = WeakGenerator(np.random.default_rng(0))
    output_of(mechanism.bound(), rng, copy.deepcopy(_example(mechanism)))
    return min(rng.draws, MAX_REMOVED_DRAWS)


def _differs(mechanism: Mechanism, mutant: Mechanism) -> bool:
    """Whether some of a few runs with the same random bits give another output."""
    pairs = list(mechanism.adjacency.pairs(mechanism.size, mechanism.domain))
    inputs = [_example(mechanism), *(side for pair in pairs[:4] for side in (pair.left, pair.right))]
    for seed in range(RUNS_COMPARED):
        data = inputs[seed % len(inputs)]
        outputs = [
            repr(output_of(one.bound(), np.random.default_rng(seed), copy.deepcopy(data)))
            for one in (mechanism, mutant)
        ]
        if outputs[0] != outputs[1]:
            return True
    return False
