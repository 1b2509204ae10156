"""Whether the text of a call says that it tosses a coin: it returns a truth value, and leaves nothing behind.

A call that goes on for very long is not followed to its end. It must not matter what it does there: it may draw,
compute with plain numbers, raise or go on for ever, but what it returns is True or False, and it keeps nothing. So
everything in its text, and in that of the functions that it calls, must be understood; whatever the grammar does not
name is refused. It names:

- `if`, `while`, `for` over a range, `break`, `continue`, `pass`, `return`, `assert`, `raise`, assignments to local
  names;
- numbers, strings, arithmetic, comparisons, `and`, `or`, `not`, conditional expressions, texts with values in them;
- names of its own, arguments and constants with plain values, attributes of plain objects, `numerator`, `denominator`;
- draws from a source of randomness, `abs`, `int` and the like, `Fraction`, functions of the math module and some of
  NumPy's, and functions and methods of the user that the same grammar understands.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import random
import secrets
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.source import definition_of, nested_codes
from veridp.mechanism.randomness import AdoptedRandom, AdoptedState

UNDERSTOOD = (
    ast.If, ast.While, ast.Return, ast.Break, ast.Continue, ast.Pass, ast.Assert, ast.Raise, ast.Expr, ast.keyword,
    ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr,
    ast.FormattedValue, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
PURE_BUILTINS = frozenset({"abs", "min", "max", "bool", "int", "float", "round", "range", "isinstance"})
PURE_OF_NUMPY = frozenset({"exp", "log", "sqrt", "floor", "ceil", "abs", "sign"})
# Methods and functions that draw one number, and how many arguments they take for that.
DRAWS = {
    "random": 0, "integers": 2, "uniform": 2, "randrange": 3, "randint": 2, "randbelow": 1, "getrandbits": 1,
    "randbits": 1, "choice": 1, "geometric": 1, "binomial": 2, "exponential": 1, "standard_exponential": 0,
}  # fmt: skip
PARAMETERS = frozenset({"low", "high", "endpoint", "a", "b", "start", "stop", "p", "n", "scale"})
PLAIN_TYPES = (bool, int, float, str, bytes, type(None), Fraction, np.float64, np.int64, np.bool_)
PLAIN_ATTRIBUTES = frozenset({"numerator", "denominator"})
KNOWN_TYPES = (*PLAIN_TYPES, np.integer, np.floating)
# What a call that the grammar understands may raise. Runs see to it that nobody goes on where one of these is raised.
LATE_ERRORS = (
    ZeroDivisionError, OverflowError, FloatingPointError, AssertionError, AttributeError, TypeError, ValueError,
    NameError, UnboundLocalError, RecursionError,
)  # fmt: skip


def may_catch(functions: Iterable[FunctionType]) -> bool:
    """Whether one of these functions could go on where a call has raised, or its text cannot be read."""
    for each in functions:
        if each.__name__ == "__exit__":
            return True
        if any(code.co_exceptiontable for code in (each.__code__, *nested_codes(each.__code__))):
            try:
                text = definition_of(each.__code__, each.__globals__)
            except NotExplorable:
                return True
            if any(isinstance(node, ast.Try | ast.TryStar | ast.With) for node in ast.walk(text)):
                return True
    return False


class CoinText:
    """The text of a function, all of which is understood.

    `names` is what its parameters and the variables around it stand for, `adopted` are generators that draw from the
    stand-in whenever it runs.
    """

    def __init__(
        self,
        code: CodeType,
        names: dict[str, Any],
        module: dict[str, Any],
        adopted: Sequence[Any] = (),
        callers: frozenset[CodeType] = frozenset(),
    ) -> None:
        self.code, self.definition = code, definition_of(code, module)
        self.names, self.module, self.adopted = names, module, adopted
        self.inner: dict[tuple[int, int], CoinText] = {}  # the texts of functions that it calls
        self.callers = callers | {code}
        self.nodes = [node for statement in self.definition.body for node in ast.walk(statement)]
        stores = [node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self.assigned = frozenset(stores)
        self.parameters = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        # attributes that are called, and objects whose attributes are read, are understood with the whole
        self.parts = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.parts |= {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        unpacked = [n for n in self.nodes if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple)]
        self.unpacked = {id(node.value) for node in unpacked}
        if not _ends(self.definition.body):
            raise NotExplorable("it may end without return")
        for node in self.nodes:
            if not self._understands(node):
                raise NotExplorable(f"{ast.unparse(node)} is not understood")

    def _understands(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            return all(isinstance(each, ast.Name) for each in flat)
        if isinstance(node, ast.For):
            looped = isinstance(node.iter, ast.Call) and self.value_of(node.iter.func) is range
            return looped and isinstance(node.target, ast.Name)
        if isinstance(node, ast.Tuple):  # elsewhere it makes arrays of draws
            return isinstance(node.ctx, ast.Store) or id(node) in self.unpacked
        if isinstance(node, ast.Call):
            return self._is_pure(node.func, node)
        if isinstance(node, ast.Name | ast.Attribute) and id(node) in self.parts:
            return True
        if isinstance(node, ast.Attribute):
            return self._is_plain(node) if self.value_of(node.value) is not None else node.attr in PLAIN_ATTRIBUTES
        if isinstance(node, ast.Name):
            return node.id in self.assigned or (self._is_helpers(node) or self._is_plain(node))
        return isinstance(node, UNDERSTOOD)

    def value_of(self, node: ast.expr) -> Any:
        """What a name, or an attribute of one, stands for throughout the call; None where that is not known."""
        if isinstance(node, ast.Name) and node.id not in self.assigned:
            if node.id in self.names:
                return self.names[node.id]
            if node.id not in self.parameters:
                return self.module.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute) and (base := self.value_of(node.value)) is not None and _reads_plainly(base):
            return inspect.getattr_static(base, node.attr, None)
        return None

    def draws(self, value: Any) -> bool:
        """Whether it is a source of randomness whose draws are those of the run."""
        return is_source(value) or any(value is each for each in self.adopted)

    def _is_helpers(self, node: ast.expr) -> bool:
        """Whether it is a parameter of a function that the call calls: it is given what is understood there."""
        return isinstance(node, ast.Name) and node.id in self.parameters - self.names.keys() - self.assigned

    def _is_plain(self, node: ast.expr) -> bool:
        """Whether reading it has no effect, and it cannot be changed; or it is a source of randomness, or a type."""
        value = self.value_of(node)
        known = any(value is each for each in (*KNOWN_TYPES, *LATE_ERRORS))
        read = type(value) in PLAIN_TYPES or self.draws(value) or known
        return read or (value is None and isinstance(node, ast.Name) and node.id in {**self.module, **self.names})

    def _is_pure(self, called: ast.expr, call: ast.Call) -> bool:
        """Whether a call of it draws a number, or computes something, and does nothing else."""
        value = self.value_of(called)
        named = PARAMETERS.issuperset(each.arg or "" for each in call.keywords)
        if isinstance(called, ast.Attribute):
            base = self.value_of(called.value)
            if base is math:
                return True
            if base is np:
                return called.attr in PURE_OF_NUMPY
            if self.draws(base) or (base is None and self._is_helpers(called.value)):
                return named and len(call.args) <= DRAWS.get(called.attr, -1)
        elif isinstance(called, ast.Name):
            if value is Fraction or any(value is each for each in LATE_ERRORS):
                return True
            if value is getattr(builtins, called.id, self):
                return called.id in PURE_BUILTINS
        if type(value) in (BuiltinFunctionType, BuiltinMethodType, MethodType) or is_secret(value):
            of_source = self.draws(getattr(value, "__self__", None)) or is_secret(value)
            drawn = of_source and named and len(call.args) <= DRAWS.get(value.__name__, -1)
            return value.__module__ == "math" or drawn
        return isinstance(value, FunctionType) and self.text_of(value, called) is not None

    def text_of(self, function: FunctionType, called: ast.expr) -> CoinText:
        """The text of a function that is called; this one where it is being read already."""
        code = function.__code__
        if code in self.callers:
            return self
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        names = dict(zip(code.co_freevars, cells, strict=True))
        owner = self.value_of(called.value) if isinstance(called, ast.Attribute) else None
        if isinstance(called, ast.Attribute) and not isinstance(owner, ModuleType):
            if not any(vars(base).get(called.attr) is function for base in type(owner).__mro__):
                raise NotExplorable("a function that is an attribute, but no method, is not understood")
            names[code.co_varnames[0]] = owner
        key = id(function), id(owner)
        if key not in self.inner:
            self.inner[key] = CoinText(code, names, function.__globals__, self.adopted, self.callers)
        return self.inner[key]

    def returns_truth(self) -> bool:
        return all(self._is_truth(node.value) for node in self.nodes if isinstance(node, ast.Return))

    def _is_truth(self, node: ast.expr | None) -> bool:
        """Whether it is True, False, 0 or 1, whatever happens."""
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Constant):
            return type(node.value) in (bool, int) and node.value in (0, 1)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if isinstance(node, ast.BoolOp):
            return all(map(self._is_truth, node.values))
        if isinstance(node, ast.IfExp):
            return self._is_truth(node.body) and self._is_truth(node.orelse)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Mod) and _is_constant(node.right, 2) and self._is_whole(node.left)
        if isinstance(node, ast.Name):
            return node.id in self.assigned and all(map(self._is_truth, self._stored(node.id)))
        if isinstance(node, ast.Call):
            value = self.value_of(node.func)
            if isinstance(value, FunctionType):
                text = self.text_of(value, node.func)
                return text is self or text.returns_truth()
            return value is bool or (value is int and len(node.args) == 1 and self._is_truth(node.args[0]))
        return False

    def _is_whole(self, node: ast.expr) -> bool:
        """Whether it is a name that stands for a whole number, whatever happens."""
        return isinstance(node, ast.Name) and node.id in self.assigned and all(
            _is_constant(each) or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub)
                and ast.unparse(each.left) == node.id and _is_constant(each.right))
            for each in self._stored(node.id)
        )  # fmt: skip

    def _stored(self, name: str) -> list[ast.expr | None]:
        """What is assigned to the name; None for what is not an expression of its own."""
        found: list[ast.expr | None] = []
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    within = name in {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
                    found += [node.value if isinstance(target, ast.Name) else None] * within
            elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For) and ast.unparse(node.target) == name:
                sum_of = ast.BinOp(node.target, node.op, node.value) if isinstance(node, ast.AugAssign) else None
                found.append(sum_of)
        return found


def _is_constant(node: ast.expr | None, value: int | None = None) -> bool:
    """Whether it is a whole number, or this one."""
    return isinstance(node, ast.Constant) and type(node.value) is int and value in (None, node.value)


def is_source(value: Any) -> bool:
    """Whether it draws: a generator of ours, or a module with functions that do."""
    kind = type(value)
    if kind is ModuleType:
        return any(value is each for each in (random, secrets, np.random))
    named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None)
    own = issubclass(kind, StandInGenerator) and named is kind
    return own or kind in (AdoptedRandom, AdoptedState)  # a subclass of the user may have methods of its own


def is_secret(value: Any) -> bool:
    """Whether it is a function of the secrets module."""
    return type(value) in (FunctionType, MethodType) and any(value is each for each in vars(secrets).values())


def _reads_plainly(base: Any) -> bool:
    """Whether reading an attribute of it does nothing but that."""
    read = inspect.getattr_static(type(base), "__getattribute__")
    return is_source(base) or read in (object.__getattribute__, ModuleType.__getattribute__)


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether the statements do not come to their end without return."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.While):
        forever = isinstance(last.test, ast.Constant) and bool(last.test.value)
        return forever and not any(isinstance(node, ast.Break) for node in ast.walk(last))
    return isinstance(last, ast.Return | ast.Raise)
