"""Paths of adaptive runs, read as noisy steps one after the other, on all records or on a random sample of them."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from veridp.engines.prove.cases import certified_word, interval_of
from veridp.engines.prove.events import entry_of, rational_arguments
from veridp.errors import NotExplorable
from veridp.kernel import functions as f
from veridp.kernel.distributions import Distribution
from veridp.kernel.explore import walk
from veridp.kernel.expressions import Affine, function_of, range_of, unknowns
from veridp.kernel.noise import Laplace, Normal
from veridp.kernel.output import Raised
from veridp.kernel.path import Fork, Path, Step, entries_of, leaves, outline_of
from veridp.kernel.releases import AdaptiveRun, KnownRelease, Released, in_order, is_of_data
from veridp.kernel.retries import rational_mass
from veridp.kernel.site import Site
from veridp.kernel.symbols import Derived, Noise, Symbol, Unknown, drawn_in
from veridp.kernel.text import NoisyText
from veridp.kernel.weights import Weight
from veridp.mechanism import Mechanism
from veridp.mechanism.declared import Adopting
from veridp_check.document import RECORDS

MAX_PATHS = 512  # of a mechanism that samples its records: 2^9
FIRST_PATHS = 3  # that are read before all are listed
ANY_RECORD = "*"
TOTAL = (f.PRODUCT, f.EXP, f.EXPM1, f.TANH, f.ARCTAN, f.SINH, f.ARCSINH, f.SIN, f.COS, f.CBRT)  # of all numbers
POWER = re.compile(r"\(·\)\*\*[1-9][0-9]*")


@dataclass(frozen=True)
class ReleaseStep:
    """A number that is released: its noise, and between which numbers lies what one record adds, for noise of factor
    1."""

    distribution: Distribution
    low: Fraction
    high: Fraction
    site: Site = field(compare=False)
    constant: Fraction = field(default=Fraction(0), compare=False)  # what is added beside the records, for this size

    def with_constant_of(self, larger: ReleaseStep) -> ReleaseStep:
        """The step, whose records also add what the constant of one record more has more."""
        more = larger.constant - self.constant
        return replace(self, low=self.low + more, high=self.high + more)


@dataclass(frozen=True)
class RecordSample:
    """With which probability a record takes part: each by itself, or where `fixed` so many of them."""

    rate: Fraction
    fixed: bool


@dataclass(frozen=True)
class StepReading:
    """One path: its probability, the records that take part, and by keys what it does with them and with its noise."""

    weight: Fraction
    records: frozenset[int]
    steps: tuple[ReleaseStep | None, ...]  # None where no record takes part
    functions: tuple[object, ...]  # of a record, for each step
    output: object


class StepOfRecords(NamedTuple):
    """A step, the records that take part in it, and the key of what each of them adds."""

    step: ReleaseStep
    records: frozenset[int]
    function: object


class NotSteps(Exception):
    """Raised where a path is not a list of steps."""


def chance_of(steps: Sequence[Step]) -> Fraction:
    """The probability of what these steps of a path ask and choose."""
    forks = [step for step in steps if isinstance(step, Fork)]
    chance = rational_mass([c for fork in forks if not fork.implied for c in fork.option.conditions])
    if chance is None:
        raise NotSteps
    for fork in forks:
        if isinstance(fork.option.weight, Weight):
            raise NotSteps
        chance *= Fraction(fork.option.weight)
    return chance


class PathReader:
    """Reads a path of an adaptive run; one in which all records take part, where it is `whole`."""

    def __init__(self, path: Path, whole: bool, names: dict[object, int], by_record: bool = False) -> None:
        self.path, self.whole, self.names = path, whole, names
        self.by_record = by_record  # whether keys tell records from each other
        self.asked = asked = {s for condition in path.conditions for s in drawn_in(condition.slack.terms)}
        if isinstance(path.output, Raised) or any(isinstance(s, Released) for s in asked):
            raise NotSteps
        drawn = [noise for noise in path.noises if noise not in asked]
        self.rank = {noise.index: rank for rank, noise in enumerate(drawn)}  # among the draws that decide nothing
        self.released: dict[int, Released] = {}
        self.plain: set[int] = set()  # noise that is seen without data
        self._keys: dict[int, tuple[object, object]] = {}  # of functions and released numbers, which are kept alive

    def read(self) -> StepReading:
        found, output = self.read_steps()
        if len({each.records for each in found.values()}) > 1:
            raise NotSteps
        ranks = range(len(self.rank))
        records = next((each.records for each in found.values()), frozenset[int]())
        steps = tuple(found[rank].step if rank in found else None for rank in ranks)
        functions = tuple(found[rank].function if rank in found else None for rank in ranks)
        return StepReading(chance_of(self.path.steps), records, steps, functions, output)

    def read_steps(self) -> tuple[dict[int, StepOfRecords], object]:
        """The steps, by which of the draws that decide nothing is their noise; and the key of the output."""
        entries = entries_of(self.path.output)
        if any(isinstance(leaf, NoisyText) for leaf in leaves(self.path.output)):
            raise NotSteps
        for symbol in in_order(leaf for leaf in entries if isinstance(leaf, Affine)):
            self._symbol(symbol)
        output = outline_of(self.path.output), tuple(self._leaf(leaf) for leaf in entries)
        if self.plain & self.released.keys():
            raise NotSteps
        return {self.rank[index]: self._step(released) for index, released in sorted(self.released.items())}, output

    def _leaf(self, leaf: Any) -> object:
        if not isinstance(leaf, Affine):
            return type(leaf), repr(leaf)
        if any(map(is_of_data, leaf.terms)):
            raise NotSteps
        return self.key(leaf)

    # ------------------------------------------------------------------------------------------------- keys
    # Equal for expressions that are equal once what records add to released numbers is left out, and whichever record
    # a function is of.

    def key(self, expression: Affine) -> object:
        constant, terms = self._expanded(expression)
        return constant, frozenset(terms.items())

    def _expanded(self, expression: Affine) -> tuple[Fraction, dict[object, Fraction]]:
        constant, terms = Fraction(expression.constant), dict[object, Fraction]()
        for symbol, c in expression.terms.items():
            own = self._symbol(symbol)
            if isinstance(own, _Base):
                constant += c * own.constant
                parts = own.terms
            else:
                parts = {own: Fraction(1)}
            for each, factor in parts.items():
                terms[each] = terms.get(each, Fraction(0)) + c * factor
        return constant, {name: c for name, c in terms.items() if c}

    def _symbol(self, symbol: Symbol) -> Any:
        known = self._keys.get(id(symbol))
        if known is None:
            new = self._new_key(symbol)
            name = new if isinstance(new, _Base) else self.names.setdefault(new, len(self.names))
            known = self._keys[id(symbol)] = (name, symbol)
        return known[0]

    def _new_key(self, symbol: Symbol) -> Any:
        if isinstance(symbol, Unknown):
            return "data", symbol.name if self.by_record else symbol.name.replace(symbol.record.name, ANY_RECORD)
        if isinstance(symbol, Derived):
            if not self.by_record and is_of_data(symbol) and not _is_total(symbol):
                raise NotSteps  # where it is no number, no clipping makes it one
            arguments = (self.key(a) if isinstance(a, Affine) else a for a in symbol.arguments)
            return "function", symbol.function.name, tuple(arguments)
        if isinstance(symbol, KnownRelease):
            return "known", self.key(symbol.total)
        if symbol in self.asked:
            raise NotSteps
        if not isinstance(symbol, Released):
            self.plain.add(symbol.index)
            return self._noise(symbol)
        before = self.released.setdefault(symbol.index, symbol)
        if before is not symbol and before != symbol:
            raise NotSteps  # the same noise on two different sums
        rest = {s: c for s, c in symbol.total.terms.items() if not is_of_data(s) and not symbol.hides(s)}
        constant, terms = self._expanded(Affine(symbol.total.constant, rest))
        noise = self.names.setdefault(self._noise(symbol), len(self.names))
        if self.whole:  # it may depend on how many records there are: then it is what these add
            constant -= Fraction(symbol.total.constant)
        return _Base(constant, {**terms, noise: Fraction(symbol.total.terms[_noise_of(symbol)])})

    def _noise(self, noise: Noise) -> object:
        return "noise", self.rank[noise.index], noise.distribution

    # ------------------------------------------------------------------------------------------------ steps

    def _step(self, released: Released) -> StepOfRecords:
        factor = Fraction(released.total.terms[_noise_of(released)])
        added: dict[Unknown, dict[Symbol, Any]] = {}
        for symbol, c in released.total.terms.items():
            if is_of_data(symbol):
                records = {s.record for s in drawn_in([symbol]) if isinstance(s, Unknown)}
                if len(records) > 1:
                    raise NotSteps
                added.setdefault(records.pop(), {})[symbol] = c
        forms = [Affine(0, terms) for terms in added.values()]
        keys = {self.key(form) for form in forms}
        if len(keys) != 1:
            raise NotSteps
        low, high = _range(forms[0])
        if low is None or high is None:
            raise NotSteps
        ends = sorted((Fraction(low) / factor, Fraction(high) / factor))
        constant = Fraction(released.total.constant) / factor if self.whole else Fraction(0)
        step = ReleaseStep(released.distribution, ends[0], ends[1], released.site, constant)
        return StepOfRecords(step, frozenset(map(entry_of, added)), keys.pop())


def _is_total(function: Derived) -> bool:
    """Whether it is a number whatever its arguments are."""
    of = function.function
    if of in (f.QUOTIENT, f.RECIPROCAL):
        divisor = function.arguments[-1]
        low, high = range_of(divisor) if isinstance(divisor, Affine) else (divisor, divisor)
        return (low is not None and low > 0) or (high is not None and high < 0)
    if of == f.SQRT:
        low, _ = range_of(function.arguments[0])
        return low is not None and low >= 0
    return of in TOTAL or of.name.startswith(("max(·, ", "min(·, ")) or POWER.fullmatch(of.name) is not None


@dataclass(frozen=True)
class _Base:
    """A released number without what records add to it."""

    constant: Fraction
    terms: dict[object, Fraction]


def _noise_of(released: Released) -> Noise:
    return next(s for s in released.total.terms if isinstance(s, Noise) and released.hides(s))


def _range(expression: Affine) -> tuple[Any, Any]:
    """Numbers that what a record adds lies between."""
    if any(isinstance(symbol, Derived) for symbol in expression.terms):
        return range_of(expression)
    ranges = [piece.range for piece in function_of(expression)]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def sample_of(drawn: Iterable[tuple[frozenset[int], Fraction]], size: int) -> RecordSample | None:
    """How the records that take part are chosen; None where all of them do. Raises NotSteps for other ways."""
    chances = Counter[frozenset[int]]()
    for records, weight in drawn:
        chances[records] += weight  # type: ignore[assignment]
    if set(chances) == {frozenset(range(size))}:
        return None
    rate = Fraction(sum(chance for records, chance in chances.items() if 0 in records))
    sizes = {len(records) for records in chances}
    if len(sizes) == 1:
        number = sizes.pop()
        alike = len(chances) == math.comb(size, number) and len(set(chances.values())) == 1
        if alike and rate == Fraction(number, size):
            return RecordSample(rate, True)
    expected = {
        frozenset(records): rate**number * (1 - rate) ** (size - number)
        for number in range(size + 1)
        for records in itertools.combinations(range(size), number)
    }
    if chances != expected:
        raise NotSteps
    return RecordSample(rate, False)


@dataclass(frozen=True)
class NoisySteps:
    """What a mechanism does with its records: steps, and a sample."""

    steps: tuple[ReleaseStep, ...]
    sample: RecordSample | None


def _steps(readings: Sequence[Sequence[StepReading]], sizes: Sequence[int]) -> NoisySteps:
    """What all paths of all sizes have in common."""
    everything = [reading for own in readings for reading in own]
    busy = [reading for reading in everything if reading.records]
    alike = {(reading.functions, reading.steps) for reading in busy}
    if len({reading.output for reading in everything}) != 1 or len(alike) != 1:
        raise NotSteps
    samples = {
        sample_of([(reading.records, reading.weight) for reading in own], size)
        for own, size in zip(readings, sizes, strict=True)
    }
    pairs = zip(readings[0][0].steps, readings[-1][0].steps, strict=True)
    if len(everything) == len(sizes) > 1:
        found = [first.with_constant_of(last) for first, last in pairs if first is not None and last is not None]
    else:
        found = [step for step in busy[0].steps if step is not None]
    if len(samples) != 1 or any(not isinstance(step.distribution, Laplace | Normal) for step in found):
        raise NotSteps
    return NoisySteps(tuple(found), samples.pop())


def step_shift(mechanism: Mechanism, step: ReleaseStep, sample: RecordSample | None) -> Fraction:
    """By how much the sum of a step differs at most."""
    added, replaced = max(abs(step.low), abs(step.high)), step.high - step.low
    if mechanism.adjacency.extra:
        return added
    return replaced if sample is None or sample.fixed else max(added, replaced)


def noisy_steps_of(mechanism: Mechanism, size: int) -> tuple[NoisySteps, dict[int, list[Path]]] | None:
    """The steps of the mechanism, and its paths for every size; None where it has no such steps."""
    ends = interval_of(mechanism)
    plain = mechanism.bound()
    if (
        ends is None
        or certified_word(mechanism.adjacency) not in RECORDS
        or (isinstance(plain, Adopting) and plain.sources.names)
    ):
        return None
    sizes = range(size, size + mechanism.adjacency.extra + 1)
    paths: dict[int, list[Path]] = {}
    try:
        for each in sizes:
            data = unknowns("data", each, ends, True)
            walked = walk(
                rational_arguments(mechanism), data, MAX_PATHS, functions=True, retries=False, run_type=AdaptiveRun
            )
            paths[each] = []
            for path in walked:
                if not paths[each] and not _is_worth_it(path):
                    return None
                if len(paths[each]) < FIRST_PATHS:
                    PathReader(path, False, {}).read()  # else it may take long to find out
                paths[each].append(path)
        whole = all(len(own) == 1 for own in paths.values())
        names: dict[object, int] = {}
        readings = [[PathReader(path, whole, names).read() for path in own] for own in paths.values()]
        return _steps(readings, sizes), paths
    except (NotExplorable, NotSteps):
        return None


def _is_worth_it(path: Path) -> bool:
    """Whether its data are sampled, or used together with released numbers: else there are other proofs."""
    if any(not fork.implied and fork.option.weight != 1 for fork in path.forks) or _asks_uniform(path):
        return True
    seen = in_order(leaf for leaf in leaves(path.output) if isinstance(leaf, Affine))
    return any(isinstance(symbol, Derived) and _is_mixed(symbol) for symbol in seen)


def _is_mixed(function: Derived) -> bool:
    return len({isinstance(symbol, Unknown) for symbol in drawn_in([function])}) == 2


def _asks_uniform(path: Path) -> bool:
    return any(isinstance(s, Noise) for condition in path.conditions for s in condition.slack.terms)
