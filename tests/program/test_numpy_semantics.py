"""Random programs over NumPy's functions: what stand-ins compute is what plain NumPy computes, or is refused."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from programs import Program, Recorder, random_program

from veridp.errors import BadOutput, MechanismFailed, NotExplorable
from veridp.program import batched
from veridp.program.affine import Affine
from veridp.program.batched import batch_outputs
from veridp.program.explore import explore
from veridp.program.path import Fork, Path, leaves
from veridp.program.symbols import Noise
from veridp.program.tape import Unfit

PROGRAMS = 360
RUNS = 12


def plain(program: Program, rng: Recorder) -> Any:
    """What the plain function returns, or the exception that it raises."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return program.function()(rng, None)
    except Exception as error:
        return error


def shape_of(output: Any) -> Any:
    if isinstance(output, np.ndarray):
        output = output.tolist()
    return [shape_of(entry) for entry in output] if isinstance(output, list | tuple) else None


def kind_of(leaf: Any) -> str:
    if isinstance(leaf, Affine):
        return leaf.kind
    return "b" if isinstance(leaf, bool) else "i" if isinstance(leaf, int) else "f"


def choices_of(path: Path) -> list[int]:
    return [step.taken for step in path.steps if isinstance(step, Fork) and step.option.label.startswith("choose")]


def follows(path: Path, rng: Recorder) -> bool:
    if len(path.noises) != len(rng.noises) or choices_of(path) != rng.choices:
        return False
    values = dict(zip(path.noises, map(Fraction, rng.noises), strict=True))
    return all(condition.relation.holds(exactly(condition.slack, values)) for condition in path.conditions)


def exactly(expression: Affine, values: dict[Noise, Fraction]) -> Fraction:
    return expression.constant + sum((c * values[symbol] for symbol, c in expression.terms.items()), Fraction(0))


def assert_same(program: Program, path: Path, rng: Recorder, output: Any) -> None:
    values = dict(zip(path.noises, map(Fraction, rng.noises), strict=True))
    told = [exactly(leaf, values) if isinstance(leaf, Affine) else leaf for leaf in leaves(path.output)]
    done = leaves(output)
    assert shape_of(path.output) == shape_of(output), str(program)
    kinds = [[kind_of(leaf) for leaf in some] for some in (leaves(path.output), done)]
    if makes_arrays(program):  # the entries of an array that NumPy made of stand-ins keep their own kinds of numbers
        kinds = [[{"i": "f"}.get(kind, kind) for kind in some] for some in kinds]
    assert kinds[0] == kinds[1], str(program)
    for one, other in zip(told, done, strict=True):
        scale = max([1.0, abs(other), *map(abs, rng.noises)])
        assert same_number(float(one), float(other)) or abs(float(one) - other) <= 1e-9 * scale, str(program)


def makes_arrays(program: Program) -> bool:
    """Whether it hands lists of stand-ins to NumPy, which makes object arrays of them that no stand-in controls."""
    return any(form in str(program) for form in ("np.array(", "np.asarray(", "= [", "np.sum(["))


def same_number(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def explored(seed: int) -> str:
    program = random_program(seed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            paths = explore(program.function(), None, max_paths=150)
    except NotExplorable:
        return "refused"
    except MechanismFailed as failed:
        if isinstance(
            failed.__cause__, AttributeError
        ):  # a stand-in has fewer methods than a NumPy scalar, and says so
            return "refused"
        outputs = [plain(program, Recorder(1000 * seed + run)) for run in range(60)]
        assert makes_arrays(program) or any(isinstance(output, Exception) for output in outputs), (str(program), failed)
        return "raises"
    for run in range(RUNS):
        rng = Recorder(1000 * seed + run)
        output = plain(program, rng)
        assert not isinstance(output, Exception), (str(program), output)
        following = [path for path in paths if follows(path, rng)]
        assert len(following) == 1, str(program)
        assert_same(program, following[0], rng, output)
    return "agrees"


@pytest.mark.parametrize("part", range(6))
def test_explored_paths_compute_what_numpy_computes(part: int) -> None:
    told = [explored(seed) for seed in range(part, PROGRAMS, 6)]
    assert told.count("agrees") > 40  # most are not refused


def batched_like_numpy(seed: int) -> str:
    """How the batch reading of a random program compares with the plain function, on every row of it."""
    program = random_program(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch_outputs(program.function(), None, np.random.default_rng(seed), 25)
    except Unfit as unfit:
        differs = "for which a batch returns" in str(unfit) or "where a batch does not" in str(unfit)
        assert not differs or makes_arrays(program), (str(program), unfit)
        return "refused"
    except (MechanismFailed, BadOutput):  # which are raised only where the plain function does so
        return "raises"
    return "agrees"


@pytest.mark.parametrize("part", range(3))
def test_batches_compute_what_numpy_computes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = batched._compare

    def compare_all(function: Any, data: Any, generator: Any, tape: Any, part: Any, row: int) -> None:
        for each in range(tape.size) if row == 0 else ():
            compare(function, data, generator, tape, part, each)

    monkeypatch.setattr(batched, "_compare", compare_all)
    told = [batched_like_numpy(seed) for seed in range(10_000 + part, 10_000 + PROGRAMS, 3)]
    assert told.count("agrees") > 40
