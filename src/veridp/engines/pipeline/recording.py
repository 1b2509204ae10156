"""One run of a program on scripted noise: all that it drew, chose, decided and called, and what it returned."""
# mypy: disable-error-code="override"

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.budget import check
from veridp.engines.pipeline.primitives import Primitive, watched
from veridp.engines.pipeline.tracked import OBSERVER, Hiding, NoisyArray, NoisyFloat, marked, unmarked
from veridp.errors import INTERRUPTING, BadInput, CutShort
from veridp.kernel.distributions import Distribution
from veridp.kernel.output import Raised, failed
from veridp.kernel.replay.scripted import ScriptedGenerator, TooManyDraws
from veridp.kernel.site import MECHANISMS, VERIDP, Site, Trace, is_inner, is_users_code, raised_at, traced
from veridp.mechanism import Function, Mechanism
from veridp.mechanism.adapters.foreign import torch_seeded
from veridp.mechanism.randomness import ON_SEED, is_source

Array = NDArray[np.float64]
MAX_DRAWS = 200_000  # of one run
MAX_FROZEN = 2_000  # entries of a noisy array that are kept the same one by one
MAX_LEAVES = 20_000  # of one output
MAX_DEPTH = 8  # of containers within an output
OUT_OF_SIGHT = "{} draws its noise out of sight, so its runs cannot be aligned; use an engine that samples"
RECORDED = (
    "opendp",
    "pydp",
    "pipelinedp",
    "smartnoise",
)  # libraries whose objects are, or make, releases that are known as a whole
FIRST_UNUSED = 1 << 40  # seeds of draws that the left run does not have lie above


# -------------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class TrackedDraw:
    """A number drawn, without its location."""

    site: Site
    distribution: Distribution
    value: float

    @property
    def signature(self) -> tuple[object, ...]:
        return "noise", self.site, self.distribution.kind


@dataclass(frozen=True)
class Choice:
    """One of finitely many, by chance."""

    site: Site
    weights: tuple[float, ...]
    chosen: int

    @property
    def signature(self) -> tuple[object, ...]:
        return "choice", self.site, len(self.weights)


@dataclass(frozen=True, eq=False)
class Decision:
    """Noisy values that were compared, by how much they differed from what they were compared with."""

    site: Site
    differences: Array

    @property
    def signature(self) -> tuple[object, ...]:
        return "decision", self.site, self.differences.shape


@dataclass(frozen=True, eq=False)
class NoisyDecision(Decision):
    """The same of values that noise was added to before."""


@dataclass(frozen=True, eq=False)
class NoisyValue(Decision):
    """Values that noise was added to; the differences are the sums themselves."""

    parts: Hiding  # earlier sums, by their places among the events, that this one was made of

    @property
    def signature(self) -> tuple[object, ...]:
        return "value", self.site, self.differences.shape


@dataclass(frozen=True, eq=False)
class Coin(Decision):
    """Uniform draws that were compared with thresholds: choices by chance.

    A draw that was compared with several lies in a cell between two of them. The differences are where: the number of
    thresholds below the draw, and how far up in its cell it lies.
    """

    thresholds: Array
    drawn: Array  # the draws, which tell comparisons of the same one

    @property
    def signature(self) -> tuple[object, ...]:
        return "coin", self.site, self.differences.shape


@dataclass(frozen=True)
class UnknownDraw:
    """A draw from a distribution that is not modelled."""

    site: Site
    method: str

    @property
    def signature(self) -> tuple[object, ...]:
        return "unknown", self.site, self.method


RunEvent = TrackedDraw | Choice | Decision | UnknownDraw | Primitive


