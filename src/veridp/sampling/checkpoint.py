"""Checkpoints: the results of the tasks of a long audit or search, in a file from which another run goes on.

An engine asks its worker pool for results in an order that follows from its options and from the results before. So a
result is known by the number of the call and its place in it, and a run that finds it in the file does not compute it.
A checkpoint holds pickles: only resume one that you would also run as code.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import itertools
import os
import pickle
import platform
import sqlite3
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from veridp.errors import BadInput

FORMAT = "veridp-checkpoint 1"
AGAIN = "delete it and begin again, or give another file"
TABLES = """
    CREATE TABLE identity (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE results (
        call INTEGER, place INTEGER, task TEXT NOT NULL, content BLOB NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (call, place)
    );
"""
WRAPPERS = (types.MethodType, staticmethod, classmethod, property)
OF_EVERY_CLASS = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
# Where the code of libraries is, and ours: their versions stand for it.
PLACES = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
LIBRARIES = (*(os.path.join(str(place), "") for place in (*PLACES, Path(__file__).parents[1])), "<frozen")
Found = TypeVar("Found")
Argument = TypeVar("Argument")


class Journal:
    """What one run of an engine has computed, by call and place; a file, to which each result is added at once.

    Its results are those of an uninterrupted run as far as tasks are deterministic, as those of all engines are while
    no time limit cuts them.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.calls = file, 0
        self._open: tuple[int, sqlite3.Connection] | None = None

    @classmethod
    def at(
        cls, file: str | Path | None, resume: bool, engine: str, mechanism: object, settings: object
    ) -> Journal | None:
        """The journal of this work: a new one, or with `resume` the one that the file holds; None without a file.

        BadInput where the file is in the way or missing, is damaged, or is of other work, code or version.
        """
        if file is None:
            if resume:
                raise BadInput("resume needs a file; give --checkpoint FILE (in Python, checkpoint=FILE) too")
            return None
        identity = {
            "format": FORMAT,
            "veridp": version("veridp"),
            "python": ".".join(platform.python_version_tuple()[:2]),
            "engine": engine,
            "mechanism": digest_of(mechanism),
            "settings": digest_of(settings),
        }
        path = Path(file)
        if resume:
            _check_identity(path, identity)
        else:
            _begin(path, identity)
        return cls(path)

    def completed(
        self,
        name: str,
        arguments: Iterable[Argument],
        compute: Callable[[Iterator[Argument]], Iterator[Found]],
        keep: Callable[[Found], bool] = lambda _: True,
    ) -> Generator[Found, None, None]:
        """The results for the arguments, in their order: those that are known, and the others computed and kept."""
        call, self.calls = self.calls, self.calls + 1
        asked: deque[tuple[int, str, bool]] = deque()  # place, task and whether it is known, until it is given out

        def missing() -> Iterator[Argument]:
            for place, argument in enumerate(arguments):
                task = f"{name}({_outline(argument)})"
                known = self._knows(call, place, task)
                asked.append((place, task, known))
                if not known:
                    yield argument

        for result in compute(missing()):
            yield from self._known_first(call, asked)
            place, task, _ = asked.popleft()
            if keep(result):
                self._add(call, place, task, result)
            yield result
        yield from self._known_first(call, asked)

    def _known_first(self, call: int, asked: deque[tuple[int, str, bool]]) -> Iterator[Any]:
        while asked and asked[0][2]:
            yield self._result(call, asked.popleft()[0])

    # --------------------------------------------------------------------------------------------------- file

    def close(self) -> None:
        """Let go of the file, as far as this process has it open."""
        if self._open is not None and self._open[0] == os.getpid():
            self._open[1].close()
        self._open = None

    @property
    def _connection(self) -> sqlite3.Connection:
        """A connection of this process: one that a parent opened must not be used in its child."""
        if self._open is None or self._open[0] != os.getpid():
            self._open = os.getpid(), _connected(self.file)
        return self._open[1]

    def _knows(self, call: int, place: int, task: str) -> bool:
        row = self._row("task", call, place)
        if row is not None and row[0] != task:
            raise BadInput(f"{self.file} is damaged or of other work: it has {row[0]} where {task} is due; {AGAIN}")
        return row is not None

    def _result(self, call: int, place: int) -> Any:
        content, digest = self._row("content, digest", call, place) or (b"", "")
        if hashlib.sha256(content).hexdigest() != digest:
            raise _damaged(self.file, f"result {place} of call {call} is not what was written")
        try:
            return pickle.loads(content)  # noqa: S301 - its trust is the user's to judge, as the page says
        except Exception as error:
            raise _damaged(self.file, f"{type(error).__name__}: {error}") from None

    def _row(self, columns: str, call: int, place: int) -> Any:
        try:
            query = f"SELECT {columns} FROM results WHERE call = ? AND place = ?"  # noqa: S608 - names of columns
            return self._connection.execute(query, (call, place)).fetchone()
        except sqlite3.DatabaseError as error:
            raise _damaged(self.file, error) from None

    def _add(self, call: int, place: int, task: str, result: object) -> None:
        from veridp.sampling.worker_pool import packed

        try:
            content = pickle.dumps(result)
        except Exception:  # of a class that only its value tells
            content = packed(result)
        row = call, place, task, content, hashlib.sha256(content).hexdigest()
        with self._connection as transaction:
            transaction.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", row)


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=60, check_same_thread=False)


def _damaged(file: Path, why: object) -> BadInput:
    return BadInput(f"{file} is not a checkpoint, or is damaged ({why}); {AGAIN}")


