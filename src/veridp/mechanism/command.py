"""A mechanism that is another program: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.errors import BadInput, BadOutput, MechanismFailed, MechanismHung

TAIL = 300  # characters of its last words that an error repeats


@dataclass(frozen=True)
class Command:
    """A program to be started; it answers each line of JSON, the data, with one line of JSON, an output."""

    words: tuple[str, ...]
    seconds: float

    @classmethod
    def from_line(cls, line: str | Sequence[str], seconds: float) -> Command:
        """The command that a line, split as a shell would, or a sequence of words gives."""
        words = tuple(shlex.split(line) if isinstance(line, str) else line)
        if not words or not all(isinstance(word, str) for word in words):
            raise BadInput(f"{line!r} is not a command; give for instance ['python3', 'mechanism.py']")
        return cls(words, seconds)

    @property
    def __name__(self) -> str:
        return shlex.join(self.words)

    def outputs(self, data: Any, count: int) -> list[Any]:
        """`count` outputs on the data, from one run of the program."""
        line = json.dumps(data, default=_plain) + "\n"
        lines = self._answer(line * count).splitlines()
        if len(lines) != count:
            raise BadOutput(
                f"{self.__name__} wrote {len(lines)} lines for {count} of input; "
                f"it has to write one line of JSON for each line that it reads"
            )
        return [self._read(number, text) for number, text in enumerate(lines, start=1)]

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


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays in the words of JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise BadInput(f"{value!r} cannot be written as JSON; give data made of numbers, strings, lists and dictionaries")
