"""Conditions taken apart into components that share no noise, so that what many paths share is worked out once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Symbol


class Component:
    """Conditions that hang together by their noise, which is numbered as they name it.

    Components of the same `kind` are the same but for which draws their noise comes from.
    """

    __slots__ = ("conditions", "kind", "ranks")

    def __init__(self, conditions: tuple[Condition, ...], ranks: dict[Symbol, int], kind: int) -> None:
        self.conditions = conditions
        self.ranks = ranks
        self.kind = kind


Kinds = dict[Hashable, int]


class Splitter:
    """Takes lists of conditions apart, one after the other; what a list begins with like the last is not done again.

    Splitters that share `kinds` tell the same kinds.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._last: list[Condition] = []
        self._so_far: list[tuple[Component, ...]] = [()]  # what each beginning of the last list comes to

    def split(self, conditions: Sequence[Condition]) -> tuple[Component, ...]:
        """The components that the conditions make."""
        same = 0
        for mine, before in zip(conditions, self._last, strict=False):
            if mine is not before:
                break
            same += 1
        del self._last[same:], self._so_far[same + 1 :]
        for condition in conditions[same:]:
            self._so_far.append(self._joined(self._so_far[-1], condition))
        self._last += conditions[same:]
        return self._so_far[-1]

    def _joined(self, components: tuple[Component, ...], condition: Condition) -> tuple[Component, ...]:
        """The components after one more condition, which ties together all those that it touches."""
        terms = condition.slack.terms
        touching = [component for component in components if not terms.keys().isdisjoint(component.ranks)]
        conditions: tuple[Condition, ...] = ()
        ranks: dict[Symbol, int] = {}
        for component in touching:
            before = len(ranks)
            ranks |= {symbol: before + rank for symbol, rank in component.ranks.items()} if before else component.ranks
            conditions += component.conditions
        told: list[Hashable] = [component.kind for component in touching]
        told += condition.relation, condition.slack.constant
        for symbol, factor in terms.items():
            rank = ranks.get(symbol)
            if rank is None:
                ranks[symbol] = len(ranks)
            told += factor, _kind(symbol) if rank is None else rank
        kind = self._kinds.setdefault(tuple(told), len(self._kinds))
        joined = Component((*conditions, condition), ranks, kind)
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
    told = tuple([(n.constant, *[(places[s], factor) for s, factor in n.terms.items()]) for n in numbers])
    return tuple([component.kind for component in components]), told


def _kind(symbol: Symbol) -> Hashable:
    return symbol.distribution if isinstance(symbol, Noise) else symbol
