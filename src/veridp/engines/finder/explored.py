"""A mechanism's paths on any input: explored once with the data open, or anew for each input."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from veridp.budget import Deadline, out_of_time
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.event_part import pieces_within
from veridp.engines.exact.masses import log_masses
from veridp.engines.finder.events import EventForm
from veridp.engines.finder.indicator import Indicator
from veridp.engines.finder.relax import SoftSum
from veridp.errors import BadInput, CutShort, NotExplorable, VeridpError
from veridp.kernel.distributions import Number, exact
from veridp.kernel.explore import explore, walk
from veridp.kernel.expressions import unknown, unknowns
from veridp.kernel.identity import Raised
from veridp.kernel.path import Path, with_values
from veridp.kernel.symbols import Unknown
from veridp.mechanism import Mechanism

MOST_OPEN_PATHS = 20_000
MOST_KEPT = 64  # inputs whose paths are kept


def data_unknowns(size: int) -> tuple[Unknown, ...]:
    """The open values that stand for data of this size; for a single number, of size 1, the same one."""
    return tuple(Unknown(f"data[{index}]") for index in range(size))


class Explored(ABC):
    """The paths of a mechanism."""

    @abstractmethod
    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        """Its paths on this input; those that cannot meet the form may be left out."""


class OpenData(Explored):
    """Paths whose conditions name the entries of the data, for each length that data may have."""

    def __init__(self, paths: dict[int, Sequence[Path]]) -> None:
        self.open = paths
        self._meeting: dict[tuple[int, EventForm], Sequence[Path]] = {}

    @classmethod
    def of(
        cls, mechanism: Mechanism, sizes: Sequence[int], scalar: bool, deadline: Deadline | None = None
    ) -> OpenData | None:
        """None where the mechanism does to data what symbols cannot express, or where that takes too many paths.

        Raises CutShort where it takes too much time: a given input has far fewer ways open than an open one.
        """
        found: dict[int, Sequence[Path]] = {}
        try:
            for size in sizes:
                data = unknown("data[0]") if scalar else unknowns("data", size)
                paths: list[Path] = []
                for path in walk(mechanism, data, MOST_OPEN_PATHS, defer=True):
                    paths.append(path)
                    if deadline is not None and deadline.passed:
                        raise out_of_time(deadline.seconds)
                if any(isinstance(path.output, Raised) for path in paths):
                    return None  # code that fails on symbols need not fail on numbers
                found[size] = paths
        except CutShort:
            raise
        except VeridpError:
            return None
        return cls(found)

    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        entries = data if isinstance(data, list) else [data]
        if len(entries) not in self.open:
            raise BadInput(
                f"{data!r} has {len(entries)} entries; this search is for {' or '.join(map(str, self.open))}"
            )
        paths = self.open[len(entries)] if form is None else self.meeting(len(entries), form)
        values: dict[Unknown, Number] = {
            name: exact(value) for name, value in zip(data_unknowns(len(entries)), entries, strict=True)
        }
        return with_values(paths, values)

    def meeting(self, size: int, form: EventForm) -> Sequence[Path]:
        """The paths that can meet the form; all of them where it asks for some leaves only."""
        if form.partial is not None:
            return self.open[size]
        key = (size, form.with_ends(()))
        if key not in self._meeting:
            self._meeting[key] = [path for path in self.open[size] if _can_meet(path, form, size)]
        return self._meeting[key]


def _can_meet(path: Path, form: EventForm, size: int) -> bool:
    node = Indicator.of([path], form, data_unknowns(size)).node
    return isinstance(node, SoftSum) and bool(node.parts)


class ClosedData(Explored):
    """Paths that are explored anew for each input."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._known: dict[str, Sequence[Path]] = {}

    def paths(self, data: Any, form: EventForm | None = None) -> Sequence[Path]:
        key = repr(data)
        if key not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            try:
                self._known[key] = explore(self.mechanism, data, defer=True)
            except NotExplorable as error:
                raise type(error)(f"{error}; DP-Finder needs paths; veridp.sniper needs only samples") from None
        return self._known[key]


def log_probability(paths: Sequence[Path], event: ExactEvent) -> float:
    """ln of the exact probability that runs down these paths end in the event.

    Raises NotExact where it is out of reach.
    """
    if not paths:
        return -math.inf
    return math.fsum(log_masses([pieces])[0] for pieces in pieces_within(paths, event))