@dataclass(frozen=True, eq=False)
class Script:
    """What a run draws: new numbers by the seed, or those of another run, each moved by its shift."""

    seed: int
    draws: tuple[TrackedDraw, ...] = ()
    choices: tuple[Choice, ...] = ()
    primitives: tuple[Primitive, ...] = ()
    shifts: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def repeating(cls, run: ProgramRun, shifts: Array | None = None) -> Script:
        """The numbers of the run, moved."""
        moved = np.zeros(len(run.draws)) if shifts is None else shifts
        return cls(run.script.seed, run.draws, run.choices, run.primitives, moved)

    @classmethod
    def moving(cls, run: ProgramRun, place: int, by: float) -> Script:
        """The numbers of the run, one of them moved."""
        moves = np.zeros(len(run.draws))
        moves[place] = by
        return cls.repeating(run, moves)

    @classmethod
    def choosing(cls, run: ProgramRun, place: int, chosen: int) -> Script:
        """The numbers of the run, but for one choice, which is this one."""
        choices = (*run.choices[:place], replace(run.choices[place], chosen=chosen), *run.choices[place + 1 :])
        return cls(run.script.seed, run.draws, choices, run.primitives, np.zeros(len(run.draws)))


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """What happened in a run."""

    script: Script
    events: tuple[RunEvent, ...]
    leaves: Mapping[str, object]  # of the output, by their path
    raised: Raised | None
    raised_at: Site | None
    seeds: tuple[tuple[Site, str], ...]  # that the program gave to generators of its own
    repeated: tuple[tuple[Site, str], ...]  # that it drew, and gave to several
    trace: Trace | None = None
    places: tuple[int, ...] = ()  # of each event: how many blocks of code were entered before it

    @property
    def draws(self) -> tuple[TrackedDraw, ...]:
        return tuple(event for event in self.events if isinstance(event, TrackedDraw))

    @property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(event for event in self.events if isinstance(event, Choice))

    @cached_property
    def tossed(self) -> tuple[int, ...]:
        """Which of its draws were compared with thresholds."""
        values = {value for event in self.events if isinstance(event, Coin) for value in event.drawn.tolist()}
        return tuple(place for place, draw in enumerate(self.draws) if draw.value in values)

    @property
    def primitives(self) -> tuple[Primitive, ...]:
        return tuple(event for event in self.events if isinstance(event, Primitive))

    @property
    def way(self) -> tuple[object, ...]:
        """What was drawn, chosen and called, and how it ended, but for the numbers."""
        return *(event.signature for event in self.events), self.raised and self.raised.type

    def like(self, other: ProgramRun) -> bool:
        """Whether it went the same way and has the same output."""
        return self.way == other.way and repr(self.leaves) == repr(other.leaves)


# ------------------------------------------------------------------------------------------------------------- drawing


