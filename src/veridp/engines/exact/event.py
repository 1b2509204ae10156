"""Events: sets of outputs that print as a sentence and can be evaluated on an output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veridp.kernel.identity import Raised, leaf_key, leaf_text
from veridp.kernel.template import Slot, Template, identity, is_finite_number
from veridp.sampling.outputs import Outputs


@dataclass(frozen=True)
class NumberSpan:
    """An interval of numbers; ends may be infinite, and belong to it where finite."""

    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

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

    def of(self, leaves: tuple[Any, ...]) -> float:
        """Its value; NaN where a leaf is no finite number, so that it lies in no span."""
        if not all(is_finite_number(leaves[position]) for position, _ in self.terms):
            return math.nan
        return sum(factor * float(leaves[position]) for position, factor in self.terms)


@dataclass(frozen=True)
class ExactEvent:
    """All of: the output has the given form, and each numeric entry named lies in one of its spans.

    Slots and spans stand for finite numbers; NaN and the infinities are constants of a form.
    """

    template: Template | None = None  # the constants that the output must show; slots stand for any number
    equal: tuple[tuple[str, int, Any], ...] = ()  # single leaves, by name and position, that must have a value
    within: tuple[tuple[LinearEntry, tuple[NumberSpan, ...]], ...] = ()
    either: tuple[ExactEvent, ...] = field(default=())  # or, instead of all that: one of these

    def holds(self, output: Any) -> bool:
        """Whether an output, as a mechanism returns it, belongs to the event."""
        if self.either:
            return any(event.holds(output) for event in self.either)
        shown = identity(output)
        leaves = shown.leaves
        if self.template is not None and not _fits(self.template.tree, shown.tree):
            return False
        if any(not same(leaves[position], value) for _, position, value in self.equal):
            return False
        return all(any(entry.of(leaves) in span for span in spans) for entry, spans in self.within)

    def count(self, outputs: Outputs) -> int:
        """How many of the outputs belong to it."""
        return sum(self.holds(output) for output in outputs)

    def __call__(self, outputs: Outputs) -> Any:
        """Which of the outputs belong to it."""
        return np.fromiter((self.holds(output) for output in outputs), dtype=bool, count=len(outputs))

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


def _fits(pattern: Any, tree: Any) -> bool:
    if isinstance(pattern, Slot):
        return is_finite_number(tree)
    if isinstance(pattern, tuple):
        return type(tree) is type(pattern) and len(tree) == len(pattern) and all(map(_fits, pattern, tree))
    return same(pattern, tree)


def same(first: Any, second: Any) -> bool:
    """Whether two leaves of outputs are the same, finite numbers up to rounding."""
    if is_finite_number(first) and is_finite_number(second):
        return math.isclose(first, second, rel_tol=1e-12, abs_tol=1e-12)
    return leaf_key(first) == leaf_key(second)
