"""A mechanism as a function of sums over its records, whatever their number: its text, read by a small grammar.

A proof for every size rests on this: the function sees its records only through sums of functions of one record each.
So the text is read, and every use of the data must be understood; whatever the grammar does not name is refused. It
names:

- vectors with an entry for each record (see `vectors`), which are set at the top level, and never changed in place;
- sums over vectors: `sum`, `np.sum`, `len`, `np.mean`, `np.count_nonzero`, `np.histogram` with fixed bins, also one for
  each of some fixed values;
- loops over a vector that add functions of one record to numbers or lists, and do nothing else (see `record_loops`),
  also within a loop over fixed values, which then sets what is added to in each of its steps;
- the rest of the code, which does not name the data: plain statements and expressions, draws, and pure functions.

Two functions come of it: one computes the sums, the other is the mechanism with these sums in place of its data.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from veridp.engines.prove.aggregates.record_loops import Collected, collected_names, names_of_loops
from veridp.engines.prove.aggregates.vectors import (
    ENTRYWISE,
    LITERAL_TYPES,
    OF_A_NUMBER,
    NameReplacement,
    SumWriter,
    VectorReader,
    assigned_name,
    stored_in,
    stored_name,
)
from veridp.engines.prove.induction.loop import DRAWS, OPERATORS, PLAIN_TYPES
from veridp.errors import NotInductive
from veridp.kernel.output import Raised, output_of
from veridp.mechanism import Mechanism

SUMMARIES = ("sum", "max", "min", "mean", "argmax", "argmin", "round", "cumsum", "clip")
BUILTINS = ("sum", "len", "range", "list", "tuple", "dict", "sorted", "zip", "enumerate", "str", "pow")
ARRAYS = ("array", "asarray", "zeros", "ones", "full", "arange", "linspace", "concatenate", "float64")
PURE_BUILTINS = OF_A_NUMBER | {name: getattr(builtins, name) for name in BUILTINS}
PURE_ARRAYS = {*ENTRYWISE, *SUMMARIES, *ARRAYS, "sqrt", "exp", "log", "rint", "sort", "dot", "diff"}
PURE_METHODS = {*SUMMARIES, "append", "items", "keys", "values", "tolist", "copy", "join", "format", "reshape"}
DRAWN_FROM_RANDOM = ("gauss", "normalvariate", "expovariate", "random", "uniform", "betavariate", "gammavariate")
SCALE_PLACES = {"laplace": 1, "normal": 1, "gumbel": 1, "logistic": 1, "exponential": 0}
COMPOUND = (ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.Starred, ast.Constant)
EXPRESSIONS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue, *COMPOUND)
NUMBERS = (int, float, np.integer, np.floating)
# Names with a space in them are made here: no code can have them.
COUNT = "number of records"


@dataclass(frozen=True)
class Aggregates:
    """A mechanism in two functions, each called as the mechanism is: its sums, and what it does with them.

    The data of `rest` are the leaves of the sums in a list. With `means` they are divided by the number of records,
    which comes last, and every scale of noise is a fixed share of one over this number.
    """

    sums: Mechanism
    rest: Mechanism
    means: bool


def aggregates_of(mechanism: Mechanism, *, means: bool) -> Aggregates:
    """The mechanism as a function of sums, or of means; NotInductive with the line where its text is not understood."""
    return _AggregateReader(mechanism, means).aggregates()


@dataclass(frozen=True)
class _FixedLoop:
    """A loop over fixed values: its variable, the values, and the constants that each of its steps sets so far."""

    target: ast.Name
    values: ast.expr
    constants: list[ast.stmt] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """What a step knows before it sees the data."""
        return stored_in([self.target, *self.constants])

    @property
    def counter(self) -> str:
        return f"number of {self.target.id}"


class _AggregateReader(VectorReader):
    """Reads the text of a mechanism, and writes the two functions."""

    def __init__(self, mechanism: Mechanism, means: bool) -> None:
        super().__init__(mechanism)
        self.means = means
        self.collecting: set[str] = set()  # names of constants that loops over records may add to
        self.rounded: set[str] = set()  # such of arrays that may be of whole numbers
        self.spent: set[str] = set()  # names that such loops set for themselves
        self.totals: dict[str, ast.expr] = {}  # names of sums that are yet to be divided by the number of records
        self.prelude: list[ast.stmt] = []
        self.blocks = 0
        self.around: _FixedLoop | None = None

    def aggregates(self) -> Aggregates:
        if self.rng in self.assigned:
            self.refuse(self.definition, f"an assignment to {self.rng}")
        body = [new for each in copy.deepcopy(self.definition.body) for new in self.statement(each, top=True)]
        if not self.blocks:
            raise NotInductive(f"{self.mechanism.name} uses no sum over {self.data} that is understood")
        names: list[ast.expr] = [ast.Name(_block(k), ast.Load()) for k in range(self.blocks)]
        sums = self._compiled([*self.prelude, ast.Return(ast.List(names, ast.Load()))])
        values = output_of(sums.bound(), np.random.default_rng(0), [])
        if isinstance(values, Raised) or not all(isinstance(each, NUMBERS) for each in numbers_in(values)):
            raise NotInductive(f"the sums of {self.mechanism.name} over no records are no numbers")
        array = next((name for name in self.function.__globals__ if self.outside(name) is np), "np")
        writer = SumWriter(self.data, array)
        places = {_block(k): writer.written(value) for k, value in enumerate(values)}
        places[COUNT] = writer.next()
        return Aggregates(sums, self._compiled(body, places), self.means)

    def _compiled(self, body: Sequence[ast.stmt], places: Mapping[str, ast.expr] | None = None) -> Mechanism:
        """A function of the same parameters with this body, where names stand for what takes their places."""
        constants = {name: ast.Constant(value) for name, value in self.closure.items() if type(value) in LITERAL_TYPES}
        arguments = copy.deepcopy(self.definition.args)
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [None if default is None else ast.Constant(None) for default in arguments.kw_defaults]
        definition = ast.FunctionDef(self.definition.name, arguments, list(copy.deepcopy(body)), [], None, None)
        ast.copy_location(definition, self.definition)
        module = ast.Module([NameReplacement({**constants, **(places or {})}).visit(definition)], [])
        made = compile(ast.fix_missing_locations(module), self.function.__code__.co_filename, "exec", dont_inherit=True)
        (code,) = [part for part in made.co_consts if isinstance(part, CodeType)]
        function = FunctionType(code, self.function.__globals__, self.function.__name__, self.function.__defaults__)
        function.__kwdefaults__, function.__annotations__ = self.function.__kwdefaults__, self.function.__annotations__
        return replace(self.mechanism, function=function)

    # --------------------------------------------------------------------------------------------- statements

    def statement(self, node: ast.stmt, *, top: bool = False, step: bool = False) -> list[ast.stmt]:
        """What is left of the statement in the rest of the code; `step` says that each step of `around` runs it."""
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Break() | ast.Continue():
                return [node]
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                made = ast.copy_location(ast.Assign([target], value), node)
                return self._assignment(made, target, value, top, step)
            case ast.AugAssign(target=target, value=value) if isinstance(node.op, OPERATORS):
                if isinstance(target, ast.Name):
                    self._name(target, target.id)
                self._set(target)
                node.value = self.expression(value)
            case ast.For(iter=over, body=body, orelse=[]) if (vector := self.vector(over)) is not None:
                if not (top or (step and not self.means)) or not vector.full:
                    self.refuse(node, "a loop over the records within another statement, or over some of them")
                return self._collected(node)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                loop = self._fixed(target, over, body)
                node.iter = self.expression(over)
                self._set(target)
                if loop is not None:
                    node.target, node.iter = self._numbered(loop, node.iter)
                node.body = self._inner(body) if loop is None else self._steps(body)
                self.around = None if loop is not None else self.around
            case ast.While(test=test, body=body, orelse=[]):
                self._forget_all(body)
                node.test, node.body = self.expression(test), self._inner(body)
            case ast.If(test=test, body=body, orelse=orelse):
                node.test = self.expression(test)
                node.body, node.orelse = self._inner(body), self._inner(orelse)
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                node.value = self.expression(value)
            case _:
                self.refuse(node, f"'{ast.unparse(node).splitlines()[0]}'")
        return [node]

    def _inner(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements that may be run, or not, or often: what they set is not known from here on."""
        self._forget_all(body)
        found = [new for statement in body for new in self.statement(statement)]
        self._forget_all(body)
        return found

    def _steps(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The same of a loop over fixed values; what its loops over records set for themselves, no other step reads."""
        own = names_of_loops(self, body)
        self._forget_all(body, own)
        self.spent |= own
        found = [new for statement in body for new in self.statement(statement, step=True)]
        self._forget_all(body, own)
        self.spent |= own
        return found

    def _forget_all(self, body: Sequence[ast.stmt], own: Collection[str] = ()) -> None:
        for name in stored_in(body):
            if name not in own and name in {*self.vectors, *self.totals, *self.degrees, *self.spent}:
                self.refuse(body[0], f"a change of {name}, which depends on the records, within another statement")
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.plain.discard(name)
        self.collecting.discard(name)
        self.rounded.discard(name)
        self.spent.discard(name)
        self.counts.discard(name)
        self.degrees.pop(name, None)
        self.totals.pop(name, None)

    def _set(self, target: ast.expr) -> None:
        """Names that are set stand for something else from here on."""
        match target:
            case ast.Name(id=name) if name not in self.vectors:
                self._forget(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._set(part)
            case ast.Subscript(value=ast.Name(id=name) as whole, slice=index) if name not in self.vectors:
                self._name(whole, name)
                target.slice = self.expression(index)
            case _:
                self.refuse(target, f"an assignment to '{ast.unparse(target)}'")

    def _assignment(self, node: ast.Assign, target: ast.expr, value: ast.expr, top: bool, step: bool) -> list[ast.stmt]:
        single = target.id if top and isinstance(target, ast.Name) else None
        if (vector := self.vector(value)) is not None:
            if single is None:
                self.refuse(node, "an assignment of records to something other than a name of its own")
            self._forget(single)
            self.prelude.append(node)
            self.vectors[single] = vector
            return []
        if self.means and single is not None:
            total, degree = self.total(value), self.degree(value)
            if total is not None or degree:
                self._set(target)
            if total is not None:
                self.totals[single] = self._kept(f"total of {single}", total)
                return []
            if degree:
                self.counts |= {single} if self.is_count(value) else set()
                self.degrees[single] = degree
                node.value = self._counted(value)
                return [node]
        fixed, plain = self.is_fixed(value), self.is_of(value)
        node.value = self.expression(value)
        self._set(target)
        constants = self.prelude if top else self.around.constants if step and self.around is not None else None
        if fixed and constants is not None and isinstance(target, ast.Name):
            constants.append(copy.deepcopy(node))
            self.collecting.add(target.id)
            self.rounded |= {target.id} if self.is_rounded(value) else set()
            self.plain |= {target.id} if plain else set()
        return [node]

    def _kept(self, name: str, value: ast.expr) -> ast.expr:
        """The name of a value that the sums are computed from."""
        self.prelude.append(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(value)))
        return ast.Name(name, ast.Load())

    # -------------------------------------------------------------------------------------------------- loops

    def _fixed(self, target: ast.expr, values: ast.expr, body: Sequence[ast.AST]) -> _FixedLoop | None:
        """The loop over fixed values, whose body may have sums for each of them."""
        if self.around is not None or not isinstance(target, ast.Name) or not self.is_fixed(values):
            return None
        named = {node.id for node in ast.walk(values) if isinstance(node, ast.Name)}
        if stored_in(body) & {target.id, *named} or self.outside("enumerate") is not enumerate:
            return None
        return _FixedLoop(copy.deepcopy(target), copy.deepcopy(values))

    def _numbered(self, loop: _FixedLoop, values: ast.expr) -> tuple[ast.expr, ast.expr]:
        """What the loop sets, and over what it goes, with its counter."""
        self.around = loop
        target = ast.Tuple([ast.Name(loop.counter, ast.Store()), loop.target], ast.Store())
        return target, ast.Call(ast.Name("enumerate", ast.Load()), [values], [])

    def _collected(self, node: ast.For) -> list[ast.stmt]:
        """The loop over records that adds up functions of one: what it collects takes the values of sums."""
        target = node.target
        if not isinstance(target, ast.Name) or target.id in self.vectors or target.id in self.plain:
            self.refuse(node, "a loop variable that is not a name of its own")
        taken = self.plain | self.collecting | self.parameters | set(self.vectors)
        added = {assigned_name(each.target) for each in ast.walk(node) if isinstance(each, ast.AugAssign)}
        if self.around is not None:  # what a step did not set itself, it would add to after others
            taken, added = taken | self.around.names, added & self.around.names
        numbers, self.plain = self.plain & added, self.plain - added  # they are no constants in the loop
        lists = set() if self.means else self.collecting & added - numbers
        changed = collected_names(self, node, target.id, Collected(numbers, lists, self.rounded, taken))
        names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in changed]
        for name in changed:
            self._forget(name)
        self.spent |= stored_in([node]) - set(changed)
        if self.means:
            self.prelude.append(node)
            self.totals |= {name: self._kept(f"total of {name}", ast.Name(name, ast.Load())) for name in changed}
            return []
        kept = self._block(ast.Tuple(names, ast.Load()), node, node)
        stored: list[ast.expr] = [ast.Name(name, ast.Store()) for name in changed]
        return [ast.copy_location(ast.Assign([ast.Tuple(stored, ast.Store())], kept), node)]

    # -------------------------------------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> ast.expr:
        """The expression with its sums replaced; refused where it uses the data in another way."""
        found = self._means(node) if self.means else self._sums(node)
        if found is not None:
            return found
        if self.vector(node) is not None:
            self.refuse(node, f"'{ast.unparse(node)}' as a value")
        match node:
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=ast.Name(id=module), attr=attribute) if (
                isinstance(self.outside(module), ModuleType)
                and type(getattr(self.outside(module), attribute, self)) in PLAIN_TYPES
            ):
                return node
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case _ if isinstance(node, EXPRESSIONS):
                for name, part in ast.iter_fields(node):
                    if isinstance(part, ast.expr):
                        setattr(node, name, self.expression(part))
                    elif isinstance(part, list):
                        setattr(node, name, [self.expression(p) if isinstance(p, ast.expr) else p for p in part])
                return node
        return self.refuse(node, f"'{ast.unparse(node)}'")

    def _name(self, node: ast.Name, name: str) -> ast.expr:
        if name in {self.rng, *self.vectors, *self.degrees, *self.totals, *self.spent}:
            self.refuse(node, f"{name} as a value")
        if not (name in self.assigned or name in self.parameters or self.is_fixed(node)):
            self.refuse(node, f"{name}, which is not a plain constant")
        if name not in self.plain:
            self.collecting.discard(name)  # another name may stand for the same list from here on
        return node

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
        """A comprehension that is not over the records; over fixed values, it may have sums for each of them."""
        first, *more = node.generators
        inside: list[ast.expr] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        loop = None if more or first.ifs else self._fixed(first.target, first.iter, inside)
        spent, self.spent = self.spent, self.spent - stored_in(node.generators)  # it has names of its own
        for generator in node.generators:
            generator.iter = self.expression(generator.iter)
            self._set(generator.target)
            generator.ifs = [self.expression(test) for test in generator.ifs]
        if loop is not None:
            first.target, first.iter = self._numbered(loop, first.iter)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.expression(getattr(node, part)))
        self.around = None if loop is not None else self.around
        self.spent = spent
        return node

    def _call(self, node: ast.Call) -> ast.expr:
        """A draw, or a call of a function that does nothing but compute."""
        called, scale = node.func, None
        if self._is_draw(called):
            scale = self._scale(node) if self.means else None
        else:
            match called:
                case ast.Name(id=name) if name in PURE_BUILTINS and self.outside(name) is PURE_BUILTINS[name]:
                    pass
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
                    self.outside(name) is math and hasattr(math, attribute)
                ) or (self.outside(name) is np and attribute in PURE_ARRAYS):
                    pass
                case ast.Attribute(value=value, attr=attribute) if attribute in PURE_METHODS and not isinstance(
                    self.outside(getattr(value, "id", "")), ModuleType
                ):
                    called.value = self.expression(value)
                case _:
                    self.refuse(node, f"a call of '{ast.unparse(called)}'")
        node.args = [self._counted(a) if a is scale else self.expression(a) for a in node.args]
        for keyword in node.keywords:
            if keyword.value is scale:
                keyword.value = self._counted(scale)
            elif not (keyword.arg == "dtype" and self._is_type(keyword.value)):
                keyword.value = self.expression(keyword.value)
        return node

    def _is_draw(self, called: ast.expr) -> bool:
        match called:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name == self.rng:
                return method in DRAWS
            case ast.Attribute(value=ast.Name(id=name), attr=method) if self.outside(name) is random:
                return method in DRAWN_FROM_RANDOM
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=name), attr="random"), attr=method):
                return self.outside(name) is np and method in DRAWS
        return False

    # --------------------------------------------------------------------------------------------------- sums

    def _sums(self, node: ast.expr) -> ast.expr | None:
        """What takes the place of the expression, if it is one of sums over records."""
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[over], keywords=[]) if self.vector(over) is not None:
                return self._block(node, node) if self.outside("len") is len else None
            case ast.Attribute(value=value, attr="size") if self.is_array(value):
                return self._block(node, node)
        if (total := self.total(node)) is not None:
            return self._block(total, node)
        if (total := self.averaged(node)) is not None:
            count = ast.Call(ast.Name("len", ast.Load()), [ast.Name(self.data, ast.Load())], [])
            if not self.vectors[self.data].full or self.outside("len") is not len:
                self.refuse(node, f"a mean where {self.data} or len stands for something else")
            return ast.copy_location(ast.BinOp(self._block(total, node), ast.Div(), self._block(count, node)), node)
        return None

    def _means(self, node: ast.expr) -> ast.expr | None:
        """The same where all that is seen of the records are means: sums divided by the number of records."""
        match node:
            case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=right) if name in self.totals:
                return self._block(self.totals[name], node) if self.is_count(right) else None
            case ast.BinOp(left=left, op=ast.Div(), right=right) if self.is_count(right):
                total = self.total(left)
                return None if total is None else self._block(total, node)
        total = self.averaged(node)
        return None if total is None else self._block(total, node)

    def _block(self, value: ast.expr, node: ast.expr | ast.stmt, before: ast.stmt | None = None) -> ast.expr:
        """The place of sums in the rest of the code, which are known after a statement; within a loop over fixed
        values, of the sums for each of these."""
        loop, name = self.around, _block(self.blocks)
        self.blocks += 1
        first = [] if before is None else [before]
        used = {inner.id for each in [value, *first] for inner in ast.walk(each) if isinstance(inner, ast.Name)}
        found: ast.expr = ast.Name(name, ast.Load())
        if loop is not None and used & loop.names:
            self._kept(name, ast.List([], ast.Load()))
            appended = ast.Call(ast.Attribute(found, "append", ast.Load()), [value], [])
            steps = copy.deepcopy([*loop.constants, *first, ast.Expr(appended)])
            self.prelude.append(ast.For(stored_name(loop.target), copy.deepcopy(loop.values), steps, []))
            found = ast.Subscript(found, ast.Name(loop.counter, ast.Load()), ast.Load())
        else:
            self.prelude += copy.deepcopy(first)
            self._kept(name, value)
        return ast.copy_location(found, node)

    def is_of(self, node: ast.expr, names: Any = ()) -> bool:
        around = () if self.around is None else (self.around.target.id,)
        return super().is_of(node, {*names, *around})

    # ---------------------------------------------------------------------------------- the number of records

    def _counted(self, node: ast.expr) -> ast.expr:
        """The expression with the number of records at its place."""
        if self.is_count(node) and not isinstance(node, ast.Name):
            return ast.copy_location(ast.Name(COUNT, ast.Load()), node)
        for name, part in ast.iter_fields(node):
            if isinstance(part, ast.expr):
                setattr(node, name, self._counted(part))
            elif isinstance(part, list):
                setattr(node, name, [self._counted(p) if isinstance(p, ast.expr) else p for p in part])
        return node

    def _scale(self, node: ast.Call) -> ast.expr:
        """The scale of a draw, which is a fixed share of one over the number of records."""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        place = SCALE_PLACES.get(method)
        found = [keyword.value for keyword in node.keywords if keyword.arg == "scale"]
        found += node.args[place : place + 1] if place is not None else []
        if place is None or len(found) != 1 or self.degree(found[0]) != -1:
            self.refuse(node, "noise whose scale is not a fixed share of 1/n beside a mean of n records")
        return found[0]


# ------------------------------------------------------------------------------------------------------ writing code


def _block(number: int) -> str:
    return f"sums {number}"


def numbers_in(value: Any) -> Iterator[Any]:
    """The numbers of a value of sums, in the order of the data of the rest."""
    if isinstance(value, list | tuple | np.ndarray):
        for each in value:
            yield from numbers_in(each)
    elif isinstance(value, dict):
        yield from numbers_in(list(value.values()))
    else:
        yield value
