"""Random programs that try to tell stand-ins from numbers: what replay lets pass, plain runs must not contradict.

The check is made here once more, with nothing of the replay's own: a generator that records NumPy's draws, the paths'
conditions evaluated at these draws, and the outputs compared. What is sampled in batches is compared with plain runs.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import random
import secrets
import threading
import time
import types
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest

from veridp.errors import VeridpError
from veridp.kernel.distributions import Distribution, exact
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Exponential, Laplace, Normal, Uniform
from veridp.kernel.output import Raised
from veridp.kernel.path import Path, leaves
from veridp.kernel.replay.agreement import Listing
from veridp.mechanism import as_mechanism
from veridp.sampling.sample import sample

PROGRAMS = 2_000
BATCHES = 8  # of tests, for several processes
SAMPLED = 400  # programs that are sampled
SAMPLES = 400  # of each
PLAIN_RUNS = 12  # of every program that passes
DATA = [1.0, 2.0]

# Statements over x and y (noisy numbers) and c (a constant); each ends in a return or falls through.
NUMBERS = ["x", "y", "x + y", "2 * x - 1", "abs(x)", "max(x, y)", "min(x, c)", "sorted([x, y])[0]", "float(data[0])"]
NOTICING = [
    "(x > c) is True",
    "(x > c) is not False",
    "type(x) is float and x > c",
    "type(x) is not float",
    "type(x) in (int, float)",
    "type(x > c) is not bool",
    "isinstance(x, float) and x > c",
    "isinstance(x, (int, str))",
    "isinstance(rng, np.random.Generator) and x > c",
    "not isinstance(rng, np.random.Generator)",
    "type(rng) is np.random.Generator",
    "type(rng).__module__.startswith('veridp')",
    "x is y",
    "x + 0 is x",
    "hasattr(x, 'terms')",
    "hasattr(x, 'hex') and x > c",
    "callable(getattr(rng, 'noise', None))",
    "len(repr(type(x))) > 15",
    "x.__class__ is not float",
    "[x > c].count(True) == 1",
    "(x > c) == True",
    "True if x > c else False",
    "not (x > c or y > c)",
    "c < x < c + 2",
    "{True: 'a', False: 'b'}[bool(x > c)] == 'a'",
    "np.isfinite(x) and x > c",
    "x != x",
    "bool(x)",
]
SELECTING = [  # without a branch: the number that is compared, or the noise that is drawn, depends on what is noticed
    "c = [c, 2 * c + 1][type(x) is float]",
    "c += len(repr(type(x))) > 15",
    "y = x + rng.laplace(scale=[1.0, 4.0][type(x) is float])",
    "y = y + rng.normal(scale={True: 1.0, False: 2.0}[hasattr(x, 'terms')])",
    "y = x + [rng.laplace, rng.normal][type(x) is float]()",
    "x = x * [1.0, 1.0, 2.0][(type(x) is float) + (type(c) is float)]",
]
RISKY = [
    "float(x)", "int(x)", "x.hex()", "x.is_integer()", "math.floor(x)", "math.sqrt(abs(x))", "x ** 2", "x * y",
    "x // 1", "x % 1", "round(x)", "round(x, 2)", "str(x)", "f'{x:.2f}'", "{x: 1}", "hash(x)", "x + math.inf",
    "x - math.nan", "np.percentile([x, y], 50)", "np.array([x, y])[np.array([x, y]) > c]", "np.sqrt(abs(x))",
    "np.zeros(2).__setitem__(0, x)", "np.array([x, y], dtype=float)", "range(x)", "[1, 2][x > c]", "x / 0",
    "math.exp(x)", "x.real", "x.terms", "x['a']", "x()", "np.sort([x, y])[0]", "np.cumsum([x, y])[1]",
    "np.mean([x, y])", "divmod(x, 2)", "complex(x)", "int(x > c)", "x @ y",
]  # fmt: skip
STATES = [
    "seen.append(1)", "COUNTER['n'] += 1", "program.runs = getattr(program, 'runs', 0) + 1", "BOX.n += 1",
    "random.random()", "np.random.random()", "secrets.randbelow(3)", "time.perf_counter_ns()",
    "next(TICKS)", "CACHED(0).append(1)", "BUFFER.write('.')", "WINDOW.append(1)",
    "LOCAL.n = getattr(LOCAL, 'n', 0) + 1", "DICE.random()",
    "COUNTER['n'] += type(x) is float", "MODULE.n = getattr(MODULE, 'n', 0) + 1",
]  # fmt: skip
STATE_TESTS = [
    "len(seen) > 3", "COUNTER['n'] % 5 == 4", "getattr(program, 'runs', 0) > 30", "BOX.n > 2", "False",
    "len(CACHED(0)) > 50", "BUFFER.tell() > 50", "len(WINDOW) > 3", "getattr(MODULE, 'n', 0) > 100",
]  # fmt: skip
HANDLERS = ["Exception", "BaseException", "(TypeError, AttributeError)", "ValueError", "ArithmeticError"]


class Box:
    n = 0


def source(rng: random.Random) -> str:
    """A function with a few statements, at least one of which is out for a difference."""
    lines = [
        "def program(rng, data, seen=[]):",
        f"    c = {rng.choice(['0', '1.5', '-2.0', '1e3', '5'])}",
        f"    x = data[0] + rng.{rng.choice(['laplace()', 'normal(scale=2.0)', 'laplace(scale=0.5)'])}",
        f"    y = {rng.choice(['data[1] + rng.laplace()', 'rng.normal()', 'x - data[1]', 'rng.exponential()'])}",
    ]
    for _ in range(rng.randint(1, 3)):
        lines += ["    " + line for line in statement(rng)]
    return "\n".join([*lines, f"    return {result(rng)}"])


def statement(rng: random.Random) -> list[str]:
    kind = rng.random()
    if kind < 0.35:
        return [f"if {rng.choice(NOTICING)}:", f"    return {result(rng)}"]
    if kind < 0.45:
        return ["match x > c:", f"    case {rng.choice(['True', 'False', 'bool()'])}:", f"        return {result(rng)}"]
    if kind < 0.77:
        caught, body = (
            rng.choice(HANDLERS),
            rng.choice(["y = 0", f"return {result(rng)}", "pass", "y = 1 if x > c else y"]),
        )
        tried = rng.choice(["{}", "z = {}", "return {}"]).format(rng.choice(RISKY))
        return ["try:", f"    {tried}", f"except {caught}:", f"    {body}"]
    if kind < 0.85:
        return [rng.choice(SELECTING), f"if x > c or y > {rng.choice(['c', '2.5'])}:", f"    return {result(rng)}"]
    if kind < 0.93:
        return [rng.choice(STATES), f"if {rng.choice(STATE_TESTS)}:", f"    return {result(rng)}"]
    return [f"y = {rng.choice(NUMBERS)}"]


def result(rng: random.Random) -> str:
    return rng.choice([*NUMBERS, "data[0]", "[x > c, y]", "'#'", "None", "x > c", "(x, 'x')", "[x, data[1]]"])


def compiled(text: str) -> Any:
    names: dict[str, Any] = {
        "__name__": "program", "np": np, "math": math, "random": random, "secrets": secrets, "time": time,
        "COUNTER": {"n": 0}, "BOX": Box(), "TICKS": itertools.count(), "BUFFER": io.StringIO(),
        "LOCAL": threading.local(), "CACHED": functools.lru_cache(lambda key: []), "WINDOW": deque(),
        "DICE": random.Random(1), "MODULE": types.ModuleType("module"),
    }  # fmt: skip
    exec(text, names)  # noqa: S102
    return names["program"]


class Recording(np.random.Generator):
    """NumPy's own draws, written down without their location (which these programs do not use), and from what."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.draws: list[float] = []
        self.distributions: list[Distribution] = []

    def _kept(self, value: float, distribution: Distribution) -> float:
        self.draws.append(value)
        self.distributions.append(distribution)
        return value

    def laplace(self, loc: float = 0.0, scale: float = 1.0) -> float:  # type: ignore[override]
        return self._kept(super().laplace(loc, scale), Laplace(exact(scale)))

    def normal(self, loc: float = 0.0, scale: float = 1.0) -> float:  # type: ignore[override]
        return self._kept(super().normal(loc, scale), Normal(exact(scale)))

    def random(self, size: Any = None) -> float:  # type: ignore[override]
        return self._kept(super().random(), Uniform())

    def exponential(self, scale: float = 1.0) -> float:  # type: ignore[override]
        return self._kept(super().exponential(scale), Exponential(exact(scale)))


