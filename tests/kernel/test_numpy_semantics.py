"""Random programs over NumPy's functions: what stand-ins compute is what plain NumPy computes, or is refused.

A program is a list of lines such as `x3 = np.logical_or(x1, x0 > 0.5)`. Lines that fail in a plain run on typical
draws are mostly left out, so that few programs end early.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadOutput, ExplorationDisagrees, MechanismFailed, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine
from veridp.kernel.output import Raised
from veridp.kernel.path import Fork, Path, leaves
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.symbols import Symbol, value_of
from veridp.mechanism import as_mechanism
from veridp.sampling import batch as batched
from veridp.sampling.batch import batch_outputs
from veridp.sampling.tape import Unfit

PROGRAMS = 360
RUNS = 12

# ------------------------------------------------------------------------------------------------- random programs

DRAWS = [
    "rng.laplace()", "rng.laplace(1, 2.0)", "rng.laplace(size=2)", "rng.laplace(size=(2, 2))", "rng.normal(size=3)",
    "rng.laplace(np.array([0.5, 1]), 1.0)", "rng.exponential(size=2)", "rng.random()", "rng.random(2)",
    "rng.uniform(-1, 1, size=2)", "rng.gumbel(size=2)", "rng.geometric(0.5)", "rng.geometric(0.5, size=2)",
    "rng.geometric(0.5, size=(2, 2))", "rng.poisson(2.0, size=2)", "rng.poisson(1.0)", "rng.integers(3)",
    "rng.integers(-1, 2, size=2)", "rng.integers(0, 1, endpoint=True)", "rng.choice(3)", "rng.choice([0.5, 2])",
    "rng.choice([True, False], size=2)", "rng.choice([1, 2, 3], size=2, replace=False)", "rng.choice(3, size=2)",
    "rng.choice([False, 3], p=[0.25, 0.75])", "rng.permutation(3)", "rng.permutation([0.5, 1])", "rng.binomial(2, 0.5)",
    "rng.binomial(2, 0.5, size=2)", "rng.choice(2, size=2, replace=False, shuffle=False)",
    "rng.integers(3, dtype=np.int8)", "rng.laplace(0, 0)", "rng.standard_normal()", "rng.choice([[1, 2], [3, 4]])",
]  # fmt: skip
CONSTANTS = [
    "0", "1", "2", "-1", "0.5", "1.5", "True", "False", "np.float64(0.5)", "np.int64(2)", "np.True_", "np.bool_(False)",
    "np.array([1, 2])", "np.array([0.5, -1])", "np.array([True, False])", "np.array([[1, 0], [2, 1]])", "[1, 0]",
    "np.int8(3)", "np.float32(0.5)", "np.arange(3)", "2**62", "np.array([2**62, 1])", "[True, False]", "[0.5, 2]",
]  # fmt: skip
BINARY = [
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** {}", "{} & {}", "{} | {}", "{} ^ {}",
    "{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} == {}", "{} != {}", "{} @ {}",
    "np.add({}, {})", "np.subtract({}, {})", "np.multiply({}, {})", "np.divide({}, {})", "np.maximum({}, {})",
    "np.minimum({}, {})", "np.fmax({}, {})", "np.logical_and({}, {})", "np.logical_or({}, {})",
    "np.logical_xor({}, {})", "np.bitwise_or({}, {})", "np.less({}, {})", "np.greater_equal({}, {})",
    "np.not_equal({}, {})", "np.where({} > 0, {}, 2)", "np.where({}, 1, {})", "np.clip({}, 0, {})", "np.dot({}, {})",
    "np.isclose({}, {})", "np.multiply.outer({}, {})", "np.add.outer({}, {})", "max({}, {})", "min({}, {})",
    "np.array([{}, {}])", "np.stack([{}, {}])", "np.concatenate([{}, {}])", "[{}, {}]", "({} or {})", "({} and {})",
    "np.append({}, {})", "put({}, {})", "add_in_place({}, {})", "np.power({}, {})", "np.hstack([{}, {}])",
    "np.floor_divide({}, {})", "np.outer({}, {})", "({} if {} else 3)", "np.column_stack([{}, {}])",
]  # fmt: skip
UNARY = [
    "~{}", "-{}", "+{}", "abs({})", "not {}", "int({})", "bool({})", "round({})", "{} > 0", "{} < 0.5", "{} >= 1",
    "{} == 1", "{} != 0", "{} * 2", "{} + 1", "{} - 0.5", "{} * 0", "{} + True", "2 * {}", "1 - {}", "{} / 2",
    "np.logical_not({})", "np.invert({})", "np.negative({})", "np.positive({})", "np.abs({})", "np.floor({})",
    "np.rint({})", "np.ceil({})", "np.isnan({})", "np.isfinite({})", "np.sum({})", "np.mean({})", "np.max({})",
    "np.min({})", "np.argmax({})", "np.argmin({})", "np.any({})", "np.all({})", "np.cumsum({})", "np.median({})",
    "np.sort({})", "np.count_nonzero({})", "np.diff({})", "np.round({})", "np.ravel({})", "np.flip({})", "np.sign({})",
    "{}.sum()", "{}.sum(axis=0)", "{}.sum(axis=-1, keepdims=True)", "{}.max()", "{}.max(axis=0)", "{}.max(initial=1)",
    "{}.min(axis=-1)", "{}.mean()", "{}.mean(axis=0)", "{}.argmax()", "{}.argmax(axis=0)", "{}.argmin(axis=-1)",
    "{}.any()", "{}.all(axis=0)", "{}.cumsum()", "{}.cumsum(axis=0)", "{}.clip(0, 1)", "{}.round()", "{}.tolist()",
    "{}.astype(int)", "{}.astype(float)", "{}.astype(bool)", "{}.astype(np.int8)", "{}.astype(np.uint8)",
    "{}.astype(np.float32)", "{}.T", "{}.ravel()", "{}.copy()", "{}.item()", "{}[0]", "{}[-1]", "{}[::-1]", "{}[1:]",
    "{}[{0} > 0]", "np.add.reduce({})", "np.maximum.reduce({})", "np.add.accumulate({})", "np.logical_or.reduce({})",
    "np.multiply.reduce({})", "sum({})", "max({})", "min({})", "sorted({})", "any({})", "all({})", "list({})",
    "len({})", "np.asarray({})", "np.where({} > 0)[0]", "np.nonzero({})[0]", "np.zeros_like({})", "np.argsort({})",
    "np.sum({}, dtype=float)", "np.max({}, axis=0, keepdims=True)", "np.sum({}, where=[True, False])", "{}.std()",
    "np.exp({})", "np.sqrt({})", "np.percentile({}, 50)", "np.unique({})", "{}.reshape(-1)", "{}.prod()",
    "float({})", "np.array({})", "np.array({}, dtype=float)", "{} - {0}", "({} > 0) + ({0} > 1)",
    "({} > 0) - ({0} > 1)",
    "({} > 0) * ({0} < 1)", "~({} > 0)", "-({} > 0)", "({} > 0).sum()", "({} > 0).astype(int)", "sum({} > 0)",
    "({} > 0) & ({0} < 1)", "({} > 0) | ({0} < -1)", "({} > 0) ^ ({0} > 1)", "np.sum([{} > 0, {0} > 1], axis=0)",
    "np.array([{} > 0, {0} > 1])", "({} > 0) & 1", "({} > 0) / 2", "({} > 0) // 1",
    "np.ptp({})", "np.nan_to_num({})", "np.nanmean({})", "np.nansum({}, axis=0)", "np.nanmax({})", "np.nanstd({})",
    "np.pad({}, 1)", "np.pad({}, (1, 0), constant_values=1.5)", "np.pad({}, 1, mode='edge')", "np.ediff1d({})",
    "np.trapezoid({})", "np.rot90(np.atleast_2d({}))", "np.resize({}, 3)", "np.extract([True, False], {})",
    "np.compress([True, False], {})", "np.dstack([{}, {0}])", "np.block([{}, {0}])", "np.meshgrid({}, {0})[1]",
    "np.roll({}, 1)", "np.vectorize(lambda x: x * 2 + 1)({})",
    "np.fromiter((x for x in np.ravel({})), float)", "np.full_like({}, 2)",
    "np.ones_like({}, float) + {0}", "np.sum({}, dtype=int)", "np.mean({}, dtype=float)", "np.cumsum({}, dtype=float)",
    "{}.var()", "{}.std(axis=0)", "{}.var(axis=-1)", "np.fix({})", "np.around({}, 1)", "np.real({})", "np.int_({})",
    "np.float64({})", "np.float_power({}, 2)", "np.logaddexp({}, 0)", "np.copysign({}, -1)", "np.copysign(2.0, {})",
    "np.einsum('i->', {})", "np.einsum('i,i', {}, [1, 2])", "np.inner({}, {0})", "np.vdot({}, [1, 2])",
    "np.bincount([0, 1], weights={})", "np.polyval([1, 2], {})", "np.polyval({}, 2.0)", "np.cross({}, [1, 2, 3])",
    "np.sort({}, axis=None)", "np.select([{} > 0], [{0}], default=1)", "np.percentile({}, [50])",
    "np.allclose({}, 0)", "np.array_equal({}, {0} * 2)", "np.array_equal({}, {0})", "put_mask({})", "copy_to({})",
    "{}.trace()", "put_plain({})", "np.insert({}, 1, 0.5)", "np.insert({}, [0], {0})", "np.quantile({}, 0.5)",
]  # fmt: skip


def put(array: Any, value: Any) -> Any:
    array = array.copy()
    array[0] = value
    return array


def add_in_place(array: Any, value: Any) -> Any:
    array = array.copy()
    array += value
    return array


def put_mask(array: Any) -> Any:
    array = array.copy()
    np.putmask(array, array < 0, 0.5)
    return array


def put_plain(array: Any) -> Any:
    target = np.zeros(3)
    np.put(target, [1], 2.5)
    np.copyto(target[1:], 7.0)
    return target + np.ravel(array)[0]


def copy_to(array: Any) -> Any:
    target = np.zeros(np.shape(array))
    np.copyto(target, array)
    return target


@dataclass(frozen=True)
class Program:
    """Lines of code, and which of their values are returned."""

    lines: tuple[str, ...]
    returned: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join([*self.lines, f"return [{', '.join(self.returned)}]"])

    def function(self) -> Callable[..., Any]:
        body = [*self.lines, f"return [{', '.join(self.returned)}]"]
        scope: dict[str, Any] = {"np": np, "put": put, "add_in_place": add_in_place}
        scope |= {"put_mask": put_mask, "copy_to": copy_to, "put_plain": put_plain}
        code = "def mechanism(rng, data):\n" + "\n".join(f"    {line}" for line in body)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            exec(compile(code, f"<{self}>", "exec"), scope)  # noqa: S102 - made of the phrases above alone
        return scope["mechanism"]  # type: ignore[no-any-return]


def random_program(seed: int) -> Program:
    """A program whose lines work on typical draws, but for one in ten."""
    choose = random.Random(seed)
    lines = [f"x0 = {choose.choice(DRAWS)}", f"x1 = {choose.choice(DRAWS if choose.random() < 0.5 else CONSTANTS)}"]
    for _ in range(choose.randint(2, 5)):
        for _ in range(12):
            line = f"x{len(lines)} = {_expression(choose, len(lines))}"
            if choose.random() < 0.1 or _works((*lines, line)):
                lines.append(line)
                break
    count = min(len(lines), 3)
    return Program(tuple(lines), tuple(f"x{len(lines) - 1 - place}" for place in range(count)))


def _expression(choose: random.Random, known: int) -> str:
    names = [f"x{choose.randrange(max(0, known - 3), known)}" for _ in range(2)]
    if choose.random() < 0.25:
        names[choose.randrange(2)] = f"({choose.choice(CONSTANTS)})"
    form = choose.choice(UNARY if choose.random() < 0.6 else BINARY)
    return form.replace("{0}", names[0]).replace("{}", names[0], 1).replace("{}", names[1])


def _works(lines: tuple[str, ...]) -> bool:
    function = Program(lines, (f"x{len(lines) - 1}",)).function()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(np.random.default_rng(1), None)
    except Exception:
        return False
    return True


class Recorder(np.random.Generator):
    """Draws values of many magnitudes, not by their distributions, and records them as exploration counts them."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self._own = np.random.default_rng(seed)
        self.noises: list[float] = []
        self.choices: list[int] = []

    def _noise(self, low: float, high: float, whole: bool) -> Any:
        magnitude = 10.0 ** self._own.choice([-3, -1, 0, 0, 0, 1, 3])
        value = float(self._own.laplace()) * magnitude
        if high == 1.0 and low == 0.0:
            value = float(self._own.random())
        elif low >= 0.0:
            value = low + abs(value)
        self.noises.append(round(value) if whole else value)
        return self.noises[-1]

    def _shaped(self, draw: Callable[..., Any], size: Any, *parameters: Any, dtype: Any = float) -> Any:
        if size is None:
            shape = np.broadcast_shapes(*(np.shape(parameter) for parameter in parameters))
            if shape == ():
                return dtype(draw(*parameters))
        else:
            shape = (size,) if isinstance(size, int) else tuple(size)
        columns = [np.broadcast_to(parameter, shape) for parameter in parameters]
        values = [draw(*(column[place] for column in columns)) for place in np.ndindex(shape)]
        return np.array(values, dtype=dtype).reshape(shape)

    def _located(self, low: float, loc: Any, scale: Any, size: Any) -> Any:
        return self._shaped(
            lambda loc, scale: loc + self._noise(low, np.inf, False) if scale else loc, size, loc, scale
        )

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._located(-np.inf, loc, scale, size)

    normal = gumbel = laplace

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.normal(size=size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._located(0.0, 0.0, scale, size)

    def random(self, size: Any = None) -> Any:  # type: ignore[override]
        return self._shaped(lambda: self._noise(0.0, 1.0, False), size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self._shaped(lambda low, high: low + (high - low) * self._noise(0.0, 1.0, False), size, low, high)

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._shaped(lambda: self._noise(1.0, np.inf, True), size, dtype=int)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._shaped(lambda: self._noise(0.0, np.inf, True), size, dtype=int)

    def _chosen(self, count: int) -> int:
        self.choices.append(int(self._own.integers(count)))
        return self.choices[-1]

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._shaped(lambda: self._chosen(n + 1), size, dtype=int)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int, endpoint: bool = False) -> Any:  # type: ignore[override]
        first, last = (0, low) if high is None else (low, high)
        drawn = np.asarray(self._shaped(lambda: first + self._chosen(last + endpoint - first), size, dtype=int))
        return drawn.astype(dtype)[()]

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, shuffle: bool = True) -> Any:  # type: ignore[override]
        values = np.arange(a) if isinstance(a, int) else np.array(a)
        if size is None:
            value = values[self._chosen(len(values))]
            return int(value) if isinstance(a, int) else value
        left = list(range(len(values)))
        drawn = [left[self._chosen(len(left))] if replace else left.pop(self._chosen(len(left))) for _ in range(size)]
        return values[drawn]

    def permutation(self, x: Any) -> Any:  # type: ignore[override]
        return self.choice(x, size=x if isinstance(x, int) else len(x), replace=False)


