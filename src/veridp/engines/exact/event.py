"""Events: sets of outputs that print as a sentence and can be evaluated on an output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.identity import Raised, leaf_key, leaf_text
from veridp.kernel.template import Kind, Slot, Template, is_finite_number
from veridp.sampling.events import OutputEvent
from veridp.sampling.outputs import Outputs


@dataclass(frozen=True)
class NumberSpan:
    """An interval of numbers; ends may be infinite, and belong to it where finite."""

    low: float
    high: float

    def text(self, name: str) -> str:
        if self.low == self.high:
            return f"{name} = {self.low:.6g}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{name} is any number"
        if math.isinf(self.low):
            return f"{name} <= {self.high:.6g}"
        if math.isinf(self.high):
            return f"{name} >= {self.low:.6g}"
        return f"{name} in [{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True)
class LinearEntry:
    """A linear combination of leaves of the output: one entry, mostly."""

    terms: tuple[tuple[int, float], ...]  # leaf positions and factors
    names: tuple[str, ...]

    def __str__(self) -> str:
        parts: list[str] = []
        for (_, factor), name in zip(self.terms, self.names, strict=True):
            size = "" if abs(factor) == 1 else f"{abs(factor):.6g}·"
            sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
            parts.append(f"{sign}{size}{name}")
        return "".join(parts)


@dataclass(frozen=True)
class ExactEvent(OutputEvent):
    """All of: the output has the given form, and each numeric entry named lies in one of its spans.

    Slots and spans stand for finite numbers; NaN and the infinities are constants of a form.
    """

    template: Template | None = None  # the constants that the output must show; slots stand for any number
    equal: tuple[tuple[str, int, Any], ...] = ()  # single leaves, by name and position, that must have a value
    within: tuple[tuple[LinearEntry, tuple[NumberSpan, ...]], ...] = ()
    either: tuple[ExactEvent, ...] = field(default=())  # or, instead of all that: one of these

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""
        found = np.zeros(len(outputs), dtype=bool)
        for template, rows in outputs.forms():
            found[rows] = self._among(template, {slot: outputs.columns[slot][rows] for slot in template.slots})
        return found

    def _among(self, shown: Template, columns: Mapping[Slot, NDArray[Any]]) -> NDArray[np.bool_] | bool:
        """Which rows of one form belong to it."""
        holds: NDArray[np.bool_] | bool = not self.either
        for event in self.either:
            holds = holds | event._among(shown, columns)
        if self.template is not None and self.template.outline != shown.outline:
            return False
        places = [place for _, place, _ in self.equal]
        places += [place for entry, _ in self.within for place, _ in entry.terms]
        if max(places, default=-1) >= len(shown.leaves):
            return False
        wanted = [] if self.template is None else list(zip(self.template.leaves, shown.leaves, strict=True))
        wanted += [(value, shown.leaves[position]) for _, position, value in self.equal]
        for value, leaf in wanted:
            holds = holds & _equals(value, leaf, columns)
        for entry, spans in self.within:
            if not all(_is_number(shown.leaves[position]) for position, _ in entry.terms):
                return False
            number = sum(factor * _column(shown.leaves[position], columns) for position, factor in entry.terms)
            inside = [(span.low <= number) & (number <= span.high) for span in spans]
            holds = holds & np.isfinite(number) & np.logical_or.reduce(inside)
        return holds

    @property
    def is_one_output(self) -> bool:
        """Whether it holds for a single output alone."""
        return self.template is not None and not self.template.slots

    def __and__(self, other: ExactEvent) -> ExactEvent:
        return ExactEvent(self.template or other.template, self.equal + other.equal, self.within + other.within)

    def _by_spans(self) -> list[tuple[tuple[NumberSpan, ...], list[LinearEntry]]]:
        table: dict[tuple[NumberSpan, ...], list[LinearEntry]] = {}
        for entry, spans in self.within:
            table.setdefault(spans, []).append(entry)
        return list(table.items())

    def __str__(self) -> str:
        if self.either:
            shown = " or ".join(f"({event})" for event in self.either[:4])
            return shown + (f" or {len(self.either) - 4} more cases" if len(self.either) > 4 else "")
        numbers = [_sentence(entries, spans) for spans, entries in self._by_spans()]
        told = [f"{name} is {leaf_text(value)}" for name, _, value in self.equal] + numbers
        parts = told
        if self.template is not None and (self.template.leaves or not parts):
            bare = len(self.template.leaves) == 1 and self.template.slots
            form = [] if bare and told else [output_is(self.template)]
            parts = form + told
        return " and ".join(parts) or "any output"


def _sentence(entries: list[LinearEntry], spans: tuple[NumberSpan, ...]) -> str:
    names = [str(entry) for entry in entries]
    name = (
        names[0]
        if len(names) == 1
        else f"each of {', '.join(names if len(names) < 5 else [*names[:2], '…', names[-1]])}"
    )
    return " or ".join(span.text(name) for span in spans)


def output_is(template: Template) -> str:
    """That the output fits the template, in words."""
    if isinstance(template.tree, Raised):
        return str(template)
    return "output is a number" if isinstance(template.tree, Slot) else f"output is {template}"


def _is_number(leaf: Any) -> bool:
    return leaf.kind in (Kind.INT, Kind.FLOAT) if isinstance(leaf, Slot) else is_finite_number(leaf)


def _column(leaf: Any, columns: Mapping[Slot, NDArray[Any]]) -> Any:
    return columns[leaf] if isinstance(leaf, Slot) else float(leaf)


def _equals(value: Any, leaf: Any, columns: Mapping[Slot, NDArray[Any]]) -> NDArray[np.bool_] | bool:
    """Where the leaf has the value, or is a finite number where the value is a slot."""
    if not isinstance(leaf, Slot):
        return _is_number(leaf) if isinstance(value, Slot) else same(value, leaf)
    if isinstance(value, bool):
        return np.asarray(columns[leaf] == value) if leaf.kind is Kind.BOOL else False
    if not _is_number(leaf) or not isinstance(value, int | float | Slot):
        return False
    if isinstance(value, Slot):
        return np.asarray(np.isfinite(columns[leaf]))
    return np.asarray(np.isclose(columns[leaf], value, rtol=1e-12, atol=1e-12, equal_nan=True))


def same(first: Any, second: Any) -> bool:
    """Whether two leaves of outputs are the same, finite numbers up to rounding."""
    if is_finite_number(first) and is_finite_number(second):
        return math.isclose(first, second, rel_tol=1e-12, abs_tol=1e-12)
    return leaf_key(first) == leaf_key(second)