def contradiction(program: Any, paths: tuple[Path, ...], seed: int) -> str | None:
    """What a plain run on genuine draws does that its path does not say; None where they agree."""
    rng = Recording(seed)
    try:
        output = as_mechanism(program).bound()(rng, list(DATA))  # what it draws elsewhere is drawn from rng
    except Exception as error:
        output = Raised.by(error)
    for path in paths:
        if [noise.distribution for noise in path.noises] != rng.distributions:
            continue
        values: dict[Any, float] = dict(zip(path.noises, rng.draws, strict=True))
        if path.holds(values):
            told, seen = leaves(path.output), leaves(output)
            if len(told) == len(seen) and all(same(a, b, values) for a, b in zip(told, seen, strict=True)):
                return None
            return f"{output!r} where the path says {path} at {rng.draws}"
    return f"{output!r} on {rng.draws}, where no path holds"


def same(told: Any, seen: Any, values: dict[Any, float]) -> bool:
    if isinstance(told, Affine):
        number = isinstance(seen, int | float) and not isinstance(seen, bool)
        return number and math.isclose(told.evaluate(values), seen, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(told, bool) or isinstance(seen, bool) or told is None or isinstance(told, str):
        return type(told) is type(seen) and told == seen
    return bool(told == seen)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_plain_run_contradicts_paths_that_were_replayed(batch):
    passed = contradicted_without = 0
    for number in range(batch, PROGRAMS, BATCHES):
        text = source(random.Random(number))
        try:
            program = compiled(text)
            mechanism = as_mechanism(program)
            paths = explore(mechanism, DATA)
        except VeridpError:
            continue
        try:
            Listing.of(mechanism, DATA, paths).replay(runs=3, seed=number)
        except VeridpError:
            contradicted_without += 1
            continue
        passed += 1
        for seed in range(PLAIN_RUNS):
            found = contradiction(program, paths, seed)
            assert found is None, f"program {number}, seed {seed}: {found}\n{text}"
    # The programs are what they should be: many pass, and replay is what stops many others.
    assert passed >= PROGRAMS / BATCHES / 8
    assert contradicted_without >= PROGRAMS / BATCHES / 20


def plain_output(program: Any, rng: np.random.Generator) -> Any:
    try:
        return program(rng, list(DATA))
    except Exception as error:
        return Raised.by(error)


def kinds(outputs: Any) -> Counter[Any]:
    """How often outputs of each kind came about: numbers by their side of 0.7, all else by what it is."""

    def kind(leaf: Any) -> Any:
        return (type(leaf).__name__, leaf > 0.7) if isinstance(leaf, float) else (type(leaf).__name__, str(leaf))

    return Counter(tuple(map(kind, leaves(output))) for output in outputs)


@pytest.mark.slow
def test_batches_of_hostile_programs_are_distributed_as_plain_runs():
    batches = 0
    for number in range(SAMPLED):
        text = source(random.Random(number))
        try:
            outputs = sample(compiled(text), list(DATA), SAMPLES, seed=number, workers=1)
        except VeridpError:
            continue
        if outputs.reading != "batch":
            continue
        batches += 1
        program, rng = compiled(text), np.random.default_rng(number)
        sampled, plain = kinds(outputs), kinds(plain_output(program, rng) for _ in range(SAMPLES))
        for kind in sampled | plain:
            share = (sampled[kind] + plain[kind]) / (2 * SAMPLES)
            room = 7 * math.sqrt(2 * SAMPLES * share * (1 - share)) + 3  # false alarm: below 1e-9 for each
            assert abs(sampled[kind] - plain[kind]) <= room, f"program {number}: {kind}: {sampled}, {plain}\n{text}"
    assert batches >= SAMPLED / 4
