"""Mechanisms whose randomness is their own: batched functions, functions of other libraries, and other programs.

They can be sampled and not explored, and their draws do not follow from a seed.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from veridp.adjacency import adjacency
from veridp.errors import BadInput, BadOutput, MechanismFailed, MechanismHung
from veridp.mechanism.declared import Mechanism

# ------------------------------------------------------------------------------------------------------------- command
# A mechanism that is another program: JSON lines in, JSON lines out.


TAIL = 300  # characters of its last words that an error repeats


@dataclass(frozen=True)
class Command:
    """A program to be started; it answers each line of JSON, the data, with one line of JSON, an output."""

    words: tuple[str, ...]
    seconds: float
    keep: bool = False  # whether it goes on to run, and answers each line at once
    title: str = ""  # its name, where that is not its words
    running: dict[int, _Running] = field(default_factory=dict, repr=False, compare=False)  # by the process that asks

    @classmethod
    def from_line(cls, line: str | Sequence[str], seconds: float, keep: bool = False) -> Command:
        """The command that a line, split as a shell would, or a sequence of words gives."""
        words = tuple(shlex.split(line) if isinstance(line, str) else line)
        if not words or not all(isinstance(word, str) for word in words):
            raise BadInput(f"{line!r} is not a command; give for instance ['python3', 'mechanism.py']")
        return cls(words, seconds, keep)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"running": {}}

    @property
    def __name__(self) -> str:
        return self.title or shlex.join(self.words)

    def outputs(self, data: Any, count: int) -> list[Any]:
        """`count` outputs on the data, from one run of the program."""
        line = json.dumps(data, default=_plain) + "\n"
        lines = self._answers(line, count) if self.keep else self._answer(line * count).splitlines()
        if len(lines) != count:
            raise BadOutput(
                f"{self.__name__} wrote {len(lines)} lines for {count} of input; "
                f"it has to write one line of JSON for each line that it reads"
            )
        return [self._read(number, text) for number, text in enumerate(lines, start=1)]

    def _answers(self, line: str, count: int) -> list[str]:
        """The answers of the program that goes on to run, which is started once in a process."""
        if os.getpid() not in self.running:
            self.running[os.getpid()] = _Running(self)
        return self.running[os.getpid()].answers(line, count)

    def _answer(self, text: str) -> str:
        try:
            run = subprocess.run(  # noqa: S603 - the user's own command, without a shell
                self.words, input=text, capture_output=True, text=True, timeout=self.seconds, check=False
            )
        except OSError as error:
            raise BadInput(f"{self.__name__}: {error.strerror}; give a program that can be started") from None
        except subprocess.TimeoutExpired:
            raise MechanismHung(
                f"{self.__name__} did not answer within {self.seconds:g} s; give it longer with seconds=…, "
                f"or let it end when its input does"
            ) from None
        if run.returncode:
            raise MechanismFailed(f"{self.__name__} ended with status {run.returncode}: {run.stderr.strip()[-TAIL:]}")
        return run.stdout

    def _read(self, number: int, text: str) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise BadOutput(
                f"{self.__name__}, line {number} of its output: {text[:TAIL]!r} is not JSON ({error.msg})"
            ) from None


class _Running:
    """A program that runs until its input ends."""

    def __init__(self, command: Command) -> None:
        self.command = command
        try:
            self.process = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
                command.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            raise BadInput(f"{command.__name__}: {error.strerror}; give a program that can be started") from None
        self.end = weakref.finalize(self, _end, self.process, os.getpid())

    def answers(self, line: str, count: int) -> list[str]:
        """So many answers to the line; few are asked for at a time, so that neither side waits for room in a pipe."""
        name, process = self.command.__name__, self.process
        late = threading.Timer(self.command.seconds, process.kill)
        late.start()
        found: list[str] = []
        try:
            while len(found) < count:
                asked = min(count - len(found), LINES_AHEAD)
                process.stdin.write(line * asked)  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                answered = [process.stdout.readline() for _ in range(asked)]  # type: ignore[union-attr]
                if not answered[-1]:
                    raise BrokenPipeError
                found += answered
        except BrokenPipeError:
            self.command.running.pop(os.getpid(), None)
            self.end()
            reason = "did not answer in time, or ended; give it longer with seconds=…, and flush each line of output"
            raise MechanismHung(f"{name} {reason}") from None
        finally:
            late.cancel()
        return found


def _end(process: subprocess.Popen[str], owner: int) -> None:
    """End the program, unless this is a fork of the process that started it."""
    if os.getpid() == owner:
        process.kill()
        process.communicate()


LINES_AHEAD = 64  # that a kept program is asked before its answers are read


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays in the words of JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise BadInput(f"{value!r} cannot be written as JSON; give data made of numbers, strings, lists and dictionaries")


# ---------------------------------------------------------------------------------- batched functions, commands


def batched(function: Callable[[Any, int], Any], **options: Any) -> Mechanism:
    """The mechanism of a function `f(data, n)` that returns n outputs at once, with randomness of its own."""
    if not callable(function):
        raise BadInput(f"{function!r} is not a function of (data, n)")
    return foreign(_Batched(function), **options)


def unseeded(function: Mechanism | Callable[..., Any], **options: Any) -> Mechanism:
    """The mechanism of a function whose sources of randomness cannot be adopted: sampled, never explored.

    It is run once for each output. The global generators of NumPy, Python and a loaded PyTorch are seeded from `rng`
    for each block of outputs, so that what is drawn from these follows from the seed; draws from anywhere else do not.
    """
    given = function if isinstance(function, Mechanism) else Mechanism(function, **resolved(options))

    @functools.wraps(given.function)
    def once(rng: Any, data: Any, **arguments: Any) -> Any:
        if stands_in(rng):
            rng.refuse(f"{given.name} draws its noise out of sight, not from rng")
        return given.bind(**arguments).bound()(rng, data)

    def many(rng: Any, data: Any, count: int, **arguments: Any) -> list[Any]:
        run = given.bind(**arguments).bound()
        with _global_randomness_from(rng):
            return [run(rng, data) for _ in range(count)]

    if not given.roles.natural:
        others = [p.replace(kind=p.KEYWORD_ONLY) for p in (given.parameters or {}).values()]
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("rng", given.roles.data)]
        once.__signature__ = inspect.Signature([*first, *others])  # type: ignore[attr-defined]

    once.in_sight = given  # type: ignore[attr-defined]  # for engines that know releases of libraries as a whole
    return replace(given, function=once, vectorised=many)


@contextmanager
def _global_randomness_from(rng: Any) -> Iterator[None]:
    """Seeds the global generators of NumPy, Python and a loaded PyTorch from `rng` for the body; restores their states.

    In processes that were forked, they would all go on from the same state.
    """
    states = np.random.get_state(), random.getstate()  # noqa: NPY002 - they are what the user's code draws from
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
    random.seed(int(rng.integers(2**62)))
    try:
        with torch_seeded(int(rng.integers(2**62))):
            yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


@contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """Seeds the global generator of PyTorch for the body, where it is loaded; restores its state."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def command(line: str | Sequence[str], *, seconds: float = 60.0, keep: bool = False, **options: Any) -> Mechanism:
    """The mechanism of a command: for each line of JSON that it reads, the data, it writes one, an output.

    The command is started anew for each block of samples and given that many lines; it may take `seconds` for a block.
    With `keep` it is started once in each process and goes on to run, for programs that take long to start: it has to
    flush each line, and to keep nothing from one line to the next.
    A string is split as a shell would; no shell runs it.
    """
    return foreign(Command.from_line(line, seconds, keep), **options)