# ------------------------------------------------------------------------------------- explored paths and batches


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
    values: dict[Symbol, Fraction] = dict(zip(path.noises, map(Fraction, rng.noises), strict=True))
    with np.errstate(all="ignore"):
        return all(condition.relation.holds(exactly(condition.slack, values)) for condition in path.conditions)


def exactly(expression: Affine, values: Mapping[Symbol, Fraction]) -> int | Fraction:
    """Its value: exact but for functions of the noise, which are computed in floats."""
    total = expression.constant
    for symbol, coefficient in expression.terms.items():
        value = value_of(symbol, values)
        total += coefficient * (value if math.isinf(value) or math.isnan(value) else Fraction(value))
    return total


def assert_same(program: Program, path: Path, rng: Recorder, output: Any) -> None:
    values: dict[Symbol, Fraction] = dict(zip(path.noises, map(Fraction, rng.noises), strict=True))
    with np.errstate(all="ignore"):
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
    return any(form in str(program) for form in ("np.array(", "np.asarray(", "= [", "np.sum([", "list("))


def divides(program: Program) -> bool:
    return "/" in str(program) or "divide" in str(program)


def same_number(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def explored(seed: int) -> str:
    """How the explored paths of a random program compare with plain runs of it, each of which follows one of them."""
    return compared(seed, random_program(seed))


def compared(seed: int, program: Program) -> str:
    """The same of any program."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            paths = explore(program.function(), None, max_paths=150)
    except NotExplorable:
        return "refused"
    for run in range(RUNS):
        rng = Recorder(1000 * seed + run)
        output = plain(program, rng)
        following = [path for path in paths if follows(path, rng)]
        if not following and divides(program):  # by 0: what is compared is NaN, of which nothing holds
            continue
        assert len(following) == 1, str(program)
        told = following[0].output
        if isinstance(told, Raised) or isinstance(output, Exception):
            if getattr(told, "type", None) != Raised.by(output).type if isinstance(output, Exception) else True:
                assert makes_arrays(program), (str(program), told, output)
                with pytest.raises(ExplorationDisagrees):  # no verdict rests on it
                    Listing.of(as_mechanism(program.function()), None, paths).replay()
                return "stopped by replay"
        else:
            assert_same(program, following[0], rng, output)
    return "agrees"


@pytest.mark.parametrize("part", range(6))
def test_explored_paths_compute_what_numpy_computes(part: int) -> None:
    told = [explored(seed) for seed in range(part, PROGRAMS, 6)]
    assert told.count("agrees") > len(told) / 3  # most are not refused


LATEST = UNARY[UNARY.index("np.ptp({})") :]


@pytest.mark.parametrize("phrase", LATEST)
def test_a_function_agrees_with_numpy_on_draws_of_every_kind(phrase: str) -> None:
    agreed = 0
    for draw in (*DRAWS[:4], "rng.normal(size=3)", "rng.geometric(0.5, size=2)", *DRAWS[16:18], DRAWS[20]):
        program = Program((f"x0 = {draw}", f"x1 = {phrase.replace('{0}', 'x0').replace('{}', 'x0')}"), ("x1", "x0"))
        if _works(program.lines):
            agreed += compared(7, program) == "agrees"
            batched_like_numpy(7, program)
    assert agreed


def batched_like_numpy(seed: int, program: Program | None = None) -> str:
    """How the batch reading of a random program compares with the plain function, on every row of it."""
    program = random_program(seed) if program is None else program
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch_outputs(program.function(), None, np.random.default_rng(seed), 25)
    except Unfit as unfit:
        reason = str(unfit)
    except (MechanismFailed, BadOutput):  # which are raised only where the plain function does so
        return "raises"
    else:
        return "agrees"
    differs = "on draws for which" in reason and "that of a batch is raises" not in reason  # which says no number
    assert not differs or makes_arrays(program), (str(program), reason)
    return "refused"


@pytest.mark.parametrize("part", range(3))
def test_batches_compute_what_numpy_computes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = batched._compare

    def compare_all(function: Any, data: Any, generator: Any, tape: Any, part: Any, row: int) -> None:
        for each in range(tape.size) if row == 0 else ():
            compare(function, data, generator, tape, part, each)

    monkeypatch.setattr(batched, "_compare", compare_all)
    told = [batched_like_numpy(seed) for seed in range(10_000 + part, 10_000 + PROGRAMS, 3)]
    assert told.count("agrees") > len(told) / 3


# ------------------------------------------------------------------------ arrays that NumPy makes of stand-ins

ARRAYS = {  # expressions over noisy x and y, and whether paths of them agree with plain runs
    "np.array([x > 0, y > 1]) + np.array([x > 1, y > 2])": True,
    "~np.array([x > 0, y > 1])": True,
    "np.array([x > 0, y > 1]) - np.array([True, False])": False,  # a stand-in raises TypeError, as NumPy does
    "np.array([x > 0, y > 1]).sum()": True,
    "np.array([x > 0, True]).sum()": True,
    "np.where(np.array([x > 0, y > 1]), np.array([x, y]), 0.0)": True,
    "np.asarray(np.array([x, y]) + rng.laplace(size=2), dtype=object) > 1": True,
    "np.asarray(rng.geometric(0.5, size=2), dtype=object) > 1": False,
    "np.array([[x, y], [y, x]]).sum(axis=0)": True,
    "np.array([x, 1, 2.5]).max()": True,
    "np.array([x, y]) * np.array([x > 0, y > 0])": True,
    "np.array([x > 0, 1])": True,  # an integer array
    "np.array([x, True])": True,
    "np.array([x, y]) / 0 > 0": False,
    "np.array([x, y], dtype=float)": True,
    "np.isnan(np.array([x, y])).any()": True,
}


@pytest.mark.parametrize("expression", ARRAYS)
def test_arrays_that_numpy_makes_of_stand_ins_are_numpys_or_refused(expression: str) -> None:
    code = compile(expression, "<expression>", "eval")

    def function(rng: Any, data: Any) -> Any:
        x, y = data[0] + rng.laplace(), data[1] + rng.laplace()
        return eval(code, {"np": np, "rng": rng, "x": x, "y": y})  # noqa: S307

    def replayed() -> None:
        mechanism = as_mechanism(function)
        Listing.of(mechanism, [1.0, 2.0], explore(mechanism, [1.0, 2.0])).replay()

    with np.errstate(all="ignore"):
        if ARRAYS[expression]:
            replayed()
        else:
            with pytest.raises(NotExplorable):
                replayed()


def test_an_index_of_which_nothing_is_left_is_one_of_integers():
    def zeroed(rng, data):
        places, values = np.arange(2), np.ones(2)
        above = rng.laplace(size=2) >= 0
        values[places[above]] = 0.0
        return values.tolist()

    found = explore(zeroed, None)
    assert sorted(path.output for path in found) == [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
