"""Python's meaning for compiled code: numba's arithmetic, which stops where Python or NumPy would do something else.

numba computes with 64-bit integers that wrap around, and some of its functions give NaN where Python raises. So every
operator of the compiled function is replaced by a checked one before types are inferred, and only functions that are
known to mean the same are let through. A check that fails while the code runs raises `Unfit`, and a slower reading
takes over. Types are checked afterwards: narrow numbers, and truth values that become numbers, are refused.
"""

from __future__ import annotations

import dis
import inspect
import math
import types as python_types
from collections.abc import Iterator
from typing import Any

import numba as _numba
import numpy as np
from numba.core import compiler as _compiler
from numba.core import compiler_machinery as _machinery
from numba.core import ir as _ir
from numba.core import ir_utils as _ir_utils
from numba.core import types as _types
from numba.core import untyped_passes as _untyped_passes

from veridp.sampling.checked_arithmetic import DRAWS, FUNCTIONS, OPERATORS, UNCHECKED_OPERATORS
from veridp.sampling.tape import Unfit

numba: Any = _numba  # their types are not complete
compiler: Any = _compiler
machinery: Any = _machinery
ir: Any = _ir
ir_utils: Any = _ir_utils
types: Any = _types
untyped_passes: Any = _untyped_passes


class CheckedCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """numba's compiler, with checked operators."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Check, untyped_passes.GenericRewrites)
        passes.finalize()
        return [passes]


@machinery.register_pass(mutates_CFG=False, analysis_only=False)
class _Check(machinery.FunctionPass):  # type: ignore[misc]
    """Replaces operators and functions by checked ones, and refuses the functions that are not known."""

    _name = "checked_arithmetic"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            block.body = [new for statement in block.body for new in _checked(statement, state.func_ir)]
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


def _checked(statement: Any, func_ir: Any) -> Iterator[Any]:
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(value, ir.Expr):
        replacement: Any = None
        if value.op == "make_function":
            raise Unfit("it makes a function that numba compiles separately")
        if value.op == "call":
            replacement = _replacement(value, func_ir)
        elif value.op in ("binop", "inplace_binop", "unary") and value.fn not in UNCHECKED_OPERATORS:
            fn = value.immutable_fn if value.op == "inplace_binop" else value.fn
            replacement = OPERATORS.get(fn)
            if replacement is None:
                raise Unfit(f"the operator {fn.__name__} is not checked in compiled code")
        if replacement is not None:
            name = f"{replacement.__name__}.{statement.loc.line}.{id(value)}"
            function = ir.Var(statement.target.scope, f"${name}", statement.loc)
            yield ir.Assign(ir.Global(replacement.__name__, replacement, statement.loc), function, statement.loc)
            if value.op == "call":
                value.func = function
            else:
                operands = [value.value] if value.op == "unary" else [value.lhs, value.rhs]
                statement.value = ir.Expr.call(function, operands, (), statement.loc)
    yield statement


def hashable(value: object) -> bool:
    """Whether it can be looked up in a table."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _replacement(call: Any, func_ir: Any) -> Any:
    """The checked function for a call, if it needs one; Unfit where it is not known to mean the same."""
    definition = func_ir.get_definition(call.func)
    if isinstance(definition, ir.Arg):  # one of the functions that the caller compiled
        return None
    if isinstance(definition, ir.Global | ir.FreeVar):
        called = definition.value
    elif isinstance(definition, ir.Expr) and definition.op == "getattr":
        owner = func_ir.get_definition(definition.value) if _single(definition.value, func_ir) else None
        if not isinstance(owner, ir.Global | ir.FreeVar) or not isinstance(owner.value, python_types.ModuleType):
            if definition.attr not in METHODS:
                raise Unfit(f"the method {definition.attr} is not known to mean the same in compiled code")
            if definition.attr in DRAWS:
                call.args = [definition.value, *call.args]
            return DRAWS.get(definition.attr)
        called = getattr(owner.value, definition.attr, None)
    else:
        raise Unfit("it calls a function that is not known by name")
    known = hashable(called) and (called in ALLOWED or called in FUNCTIONS)
    dispatcher = isinstance(called, numba.core.dispatcher.Dispatcher)
    raised = inspect.isclass(called) and issubclass(called, Exception)
    internal = getattr(called, "__module__", "").partition(".")[0] == "numba"
    if not (known or dispatcher or raised or internal):
        name = getattr(called, "__name__", repr(called))
        raise Unfit(f"the function {name} is not known to mean the same in compiled code")
    return FUNCTIONS.get(called) if known else None


