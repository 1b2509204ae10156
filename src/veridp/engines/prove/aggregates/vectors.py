"""Which expressions of a text are vectors over the records, sums of these or constants, and what names mean there.

Whatever is not named here is neither. Lists and arrays are told apart: `data * 2` repeats a list.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.engines.prove.induction.loop import COMPARISONS, OPERATORS, PLAIN_TYPES, TextReader
from veridp.mechanism import Mechanism

OF_A_NUMBER = {name: getattr(builtins, name) for name in ("abs", "min", "max", "bool", "int", "float", "round")}
ENTRYWISE = {"abs", "absolute", "fabs", "clip", "minimum", "maximum", "square", "floor", "ceil", "sign", "where"}
LITERAL_TYPES = (bool, int, float, str, type(None))  # of constants that can be written down
# With their numbers of arguments; after these comes the type of the entries.
FIXED_ARRAYS = {"array": 1, "asarray": 1, "zeros": 1, "linspace": 3, "arange": 3}
OF_TRUTH_VALUES = {"where", "minimum", "maximum", "clip"}  # others make numbers of few bits of them


@dataclass(frozen=True)
class RecordVector:
    """A list, an array or an array of truth values (`mask`); `full` where it has an entry for each record."""

    kind: str
    full: bool = True


class VectorReader(TextReader):
    """What the expressions of a mechanism's text are, where its names mean what was read so far."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism)
        self.assigned = stored_in([self.definition])
        names, cells = self.function.__code__.co_freevars, self.function.__closure__ or ()
        self.closure = {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}
        if twice := self.assigned & self.closure.keys():  # as in comprehensions, which have names of their own
            self.refuse(self.definition, f"a name for two things, {min(twice)}")
        self.vectors = {self.data: RecordVector("list")}
        self.counts: set[str] = set()  # names of the number of records
        self.degrees: dict[str, int] = {}  # names of fixed multiples of a power of it
        self.plain = {name for name, value in mechanism.values.items() if type(value) in PLAIN_TYPES}

    # ------------------------------------------------------------------------------------------------ vectors

    def vector(self, node: ast.expr) -> RecordVector | None:
        """The vector that the expression is; None where it is none."""
        match node:
            case ast.Name(id=name):
                return self.vectors.get(name)
            case ast.ListComp():
                return self.over_records(node)
            case ast.Call(func=ast.Name(id="list"), args=[inner], keywords=[]) if self.outside("list") is list:
                found = self.vector(inner)
                return None if found is None else RecordVector("list", found.full)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if self.outside(name) is np:
                return self._array_call(node, attribute)
            case ast.Call(func=ast.Attribute(value=value, attr=attribute), args=arguments, keywords=[]):
                found = self.vector(value) if attribute in ("clip", "astype", "copy") else None
                fixed = all(self._is_type(a) if attribute == "astype" else self.is_of(a) for a in arguments)
                return RecordVector("array", found.full) if found and found.kind != "list" and fixed else None
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
                return self._combined([left, right], "mask") if self.is_mask(left) and self.is_mask(right) else None
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, OPERATORS):
                return self._combined([left, right], "array")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._combined([operand], "array")
            case ast.UnaryOp(op=ast.Invert(), operand=operand) if self.is_mask(operand):
                return self.vector(operand)
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if isinstance(operator, COMPARISONS):
                return self._combined([left, right], "mask")
            case ast.Subscript(value=value, slice=mask) if self.is_mask(mask):
                found = self.vector(value)
                return RecordVector(found.kind, full=False) if found and found.kind != "list" and found.full else None
        return None

    def _array_call(self, node: ast.Call, attribute: str) -> RecordVector | None:
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if attribute in ("asarray", "array") and len(node.args) == 1 and {*named} <= {"dtype"}:
            found = self.vector(node.args[0])
            if found is None or not all(map(self._is_type, named.values())):
                return None
            return RecordVector("mask" if found.kind == "mask" and not named else "array", found.full)
        if attribute not in ENTRYWISE or named or not node.args:
            return None
        if attribute == "where" and not (len(node.args) == 3 and self.is_mask(node.args[0])):
            return None
        if attribute not in OF_TRUTH_VALUES and any(map(self.is_mask, node.args)):
            return None
        return self._combined(node.args, "array", lists=attribute != "where")

    def _combined(self, parts: Sequence[ast.expr], kind: str, *, lists: bool = False) -> RecordVector | None:
        """Arrays and fixed numbers, entry by entry; lists too where NumPy makes arrays of them."""
        found = [self.vector(part) for part in parts]
        vectors = [each for each in found if each is not None]
        known = all(each is not None or self.is_of(part) for each, part in zip(found, parts, strict=True))
        alike = len(vectors) == 1 or all(each.full for each in vectors)
        if not vectors or not known or not alike or any(each.kind == "list" and not lists for each in vectors):
            return None
        return RecordVector(kind, all(each.full for each in vectors))

    def is_array(self, node: ast.expr) -> bool:
        found = self.vector(node)
        return found is not None and found.kind != "list"

    def is_mask(self, node: ast.expr) -> bool:
        found = self.vector(node)
        return found is not None and found.kind == "mask" and found.full

    def over_records(self, node: ast.ListComp | ast.GeneratorExp) -> RecordVector | None:
        """A comprehension over one vector, of a function of its entries."""
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=over, ifs=tests, is_async=0)]:
                found = self.vector(over)
                if found is not None and all(self.is_of(each, {name}) for each in [node.elt, *tests]):
                    return RecordVector("list", found.full and not tests)
        return None

    # --------------------------------------------------------------------------------------------------- sums

    def averaged(self, node: ast.expr) -> ast.expr | None:
        """The sum whose mean the expression is, over a vector with an entry for each record."""
        vector: RecordVector | None = None
        total: ast.expr = node
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), args=[over], keywords=[]) if (
                self.outside(name) is np and attribute == "mean"
            ) or (self.outside(name) is statistics and attribute in ("mean", "fmean")):
                vector, total = self.vector(over), ast.Call(ast.Name("sum", ast.Load()), [over], [])
            case ast.Call(func=ast.Attribute(value=value, attr="mean"), args=[], keywords=[]) if self.is_array(value):
                vector, total = self.vector(value), ast.Call(ast.Attribute(value, "sum", ast.Load()), [], [])
        if vector is not None and (not vector.full or self.outside("sum") is not sum):
            self.refuse(node, "a mean of some of the records")
        return None if vector is None else total

    def total(self, node: ast.expr) -> ast.expr | None:
        """The expression, where it is a sum over a vector, or one for each of some fixed values."""
        match node:
            case ast.Call(func=ast.Name(id="sum"), args=[over], keywords=[]) if self.outside("sum") is sum:
                summed = self.over_records(over) if isinstance(over, ast.GeneratorExp) else self.vector(over)
                return None if summed is None else node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), args=[over], keywords=[]) if (
                self.outside(name) is np and attribute in ("sum", "count_nonzero")
            ) or (self.outside(name) is math and attribute == "fsum"):
                return None if self.vector(over) is None else node
            case ast.Call(func=ast.Attribute(value=value, attr="sum"), args=[], keywords=[]) if self.is_array(value):
                return node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="histogram"), args=[over, *bins]) if (
                self.outside(name) is np and self.vector(over) is not None
            ):
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                listed = bins[0] if bins else named.get("bins")
                edges = listed is not None and self.is_list(listed)
                ranged = len(bins) == 2 or "range" in named
                fixed = all(map(self.is_fixed, [*bins, *named.values()])) and {*named} <= {"bins", "range"}
                if not fixed or not (edges or ranged) or len(bins) > 2:
                    self.refuse(node, "a histogram whose bins depend on the records")
                return node
        return None

    def is_count(self, node: ast.expr) -> bool:
        """Whether it is the number of records itself."""
        match node:
            case ast.Name(id=name):
                return name in self.counts
            case ast.Call(func=ast.Name(id="len"), args=[over], keywords=[]) if self.outside("len") is len:
                vector = self.vector(over)
            case ast.Attribute(value=over, attr="size") if self.is_array(over):
                vector = self.vector(over)
            case _:
                return False
        return vector is not None and vector.full

    def degree(self, node: ast.expr) -> int | None:
        """The power of the number of records that the expression is a fixed multiple of; None where it is of none."""
        if self.is_of(node):
            return 0
        if self.is_count(node):
            return 1
        match node:
            case ast.Name(id=name):
                return self.degrees.get(name)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as operator, right=right):
                one, other = self.degree(left), self.degree(right)
                if one is not None and other is not None:
                    return one + other if isinstance(operator, ast.Mult) else one - other
            case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]) if self.outside("float") is float:
                return self.degree(inner)
        return None

    # ---------------------------------------------------------------------------------------------- constants

    def is_of(self, node: ast.expr, names: Collection[str] = ()) -> bool:
        """Whether it is a number that follows from these names and from constants alone."""
        parts: Sequence[ast.expr]
        match node:
            case ast.Constant(value=value):
                return type(value) in PLAIN_TYPES
            case ast.Name(id=name):
                return name in names or name in self.plain or self.is_constant(name)
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, OPERATORS):
                parts = (left, right)
            case ast.UnaryOp(op=operator, operand=operand) if isinstance(operator, OPERATORS):
                parts = (operand,)
            case ast.BoolOp(values=values):
                parts = values
            case ast.Compare(left=left, ops=operators, comparators=others) if all(
                isinstance(operator, COMPARISONS) for operator in operators
            ):
                parts = (left, *others)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                parts = (test, body, orelse)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if (
                name in OF_A_NUMBER and self.outside(name) is OF_A_NUMBER[name]
            ):
                parts = arguments
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), args=arguments, keywords=[]) if (
                self.outside(name) is math and hasattr(math, attribute)
            ) or (self.outside(name) is np and attribute in ENTRYWISE):
                parts = arguments
            case _:
                return False
        return all(self.is_of(part, names) for part in parts)

    def is_fixed(self, node: ast.expr) -> bool:
        """Whether it is the same for all data: a constant, a list of such, zeros, a range."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(map(self.is_fixed, parts))
            case ast.Dict(keys=keys, values=values):
                return all(isinstance(key, ast.Constant) for key in keys) and all(map(self.is_fixed, values))
            case ast.BinOp(left=ast.List() as left, op=ast.Mult(), right=right):
                return self.is_fixed(left) and self.is_of(right)
            case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]):
                return self.outside("range") is range and all(map(self.is_of, arguments))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), args=arguments, keywords=named):
                if len(arguments) <= FIXED_ARRAYS.get(attribute, -1) and self.outside(name) is np:
                    typed = all(self._is_type(each.value) for each in named if each.arg == "dtype")
                    return typed and all(
                        map(self.is_fixed, [*arguments, *(each.value for each in named if each.arg != "dtype")])
                    )
            case ast.Name(id=name) if isinstance(value := self.outside(name), tuple):
                return all(type(each) in PLAIN_TYPES for each in value)
        return self.is_of(node)

    def is_list(self, node: ast.expr) -> bool:
        """Whether it is fixed, and a list of numbers rather than a number."""
        arrays = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FIXED_ARRAYS
        constant = isinstance(node, ast.Name) and isinstance(self.outside(node.id), tuple)
        return self.is_fixed(node) and (isinstance(node, ast.List | ast.Tuple) or constant or arrays)

    def is_rounded(self, node: ast.expr) -> bool:
        """Whether it may be an array of whole numbers."""
        match node:
            case ast.Call(func=ast.Attribute(attr=attribute), keywords=named):
                types = [each.value for each in named if each.arg == "dtype"]
                if types:
                    return not all(isinstance(each, ast.Name) and self.outside(each.id) is float for each in types)
                listed = [part for each in ast.walk(node) if isinstance(each, ast.List) for part in each.elts]
                broken = any(isinstance(part, ast.Constant) and type(part.value) is float for part in listed)
                return attribute not in ("zeros", "linspace") and not broken
        return False

    def _is_type(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.outside(node.id) in (float, int)

    def is_constant(self, name: str) -> bool:
        """Whether it is a plain constant of the module or of what surrounds the function."""
        if name in self.assigned or name in self.parameters:
            return False
        if name in self.closure:
            return type(self.closure[name]) in LITERAL_TYPES
        return type(self.function.__globals__.get(name, self)) in PLAIN_TYPES

    def outside(self, name: str) -> Any:
        """What the name means where the function does not define it; nothing where it does."""
        if name in self.assigned or name in self.parameters or name in self.closure:
            return None
        return self.function.__globals__.get(name, getattr(builtins, name, None))


def is_whole(node: ast.expr) -> bool:
    """Whether it is a whole number by its text."""
    match node:
        case ast.Constant(value=value):
            return type(value) in (bool, int)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            return is_whole(operand)
        case ast.IfExp(body=body, orelse=orelse):
            return is_whole(body) and is_whole(orelse)
    return isinstance(node, ast.Compare)


def stored_in(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that the code sets."""
    every = (inner for node in nodes for inner in ast.walk(node))
    return {node.id for node in every if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}


