"""How every event is carried over to all neighbours, as cheaply as can be.

A box of differences has 2^size corners. But an entry whose rise helps (or harms) every condition is worst at one end,
whatever the others do: it is fixed there. The entries left, which are *mixed*, are few in most events: their corners
are gone through. Where they are many, one rule for all differences is tried first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import Box, Corner, Polytope
from veridp.budget import check
from veridp.engines.prove.events import NoiseEvent
from veridp.engines.prove.rules import MAX_CORNER_ENTRIES, Rule, cheapest_rules, dearest
from veridp.engines.prove.shifts import NO_SHIFT, Shift, ShiftProblem, cheapest_shifts, failing_corner, requirements_of
from veridp.kernel.symbols import Noise

MAX_MIXED_ENTRIES = 2  # mixed entries: their corners are gone through at once
MANY_WHOLE = 5  # mixed entries that may move by -1, 0 or 1: past this their whole differences are not gone through


@dataclass(frozen=True)
class CornerShifts:
    """A shift for each corner of the differences of the entries listed, whatever the other entries do.

    Where `whole`, for each difference of these entries in whole numbers instead.
    """

    entries: tuple[int, ...]
    shifts: tuple[Shift, ...]
    whole: bool = False


@dataclass(frozen=True)
class Alignment:
    """How an event is carried over all differences of a polytope.

    `worst` is a corner that costs most, or has no shift, and `shift` the shift there. `cost` is what all differences
    cost at most; inf where no shift was found.
    """

    form: CornerShifts | Rule
    worst: Corner
    shift: Shift
    cost: Fraction | float


def cheapest_alignments(events: Sequence[NoiseEvent], polytopes: Sequence[Polytope]) -> list[list[Alignment]]:
    """For each event, for each polytope: how it is carried over, as cheaply as `cheapest` says."""
    tasks = [ShiftProblem(event.noises, requirements_of(event), polytope) for event in events for polytope in polytopes]
    found = cheapest(tasks)
    return [found[k : k + len(polytopes)] for k in range(0, len(found), len(polytopes))]


def cheapest(tasks: Sequence[ShiftProblem]) -> list[Alignment]:
    """How each task is done.

    Each cost is the least possible, but where more than MAX_CORNER_ENTRIES entries are mixed: then it may be above.
    """
    wanted = [_Wanted(task) for task in tasks]
    open_yet = [each for each in wanted if not each.is_hopeless()]
    _go_through_corners([each for each in open_yet if not each.by_rule])
    _find_rules([each for each in open_yet if each.by_rule])
    return [each.alignment for each in wanted]


class _Wanted:
    """A task, and the alignment found for it so far: none at first."""

    def __init__(self, task: ShiftProblem) -> None:
        self.task = task
        box = task.polytope
        # Between the ends of a two-sided interval lies 0, and a mean of whole steps need not be whole.
        self.whole = task.whole and isinstance(box, Box) and any(box.low[i] < 0 < box.high[i] for i in task.mixed)
        self.by_corners = not isinstance(box, Box) or len(task.mixed) <= (
            MANY_WHOLE if self.whole else MAX_CORNER_ENTRIES
        )
        self.by_rule = (
            isinstance(box, Box) and len(task.mixed) > MAX_MIXED_ENTRIES and not (self.whole and self.by_corners)
        )
        self.alignment = Alignment(CornerShifts((), (NO_SHIFT,)), task.base, NO_SHIFT, NO_SHIFT.cost)

    def is_hopeless(self) -> bool:
        """Whether some requirement has no noise to meet it by; then the corner where it fails is kept."""
        for each in self.task.requirements:
            if not each.noise and (corner := failing_corner(each, self.task.polytope)) is not None:
                self.alignment = Alignment(CornerShifts((), (NO_SHIFT,)), corner, NO_SHIFT, NO_SHIFT.cost)
                return True
        return False


def _go_through_corners(wanted: Sequence[_Wanted]) -> None:
    corners = [each.task.corners(each.whole) for each in wanted]
    asked = [(each.task, corner) for each, listed in zip(wanted, corners, strict=True) for corner in listed]
    check()
    found = iter(cheapest_shifts(asked))
    for each, listed in zip(wanted, corners, strict=True):
        shifts = tuple(itertools.islice(found, len(listed)))
        worst = max(range(len(listed)), key=lambda k: shifts[k].cost)
        form = CornerShifts(each.task.mixed, shifts, each.whole)
        each.alignment = Alignment(form, listed[worst], shifts[worst], shifts[worst].cost)


def _find_rules(wanted: Sequence[_Wanted]) -> None:
    """Rules where they cost no more than the corners do, or where these are too many."""
    for each, rule in zip(wanted, cheapest_rules([each.task for each in wanted]), strict=True):
        if rule is not None:
            most = dearest(each.task, rule)
            each.alignment = Alignment(rule, most.corner, each.task.shift(rule.at(most.corner)), most.cost)
    _go_through_corners([each for each in _not_shown_cheapest(wanted) if each.by_corners])


def _not_shown_cheapest(wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """Those whose worst corner can be had for less than the rule costs: another alignment may be cheaper."""
    least = cheapest_shifts([(each.task, each.alignment.worst) for each in wanted])
    return [
        each
        for each, shift in zip(wanted, least, strict=True)
        if shift.cost < each.alignment.cost or each.alignment.shift.moves is None
    ]


def depends_on_whole(noises: Sequence[Noise], alignment: Alignment) -> bool:
    """Whether integer noise is moved by what depends on the difference: then data must be whole numbers."""
    form = alignment.form
    if isinstance(form, CornerShifts) and form.whole:
        return True
    for place, noise in enumerate(noises):
        if noise.distribution.integer:
            if isinstance(form, Rule):
                if form.slopes[place]:
                    return True
            elif form.entries and any(shift.moves and shift.moves[place] for shift in form.shifts):
                return True
    return False
