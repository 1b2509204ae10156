"""Exploring a mechanism: run it once for each way through it, and write down what it met on the way.

A run follows the steps that it was given, checks that the mechanism takes them again, and past them goes the first
way that is possible at each fork; the other ways are left for later runs.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from veridp.budget import Deadline, check, out_of_memory
from veridp.budget.child_process import contained
from veridp.errors import (
    INTERRUPTING,
    CutShort,
    MechanismFailed,
    Nondeterministic,
    NotAffine,
    NotExplorable,
    TooManyPaths,
    VeridpError,
)
from veridp.kernel.expressions import RUN, decided
from veridp.kernel.flow.loops import Loops, functions_of
from veridp.kernel.flow.retries import Retries, rational
from veridp.kernel.handmade.coin_text import LATE_ERRORS
from veridp.kernel.handmade.coins import CoinBook, CoinTrial, LateFailure, LoopCoin, Toss, Tosses
from veridp.kernel.output import Raised, failed, leaf_key
from veridp.kernel.output import raised as raised_output
from veridp.kernel.path import PLAIN, Again, Path, Step, entries_of, map_leaves, outline_of, output_text
from veridp.kernel.run import LearnedOfLoop, Results, Run, RunStopped, Stage, Way, loop_place
from veridp.kernel.site import Site, raised_at
from veridp.kernel.stand_ins import RAISED, Symbolic
from veridp.kernel.stand_ins.modules import seeing_stand_ins
from veridp.kernel.stand_ins.text import NoisyText, replaced
from veridp.kernel.state.fingerprint import fingerprint
from veridp.kernel.state.memory import Watch, changed, watched_entropy
from veridp.kernel.symbols import CoinDraw, Noise, Rounds
from veridp.mechanism import Function, Mechanism, as_mechanism

MAX_PATHS = 100_000
BOOKS: WeakKeyDictionary[Any, CoinBook] = WeakKeyDictionary()  # by the functions whose coins they hold


def explore(
    mechanism: Mechanism | Function,
    data: Any,
    *,
    max_paths: int = MAX_PATHS,
    defer: bool = False,
    functions: bool = True,
    retries: bool = False,
    seconds: float = math.inf,
    **arguments: Any,
) -> tuple[Path, ...]:
    """All paths of the mechanism on this data, in the order of a walk through its tree.

    Entries of the data, and arguments, may be left open with `unknowns` and `unknown`. With `defer`, comparisons and
    choices that only end up in the output stay undecided there, instead of forking. Without `functions`, whatever is
    not affine in noise and open values is refused. With `retries`, a path ends where a loop has come back to a state
    that it was in before, in an `Again`: what a mechanism returns in the end is for `accepted` to say.

    The paths are disjoint and complete but for a set of probability 0: equality of continuous noise is taken to fail.
    A path on which the mechanism raises ends in a `Raised`. Raises NotAffine or TooManyPaths where the paths cannot be
    listed, Nondeterministic where runs disagree, CutShort where the `seconds` or the memory do not suffice.
    """
    mechanism = as_mechanism(mechanism, **arguments)
    deadline = Deadline(seconds)
    return contained(
        lambda _: tuple(walk(mechanism, data, max_paths, defer, functions, retries)), deadline, known=(mechanism, data)
    )


def walk(
    mechanism: Mechanism,
    data: Any,
    max_paths: int = MAX_PATHS,
    defer: bool = False,
    functions: bool = False,
    retries: bool = False,
    run_type: type[Run] | None = None,
    choosing: bool = False,
) -> Iterator[Path]:
    """The paths, one at a time, as they are found, by runs of a type.

    With `choosing`, branches that only choose an entry of the output are no forks: the entry stays undecided.
    """
    loops = Loops.of(mechanism.bound()) if retries else None
    make = partial(run_type or Run, functions=functions, choosing=choosing)
    listed = partial(_listed, mechanism, data, max_paths, defer, make)
    if loops is None:
        return listed(None)
    loops.coins = _known_coins(mechanism, loops)
    paths = _settled(listed, partial(_tried, mechanism, data, make), loops)
    if loops.coins is not None:
        _check_failures(paths, mechanism, data, make, loops)
        loops.coins.counting, loops.coins.chances = loops.counting, loops.chances
        with suppress(TypeError):  # a callable that cannot be a key
            BOOKS[mechanism.function] = loops.coins
    return iter(paths)


def _known_coins(mechanism: Mechanism, loops: Loops) -> CoinBook | None:
    """The coins of an earlier listing, where all that the mechanism can reach is as it was then."""
    book = None
    with suppress(TypeError):
        book = BOOKS.get(mechanism.function)
    if book is None or changed(book.state, fingerprint(loops.function)):
        return None
    book.trials.clear()  # of a listing that was cut short
    loops.counting, loops.chances = dict(book.counting), dict(book.chances)  # a first guess, which each listing checks
    return book


def _listed(
    mechanism: Mechanism, data: Any, max_paths: int, defer: bool, make: Callable[..., Run], loops: Loops | None
) -> Iterator[Path]:
    plain = mechanism.bound()
    watch = Watch(mechanism.name, plain)
    function = watch.deciding(seeing_stand_ins(plain))
    begun: Results = {}
    if loops is not None:  # what is made when it is first needed is no state of a loop
        follow(make(Way(), begun, loops=loops), mechanism.name, function, data, defer)
    pending = [Way()]
    found = 0
    while pending:
        if found >= max_paths:
            raise TooManyPaths(
                f"{mechanism.name} has more than {max_paths} paths ({found} were listed); "
                f"use a smaller input, raise max_paths, defer=True where the branches only decide the output, "
                f"or use an engine that samples"
            )
        check()
        run = make(pending.pop(), begun, loops=loops)
        path = follow(run, mechanism.name, function, data, defer)
        pending += run.postponed

        def again(path: Path = path, stages: Sequence[Stage] = run.stages) -> None:
            check_again(path, make(Way(tuple(stages)), begun, loops=loops), mechanism.name, function, data, defer)

        if not found:
            again()
        watch.after_run(again)
        found += 1
        yield path
    watch.settle()


def _settled(
    listed: Callable[[Loops], Iterator[Path]], tried: Callable[[Loops, CoinTrial], LoopCoin | None], loops: Loops
) -> list[Path]:
    """The paths, listed until nothing more is learned about loops that count: which do, and for how many rounds.

    Where there is no end to them, calls that only toss a coin are looked for.
    """
    while True:
        try:
            _settle_trials(tried, loops)
            paths = list(listed(loops))
            if any(map(_trips_over_rounds, paths)):
                loops.counting = dict.fromkeys(loops.counting, ())
            elif not _learned(paths, loops):
                return paths
        except LearnedOfLoop:
            continue
        except CutShort:
            raise
        except VeridpError as error:
            if any(loops.counting.values()):
                loops.counting = dict.fromkeys(loops.counting, ())  # something depends on how often they went round
            elif isinstance(error, TooManyPaths | NotAffine) and loops.coins is None:
                loops.coins, loops.counting = CoinBook(fingerprint(loops.function)), {}
            else:
                raise


def _settle_trials(tried: Callable[[Loops, CoinTrial], LoopCoin | None], loops: Loops) -> None:
    """Follow the calls that runs met, those within others first; LearnedOfLoop where one meets yet another."""
    while loops.coins is not None and loops.coins.trials:
        trial = loops.coins.trials[-1]
        coin = tried(loops, trial)
        loops.coins.trials.pop()
        loops.coins.known[trial.call.key] = None if coin is None else (coin, trial.state)


def _tried(
    mechanism: Mechanism, data: Any, make: Callable[..., Run], loops: Loops, trial: CoinTrial
) -> LoopCoin | None:
    """What the call tosses; None where it is no coin."""
    function, tosses = seeing_stand_ins(mechanism.bound()), Tosses(trial.call, functions_of(loops.function))
    drawn = sum(isinstance(step, Noise) for step in trial.steps)
    conditions = tuple(Path(trial.steps, None).conditions)
    pending = [Way(tuple(map(Stage.of, trial.steps)), drawn, conditions)]
    try:
        while pending:
            check()
            tosses.count()
            run = make(pending.pop(), {}, loops=loops, trial=trial)
            follow(run, mechanism.name, function, data, defer=False)
            pending += run.postponed
            if run.ended:
                tosses.add(run.returned, run.steps[len(trial.steps) :], drawn)
        return tosses.coin()
    except CutShort:
        raise
    except VeridpError:
        return None


def _check_failures(
    paths: Sequence[Path], mechanism: Mechanism, data: Any, make: Callable[..., Run], loops: Loops
) -> None:
    """Raise NotExplorable where something goes on after a coin has raised, which it may do in rounds that are not seen.

    The text of the user's functions catches nothing, but what they call may: `next`, `getattr`, a library.
    """
    function, met = seeing_stand_ins(mechanism.bound()), set[tuple[Step, ...]]()
    for path in paths:
        for end, step in enumerate(path.steps):
            place = end - (end > 0 and isinstance(path.steps[end - 1], CoinDraw))
            before = path.steps[:place]
            if not isinstance(step, Toss) or not step.option.rounded or before in met:
                continue
            met.add(before)
            drawn = sum(isinstance(each, Noise) for each in before)
            way = Way(tuple(map(Stage.of, before)), drawn, tuple(Path(before, None).conditions))
            for error in LATE_ERRORS:
                check()
                run = make(way, {}, loops=loops, failing=LateFailure(place, error))
                if not _ends_by(error, run, mechanism.name, function, data):
                    raise NotExplorable(
                        f"{step.site}: a call without a bound on its rounds may raise, and what calls it goes on; "
                        "call it in a statement of its own"
                    )


def _ends_by(error: type[Exception], run: Run, name: str, function: Callable[..., Any], data: Any) -> bool:
    """Whether the error that the run raises is all that the mechanism comes to."""
    try:
        output = follow(run, name, function, data, defer=False).output
    except MechanismFailed as failure:  # some errors are no output
        return isinstance(failure.__cause__, error)
    return isinstance(output, Raised) and output.type == error.__name__


def _trips_over_rounds(path: Path) -> bool:
    """Whether the code did to the number of its rounds what only a plain number can bear."""
    raised = isinstance(path.output, Raised) and path.output.type in (AttributeError.__name__, TypeError.__name__)
    return raised and any(isinstance(step, Rounds) for step in path.steps)


def _learned(paths: Sequence[Path], loops: Loops) -> bool:
    """Whether some loop ends with another probability than was assumed."""
    counted = {
        loop_place(step.head, path.steps[:place])
        for path in paths
        for place, step in enumerate(path.steps)
        if isinstance(step, Rounds)
    }
    if not counted:
        return False
    retries = Retries(paths, rational)
    heads = {(head.name, head.place, head.taken): head for head in retries.back}
    wanted = [heads[at] for name, place, way in counted if (at := (name, place + 1, way)) in heads]
    factors = {(head.name, head.place, head.taken): retries.factor_of(head) for head in wanted}
    found = {(name, at, way): 1 / factors.get((name, at + 1, way), Fraction(1)) for name, at, way in counted}
    differs = any(loops.chances.get(key) != chance for key, chance in found.items())
    loops.chances = dict(found)
    return differs


def follow(run: Run, name: str, function: Callable[..., Any], data: Any, defer: bool) -> Path:
    """The path of one run."""
    raised: list[Exception] = []
    entropy: list[Site] = []
    token, noted = RUN.set(run), RAISED.set(raised)
    try:
        with watched_entropy(entropy), run.watched(), _silent_stop():
            returned = function(run, _copied(data))
            for entries, place, leaf in run.chosen:
                (returned if entries is None else entries)[place] = leaf
            output = map_leaves(lambda leaf: replaced(leaf, run.marks), returned)
            if not defer:
                output = map_leaves(decided, output)
    except RunStopped:
        output = None
    except MemoryError:
        raise out_of_memory() from None
    except INTERRUPTING:
        raise
    except BaseException as error:
        output = None
        if run.error is None and not raised:
            with suppress(RunStopped):  # a message with a stand-in in it: it ends the exploration
                output = _raised(error, name)
    finally:
        RAISED.reset(noted)
        RUN.reset(token)
    if run.learned:
        raise LearnedOfLoop
    if run.error is not None:  # also where user code swallowed the stop
        raise run.error
    if raised:
        first = raised[0]
        raise NotAffine(
            f"{raised_at(first.__traceback__)}: a stand-in for a random number raised {type(first).__name__}: {first}; "
            f"a plain number may not, so the paths cannot be listed; use an engine that samples"
        ) from first
    if entropy:
        raise Nondeterministic(
            f"{entropy[0]}: {name} asks the operating system for randomness (secrets, an unseeded generator); "
            f"draw from rng instead"
        )
    if run.seeds:
        run.check_seeds(output)
    if run.back is not None:
        output = run.back
    if run.place < run.given:
        raise Nondeterministic(f"{name}, run again on the same noise, ended before its earlier run did")
    return Path(run.steps, output)


@contextmanager
def _silent_stop() -> Iterator[None]:
    """A library that cannot pass the stop on through its C code does not print it: the run knows of it."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is RunStopped else hook(lost)
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _raised(error: BaseException, name: str) -> Raised:
    """The exception as the output of its path; MechanismFailed where it is none."""
    if isinstance(error, Exception) and not isinstance(error, VeridpError):
        return raised_output(error)
    raise failed(error, name) from error


