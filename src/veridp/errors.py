"""What can go wrong, as a tree.

VeridpError
├── BadInput              what the caller gave cannot be used; the message says what would do
│   ├── BadTarget         a target such as `file.py:function` names no mechanism
│   └── MissingExtra      what was asked for needs a package that is not installed
├── MechanismError        the mechanism itself misbehaved
│   ├── MechanismFailed   it raised an exception in every run, or one that is not an output
│   ├── MechanismHung     it did not return within the time limit
│   ├── WorkerLost        it ended the process that ran it
│   ├── BadOutput         it returned a value that has no columns, or nothing but None
│   └── Nondeterministic  run again on the same noise, it did something else
├── NotExplorable         its paths cannot be listed; the sampling engines still serve
│   ├── ExplorationDisagrees  a plain run contradicts the paths: the code tells stand-ins from numbers
│   │   └── RoundingDecides  rounding may decide what a plain run does, so that it cannot be held against them
│   ├── NotAffine         it did to noise what no affine expression can say
│   ├── TooManyPaths      it has more paths than the budget allows
│   └── NotInductive      it was not seen to be a loop of steps that are all alike
├── BudgetSpent           what is asked would cost more than is left of a privacy budget; nothing was drawn
├── NotExact              its paths are known, but their probabilities are out of reach of the exact engine
│   └── NotSolved         a linear program of a proof has no exact answer within its limit of steps
├── CutShort              the time or memory given was used up before there was any answer
└── EnginesDisagree       two engines contradict each other: a fault in veridp itself

Every message says where, what was found, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Interruption(BaseException):
    """Leaves user code from inside, for a purpose of veridp's; no `except Exception` of the user can swallow it."""


INTERRUPTING = (Interruption, KeyboardInterrupt)  # what passes user code and is not raised by it


class VeridpError(Exception):
    """Base of everything that veridp raises on purpose."""


class BadInput(VeridpError, ValueError):
    """What the caller gave cannot be used."""


class BadTarget(BadInput):
    """A target names no mechanism."""


class MissingExtra(BadInput):
    """What was asked for needs a package that is not installed."""


@contextmanager
def extra(name: str, who_needs: str) -> Iterator[None]:
    """Import packages of an extra in the body: MissingExtra, with the command that installs it, where one is missing.

    >>> with extra("plot", "plots need"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    veridp.errors.MissingExtra: plots need no_such_package; install it with: pip install 'veridp[plot]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise MissingExtra(f"{who_needs} {package}; install it with: pip install 'veridp[{name}]'") from None


class MechanismError(VeridpError):
    """The mechanism itself misbehaved."""


class MechanismFailed(MechanismError):
    """The mechanism raised an exception in every run, or one that is not an output."""


class MechanismHung(MechanismError):
    """The mechanism did not return within the time limit."""


class WorkerLost(MechanismError):
    """The mechanism ended the process that ran it."""


class BadOutput(MechanismError):
    """The mechanism returned a value that has no columns, or nothing but None."""


class Nondeterministic(MechanismError):
    """The mechanism, run again on the same noise, did something else."""


class NotExplorable(VeridpError):
    """The paths of the mechanism cannot be listed."""


class ExplorationDisagrees(NotExplorable):
    """A plain run contradicts the paths that were explored: nothing may rest on them."""


class RoundingDecides(ExplorationDisagrees):
    """Rounding may decide what the function does there, so that plain runs cannot be held against its paths."""


class NotAffine(NotExplorable):
    """The mechanism did to noise what no affine expression can say."""


class TooManyPaths(NotExplorable):
    """The mechanism has more paths than the budget allows."""


class NotInductive(NotExplorable):
    """The mechanism was not seen to be a loop of steps that are all alike."""


class BudgetSpent(VeridpError):
    """What is asked would cost more than what is left of a privacy budget."""


class NotExact(VeridpError):
    """The probabilities of the paths are out of reach of the exact engine."""


class NotSolved(NotExact):
    """A linear program of a proof has no exact answer within its limit of steps."""


class CutShort(VeridpError):
    """The time or the memory that an engine was given was used up before it had any answer."""


class EnginesDisagree(VeridpError):
    """Two engines contradict each other: a fault in veridp itself."""
