"""Measures what is not measured yet: every case of an artefact is a step, kept under a digest of its code."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import veridp
from reproduction.artefact import Artefact, Effort, Measure, Row

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Measured:
    """The rows of an artefact, and the processor seconds that its steps took when they were measured; NaN if unknown."""

    artefact: Artefact
    rows: Sequence[Row]
    seconds: float


@dataclass(frozen=True)
class Steps:
    """Measured steps in a folder: a file for each, whose name follows from code, case, effort and seed.

    A run that was interrupted goes on with the first step that has no file. Changing veridp, or the code that measures
    a step, makes it a new step; changing what is said about it does not.
    """

    folder: Path
    effort: Effort
    seed: int
    tell: Callable[[str], None] = lambda line: None

    def measured(self, artefact: Artefact) -> Measured:
        rows: list[Row] = []
        seconds = 0.0
        for case in artefact.cases(self.effort):
            document = self._step(artefact.measure, case)
            rows += document["rows"]
            seconds += document.get("seconds", math.nan)
        return Measured(artefact, rows, seconds)

    def _step(self, measure: Measure, case: str) -> dict[str, Any]:
        file = self.folder / f"{measure.__module__.rpartition('.')[2]}-{self._key(measure, case)}.json"
        if not file.exists():
            started = spent()
            rows = [dict(row) for row in measure(case, self.effort, self.seed)]
            seconds = spent() - started
            self.tell(f"{measure.__module__}.{measure.__qualname__} {case}: {seconds:.1f} s")
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".part")
            partial.write_text(json.dumps({"case": case, "seconds": seconds, "rows": rows}, ensure_ascii=False))
            partial.replace(file)  # whole, or not at all
        document: dict[str, Any] = json.loads(file.read_text())
        return document

    def _key(self, measure: Measure, case: str) -> str:
        parts = [package_digest(), code_digest(measure), case, self.effort.value, str(self.seed)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def spent() -> float:
    """The processor seconds of this process and of its children that have ended: they hardly depend on the load."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@cache
def package_digest() -> str:
    """A digest of veridp's own source."""
    root = Path(veridp.__file__).parent
    found = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def code_digest(function: Callable[..., Any]) -> str:
    """A digest of what a function computes: its bytecode, and the functions and constants of its package that it uses."""
    return hashlib.sha256("\0".join(_parts(function, set())).encode()).hexdigest()


def _parts(function: Any, met: set[str]) -> Iterator[str]:
    name = f"{function.__module__}.{function.__qualname__}"
    if name in met or name.partition(".")[0] != __package__:
        yield name
        return
    met.add(name)
    if isinstance(function, type):
        for made in vars(function).values():
            if isinstance(made, FunctionType):
                yield from _parts(made, met)
        return
    yield from _bytecode(function.__code__)
    for used in sorted(_names(function.__code__)):
        value = function.__globals__.get(used)
        if isinstance(value, type | FunctionType):
            yield from _parts(value, met)
        elif used.isupper():
            yield f"{used} = {ADDRESS.sub('', repr(value))}"
            for held in value.values() if isinstance(value, dict) else ():
                if isinstance(held, FunctionType):
                    yield from _parts(held, met)


def _bytecode(code: CodeType) -> Iterator[str]:
    """What a code object does; not where it stands, and not what it says of itself."""
    yield code.co_code.hex()
    yield " ".join((*code.co_names, *code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bytecode(constant)
        elif constant != code.co_consts[0] or not isinstance(constant, str):
            yield repr(constant)


def _names(code: CodeType) -> set[str]:
    """The global names that a code object uses, those of its inner functions included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