def check_again(path: Path, run: Run, name: str, function: Callable[..., Any], data: Any, defer: bool) -> None:
    """Run the first path once more: state that leaks into an output shows here, where no fork depends on it."""
    again = follow(run, name, function, data, defer)
    if len(again.steps) != len(path.steps) or not _same_output(path.output, again.output):
        raise Nondeterministic(
            f"{name}, run twice on the same noise, returned {output_text(path.output)} and then "
            f"{output_text(again.output)}; it must depend on rng, data and arguments alone"
        )


def _same_output(first: Any, second: Any) -> bool:
    if isinstance(first, Again) or isinstance(second, Again):
        return bool(first == second)
    return outline_of(first) == outline_of(second) and all(map(_same_leaf, entries_of(first), entries_of(second)))


def _same_leaf(first: Any, second: Any) -> bool:
    if isinstance(first, NoisyText) and isinstance(second, NoisyText):
        return first.text() == second.text()
    if isinstance(first, Symbolic) or isinstance(second, Symbolic):
        return first is second or (type(first) is type(second) and str(first) == str(second))
    return leaf_key(first) == leaf_key(second)


def _copied(data: Any) -> Any:
    """Data of its own for each run, so that a mechanism that changes its input meets it unchanged."""
    flat = type(data) is list and PLAIN.issuperset(map(type, data))
    return data.copy() if flat or isinstance(data, np.ndarray) else copy.deepcopy(data)