def _single(variable: Any, func_ir: Any) -> bool:
    """Whether a variable is assigned once."""
    return len(func_ir._definitions.get(variable.name, ())) == 1


def refuse_handlers(code: python_types.CodeType) -> None:
    """Unfit where the code catches exceptions: it would catch those of the checks, and numba raises others."""
    if any(instruction.opname == "PUSH_EXC_INFO" for instruction in dis.get_instructions(code)):
        raise Unfit("it catches exceptions, which compiled code raises elsewhere than Python does")
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            refuse_handlers(constant)


# ---------------------------------------------------------------------------------- which functions may be called

METHODS = frozenset(
    (
        "append", "extend", "insert", "pop", "copy", "clear", "reverse", "index", "count",
        "sum", "max", "min", "argmax", "argmin", "any", "all",
        "random", "laplace", "normal", "standard_normal", "exponential", "standard_exponential", "uniform", "logistic",
        "geometric", "poisson", "binomial", "integers", "permutation", "shuffle",
    )
)  # fmt: skip
ALLOWED: frozenset[Any] = frozenset(
    (
        range, len, enumerate, zip, list, tuple, slice, bool, float, reversed,
        np.asarray, np.array, np.zeros, np.ones, np.empty, np.full, np.arange, np.zeros_like, np.ones_like,
        np.sum, np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.mean, np.cumsum,
        np.count_nonzero, np.where, np.concatenate, np.dot, np.clip, np.maximum, np.minimum, np.abs, np.sign,
        np.exp, np.log, np.log1p, np.expm1, np.sqrt, np.floor, np.ceil, np.isfinite, np.isnan, np.isinf,
        math.isfinite, math.isnan, math.isinf, math.fabs, math.copysign,
    )
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------ types


def check_types(annotation: Any) -> None:
    """Unfit where typed code holds numbers of fewer than 64 bits, or makes numbers of truth values unasked."""
    typemap = annotation.typemap
    for kind in typemap.values():
        _check_width(kind)
    for block in annotation.blocks.values():
        for statement in block.body:
            for source, target in _conversions(statement, typemap):
                _check_conversion(source, target)


def _check_width(kind: Any) -> None:
    kind = types.unliteral(kind)
    if isinstance(kind, types.Optional):
        _check_width(kind.type)
    elif isinstance(kind, types.BaseTuple):
        for part in kind.types:
            _check_width(part)
    elif isinstance(kind, types.Array | types.List):
        _check_width(kind.dtype)
    elif isinstance(kind, types.Integer | types.Float | types.Complex) and kind not in (types.int64, types.float64):
        raise Unfit(f"it computes with {kind}, which numba and NumPy widen in different ways")


def _conversions(statement: Any, typemap: Any) -> Iterator[tuple[Any, Any]]:
    """The types that a statement converts from and to."""
    if isinstance(statement, ir.SetItem) and isinstance(typemap[statement.target.name], types.List):
        yield typemap[statement.value.name], typemap[statement.target.name].dtype
    if not isinstance(statement, ir.Assign):
        return
    value, target = statement.value, typemap[statement.target.name]
    if isinstance(value, ir.Var):
        yield typemap[value.name], target
    elif isinstance(value, ir.Expr) and value.op == "cast":
        yield typemap[value.value.name], target
    elif isinstance(value, ir.Expr) and value.op == "build_list":
        for item in value.items:
            yield typemap[item.name], target.dtype
    elif isinstance(value, ir.Expr) and value.op == "call":
        method = typemap[value.func.name]
        if isinstance(method, types.BoundFunction) and isinstance(method.this, types.List):
            for argument in value.args:
                yield typemap[argument.name], method.this.dtype


def _check_conversion(source: Any, target: Any) -> None:
    source, target = types.unliteral(source), types.unliteral(target)
    if isinstance(source, types.BaseTuple) and isinstance(target, types.BaseTuple):
        for parts in zip(source.types, target.types, strict=True):
            _check_conversion(*parts)
    elif isinstance(source, types.Optional) or isinstance(target, types.Optional):
        _check_conversion(getattr(source, "type", source), getattr(target, "type", target))
    elif isinstance(source, types.Boolean) and isinstance(target, types.Integer | types.Float):
        raise Unfit("compiled code holds truth values and numbers in one variable, as numbers")
