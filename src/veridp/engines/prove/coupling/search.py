"""Couplings: the runs of one case are matched with runs of another that give the same output.

Let runs of the left case give an output by pieces i, each with probability w_i times that of its noise, and those of
the right case by pieces j. Where a shift at cost c_ij carries the noise of piece i into that of piece j, the former is
at most e^c_ij times as likely as the latter. If every i is shared out among the j, by shares λ_ij that sum to 1 for
each i, then the output is on the left at most as likely as Σ_j Σ_i w_i λ_ij e^c_ij · P[noise of j]. This is at most e^ε
times what it is on the right if Σ_i w_i λ_ij e^c_ij <= e^ε w_j for every j. So the best shares are a linear program.
Without noise to shift, this is the ratio of the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from veridp.adjacency import Hull, Polytope
from veridp.budget import check
from veridp.engines.prove.alignment.proof import Alignment, cheapest
from veridp.engines.prove.alignment.shifts import Requirement, ShiftProblem
from veridp.engines.prove.cases import OutputPart
from veridp.engines.prove.events import WeightedEvent, entry_of, is_equality
from veridp.engines.prove.opaque import has_opaque, pointwise_ratio
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.output import Template
from veridp.kernel.symbols import Relation, Symbol, Unknown
from veridp.numerics.linear import Infeasible, LinearProgram, solve

NO_DIFFERENCE = Hull(((),))  # between two given values: constants differ, and nothing is left open
UPWARDS = Fraction(10**12 + 1, 10**12)  # far more than the rounding of an exponential
MAX_PIECE_PAIRS = 400  # pairs of pieces with the same output: past this only pieces that are alike are matched
LEAST_EXPONENT = -700  # below it floats lose digits


@dataclass(frozen=True)
class CouplingLoss:
    """cost + ln ratio: both exact, so that no logarithm needs to be rounded before ε is told."""

    cost: Fraction
    ratio: Fraction

    @property
    def epsilon(self) -> float:
        excess = self.ratio - 1
        return float(self.cost) + (math.log1p(excess) if abs(excess) < 0.5 else _log(self.ratio))

    @property
    def order(self) -> tuple[float, bool, Fraction]:
        """What losses are sorted by: ε as a float, and where that is the same the cost, as ε is that without ratio."""
        return self.epsilon, self.ratio != 1, self.cost

    def __add__(self, other: CouplingLoss) -> CouplingLoss:
        return CouplingLoss(self.cost + other.cost, self.ratio * other.ratio)


NO_LOSS = CouplingLoss(Fraction(0), Fraction(1))


def _log(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


@dataclass(frozen=True, eq=False)
class Transport:
    """A share of one event, carried into another; events by their place in the parts."""

    source: int
    target: int
    share: Fraction
    alignment: Alignment


@dataclass(frozen=True, eq=False)
class Coupling:
    """How one part is carried over to another; `loss` is None where some output cannot be.

    `output` is the one that loses most, or cannot be carried over.
    """

    loss: CouplingLoss | None
    output: Template | None  # None where none loses anything
    transports: tuple[Transport, ...]
    delta: Fraction = Fraction(0)  # what it may pay

    @property
    def epsilon(self) -> float:
        return math.inf if self.loss is None else self.loss.epsilon


def couple(left: OutputPart, right: OutputPart, polytope: Polytope, given: Sequence[Condition] = ()) -> Coupling:
    """The best coupling of the parts for all differences of the polytope; data satisfy the conditions given."""
    worst = Coupling(NO_LOSS, None, ())
    transports: list[Transport] = []
    for output, sources in left.by_output.items():
        check()
        targets = right.by_output.get(output, {})
        found = couple_output(output, sources, targets, polytope, given, left is right, right.pieces)
        transports += found.transports
        if worst.loss is not None and (found.loss is None or found.loss.order > worst.loss.order):
            worst = found
    return Coupling(worst.loss, worst.output, tuple(transports))


def couple_output(
    output: Template,
    sources: Mapping[int, WeightedEvent],
    targets: Mapping[int, WeightedEvent],
    polytope: Polytope,
    given: Sequence[Condition],
    same: bool,
    right: Sequence[WeightedEvent],
) -> Coupling:
    """The best coupling of the events of one output, and what it loses."""
    if not targets:
        return Coupling(None, output, ())
    pieces = [*sources.values(), *targets.values()]
    if has_opaque(pieces):
        most = pointwise_ratio(list(sources.values()), list(targets.values()), [p for p in right if p.weight])
        return Coupling(None if most is None else CouplingLoss(Fraction(0), most), output, ())
    if not any(piece.noises or piece.numbers for piece in pieces):
        ratio = sum(p.weight for p in sources.values()) / sum(p.weight for p in targets.values())
        return Coupling(CouplingLoss(Fraction(0), Fraction(ratio)), output, ())
    tasks: dict[tuple[int, int], ShiftProblem] = {}
    few = len(sources) * len(targets) <= MAX_PIECE_PAIRS
    for i, source in sources.items():
        for j, target in targets.items():
            task = shift_problem(source, target, polytope, given) if few or (same and i == j) else None
            if task is not None:
                tasks[i, j] = task
    aligned = dict(zip(tasks, cheapest(list(tasks.values())), strict=True))
    usable = {pair: alignment for pair, alignment in aligned.items() if math.isfinite(alignment.cost)}
    shares = _shares(sources, targets, usable)
    if shares is None:
        return Coupling(None, output, ())
    transports = tuple(Transport(i, j, share, usable[i, j]) for (i, j), share in shares.items())
    return Coupling(_loss(sources, targets, transports), output, transports)


# ------------------------------------------------------------------------------------------- one piece into another


def shift_problem(
    source: WeightedEvent,
    target: WeightedEvent,
    polytope: Polytope,
    given: Sequence[Condition],
    *,
    with_delta: bool = False,
) -> ShiftProblem | None:
    """The shifts that carry the source into the target; None where that cannot be told from their conditions."""
    if [n.distribution for n in source.noises] != [n.distribution for n in target.noises]:
        return None
    place, other = _places(source), _places(target)
    known = [_Form.of(condition.slack, place, condition) for condition in (*source.conditions, *given)]
    requirements = []
    for condition in target.conditions:
        form = _Form.of(condition.slack, other, condition)
        spare = [spare for each in known if (spare := form.spare_over(each)) is not None]
        if not spare:
            return None
        requirements.append(Requirement(form.noise, form.data, is_equality(condition), max(spare)))
    for mine, theirs in zip(source.numbers, target.numbers, strict=True):
        before, after = _Form.of(mine, place, None), _Form.of(theirs, other, None)
        if (before.noise, before.data) != (after.noise, after.data):
            return None
        requirements.append(Requirement(after.noise, after.data, True, after.constant - before.constant))
    moving = len(source.noises)  # functions, which come after them, do not change
    requirements = [replace(r, noise={k: c for k, c in r.noise.items() if k < moving}) for r in requirements]
    return ShiftProblem(source.noises, requirements, polytope, with_delta=with_delta)


def _places(piece: WeightedEvent) -> dict[Symbol, int]:
    """Noise by its place among that to shift; functions, which do not move, come after it."""
    symbols: list[Symbol] = [*piece.noises, *piece.event.functions]
    return {symbol: place for place, symbol in enumerate(symbols)}


@dataclass(frozen=True)
class _Form:
    """An affine expression, its noise by place; and how strictly it is bounded, where it is a condition's."""

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    constant: Fraction
    relation: Relation | None
    continuous: bool

    @classmethod
    def of(cls, expression: Affine, place: Mapping[Symbol, int], condition: Condition | None) -> _Form:
        noise: dict[int, Fraction] = {}
        data: dict[int, Fraction] = {}
        for symbol, c in expression.terms.items():
            if isinstance(symbol, Unknown):
                data[entry_of(symbol)] = Fraction(c)
            else:
                noise[place[symbol]] = Fraction(c)
        relation = None if condition is None else condition.relation
        return cls(noise, data, Fraction(expression.constant), relation, expression.continuous)

    def spare_over(self, known: _Form) -> Fraction | None:
        """By how much it is at least more than a positive multiple of what is known; None where it is no multiple.

        An equation follows from the same equation only, and what must be above 0 from what is, but where continuous
        noise makes no difference of that.
        """
        factor = _factor(_tagged(self), _tagged(known))
        if factor is None or factor <= 0 or (self.relation is Relation.EQUAL) != (known.relation is Relation.EQUAL):
            return None
        strict = self.relation is Relation.ABOVE and not self.continuous
        if strict and known.relation is not Relation.ABOVE:
            return None
        return self.constant - factor * known.constant


