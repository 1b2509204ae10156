"""The run under way: what it offers to the expressions that live in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from veridp.errors import NotAffine
from veridp.kernel.distributions import Number
from veridp.kernel.site import here

if TYPE_CHECKING:
    from veridp.kernel.expressions.affine import Affine
    from veridp.kernel.expressions.undecided import Condition

Key = tuple[object, ...]  # the name of an operation, and its operands: expressions by identity, numbers by value


class Decider(ABC):
    """What a run offers to the symbols that live in it."""

    results: dict[Key, tuple[Any, ...]]  # what operations gave here in earlier runs; the operands, kept alive, follow
    functions: bool  # whether expressions may hold functions that are not affine
    settles = False  # whether a comparison has its truth at once, for code that asks which of two objects it is
    whole = True  # whether there may be integers with noise; not for code that asks which object a number is
    choosing = False  # whether what is computed from truth values and plain numbers stays undecided
    adaptive = False  # whether data with noise are taken for released numbers, see `veridp.kernel.flow.releases`

    def summed(self, total: Affine) -> Affine:
        """What an adaptive run makes of a sum."""
        return total

    @abstractmethod
    def decide(self, condition: Condition) -> bool:
        """Which way to go at a branch."""

    def compared(self, condition: Condition) -> None:  # noqa: B027
        """A comparison was made; whether its truth is ever asked for is another matter."""

    def made_integer(self) -> None:
        """An integer with noise is made: it stops where code may ask which object that is."""
        if not self.whole:
            self.refuse("an integer with noise may be told by `is`, id() or the like here; compare numbers by ==")

    @abstractmethod
    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        """Which of the values is to be the first largest (or smallest)."""

    def write(self, number: Affine, form: str) -> str:
        """What is written into a text for the number, in this format."""
        self.refuse("noise turned into text is not affine")

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Stop: the mechanism did what symbols cannot express."""


RUN: ContextVar[Decider | None] = ContextVar("RUN", default=None)


def current_run() -> Decider:
    """The run under way; an error where there is none."""
    run = RUN.get()
    if run is None:
        raise NotAffine(
            f"{here()}: a symbol has no value; it can only be decided inside explore(). A mechanism that keeps one "
            "from an earlier run keeps state: audit it with black_box=True"
        )
    return run


def refuse(what: str) -> NoReturn:
    """Stop the run: the mechanism did what expressions cannot express."""
    current_run().refuse(what)