@dataclass(frozen=True, eq=False)
class _Batched:
    function: Callable[[Any, int], Any]

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def outputs(self, data: Any, count: int) -> Any:
        return self.function(data, count)


@dataclass(frozen=True, eq=False)
class Unseeded:
    """A callable of another library with randomness of its own, run once for each output."""

    function: Callable[[Any], Any]
    scalar: bool
    library: str

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", f"{self.library}_{type(self.function).__name__.lower()}"))

    def outputs(self, data: Any, count: int) -> list[Any]:
        given = single(data) if self.scalar else data
        return [self.function(given) for _ in range(count)]


def single(data: Any) -> Any:
    """The number itself, where data is a list or array of one."""
    return data[0] if isinstance(data, list | tuple | np.ndarray) and len(data) == 1 else data


@dataclass(frozen=True, eq=False)
class _Once:
    """One output as a function of `(rng, data)`, from a source of many."""

    source: Any

    @property
    def __name__(self) -> str:
        return str(self.source.__name__)

    def __call__(self, rng: Any, data: Any) -> Any:
        if stands_in(rng):
            rng.refuse(f"{self.__name__} draws its noise out of sight, not from rng")
        return self.source.outputs(data, 1)[0]


@dataclass(frozen=True, eq=False)
class _Many:
    """Many outputs as a function of `(rng, data, count)`, from a source of them."""

    source: Any

    def __call__(self, rng: Any, data: Any, count: int) -> Any:
        return self.source.outputs(data, count)


def stands_in(rng: Any) -> bool:
    """Whether this is a stand-in for a generator; one may pass for a real one by its class."""
    return type(rng) is not Generator


def foreign(source: Any, **options: Any) -> Mechanism:
    return Mechanism(_Once(source), **{"vectorised": _Many(source), **resolved(options)})


def resolved(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a mechanism, where an adjacency may be a name."""
    if "adjacency" in options:
        options = {**options, "adjacency": adjacency(options["adjacency"])}
    return options
