"""Repairs: the least change of the noise, or of a limit, with which a mechanism is proved to keep its claim."""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.audit.audit import audit
from veridp.audit.mutants import source_of, with_code
from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.engines.prove import prove
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Mechanism, as_mechanism
from veridp.verdict import Verdict

# Where NumPy's generator takes the scale of noise, if not by its name.
SCALE_PLACES = {"laplace": 1, "normal": 1, "logistic": 1, "gumbel": 1, "exponential": 0}
MAX_CHANGES = 6  # of each kind
LARGEST = 1024.0  # factor of a scale, or amount by which a limit is raised
PRECISION = 1e-4  # relative, of the least change
ROUND = 12  # denominators up to this are preferred, where they cost no more than the precision allows
SECONDS = 120.0
AUDIT_SHARE = 0.3  # of the time, for the audit of the repaired mechanism


@dataclass(frozen=True)
class Repair:
    """A changed mechanism that is proved to keep the claim, the change as a patch, and its audit.

    The change is the least of its kind up to rounding, for inputs of the audited size: longer ones may need more, and
    the `scope` of the verdict says of which it is true. Another kind of change may need less noise.
    """

    change: str
    patch: str
    mechanism: Mechanism
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.change}: {self.verdict} ({self.verdict.scope})\n{self.patch}"


@dataclass(frozen=True)
class _Place:
    """A piece of the source that may be changed: a scale that is multiplied, or a limit that is raised."""

    node: ast.expr
    line: int
    is_scale: bool

    def text(self, source: str, amount: float) -> str:
        """The piece as it stands after the change."""
        piece = ast.get_source_segment(source, self.node) or ""
        if not self.is_scale:
            return f"{piece} + {amount:.12g}"
        if isinstance(self.node, ast.Call):  # the draw itself, whose scale is not given
            return f"{piece[:-1]}{', ' if self.node.args or self.node.keywords else ''}scale={amount:.12g})"
        plain = isinstance(self.node, ast.Name | ast.Constant | ast.Attribute | ast.Subscript)
        factors = isinstance(self.node, ast.BinOp) and isinstance(self.node.op, ast.Mult | ast.Div)
        return f"{amount:.12g} * {piece if plain or factors else f'({piece})'}"


@dataclass(frozen=True)
class _Kind:
    """A change of certain places by one amount: the larger, the more private."""

    name: str
    places: Sequence[_Place]
    nothing: float  # the amount that changes nothing

    def source(self, source: str, amount: float) -> str:
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        for place in sorted(self.places, key=lambda place: (place.node.lineno, place.node.col_offset), reverse=True):
            node = place.node
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [head + place.text(source, amount).encode() + tail]
        return b"".join(lines).decode()


def repair(
    mechanism: Mechanism | Callable[..., Any], *, claim: Claim | None = None, seconds: float = SECONDS, **arguments: Any
) -> Repair | None:
    """The least change that is found with which the mechanism is proved to keep its claim; None where none is found.

    BadInput where nothing has to be changed. Tried are larger noise at one line, larger noise at all lines, and, for
    claims with a δ, limits that are raised. The changed mechanism is audited like any other: see its `verdict`.
    """
    bound = as_mechanism(mechanism, **arguments)
    claim = bound.claim if claim is None else claim
    if claim is None:
        raise BadInput(f"{bound.name} claims nothing that a repair could keep; give epsilon=...")
    source = source_of(bound)
    if source is None:
        raise BadInput(f"{bound.name} has no source that can be changed; give a function of a file, without a closure")
    deadline = Deadline(seconds)
    proofs = deadline.part(1 - AUDIT_SHARE)
    if _proved(bound, claim, proofs):
        raise BadInput(f"{bound.name} is proved to keep {claim}; there is nothing to repair")
    first = inspect.unwrap(bound.function).__code__.co_firstlineno
    best: tuple[float, str, str] | None = None
    for kind in _kinds(source, first, with_limits=claim.delta > 0):
        amount = _least(kind, source, bound, claim, proofs)
        if amount is None:
            continue
        added = len(kind.places) * (math.log2(amount) if kind.nothing else amount)
        if best is None or added < best[0]:
            sign = "×" if kind.nothing else "+"
            best = added, f"{kind.name} {sign} {amount:.12g}", kind.source(source, amount)
    if best is None:
        return None
    _, change, changed = best
    made = with_code(bound, ast.parse(changed))
    verdict = audit(made, seconds=max(deadline.left, 1e-3), **claim.keywords)
    return Repair(change, _patch(bound, source, changed), made, verdict)


def _kinds(source: str, first: int, *, with_limits: bool) -> Iterator[_Kind]:
    scales, limits = list[_Place](), list[_Place]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SCALE_PLACES:
            position = SCALE_PLACES[node.func.attr]
            named = [word.value for word in node.keywords if word.arg == "scale"]
            given = named or node.args[position : position + 1]
            scales.append(_Place(given[0] if given else node, first + node.lineno - 1, True))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            limits.append(_Place(node.comparators[0], first + node.lineno - 1, False))
    for place in scales[:MAX_CHANGES]:
        yield _Kind(f"the scale of the noise on line {place.line}", [place], 1.0)
    if len(scales) > 1:
        yield _Kind("the scale of all noise", scales, 1.0)
    for place in limits[:MAX_CHANGES] if with_limits else ():
        yield _Kind(f"the limit on line {place.line}", [place], 0.0)


def _least(kind: _Kind, source: str, mechanism: Mechanism, claim: Claim, deadline: Deadline) -> float | None:
    """The least amount with which a proof keeps the claim, rounded up to a plain number where that costs little."""

    def kept(amount: float) -> bool:
        return _proved(with_code(mechanism, ast.parse(kind.source(source, amount))), claim, deadline)

    low, high = kind.nothing, LARGEST
    if not kept(high):
        return None
    while high - low > PRECISION * high and not deadline.passed:
        middle = math.sqrt(low * high) if kind.nothing else (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    for denominator in range(1, ROUND + 1):
        plain = float(Fraction(math.ceil(low * denominator), denominator))
        if low <= plain <= high * (1 + PRECISION) and kept(plain):
            return plain
    return float(f"{high:.6g}") if kept(float(f"{high:.6g}")) else high


def _proved(mechanism: Mechanism, claim: Claim, deadline: Deadline) -> bool:
    try:
        return claim.covers_proof(prove(mechanism, delta=claim.tolerated.delta, seconds=max(deadline.left, 1e-3)))
    except VeridpError:
        return False


def _patch(mechanism: Mechanism, before: str, after: str) -> str:
    """A unified diff, by the lines of the file."""
    function = inspect.unwrap(mechanism.function)
    written = inspect.getsource(function).splitlines()
    indent = len(written[0]) - len(before.splitlines()[0])
    old, new = (textwrap.indent(text, " " * indent).splitlines() for text in (before, after))
    name = inspect.getsourcefile(function) or mechanism.name
    diff = list(difflib.unified_diff(old, new, name, name, lineterm="", n=1))
    return "\n".join(_moved(line, function.__code__.co_firstlineno - 1) for line in diff)


def _moved(line: str, by: int) -> str:
    """A line of a diff whose header counts from the first line of the file, not of the function."""
    if not line.startswith("@@"):
        return line
    _, old, new, _ = line.split(" ")
    places = [
        "".join((side[0], str(int(side[1:].split(",")[0]) + by), *side.partition(",")[1:])) for side in (old, new)
    ]
    return f"@@ {places[0]} {places[1]} @@"