class TrackingGenerator(ScriptedGenerator):
    """A genuine generator that draws by a script and writes everything down."""

    __module__, __qualname__ = np.random.Generator.__module__, np.random.Generator.__qualname__

    def __init__(self, script: Script, marks: bool) -> None:
        super().__init__(np.random.PCG64(script.seed), self._noise, self._pick_one, MAX_DRAWS)
        self._script, self._marks, self.seed = script, marks, script.seed
        self._fresh = np.random.default_rng([script.seed, FIRST_UNUSED])
        self._own = np.random.default_rng(script.seed)
        self.events: list[RunEvent] = []
        self._counts = [0, 0, 0]  # noise, choices, primitives so far
        self._muted = False  # while a library draws for a release that is recorded as one
        self.followed: Trace | None = None
        self._cells: dict[float, tuple[int, float, float]] = {}  # of compared draws: thresholds below, and its ends
        self.repeated: list[tuple[Site, str]] = []  # seeds that were drawn once and given to a second generator
        self._taken: set[int] = set()
        self.places: list[int] = []  # of each event: how many blocks of code were entered before it

    def _record_event(self, event: RunEvent) -> None:
        if not self._muted:
            self.events.append(event)
            self.places.append(0 if self.followed is None else len(self.followed.blocks))

    def _noise(self, distribution: Distribution) -> float:
        if self._muted:
            return float(distribution.draw(self._fresh, 1)[0])
        place, script = self._counts[0], self._script
        self._counts[0] += 1
        if place < len(script.draws):
            value = script.draws[place].value + script.shifts[place]
            if distribution.integer:
                value = round(value)
        else:
            source = self._own if not script.draws else self._fresh
            value = distribution.draw(source, 1)[0].item()
        low, high = distribution.support
        value = min(max(value, low), high)
        self._record_event(TrackedDraw(users_site(), distribution, float(value)))
        return float(value) if not distribution.integer else int(value)

    def _pick_one(self, weights: Sequence[float]) -> int:
        if self._muted:
            return int(self._fresh.choice(len(weights), p=np.array(weights) / math.fsum(weights)))
        place, script = self._counts[1], self._script
        self._counts[1] += 1
        total = float(sum(weights))
        shares = tuple(float(weight) / total for weight in weights)
        if place < len(script.choices):
            chosen = min(script.choices[place].chosen, len(shares) - 1)
        else:
            chosen = int(self._own.choice(len(shares), p=np.array(shares) / sum(shares)))
        self._record_event(Choice(users_site(), shares, chosen))
        return chosen

    def primitive(self, call: Callable[[], Any], describe: Callable[[Any, Site], Primitive]) -> Any:
        """The release of a library: its own, or on a repeated run the one before."""
        place, script = self._counts[2], self._script
        self._counts[2] += 1
        old = script.primitives[place] if place < len(script.primitives) else None
        self._muted = True
        try:
            output = call() if old is None else old.output
        finally:
            self._muted = False
        self._record_event(describe(output, users_site()))
        return copy.deepcopy(output)  # the program may change what it gets

    # ---------------------------------------------------------------------------------------------------- decisions

    def decided(self, differences: Array, *, hiding: bool = False) -> None:
        kind = NoisyDecision if hiding else Decision
        self._record_event(kind(users_site(), np.atleast_1d(np.asarray(differences, dtype=float)).ravel()))

    def chance(self, thresholds: Array, drawn: Array) -> None:
        limits = np.clip(np.atleast_1d(np.asarray(thresholds, dtype=float)).ravel(), 0.0, 1.0)
        values = np.array(drawn, dtype=float, ndmin=1).ravel()  # copied: the program may write into its array
        places = [self._place_in_cell(*pair) for pair in zip(values.tolist(), limits.tolist(), strict=True)]
        self._record_event(Coin(users_site(), np.array(places), limits, values))

    def _place_in_cell(self, value: float, threshold: float) -> float:
        """Where a draw lies among the thresholds that it has met."""
        below, low, high = self._cells.get(value, (0, 0.0, 1.0))
        if threshold <= value:
            below, low = below + 1, max(low, threshold)
        else:
            high = min(high, threshold)
        self._cells[value] = below, low, high
        return below + (value - low) / (high - low) if high > low else float(below)

    def takes_as_seed(self, seed: Any) -> bool:
        """Whether a generator with this seed may draw from here; a second one repeats the numbers of the first."""
        taken = super().takes_as_seed(seed)
        if taken and int(seed) in self._taken:
            self.repeated.append((users_site(), repr(int(seed))))
            return False
        if taken:
            self._taken.add(int(seed))
        return taken

    def hidden(self, values: Array, before: Hiding) -> Hiding:
        if self._muted or values.size > MAX_FROZEN:
            return before
        self._record_event(NoisyValue(users_site(), np.array(values, ndmin=1).ravel(), before))
        return frozenset({len(self.events) - 1})

    # -------------------------------------------------------------------------------------------------------- marks

    def _located(self, kind: Any, loc: Any, scale: Any, size: Any) -> Any:
        if not np.all(np.isfinite(np.asarray(unmarked(scale), dtype=float))):
            raise NotFinite(f"the scale of {kind.__name__.lower()} noise is {scale!r}")
        drawn = self._marked(super()._located(kind, unmarked(loc), unmarked(scale), size))
        if self._marks and np.any(unmarked(loc)) and isinstance(drawn, NoisyFloat | NoisyArray):
            drawn.hiding = self.hidden(np.asarray(unmarked(drawn)), getattr(loc, "hiding", frozenset()))
        return drawn

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        unit = np.ndim(low) == np.ndim(high) == 0 and (low, high) == (0, 1)
        return self._marked(super().uniform(unmarked(low), unmarked(high), size), uniform=unit)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._marked(super().random(size, dtype, out), uniform=True)

    def _marked(self, value: Any, *, uniform: bool = False) -> Any:
        return marked(value, uniform=uniform) if self._marks else value

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, **_: Any) -> Any:
        """The mean plus a square root of the covariance times standard normal draws."""
        values, vectors = np.linalg.eigh(np.asarray(unmarked(cov), dtype=float))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shape = () if size is None else tuple(np.atleast_1d(size))
        return np.asarray(mean) + self.standard_normal((*shape, len(root))) @ root.T


