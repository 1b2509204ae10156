"""Mechanisms of formulas of their data: a variance, a root, a mean of logarithms, with noise that is added to them.

What is computed from data alone becomes an entry of new data. Neighbours differ in it by no more than the formula can
change; `veridp_check/formulas.py` says by how much that is, to the search too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.engines.prove.events import entry_of, releasing_arguments
from veridp.engines.prove.records import Ends, Skeleton, Summary
from veridp.engines.prove.regions import is_on_data
from veridp.kernel import functions
from veridp.kernel.expressions import Affine
from veridp.kernel.functions import HOLE
from veridp.kernel.path import Fork, Path, map_leaves
from veridp.kernel.substitution import expressions_in, substituted
from veridp.kernel.symbols import Derived, Noise, PureFunction, Symbol, Unknown, drawn_in, is_constant
from veridp.numerics.rational import echelon
from veridp_check.document import CertificateFlaw
from veridp_check.formulas import ADJACENCIES, MAX_DEGREE, MAX_ENTRIES, PRODUCT, SUM, FormulaMap, FormulaNode

ONE = Fraction(1)
NAMES = {
    functions.EXP: "exp", functions.LOG: "log", functions.LOG2: "log2", functions.LOG10: "log10",
    functions.SQRT: "sqrt", functions.RECIPROCAL: "reciprocal", functions.power_of_positive(0.5): "sqrt",
}  # fmt: skip
SHIFTED = {functions.LOG1P: ("log", 1, 0), functions.EXPM1: ("exp", 0, -1)}  # what is added before, and after
POWERS = {functions.even_power(k): k for k in range(2, MAX_DEGREE + 1, 2)}
POWERS |= {functions.odd_power(k): k for k in range(3, MAX_DEGREE + 1, 2)}


def formulated(paths: Sequence[Path], size: int, ends: Ends, adjacency: str) -> Summary | None:
    """The mechanism whose paths are listed as one of formulas of its data; None where it is none, or where nothing is
    known of one of them."""
    asked = [condition for path in paths for condition in path.conditions]
    if adjacency not in ADJACENCIES or size > MAX_ENTRIES or any(map(is_on_data, asked)):
        return None
    parts: dict[Unknown | Derived, None] = {}
    for path in paths:
        for each in expressions_in(path.output, path.conditions):
            _collect(each, parts)
    if not any(isinstance(symbol, Derived) or symbol.source is not None for symbol in parts):
        return None
    made: dict[Symbol, Affine] = {symbol: Affine(0, {Unknown(f"sum[{k}]"): 1}) for k, symbol in enumerate(parts)}
    skeletons = [Skeleton(releasing_arguments(_with(path, made)), lambda _: False) for path in paths]
    columns = [
        {entry_of(s): Fraction(c) for s, c in each.terms.items() if isinstance(s, Unknown)}
        for skeleton in skeletons
        for each in skeleton.expressions
    ]
    basis = echelon([[column.get(k, Fraction(0)) for column in columns] for k in range(len(parts))])
    builder = _Builder()
    try:
        places = [builder.symbol(symbol) for symbol in parts]
        values = tuple(builder.sum({places[k]: c for k, c in columns[pivot].items()}) for pivot in basis.pivots)
        summary = Summary((FormulaMap(size, tuple(builder.nodes), values, ends),), (), adjacency)
        summary.polytopes(apart=True)
    except (_NoFormula, CertificateFlaw):
        return None
    entries: list[Symbol] = [Unknown(f"sum[{e}]") for e in range(len(values))]
    forms = iter(
        [{e: row[k] for e, row in zip(entries, basis.rows, strict=True) if row[k]} for k in range(len(columns))]
    )
    on_values = (each.on_sums(list(itertools.islice(forms, len(each.forms)))) for each in skeletons)
    return replace(summary, paths=tuple(on_values))


def _with(path: Path, made: Mapping[Symbol, Affine]) -> Path:
    """The path, with these in place of the symbols."""
    steps = []
    for step in path.steps:
        if isinstance(step, Fork):
            options = tuple(
                replace(option, conditions=tuple(substituted(c, made) for c in option.conditions))
                for option in step.options
            )
            step = replace(step, options=options)
        steps.append(step)
    return Path(tuple(steps), map_leaves(lambda leaf: substituted(leaf, made), path.output))


def _collect(expression: Affine, found: dict[Unknown | Derived, None]) -> None:
    """Adds what it is made of that is of the data alone, the largest parts."""
    for symbol in expression.terms:
        if not isinstance(symbol, Noise) and all(isinstance(each, Unknown) for each in drawn_in([symbol])):
            found.setdefault(symbol)
        elif isinstance(symbol, Derived):
            for argument in symbol.expressions:
                _collect(argument, found)


class _NoFormula(Exception):
    """A function that formulas have no word for."""


class _Builder:
    """The nodes of formulas, each once."""

    def __init__(self) -> None:
        self.nodes: list[FormulaNode] = []
        self._places: dict[FormulaNode, int] = {}

    def node(self, node: FormulaNode) -> int:
        if node not in self._places:
            self._places[node] = len(self.nodes)
            self.nodes.append(node)
        return self._places[node]

    def sum(self, parts: dict[int, Fraction], constant: Any = 0) -> int:
        return self.node(FormulaNode(SUM, tuple(parts), tuple(parts.values()), (), Fraction(constant)))

    def expression(self, expression: Any) -> int:
        """The node of an affine expression, or of a constant."""
        if is_constant(expression):
            return self.sum({}, expression)
        data: dict[int, Fraction] = {}
        parts: dict[int, Fraction] = {}
        for symbol, c in expression.terms.items():
            if isinstance(symbol, Unknown) and symbol.source is None:
                data[entry_of(symbol)] = Fraction(c)
            else:
                place = self.symbol(symbol)
                parts[place] = parts.get(place, Fraction(0)) + Fraction(c)
        constant = Fraction(expression.constant)
        return self.node(FormulaNode(SUM, tuple(parts), tuple(parts.values()), tuple(sorted(data.items())), constant))

    def symbol(self, symbol: Symbol) -> int:
        if isinstance(symbol, Unknown):
            record = self.expression(Affine(0, {symbol.record: 1}))
            if symbol.source is None:
                return record
            if len(symbol.pieces) != 1:
                raise _NoFormula
            terms = {power: Fraction(c) for power, c in symbol.pieces[0].terms.items()}
            powers = {self.power(record, power): c for power, c in terms.items() if power}
            return self.sum(powers, terms.get(0, 0))
        if not isinstance(symbol, Derived):
            raise _NoFormula
        return self.function(symbol.function, symbol.arguments)

    def function(self, function: PureFunction, arguments: Sequence[Any]) -> int:
        called = getattr(function.compute, "args", ())
        if called and called[0] in (np.var, np.std, np.linalg.norm, np.prod):
            return self.called(called, list(arguments))
        if function.name.startswith("norm("):
            return self.node(FormulaNode("sqrt", (self.squares([self.expression(each) for each in arguments]),)))
        of = [self.expression(argument) for argument in arguments]
        if function in NAMES:
            return self.node(FormulaNode(NAMES[function], tuple(of)))
        if function in SHIFTED:
            name, before, after = SHIFTED[function]
            return self.sum({self.node(FormulaNode(name, (self.sum({of[0]: ONE}, before),))): ONE}, after)
        if function in POWERS:
            return self.power(of[0], POWERS[function])
        if function == functions.PRODUCT:
            return self.node(FormulaNode(PRODUCT, tuple(of)))
        if function == functions.QUOTIENT:
            return self.node(FormulaNode(PRODUCT, (of[0], self.node(FormulaNode("reciprocal", (of[1],))))))
        raise _NoFormula

    def called(self, call: Sequence[Any], arguments: list[Any]) -> int:
        """A function of NumPy that is called with a list of numbers."""
        function, form, names, place = call
        options = {"ddof": 0, **dict(names)}
        free = options.pop("ddof")
        if len(form) != 1 or not isinstance(form[0], list) or place not in (0, ...) or any(options.values()):
            raise _NoFormula
        given = iter(arguments)
        numbers = [next(given) if each is HOLE else each for each in form[0]]
        if any(isinstance(each, list) for each in numbers):
            raise _NoFormula
        of = [self.expression(each if isinstance(each, Affine) else Fraction(each)) for each in numbers]
        if function is np.prod:
            product = of[0]
            for each in of[1:]:
                product = self.node(FormulaNode(PRODUCT, (product, each)))
            return product
        if function is np.linalg.norm:
            return self.node(FormulaNode("sqrt", (self.squares(of),)))
        if not 0 <= free < len(of):
            raise _NoFormula
        mean = self.sum(_counted(of, Fraction(1, len(of))))
        squares = self.squares([self.sum(_counted([each, mean], ONE, -ONE)) for each in of])
        variance = self.sum({squares: Fraction(1, len(of) - free)})
        return variance if function is np.var else self.node(FormulaNode("sqrt", (variance,)))

    def squares(self, of: Sequence[int]) -> int:
        return self.sum(_counted([self.power(each, 2) for each in of], ONE))

    def power(self, of: int, exponent: int) -> int:
        """By squares where it can be, which are known not to be negative."""
        if exponent == 1:
            return of
        half = self.power(of, exponent // 2)
        square = self.node(FormulaNode(PRODUCT, (half, half)))
        return self.node(FormulaNode(PRODUCT, (square, of))) if exponent % 2 else square


def _counted(of: Sequence[int], *factors: Fraction) -> dict[int, Fraction]:
    """The nodes with their factors, of which the last is that of the rest, added up where nodes are the same."""
    found: dict[int, Fraction] = {}
    for k, node in enumerate(of):
        found[node] = found.get(node, Fraction(0)) + factors[min(k, len(factors) - 1)]
    return found


def formulas_document(seen: FormulaMap) -> dict[str, Any]:
    """The formulas, as a certificate has them."""
    written: list[dict[str, Any]] = []
    for node in seen.nodes:
        if node.function == SUM:
            factors = {str(k): str(c) for k, c in zip(node.of, node.factors, strict=True)}
            data = {str(i): str(c) for i, c in node.data}
            written.append({"function": SUM, "of": factors, "data": data, "constant": str(node.constant)})
        else:
            written.append({"function": node.function, "of": list(node.of)})
    return {"formulas": written, "values": list(seen.values)}
