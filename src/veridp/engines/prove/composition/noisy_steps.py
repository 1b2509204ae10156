"""Paths of adaptive runs, read as noisy steps one after the other, on all records or on a random sample of them."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from veridp.engines.prove.cases import certified_word, interval_of
from veridp.engines.prove.composition.norm_clipping import ClippedEntry, clipped_entry, is_upper_limit, squared_norm
from veridp.engines.prove.events import entry_of, rational_arguments
from veridp.errors import NotExplorable
from veridp.kernel import functions as f
from veridp.kernel.distributions import Distribution, LossBound
from veridp.kernel.explore import walk
from veridp.kernel.expressions import Affine, Condition, function_of, is_sure, range_of, unknowns
from veridp.kernel.flow.releases import AdaptiveRun, KnownRelease, Released, in_order, is_of_data
from veridp.kernel.flow.retries import rational_mass
from veridp.kernel.noise import Laplace, Normal
from veridp.kernel.output import Raised
from veridp.kernel.path import Fork, Path, Step, entries_of, leaves, outline_of
from veridp.kernel.site import Site
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown, drawn_in, number_text
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
class ClippedVector:
    """Numbers that are released together: what a record adds to them is a vector whose norm has a known bound."""

    numbers: int
    squared: Fraction  # of the largest norm, for noise of factor 1
    first: int = field(compare=False)  # among the draws that decide nothing, the noise of its first number


@dataclass(frozen=True)
class ReleaseStep:
    """A number that is released: its noise, and between which numbers lies what one record adds, for noise of factor
    1; or of which vector what one record adds is an entry."""

    distribution: Distribution
    low: Fraction
    high: Fraction
    site: Site = field(compare=False)
    constant: Fraction = field(default=Fraction(0), compare=False)  # what is added beside the records, for this size
    vector: ClippedVector | None = None

    def with_added(self, more: Fraction) -> ReleaseStep:
        """The step, whose records add so much more."""
        if more and self.vector is not None:
            raise NotSteps
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
    value: Affine | None = None  # what one of them adds for noise of factor 1, where no range is known of it


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
        found = {self.rank[index]: self._step(released) for index, released in sorted(self.released.items())}
        vectors = self._vectors({rank: step.value for rank, step in found.items() if step.value is not None})
        for rank, vector in vectors.items():
            step = replace(found[rank].step, vector=vector)
            found[rank] = StepOfRecords(step, *found[rank][1:3])
        return found, output

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
            limits = is_upper_limit(symbol)
            if any(map(_may_be_infinite, (s for each in symbol.expressions for s in each.terms))) and not (
                limits and len(symbol.expressions[0].terms) == 1 and min(symbol.expressions[0].terms.values()) > 0
            ):
                raise NotSteps
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
        constant = Fraction(released.total.constant) / factor if self.whole else Fraction(0)
        known = low is not None and high is not None
        ends = sorted((Fraction(low) / factor, Fraction(high) / factor)) if known else [Fraction(0)] * 2
        step = ReleaseStep(released.distribution, ends[0], ends[1], released.site, constant)
        value = None if known else forms[0] * (1 / factor)
        return StepOfRecords(step, frozenset(map(entry_of, added)), keys.pop(), value)

    def _vectors(self, values: dict[int, Affine]) -> dict[int, ClippedVector]:
        """The vectors that these values are the entries of, clipped by their norms."""
        groups: dict[Symbol, dict[int, ClippedEntry]] = {}
        for rank, value in values.items():
            entry = clipped_entry(value)
            if entry is None:
                raise NotSteps
            groups.setdefault(entry.norm, {})[rank] = entry
        found: dict[int, ClippedVector] = {}
        for entries in groups.values():
            squared = squared_norm(entries.values())
            if squared is None:
                raise NotSteps
            vector = ClippedVector(len(entries), squared, min(entries))
            found |= dict.fromkeys(entries, vector)
        return found


def _is_total(function: Derived) -> bool:
    """Whether it is a number whatever its arguments are."""
    of = function.function
    if of in (f.QUOTIENT, f.RECIPROCAL):
        divisor = function.arguments[-1]
        low, high = range_of(divisor) if isinstance(divisor, Affine) else (divisor, divisor)
        return (low is not None and low > 0) or (high is not None and high < 0) or _may_be_infinite(function)
    if of == f.SQRT:
        low, _ = range_of(function.arguments[0])
        return (low is not None and low >= 0) or is_sure(Condition(function.arguments[0], Relation.AT_LEAST))
    named = of.name.startswith(("max(·, ", "min(·, ")) or POWER.fullmatch(of.name) is not None
    return named or of in (*TOTAL, f.norm_of(len(function.arguments)))


def _may_be_infinite(symbol: Symbol) -> bool:
    """Whether it is a reciprocal of what may be 0 but is not negative, as NumPy has it."""
    if not isinstance(symbol, Derived) or symbol.function != f.RECIPROCAL:
        return False
    return range_of(symbol.arguments[0])[0] == 0


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
        both = [(first, last) for first, last in pairs if first is not None and last is not None]
        found = [first.with_added(last.constant - first.constant) for first, last in both]
    else:
        found = [step for step in busy[0].steps if step is not None]
    if len(samples) != 1 or any(not isinstance(step.distribution, Laplace | Normal) for step in found):
        raise NotSteps
    check_vectors(found)
    return NoisySteps(tuple(found), samples.pop())


def check_vectors(steps: Iterable[ReleaseStep]) -> None:
    """Raise NotSteps where a vector has noise of several kinds, or not normal noise."""
    noises: dict[int, Distribution] = {}
    for step in steps:
        if step.vector is not None:
            known = noises.setdefault(step.vector.first, step.distribution)
            if known != step.distribution or not isinstance(known, Normal):
                raise NotSteps


def step_loss(mechanism: Mechanism, step: ReleaseStep, sample: RecordSample | None) -> LossBound:
    """A bound on the loss of a step; of one number of a vector, its share."""
    if step.vector is None:
        return step.distribution.shift_loss(step_shift(mechanism, step, sample))
    farthest = step.vector.squared * (1 if mechanism.adjacency.extra else 4)
    return LossBound(squared=step.distribution.shift_loss(Fraction(1)).squared * farthest / step.vector.numbers)


def shift_text(mechanism: Mechanism, step: ReleaseStep, sample: RecordSample | None) -> str:
    """What a record adds in a step, and by how much it differs at most."""
    if step.vector is None:
        return f"what one record adds here differs by up to {number_text(step_shift(mechanism, step, sample))}"
    most = math.sqrt(step.vector.squared) * (1 if mechanism.adjacency.extra else 2)
    return f"the vector that one record adds here differs by up to {most:.6g}"


def step_documents(steps: Iterable[ReleaseStep], rows: dict[Distribution, int]) -> Iterator[dict[str, Any]]:
    """The steps for a certificate, and the rows of their noise; a vector has one of its own."""
    vectors = set[int]()
    for step in steps:
        row = rows.setdefault(step.distribution, len(rows))
        if step.vector is None:
            yield {"noise": row, "low": str(step.low), "high": str(step.high), "count": 1}
        elif step.vector.first not in vectors:
            vectors.add(step.vector.first)
            yield {"noise": row, "squared_norm": str(step.vector.squared), "numbers": step.vector.numbers, "count": 1}


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
                if 0 < len(paths[each]) <= FIRST_PATHS:  # there are more: it may take long to find out
                    PathReader(paths[each][-1], False, {}).read()
                paths[each].append(path)
        whole = all(len(own) == 1 for own in paths.values())
        names: dict[object, int] = {}
        readings = [[PathReader(path, whole, names).read() for path in own] for own in paths.values()]
        return _steps(readings, sizes), paths
    except (NotExplorable, NotSteps):
        return None


def _is_worth_it(path: Path) -> bool:
    """Whether its data are sampled, or used in functions or with released numbers: else there are other proofs."""
    if any(not fork.implied and fork.option.weight != 1 for fork in path.forks) or _asks_uniform(path):
        return True
    seen = in_order(leaf for leaf in leaves(path.output) if isinstance(leaf, Affine))
    return any(isinstance(symbol, Derived) and is_of_data(symbol) for symbol in seen)


def _asks_uniform(path: Path) -> bool:
    return any(isinstance(s, Noise) for condition in path.conditions for s in condition.slack.terms)
