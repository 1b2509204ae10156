"""What a path says: its expressions, with others in their place, as keys that tell them apart, and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.path import leaves
from veridp.kernel.stand_ins.text import NoisyText, WrittenNumber
from veridp.kernel.symbols import Derived, Noise, Symbol, is_constant, number_text, sum_text


def expressions_in(output: Any, conditions: Iterable[Condition]) -> list[Affine]:
    """What a path says: the affine expressions of its output and its conditions."""
    found = [condition.slack for condition in conditions]
    for leaf in leaves(output):
        found += _parts(leaf)
    return found


def _parts(leaf: Any) -> Iterator[Affine]:
    if isinstance(leaf, Affine):
        yield leaf
    elif isinstance(leaf, Condition):
        yield leaf.slack
    elif isinstance(leaf, Select):
        for part in (leaf.condition, leaf.then, leaf.other):
            yield from _parts(part)
    elif isinstance(leaf, NoisyText):
        yield from leaf.numbers


def functions_in(expression: Affine) -> Iterator[Derived]:
    """The functions in an expression, those within others first."""
    for symbol in expression.terms:
        if isinstance(symbol, Derived):
            for argument in symbol.expressions:
                yield from functions_in(argument)
            yield symbol


def within(expression: Affine, stop: Sequence[Derived] = ()) -> Iterator[Affine]:
    """The expression, and those that functions in it are of; but not within those at which to stop."""
    yield expression
    for symbol in expression.terms:
        if isinstance(symbol, Derived) and symbol not in stop:
            for argument in symbol.expressions:
                yield from within(argument, stop)


def substituted(leaf: Any, made: Mapping[Symbol, Affine | Number]) -> Any:
    """The leaf of an output, or a condition, with expressions in place of symbols."""
    if isinstance(leaf, Condition):
        return Condition(substituted(leaf.slack, made), leaf.relation)
    if isinstance(leaf, Select):
        condition, then, other = (substituted(part, made) for part in (leaf.condition, leaf.then, leaf.other))
        return Select(condition, then, other, leaf.held)
    if isinstance(leaf, NoisyText):
        return NoisyText(tuple(substituted(part, made) for part in leaf.parts))
    if isinstance(leaf, WrittenNumber):
        return WrittenNumber(substituted(leaf.number, made), leaf.form)
    if not isinstance(leaf, Affine):
        return leaf
    constant: Number = leaf.constant
    terms: dict[Symbol, Number] = {}
    for symbol, factor in leaf.terms.items():
        if symbol in made:
            new = made[symbol]
            parts = (new.constant, new.terms) if isinstance(new, Affine) else (new, {})
        elif isinstance(symbol, Derived):
            arguments = tuple(substituted(argument, made) for argument in symbol.arguments)
            parts = 0, {Derived(symbol.function, arguments): 1}
        else:
            parts = 0, {symbol: 1}
        constant += factor * parts[0]
        for each, c in parts[1].items():
            terms[each] = terms.get(each, 0) + factor * c
    return Affine(exact(constant), {s: exact(c) for s, c in terms.items() if c}, leaf.kind, leaf.held)


def leaf_key(leaf: Any) -> object:
    if isinstance(leaf, Affine):
        return leaf.key
    if isinstance(leaf, Condition):
        return leaf.relation, leaf.slack.key
    if isinstance(leaf, Select):
        return tuple(map(leaf_key, (leaf.condition, leaf.then, leaf.other)))
    if isinstance(leaf, NoisyText):
        return tuple(map(leaf_key, leaf.parts))
    if isinstance(leaf, WrittenNumber):
        return leaf.form, leaf.number.key
    return type(leaf), repr(leaf)


def formula_of(symbol: Derived | Noise) -> str:
    """How the noise was made, from draws as NumPy has them."""
    if isinstance(symbol, Noise):
        return symbol.formula or symbol.distribution.kind
    return symbol.function.text([number_text(a) if is_constant(a) else _sum_told(a) for a in symbol.arguments])


def _sum_told(expression: Any) -> str:
    return sum_text([(_Word(formula_of(symbol)), c) for symbol, c in expression.terms.items()], expression.constant)


class _Word(NamedTuple):
    name: str