class NotFinite(ValueError):
    """NumPy would draw NaN; a program that lets it happen is told so as by any other error."""


def _unknown(name: str) -> Callable[..., Any]:
    def draw(self: TrackingGenerator, *arguments: Any, **options: Any) -> Any:
        self._record_event(UnknownDraw(users_site(), name))
        return self._marked(getattr(self._fresh, name)(*map(unmarked, arguments), **options))

    draw.__name__ = name
    return draw


for _name in dir(np.random.Generator):
    _method = getattr(np.random.Generator, _name)
    if not _name.startswith("_") and callable(_method) and getattr(TrackingGenerator, _name) is _method:
        setattr(TrackingGenerator, _name, _unknown(_name))


def users_site() -> Site:
    """The innermost line of the program's own code that is being run; of a library's where none is."""
    frame: FrameType | None = sys._getframe(1)
    of_library: Site | None = None
    while frame is not None and frame.f_code is not Program.run.__code__:  # beyond it is whoever asked for the run
        file = frame.f_code.co_filename
        if not is_inner(frame):
            if is_users_code(file) or file.startswith(MECHANISMS):
                return Site(file, frame.f_lineno)
            if not file.startswith(VERIDP):
                of_library = of_library or Site(file, frame.f_lineno)
        frame = frame.f_back
    return of_library or Site("", 0)


# ------------------------------------------------------------------------------------------------------------- running


@dataclass(frozen=True)
class Program:
    """A mechanism that is run again and again."""

    mechanism: Mechanism
    function: Function

    @classmethod
    def of(cls, mechanism: Mechanism) -> Program:
        in_sight = getattr(mechanism.function, "in_sight", None)  # what an adapter wraps that has it sampled
        if in_sight is not None:
            return cls(mechanism, in_sight.bind(**mechanism.arguments).bound())
        source = getattr(mechanism.function, "source", None)  # of an adapter, whose noise is a library's own
        if getattr(source, "library", None) in RECORDED:
            return cls(mechanism, lambda _, data: source.outputs(data, 1)[0])  # type: ignore[union-attr]
        if hasattr(source, "outputs"):
            raise BadInput(OUT_OF_SIGHT.format(mechanism.name))
        return cls(mechanism, mechanism.bound())

    def run(self, data: Any, script: Script, *, marks: bool = True, follow: bool = False) -> ProgramRun:
        """What happens on the data with this script; with `follow` also the way through the user's code."""
        check()
        generator, seeds = TrackingGenerator(script, marks), list[tuple[Site, str]]()
        raised: Raised | None = None
        where: Site | None = None
        trace: Trace | None = None
        output: Any = None
        try:
            with _watching(generator, seeds, marks), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if follow:
                    with traced() as trace:
                        generator.followed = trace
                        output = self.function(generator, copy.deepcopy(data))
                else:
                    output = self.function(generator, copy.deepcopy(data))
        except TooManyDraws:
            raise BadInput(
                f"{self.mechanism.name} draws more than {MAX_DRAWS:,} numbers in a run; give smaller data"
            ) from None
        except (CutShort, *INTERRUPTING):
            raise
        except BaseException as error:  # the program's own: it is an output, too, unless it ends the program
            if not isinstance(error, Exception):
                raise failed(error, self.mechanism.name) from error
            if isinstance(error, AttributeError) and error.name == "refuse" and error.obj is generator:
                raise BadInput(OUT_OF_SIGHT.format(self.mechanism.name)) from None
            raised, where = Raised.by(error), raised_at(error.__traceback__)
        leaves = {} if raised is not None else dict(_leaves(output))
        events, repeated = tuple(generator.events), tuple(generator.repeated)
        return ProgramRun(script, events, leaves, raised, where, tuple(seeds), repeated, trace, tuple(generator.places))


