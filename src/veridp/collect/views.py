"""What a verifier learns beyond the report, by exact enumeration: nothing, if the opening is harmless."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.collect.guarantee import SOME_SESSION
from veridp.collect.harmless import Harmless
from veridp.collect.layout import Counts
from veridp.errors import BadInput

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