Tag = tuple[str, int]


def _tagged(form: _Form) -> dict[Tag, Fraction]:
    return {("noise", k): c for k, c in form.noise.items()} | {("data", k): c for k, c in form.data.items()}


def _factor(first: Mapping[Tag, Fraction], second: Mapping[Tag, Fraction]) -> Fraction | None:
    """What the second must be multiplied by to give the first, but for constants."""
    if first.keys() != second.keys() or not first:
        return None
    factors = {first[key] / second[key] for key in first}
    return factors.pop() if len(factors) == 1 else None


# ----------------------------------------------------------------------------------------------------------- shares


def _shares(
    sources: Mapping[int, WeightedEvent],
    targets: Mapping[int, WeightedEvent],
    usable: Mapping[tuple[int, int], Alignment],
) -> dict[tuple[int, int], Fraction] | None:
    """How much of each source goes into which target; None where one has nowhere to go."""
    ways = {i: [j for j in targets if (i, j) in usable] for i in sources}
    if not all(ways.values()):
        return None
    if all(len(where) == 1 for where in ways.values()):
        return {(i, where[0]): Fraction(1) for i, where in ways.items()}
    program = LinearProgram()
    ratio = program.variable(Fraction(1))
    columns = {pair: program.variable() for pair in usable}
    most = max(Fraction(alignment.cost) for alignment in usable.values())
    price = {pair: exponential_above(Fraction(alignment.cost) - most) for pair, alignment in usable.items()}
    for j, target in targets.items():
        load = {columns[i, j]: -sources[i].weight * price[i, j] for i in sources if (i, j) in columns}
        program.at_least_zero({ratio: target.weight, **load})
    for i, where in ways.items():
        program.zero({columns[i, j]: Fraction(1) for j in where}, -1)
    (answer,) = solve([program])
    if isinstance(answer, Infeasible):  # every source has a way, and the ratio has no limit
        raise AssertionError(f"no shares for {len(sources)} events")
    return {pair: answer.values[column] for pair, column in columns.items() if answer.values[column]}


def _loss(
    sources: Mapping[int, WeightedEvent], targets: Mapping[int, WeightedEvent], transports: Sequence[Transport]
) -> CouplingLoss:
    """The loss of the output: the dearest shift, times what the shares make of the ratio."""
    most = max(Fraction(each.alignment.cost) for each in transports)
    ratio = Fraction(0)
    for j, target in targets.items():
        load = sum(
            (
                sources[each.source].weight * each.share * exponential_above(Fraction(each.alignment.cost) - most)
                for each in transports
                if each.target == j
            ),
            start=Fraction(0),
        )
        ratio = max(ratio, load / target.weight)
    return CouplingLoss(most, ratio)


def exponential_above(x: Fraction) -> Fraction:
    """A rational just above e^x; 1 at 0."""
    return Fraction(math.exp(max(float(x), LEAST_EXPONENT))) * UPWARDS if x else Fraction(1)