def _begin(file: Path, identity: Mapping[str, str]) -> None:
    """Write a checkpoint without results; all of it appears at once."""
    if file.exists():
        raise BadInput(f"{file} exists already; give --resume to go on from it, or another file")
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        with closing(_connected(draft)) as connection, connection:
            connection.executescript(TABLES)
            connection.executemany("INSERT INTO identity VALUES (?, ?)", identity.items())
        draft.replace(file)
    except (OSError, sqlite3.Error) as error:
        draft.unlink(missing_ok=True)
        raise BadInput(f"{file} cannot be written: {error}; give a file in a folder that exists") from None


def _check_identity(file: Path, identity: Mapping[str, str]) -> None:
    if not file.is_file():
        raise BadInput(f"there is no checkpoint {file} to resume; omit --resume to begin one")
    try:
        with closing(_connected(file)) as connection:
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise _damaged(file, "its pages do not fit together")
            found = dict(connection.execute("SELECT name, value FROM identity"))
    except sqlite3.DatabaseError as error:
        raise _damaged(file, error) from None
    for name in ("format", "veridp", "python"):
        if found.get(name) != identity[name]:
            raise BadInput(
                f"{file} was written by another version ({name} {found.get(name)}, now {identity[name]}), and results "
                f"may differ; finish it with that one, or {AGAIN}"
            )
    other = [name for name in identity if found.get(name) != identity[name]]
    if other:
        raise BadInput(f"{file} is the checkpoint of other work: its {' and '.join(other)} differ; {AGAIN}")


# -------------------------------------------------------------------------------------------------------------- digests
# Pickles of the same value differ from run to run. What identifies code and options here is the same in every process.


def digest_of(value: object) -> str:
    """A digest of the value: of functions, their code and what it names, as far as that is not an installed library."""
    return hashlib.sha256("\n".join(_Walk().lines(value)).encode()).hexdigest()


def _outline(value: object) -> str:
    """What is plain in the argument of a task, in short: enough to notice that it is another one."""
    lines = _Walk(shallow=True).lines(value)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@dataclass
class _Walk:
    """Lines that tell a value, part by part."""

    shallow: bool = False  # leave out all but plain values: results of numerics may differ in their last digits
    seen: dict[int, int] = field(default_factory=dict)
    alive: list[object] = field(default_factory=list)  # so that no id is used twice

    def lines(self, value: object) -> Iterator[str]:
        if value is None or isinstance(value, bool | int | str | bytes | enum.Enum | Path):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, float | np.generic):
            yield f"{type(value).__name__} {'' if self.shallow else value!r}"
        elif id(value) in self.seen:
            yield f"as {self.seen[id(value)]}"
        else:
            self.seen[id(value)] = len(self.seen)
            self.alive.append(value)
            yield f"{type(value).__module__}.{type(value).__qualname__}"
            yield from self._parts(value)

    def _parts(self, value: Any) -> Iterator[str]:
        if isinstance(value, Mapping):
            for key, entry in value.items():
                yield from self._all((key, entry))
        elif isinstance(value, list | tuple):
            yield from self._all(value)
        elif isinstance(value, set | frozenset):
            yield from sorted("\n".join(_Walk(self.shallow).lines(entry)) for entry in value)
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype} {value.shape} {'' if self.shallow else hashlib.sha256(value.tobytes()).hexdigest()}"
        elif is_dataclass(value) and not isinstance(value, type):
            yield from self._all(getattr(value, one.name) for one in fields(value) if one.compare)
        elif self.shallow:
            return
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.CodeType):
            yield value.co_code.hex()
            yield from self._all((value.co_names, value.co_varnames, value.co_consts))
        elif isinstance(value, WRAPPERS):
            yield from self._all(getattr(value, name, None) for name in ("__self__", "__func__", "fget", "fset"))
        elif isinstance(value, types.ModuleType | types.BuiltinFunctionType | np.ufunc):
            yield f"{getattr(value, '__module__', '')}.{value.__name__}"
        elif isinstance(value, type):
            yield from self._class(value)
        else:
            yield from self._all(_state(value))

    def _all(self, values: Iterable[object]) -> Iterator[str]:
        for value in values:
            yield from self.lines(value)
        yield "end"

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        if function.__code__.co_filename.startswith(LIBRARIES):
            return
        names = _names(function.__code__)
        yield from self._all((function.__code__, function.__defaults__, function.__kwdefaults__))
        yield from self._all(_content(cell) for cell in function.__closure__ or ())
        yield from self._all(function.__globals__[name] for name in sorted(names & function.__globals__.keys()))

    def _class(self, value: type) -> Iterator[str]:
        yield f"{value.__module__}.{value.__qualname__}"
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
        if value.__module__ != "builtins" and not str(file).startswith(LIBRARIES):
            yield from self._all(value.__bases__)
            for name in sorted(vars(value).keys() - OF_EVERY_CLASS):
                yield from self._all((name, vars(value)[name]))


def _names(code: types.CodeType) -> set[str]:
    """The names in the code, and in functions that it defines."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(itertools.chain(code.co_names, *inner))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _state(value: object) -> list[object]:
    """What pickle would keep of the value, without what it computed for itself; nothing where it cannot be pickled."""
    inherited = [part for kind in type(value).__mro__ for part in vars(kind).items()]
    cached = {name for name, part in inherited if isinstance(part, functools.cached_property)}
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # whatever a class of the user's raises
        return []
    if isinstance(reduced, str):
        return [reduced]
    parts = [*reduced[1:3], *(list(entries) for entries in reduced[3:5] if entries is not None)]
    return [
        {name: entry for name, entry in part.items() if name not in cached} if isinstance(part, dict) else part
        for part in parts
    ]
