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
import operator
import types as python_types
from collections.abc import Callable, Iterator
from typing import Any

import numba as _numba
import numpy as np
from numba.core import compiler as _compiler
from numba.core import compiler_machinery as _machinery
from numba.core import ir as _ir
from numba.core import ir_utils as _ir_utils
from numba.core import types as _types
from numba.core import untyped_passes as _untyped_passes
from numba.extending import overload as _overload

from veridp.sampling.tape import Unfit

numba: Any = _numba  # their types are not complete
compiler: Any = _compiler
machinery: Any = _machinery
ir: Any = _ir
ir_utils: Any = _ir_utils
types: Any = _types
untyped_passes: Any = _untyped_passes
overload: Any = _overload
njit: Any = _numba.njit
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
EXACT = 2**53  # integers up to this are floats without rounding
LEAVES = "an integer leaves 64 bits"
ROUNDED = "an integer too large for a float meets one"
REFUSED = "refused: "  # begins the reason in the long messages of numba
NOT_REAL = "a function gives no finite number, where Python may raise"


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
            raise Unfit("it makes a function that numba compiles apart")
        if value.op == "call":
            replacement = _replacement(value, func_ir)
        elif value.op in ("binop", "inplace_binop", "unary") and value.fn not in _AS_THEY_ARE:
            fn = value.immutable_fn if value.op == "inplace_binop" else value.fn
            replacement = _OPERATORS.get(fn)
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


def _hashable(value: object) -> bool:
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
            if definition.attr in _DRAWS:
                call.args = [definition.value, *call.args]
            return _DRAWS.get(definition.attr)
        called = getattr(owner.value, definition.attr, None)
    else:
        raise Unfit("it calls a function that is not known by name")
    known = _hashable(called) and (called in ALLOWED or called in _FUNCTIONS)
    dispatcher = isinstance(called, numba.core.dispatcher.Dispatcher)
    raised = inspect.isclass(called) and issubclass(called, Exception)
    internal = getattr(called, "__module__", "").partition(".")[0] == "numba"
    if not (known or dispatcher or raised or internal):
        name = getattr(called, "__name__", repr(called))
        raise Unfit(f"the function {name} is not known to mean the same in compiled code")
    return _FUNCTIONS.get(called) if known else None


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


# ------------------------------------------------------------------------------------------------- checked operators


def _is_integer(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean | types.Float)


def _element(kind: Any) -> Any:
    """The type of an array's entries, of a scalar itself."""
    return types.unliteral(kind.dtype if isinstance(kind, types.Array) else kind)


def _bare(function: Any) -> Any:
    """The function without annotations, which numba would compare."""
    function.__annotations__ = {}
    return function