@contextmanager
def _watching(generator: TrackingGenerator, seeds: list[tuple[Site, str]], marks: bool) -> Iterator[None]:
    def seeded(seed: object) -> None:
        if isinstance(seed, np.random.SeedSequence):
            seeds.append((users_site(), f"SeedSequence({seed.entropy}, spawn_key={seed.spawn_key})"))
        elif isinstance(seed, int | float | str | bytes | tuple | list | np.integer):
            seeds.append((users_site(), repr(seed)))

    tokens = ON_SEED.set(seeded), OBSERVER.set(generator if marks else None)
    try:
        with watched(generator.primitive), torch_seeded(generator.seed):
            yield
    finally:
        ON_SEED.reset(tokens[0])
        OBSERVER.reset(tokens[1])


# -------------------------------------------------------------------------------------------------------------- output


def _leaves(output: Any) -> Iterator[tuple[str, object]]:
    for count, leaf in enumerate(_parts(output, "output", 0)):
        if count >= MAX_LEAVES:
            raise BadInput(f"the output has more than {MAX_LEAVES:,} entries; return fewer")
        yield leaf


def _parts(value: Any, path: str, depth: int) -> Iterator[tuple[str, object]]:
    """The numbers and other plain values that the output is made of, each with its path."""
    if isinstance(value, NoisyFloat | NoisyArray):
        value = unmarked(value)
    if depth > MAX_DEPTH or value is None or isinstance(value, str | bytes | bool | np.bool_ | int | float | np.number):
        yield path, value.item() if isinstance(value, np.generic) else value
    elif isinstance(value, np.ndarray):
        yield f"{path}.shape", value.shape
        for index in np.ndindex(value.shape):
            where = ", ".join(map(str, index))
            yield from _parts(value[index], f"{path}[{where}]" if index else path, depth + 1)
    elif isinstance(value, Mapping):
        yield f"{path}.keys", tuple(sorted(map(repr, value)))
        for key in value:
            yield from _parts(value[key], f"{path}[{key!r}]", depth + 1)
    elif hasattr(value, "columns") and hasattr(value, "to_numpy"):
        yield f"{path}.columns", tuple(map(str, value.columns))
        for name in value.columns:
            yield from _parts(value[name], f"{path}[{name!r}]", depth + 1)
    elif hasattr(value, "index") and hasattr(value, "to_numpy"):
        yield f"{path}.index", tuple(map(str, value.index))
        yield from _parts(np.asarray(value.to_numpy()), path, depth + 1)
    elif hasattr(value, "__array__"):  # of PyTorch or JAX
        yield from _parts(np.asarray(value.detach() if hasattr(value, "detach") else value), path, depth)
    elif isinstance(value, set | frozenset):
        yield path, tuple(sorted(map(repr, value)))
    elif isinstance(value, Sequence):
        yield f"{path}.shape", (len(value),)
        for place, entry in enumerate(value):
            yield from _parts(entry, f"{path}[{place}]", depth + 1)
    elif hasattr(value, "__dict__") and not callable(value) and not is_source(value):
        yield f"type({path})", type(value).__name__
        for name, entry in vars(value).items():
            yield from _parts(entry, f"{path}.{name}", depth + 1)
    else:
        yield f"type({path})", type(value).__name__
