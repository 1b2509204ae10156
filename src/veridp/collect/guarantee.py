"""What a protocol guarantees: what a verifier learns beyond the report, and how far one accepted client can push an
estimate."""

from __future__ import annotations

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from veridp.collect.harmless import Harmless, ScaledMean
from veridp.collect.layout import SESSION_BYTES, Counts, Layout
from veridp.collect.numeric import OfNumbers
from veridp.errors import BadInput

# ----------------------------------------------------------------------------------------------------------- guarantee
# What a protocol guarantees against poisoning, computed: how far one accepted client can push an estimate.
#
# The score of a report is what it adds to the estimate that the attacker wants to raise: the sum of the estimated
# frequencies of its targets, or the estimated mean. All numbers are exact expectations for one malicious client.


SOME_SESSION = bytes(SESSION_BYTES)

Weights = list[list[Fraction]]  # of each block, the score of each value


class PoisoningStanding(StrEnum):
    """How a protocol stands against output poisoning."""

    ROBUST = "robust"
    SEMI_ROBUST = "semi-robust"
    NOT_ROBUST = "not robust"


@dataclass(frozen=True)
class Robustness:
    """The scores of the best honest-but-chosen input, of the best accepted behaviour, and of an unchecked report.

    Robust: what is accepted is no better than an honest input. Semi-robust: it is better, but block by block it is
    not, so only relations among the parts of a report are forged. Not robust: a part alone has a law that no input
    gives it.
    """

    best_input: Fraction
    best_accepted: Fraction
    unprotected: Fraction
    standing: PoisoningStanding

    def __str__(self) -> str:
        scores = f"{float(self.best_input):.6g} <= {float(self.best_accepted):.6g} <= {float(self.unprotected):.6g}"
        return f"{self.standing}: S_in <= S_max <= S_out is {scores}"


def robustness(
    protocol: Harmless, targets: Sequence[int] | None = None, session: bytes = SOME_SESSION, *, down: bool = False
) -> Robustness:
    """How far one client can raise the estimates of the target columns (for a mean: the mean, or lower it if `down`).

    Without targets these are the first two items, for it takes two to tell whether a client can pose as several.

    The best accepted vector maximises a linear score over all counts that keep the floors, so it is a corner: all
    entries that stay closed hold the value of highest score. Closed entries that cannot be opened at all lose the
    report when selected, which never raises the score of the reports that are left.
    """
    rows, worth = _supports(protocol, targets, session, down=down), _worth(protocol, targets, down=down)
    layout = protocol.layout
    base = [_dot(layout.floors, row) for row in rows]
    accepted = [floors + layout.free * max(row) for floors, row in zip(base, rows, strict=True)]
    honest = [
        [_dot(counts, row) for counts, row in zip(protocol.counts(chosen, session), rows, strict=True)]
        for chosen in range(protocol.inputs)
    ]
    by_block = [max(block) for block in zip(*honest, strict=True)]
    best_input = worth(Fraction(max(map(sum, honest)), layout.length))
    best_accepted = worth(Fraction(sum(accepted), layout.length))
    unprotected = worth(Fraction(sum(map(max, rows))))
    if best_accepted == best_input:
        standing = PoisoningStanding.ROBUST
    elif all(most <= honest_most for most, honest_most in zip(accepted, by_block, strict=True)):
        standing = PoisoningStanding.SEMI_ROBUST
    else:
        standing = PoisoningStanding.NOT_ROBUST
    return Robustness(best_input, best_accepted, unprotected, standing)


def scores(protocol: Harmless, targets: Sequence[int] | None, session: bytes, *, down: bool = False) -> Weights:
    """What each output of each block adds to the estimates of the targets.

    The constant of a report is spread evenly over its blocks.
    """
    rows, worth = _supports(protocol, targets, session, down=down), _worth(protocol, targets, down=down)
    share = worth.shift / protocol.layout.blocks
    return [[share + worth.scale * raw for raw in row] for row in rows]


def _supports(protocol: Harmless, targets: Sequence[int] | None, session: bytes, *, down: bool) -> list[list[int]]:
    """By how much each output of each block supports the targets together; negative where `down` is wanted."""
    columns, sign = len(protocol.columns), -1 if down else 1
    targets = _default_targets(protocol) if targets is None else targets
    if not targets or not all(0 <= target < columns for target in targets):
        raise BadInput(f"targets {list(targets)!r} are not columns of {protocol.name}; it has 0 to {columns - 1}")
    if down and not isinstance(protocol, OfNumbers):
        raise BadInput("down is for means; for frequencies, name other targets")
    return [
        [
            sign * sum(protocol.raw(block, value, target, session) for target in targets)
            for value in range(protocol.layout.values)
        ]
        for block in range(protocol.layout.blocks)
    ]


def _default_targets(protocol: Harmless) -> range:
    return range(min(2, len(protocol.columns)))