def assigned_name(target: ast.expr) -> str:
    """The name of what an assignment changes."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def stored_name(name: ast.Name) -> ast.Name:
    return ast.Name(name.id, ast.Store())


class NameReplacement(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, places: Mapping[str, ast.expr]) -> None:
        self.places = places

    def visit_Name(self, node: ast.Name) -> ast.expr:
        place = self.places.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if place is None else ast.copy_location(copy.deepcopy(place), node)


class SumWriter:
    """Writes values with the entries of the data for their numbers, from the first on."""

    def __init__(self, data: str, array: str) -> None:
        self.data, self.array, self.number = data, array, -1

    def next(self) -> ast.expr:
        self.number += 1
        return ast.Subscript(ast.Name(self.data, ast.Load()), ast.Constant(self.number), ast.Load())

    def written(self, value: Any) -> ast.expr:
        if isinstance(value, np.ndarray):
            listed = ast.List([self.written(each) for each in value], ast.Load())
            return ast.Call(ast.Attribute(ast.Name(self.array, ast.Load()), "array", ast.Load()), [listed], [])
        if isinstance(value, list):
            return ast.List([self.written(each) for each in value], ast.Load())
        if isinstance(value, tuple):
            return ast.Tuple([self.written(each) for each in value], ast.Load())
        if isinstance(value, dict):
            return ast.Dict([ast.Constant(key) for key in value], [self.written(each) for each in value.values()])
        return self.next()
