"""Reading a certificate of bounds: what a mechanism does in each case, and between what its densities are said to lie.

Part of the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.coupling.reader import CouplingEvent, event_in
from veridp_check.document import HEADER, DocumentNode, Stated, noise_in, size_in, stated_in
from veridp_check.noise import NoiseDraw


@dataclass(frozen=True)
class BoundsCase:
    """A value of the data as text, or None for all numbers of the interval; and the events of the mechanism there."""

    value: str | None
    events: tuple[CouplingEvent, ...]


@dataclass(frozen=True)
class OutputSlab:
    """Released numbers from where the slab before ends up to `stop` (None: all that follow), and bounds there."""

    stop: Fraction | None
    least: Fraction
    most: Fraction


@dataclass(frozen=True)
class OutputBounds:
    """The slabs of one output; an output without a number has one."""

    output: str
    slabs: tuple[OutputSlab, ...]


@dataclass(frozen=True)
class Enclosed(Stated):
    """What a certificate of bounds says."""

    size: int
    noises: tuple[NoiseDraw, ...]
    cases: tuple[BoundsCase, ...]
    bounds: tuple[OutputBounds, ...]

    @property
    def scope(self) -> str:
        return super().scope if self.domain is not None else f"on the {len(self.cases)} data listed"


def read_bounds(document: object) -> Enclosed:
    """The certificate in the document; raises Flaw where it is not made as one."""
    field = DocumentNode(document).fields(*HEADER, "noises", "cases", "bounds")
    size, stated = size_in(field), stated_in(field)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    is_open = stated.domain is not None
    return Enclosed(
        **vars(stated),
        noises=noises,
        cases=tuple(_case(node, size, noises, is_open) for node in field["cases"].entries()),
        bounds=tuple(_bounds(node) for node in field["bounds"].entries()),
    )


def _case(node: DocumentNode, size: int, noises: Sequence[NoiseDraw], is_open: bool) -> BoundsCase:
    field = node.fields("value", "events")
    if (field["value"].value is None) != is_open:
        raise field["value"].flaw("a text is needed where there is no domain, and null where there is one")
    events = tuple(event_in(event, size if is_open else 0, noises) for event in field["events"].entries())
    return BoundsCase(None if is_open else field["value"].text(), events)


def _bounds(node: DocumentNode) -> OutputBounds:
    field = node.fields("output", "slabs")
    return OutputBounds(field["output"].text(), tuple(_slab(slab) for slab in field["slabs"].entries()))


def _slab(node: DocumentNode) -> OutputSlab:
    field = node.fields("to", "least", "most")
    stop = None if field["to"].value is None else field["to"].rational()
    return OutputSlab(stop, field["least"].rational(), field["most"].rational())