def _worth(protocol: Harmless, targets: Sequence[int] | None, *, down: bool) -> ScaledMean:
    """What turns the support of the targets into the score."""
    number = len(_default_targets(protocol) if targets is None else targets)
    return ScaledMean(protocol.scaled.shift * number * (-1 if down else 1), protocol.scaled.scale)


def _dot(counts: Counts, row: Sequence[int]) -> int:
    return sum(map(operator.mul, counts, row))


def corners(layout: Layout) -> list[Counts]:
    """The corners of the set of accepted counts of a block: the floors, and all that is free on one value."""
    return [
        tuple(floor + (layout.free if value == chosen else 0) for value, floor in enumerate(layout.floors))
        for chosen in range(layout.values)
    ]


def expected(counts: Counts, weights: Sequence[Fraction], layout: Layout) -> Fraction:
    """The mean score of a block with these counts."""
    return sum((count * weight for count, weight in zip(counts, weights, strict=True)), Fraction(0)) / layout.length


def sum_over_blocks(counts: Sequence[Counts], weights: Weights, layout: Layout) -> Fraction:
    """The mean score of a vector with these counts in its blocks."""
    return sum((expected(block, row, layout) for block, row in zip(counts, weights, strict=True)), Fraction(0))


def variance(protocol: Harmless, chosen: int, column: int = 0, session: bytes = SOME_SESSION) -> Fraction:
    """The variance that one honest report with this input adds to the estimate of a column."""
    layout, total = protocol.layout, Fraction(0)
    for block, counts in enumerate(protocol.counts(chosen, session)):
        raws = [protocol.raw(block, value, column, session) for value in range(layout.values)]
        mean = Fraction(sum(raw * count for raw, count in zip(raws, counts, strict=True)), layout.length)
        square = Fraction(sum(raw * raw * count for raw, count in zip(raws, counts, strict=True)), layout.length)
        total += square - mean * mean
    return total * protocol.scaled.scale**2


# --------------------------------------------------------------------------------------------------------------- views
# What a verifier learns beyond the report, by exact enumeration: nothing, if the opening is harmless.


Rule = Callable[[Sequence[int], int], Iterable[tuple[int, ...]]]  # the sets that may be opened, all equally likely
View = tuple[int, tuple[int, ...], tuple[int, ...]]  # what was selected, the indices opened, their values
LARGEST = 200_000


@dataclass(frozen=True)
class Leak:
    """How much more than the report the verifier's view tells: the largest distance between two laws of it.

    0 means that given the report, the view has the same law for every input: it could be made up from the report.
    """

    distance: Fraction
    output: int | None = None
    left: Counts | None = None
    right: Counts | None = None

    @property
    def none(self) -> bool:
        return self.distance == 0


def leak(protocol: Harmless, rule: Rule | None = None, session: bytes = SOME_SESSION) -> Leak:
    """The leak of a block of the protocol, where clients open by the rule (its own, if none is given).

    Blocks are drawn and opened independently, so the worst block is that of the whole report, for each other one
    has the same law. Closed commitments are taken to hide; the enumeration is over all vectors, selections and
    openings, so it is for small protocols.
    """
    compositions = sorted({counts for chosen in range(protocol.inputs) for counts in protocol.counts(chosen, session)})
    rule = protocol.layout.openings if rule is None else rule
    laws = {counts: _laws(counts, rule) for counts in compositions}
    worst = Leak(Fraction(0))
    for left, right in itertools.combinations(compositions, 2):
        for output in set(laws[left]) & set(laws[right]):
            distance = _distance(laws[left][output], laws[right][output])
            if distance > worst.distance:
                worst = Leak(distance, output, left, right)
    return worst


def arrangements(counts: Counts) -> Iterator[tuple[int, ...]]:
    """Every order of entries with these counts."""
    if not any(counts):
        yield ()
    for value, count in enumerate(counts):
        if count:
            rest = (*counts[:value], count - 1, *counts[value + 1 :])
            for tail in arrangements(rest):
                yield (value, *tail)


def _laws(counts: Counts, rule: Rule) -> dict[int, dict[View, Fraction]]:
    """For each report, the law of the view given it, of a client whose block has these counts."""
    number = math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))
    if number > LARGEST:
        raise BadInput(f"{number} vectors are too many to enumerate; take a protocol with a shorter vector")
    joint: dict[int, dict[View, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for vector in arrangements(counts):
        for selected, output in enumerate(vector):
            sets = list(rule(vector, selected))
            for opened in sets:
                view = (selected, opened, tuple(vector[i] for i in opened))
                joint[output][view] += Fraction(1, len(sets))
    return {output: _normalised(law) for output, law in joint.items()}


def _normalised(law: dict[View, Fraction]) -> dict[View, Fraction]:
    total = sum(law.values(), Fraction(0))
    return {view: mass / total for view, mass in law.items()}


def _distance(left: dict[View, Fraction], right: dict[View, Fraction]) -> Fraction:
    """The total variation distance."""
    views = set(left) | set(right)
    return sum((abs(left.get(v, Fraction(0)) - right.get(v, Fraction(0))) for v in views), Fraction(0)) / 2