def _implements(stub: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda implement: overload(stub)(_bare(implement))


def _refused(what: str) -> Any:
    raise numba.core.errors.TypingError(REFUSED + what)


def _binary(fn: Callable[[Any, Any], Any], on_integers: Callable[[Any, Any], Any] | None, arrays: bool) -> Any:
    """A stub for the operator: checked on two integers, refused on two truth values, and plain on all others."""

    def stub(left: Any, right: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(left: Any, right: Any) -> Any:
        kinds = [_element(kind) for kind in (left, right)]
        if all(isinstance(kind, types.Boolean) for kind in kinds) and fn not in _LOGIC:
            _refused(f"{fn.__name__} of two truth values means one thing in Python and another in NumPy")
        if any(isinstance(kind, types.Array) for kind in (left, right)):
            if not arrays and all(_is_integer(kind) for kind in kinds):
                _refused(f"{fn.__name__} of arrays of integers is not checked")
        elif all(_is_integer(kind) for kind in kinds) and on_integers is not None:
            return _bare(on_integers)
        elif fn is operator.pow and all(_is_number(kind) for kind in kinds):
            return _bare(_real_power)
        return lambda left, right: fn(left, right)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _comparison(fn: Callable[[Any, Any], bool]) -> Any:
    """A stub for the comparison: an integer that a float cannot hold is not compared with one."""

    def stub(left: Any, right: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(left: Any, right: Any) -> Any:
        if isinstance(left, types.Integer) and isinstance(right, types.Float):

            def compare(left: Any, right: Any) -> Any:
                if left > EXACT or left < -EXACT:
                    raise Unfit(ROUNDED)
                return fn(left, right)

            return _bare(compare)
        if isinstance(left, types.Float) and isinstance(right, types.Integer):

            def compare_turned(left: Any, right: Any) -> Any:
                if right > EXACT or right < -EXACT:
                    raise Unfit(ROUNDED)
                return fn(left, right)

            return _bare(compare_turned)
        return lambda left, right: fn(left, right)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _unary(fn: Callable[[Any], Any]) -> Any:
    def stub(value: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(value: Any) -> Any:
        if isinstance(_element(value), types.Boolean) and not (
            isinstance(value, types.Array) and fn is operator.invert
        ):
            _refused(f"{fn.__name__} of a truth value means one thing in Python and another in NumPy")
        if isinstance(value, types.Integer):

            def checked(value: Any) -> Any:
                if value == SMALLEST:
                    raise Unfit(LEAVES)
                return fn(value)

            return _bare(checked)
        return lambda value: fn(value)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _add(left: int, right: int) -> int:
    if (left > LARGEST - right) if right >= 0 else (left < SMALLEST - right):
        raise Unfit(LEAVES)
    return left + right


def _sub(left: int, right: int) -> int:
    if (left < SMALLEST + right) if right >= 0 else (left > LARGEST + right):
        raise Unfit(LEAVES)
    return left - right


@njit  # type: ignore[untyped-decorator]
def _product(left: int, right: int) -> int:
    """Asked before multiplying: numba assumes that nothing overflows, and would drop a question asked afterwards."""
    if left == SMALLEST or right == SMALLEST or (right != 0 and abs(left) > LARGEST // abs(right)):
        raise Unfit(LEAVES)
    return left * right


def _mul(left: int, right: int) -> Any:
    if -(2**31) < left < 2**31 and -(2**31) < right < 2**31:
        return left * right
    return _product(left, right)


def _power(left: int, right: int) -> int:
    if right < 0:
        raise Unfit("a negative power of an integer is a float in Python, and an error in NumPy")
    if -1 <= left <= 1:
        return left if right % 2 else left * left if right else 1
    power = 1
    for _ in range(right):
        power = _product(power, left)
    return power


def _real_power(left: Any, right: Any) -> Any:
    power = float(left) ** float(right)
    if not math.isfinite(power):
        raise Unfit(NOT_REAL)
    return power


def _left_shift(left: int, right: int) -> Any:
    if right < 0 or right > 62:
        raise Unfit(LEAVES)
    return _product(left, 1 << right)


def _right_shift(left: int, right: int) -> int:
    if right < 0:
        raise Unfit("a shift by a negative number is an error in Python")
    return left >> min(right, 63)


def _quotient(left: int, right: int) -> int:
    if left == SMALLEST and right == -1:
        raise Unfit(LEAVES)
    return left // right


def _remainder(left: int, right: int) -> int:
    return 0 if right == -1 else left % right


def _ratio(left: int, right: int) -> float:
    if left > EXACT or left < -EXACT or right > EXACT or right < -EXACT:
        raise Unfit(ROUNDED)
    return left / right


_LOGIC = frozenset([operator.and_, operator.or_, operator.xor])
_AS_THEY_ARE = frozenset([operator.not_, operator.is_, operator.is_not, operator.contains, bool])
_OPERATORS: dict[Any, Any] = {
    operator.add: _binary(operator.add, _add, arrays=True),
    operator.sub: _binary(operator.sub, _sub, arrays=True),
    operator.mul: _binary(operator.mul, _mul, arrays=True),
    operator.truediv: _binary(operator.truediv, _ratio, arrays=True),
    operator.floordiv: _binary(operator.floordiv, _quotient, arrays=False),
    operator.mod: _binary(operator.mod, _remainder, arrays=False),
    operator.pow: _binary(operator.pow, _power, arrays=False),
    operator.lshift: _binary(operator.lshift, _left_shift, arrays=False),
    operator.rshift: _binary(operator.rshift, _right_shift, arrays=False),
    **{fn: _binary(fn, None, arrays=True) for fn in _LOGIC},
    **{fn: _comparison(fn) for fn in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)},
    **{fn: _unary(fn) for fn in (operator.neg, operator.pos, operator.invert)},
}


# ------------------------------------------------------------------------------------------------- checked functions


def _finite(fn: Callable[[float], float]) -> Any:
    """The function of `math`, which raises in Python where it is no finite number."""

    def checked(x: float) -> float:
        y = fn(x)
        if not math.isfinite(y):
            raise Unfit(NOT_REAL)
        return y

    return _jitted(checked, fn)


def _integral(fn: Callable[[float], int]) -> Any:
    """The function that makes an integer of a float, which is unbounded in Python."""

    def checked(x: float) -> int:
        if not -(2.0**63) <= x < 2.0**63:
            raise Unfit(LEAVES)
        return fn(x)

    return _jitted(checked, fn)


def _jitted(checked: Callable[..., Any], fn: Any) -> Any:
    checked.__name__ = f"checked_{fn.__name__}"
    return njit(checked)


def _extreme(fn: Callable[..., Any]) -> Any:
    """max or min, which treat NaN in an order of their own and keep the type of what they choose."""

    def stub(first: Any, second: Any = None, third: Any = None) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(first: Any, second: Any = None, third: Any = None) -> Any:
        given = [kind for kind in (first, second, third) if kind is not None and not isinstance(kind, types.Omitted)]
        if len(given) == 1:

            def of_sequence(first: Any, second: Any = None, third: Any = None) -> Any:
                for value in first:
                    if value != value:
                        raise Unfit(NOT_REAL)
                return fn(first)

            return _bare(of_sequence)
        truths = [isinstance(kind, types.Boolean) for kind in given]
        if not all(_is_number(kind) for kind in given) or (any(truths) and not all(truths)):
            _refused(f"{fn.__name__} of truth values and numbers is one of either in Python")
        largest = math.inf if len({isinstance(kind, types.Float) for kind in given}) == 1 else EXACT

        def of_two(first: Any, second: Any = None, third: Any = None) -> Any:
            _comparable(first, largest)
            _comparable(second, largest)
            return fn(first, second)

        def of_three(first: Any, second: Any = None, third: Any = None) -> Any:
            _comparable(first, largest)
            _comparable(second, largest)
            _comparable(third, largest)
            return fn(first, second, third)

        return _bare(of_two if len(given) == 2 else of_three)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


@njit  # type: ignore[untyped-decorator]
def _comparable(value: Any, largest: float) -> None:
    if not -largest <= value <= largest:
        raise Unfit(ROUNDED)


def _total(values: Any, start: Any = 0) -> Any:
    total = start
    for value in values:
        total = _plus(total, value)
    return total


def _laplace(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.laplace(loc, scale, size)


def _normal(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.normal(loc, scale, size)


def _logistic(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.logistic(loc, scale, size)


def _exponential(rng: Any, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.exponential(scale, size)


def _uniform(rng: Any, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
    _valid(0 <= high - low < math.inf)
    return rng.uniform(low, high, size)


def _geometric(rng: Any, p: float, size: Any = None) -> Any:
    _valid(1e-15 <= p <= 1)  # NumPy cuts the draws of a smaller one off at 2**63 - 1
    return rng.geometric(p, size)


def _poisson(rng: Any, lam: float = 1.0, size: Any = None) -> Any:
    _valid(0 <= lam <= 1e15)
    return rng.poisson(lam, size)


def _binomial(rng: Any, n: int, p: float, size: Any = None) -> Any:
    _valid(n >= 0 and 0 <= p <= 1)
    return rng.binomial(n, p, size)


@njit  # type: ignore[untyped-decorator]
def _valid(parameters: bool) -> None:
    """NumPy raises where numba draws from no distribution at all."""
    if not parameters:
        raise Unfit("a draw has a parameter that NumPy refuses, or one so extreme that its draws are cut off")


_plus = _OPERATORS[operator.add]
_FUNCTIONS: dict[Any, Any] = {
    **{fn: _integral(fn) for fn in (int, round, math.floor, math.ceil, math.trunc)},
    **{fn: _finite(fn) for fn in (math.exp, math.expm1, math.log, math.log1p, math.sqrt)},
    **{fn: _finite(fn) for fn in (math.sin, math.cos, math.tan, math.atan, math.sinh, math.cosh, math.tanh)},
    **{fn: _extreme(fn) for fn in (max, min)},
    abs: _unary(abs),
    sum: njit(_total),
}
_DRAWS = {
    draw.__name__.removeprefix("_"): njit(draw)
    for draw in (_laplace, _normal, _logistic, _exponential, _uniform, _geometric, _poisson, _binomial)
}


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
