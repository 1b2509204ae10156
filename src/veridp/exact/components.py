"""Conditions taken apart into components that share no noise, so that what many paths share is worked out once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from veridp.program.affine import Affine, Condition, Noise, Symbol


@dataclass(frozen=True, eq=False)
class Component:
    """Conditions that hang together by their noise, which is numbered as they name it.

    Components of one splitter with the same `kind` are the same but for which draws their noise comes from.
    """

    conditions: tuple[Condition, ...]
    ranks: dict[Symbol, int]
    kind: int


class _Node:
    """What a list of conditions comes to, and where further conditions lead from it."""

    __slots__ = ("after", "components", "last")

    def __init__(self, components: tuple[Component, ...], last: Condition | None = None) -> None:
        self.components = components
        self.last = last  # kept, so that its identity stays its own
        self.after: dict[int, _Node] = {}


class Splitter:
    """Takes lists of conditions apart; those that begin with the same conditions share the work of that beginning."""

    def __init__(self) -> None:
        self._start = _Node(())
        self._kinds: dict[Hashable, int] = {}

    def split(self, conditions: Sequence[Condition]) -> tuple[Component, ...]:
        """The components that the conditions make."""
        node = self._start
        for condition in conditions:
            after = node.after.get(id(condition))
            if after is None:
                after = node.after[id(condition)] = _Node(self._joined(node.components, condition), condition)
            node = after
        return node.components

    def _joined(self, components: tuple[Component, ...], condition: Condition) -> tuple[Component, ...]:
        """The components after one more condition, which ties together all those that it touches."""
        terms = condition.slack.terms
        touching = [component for component in components if not terms.keys().isdisjoint(component.ranks)]
        conditions: tuple[Condition, ...] = ()
        ranks: dict[Symbol, int] = {}
        for component in touching:
            ranks |= (
                {symbol: len(ranks) + rank for symbol, rank in component.ranks.items()} if ranks else component.ranks
            )
            conditions += component.conditions
        told = []
        for symbol, factor in terms.items():
            if symbol not in ranks:
                ranks[symbol] = len(ranks)
                told.append((_kind(symbol), factor))
            else:
                told.append((ranks[symbol], factor))
        seen = (*(c.kind for c in touching), condition.relation, condition.slack.constant, *told)
        joined = Component((*conditions, condition), ranks, self._kinds.setdefault(seen, len(self._kinds)))
        return (*(component for component in components if component not in touching), joined)


def kind_of(components: Sequence[Component], numbers: Sequence[Affine]) -> Hashable:
    """What the components, and expressions in noise, are but for which draws their noise comes from.

    It may tell apart what is the same, but takes nothing for the same that is not.
    """
    places: dict[Symbol, Hashable] = {}
    for number in numbers:
        for symbol in number.terms:
            ranks = ((place, c.ranks[symbol]) for place, c in enumerate(components) if symbol in c.ranks)
            places.setdefault(symbol, next(ranks, None) or (len(places), _kind(symbol)))
    told = tuple((n.constant, *((places[s], factor) for s, factor in n.terms.items())) for n in numbers)
    return tuple(component.kind for component in components), told


def _kind(symbol: Symbol) -> Hashable:
    return symbol.distribution if isinstance(symbol, Noise) else symbol
