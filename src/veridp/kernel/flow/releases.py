"""Adaptive runs: data with noise on them are released numbers, and what comes after may depend on these.

Where noise that was not used yet is added to something of the data, the sum is taken for a symbol of its own. Whoever
sees the sum may know it, so later steps may use it as they like: what they compute from it and from the data is a
function of a number that is known, and of records. So the privacy of many noisy steps is that of each of them given the
numbers that were released before, one after the other: adaptive composition.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.expressions.records import bounded_extreme
from veridp.kernel.flow.branches import norm_branch, set_local
from veridp.kernel.noise import Uniform
from veridp.kernel.run import Run
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown, drawn_in

MAX_KNOWN_TERMS = 3  # of a sum of released numbers, before it has a symbol of its own


@dataclass(frozen=True, eq=False)
class Released(Noise):
    """A number that is released: `total`, which has this noise and something of the data in it."""

    total: Affine = field(kw_only=True)

    @property
    def name(self) -> str:
        return f"y{self.index}"

    def hides(self, symbol: Symbol) -> bool:
        """Whether the symbol is the noise of this number."""
        return type(symbol) is Noise and symbol.index == self.index

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Released) and self.index == other.index and self.total.same(other.total)
        )

    def __hash__(self) -> int:
        return ~self.index


@dataclass(frozen=True, eq=False)
class KnownRelease(Released):
    """A sum of released numbers, `total`: with a symbol of its own, sums of many steps stay short.

    Its label tells it from others; that of a sum of known numbers is made of theirs.
    """

    label: str = field(kw_only=True)

    @property
    def name(self) -> str:
        return self.label

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def in_order(expressions: Iterable[Affine]) -> Iterator[Symbol]:
    """All symbols that the expressions are made of, each after those that it is made of itself.

    The noise of a released number is not among them, unless it occurs elsewhere too.
    """
    done: set[int] = set()
    pending: list[tuple[Symbol, bool]] = [(s, False) for e in expressions for s in e.terms]
    while pending:
        symbol, ready = pending.pop()
        if ready:
            yield symbol
        elif id(symbol) not in done:
            done.add(id(symbol))
            pending.append((symbol, True))
            parts: list[Symbol] = []
            if isinstance(symbol, Released):
                parts = [s for s in symbol.total.terms if not symbol.hides(s)]
            elif isinstance(symbol, Derived):
                parts = [s for argument in symbol.expressions for s in argument.terms]
            pending += [(s, False) for s in parts if id(s) not in done]


def is_of_data(symbol: Symbol) -> bool:
    """Whether it is an open value, or a function of one."""
    return any(isinstance(each, Unknown) for each in drawn_in([symbol]))


class AdaptiveRun(Run):
    """A run in which sums of data and noise are released numbers, and clipped numbers of data and noise are not decided
    but functions of a known range."""

    adaptive = True
    fresh = 0  # the first draw that is not known yet, whether or not data were added to it

    def summed(self, total: Affine) -> Affine:
        if len(total.terms) > MAX_KNOWN_TERMS and all(map(self.is_known, total.terms)):
            first = next(iter(total.terms))
            label = f"w{hash(total.text()) & 0xFFFFFFFFFFFF:x}"
            known = KnownRelease(first.index, first.distribution, first.site, total=total, label=label)  # type: ignore[union-attr]
            return Affine(0, {known: 1}, total.kind, total.held)
        noises = [
            s
            for s in total.terms
            if type(s) is Noise and s.index >= self.fresh and not isinstance(s.distribution, Uniform)
        ]
        if len(noises) != 1 or noises[0].distribution.integer or not any(map(is_of_data, total.terms)):
            return total
        noise = noises[0]
        released = Released(noise.index, noise.distribution, noise.site, total=total)
        return Affine(0, {released: 1}, total.kind, total.held)

    def decide(self, condition: Condition) -> bool:
        """Also: a branch that clips by a norm is taken whatever the norm is, see `veridp.kernel.flow.branches`."""
        ordered = condition.relation in (Relation.AT_LEAST, Relation.ABOVE)
        found = norm_branch(sys._getframe(1)) if ordered and any(map(is_of_data, condition.slack.terms)) else None
        if found is None:
            return super().decide(condition)
        frame, name, bound = found
        larger = bounded_extreme([frame.f_locals[name], bound], True)
        if larger is None:
            return super().decide(condition)
        set_local(frame, name, larger)
        return True

    def is_known(self, symbol: Symbol) -> bool:
        """Whether it may be taken for a released number."""
        return isinstance(symbol, Released)
