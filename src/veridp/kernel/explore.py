"""Exploring a mechanism: run it once for each way through it, and write down what it met on the way.

A run follows the steps that it was given, checks that the mechanism takes them again, and past them goes the first
way that is possible at each fork; the other ways are left for later runs.
"""

from __future__ import annotations

import copy
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from veridp.budget import Deadline, check, out_of_memory
from veridp.budget.child_process import contained
from veridp.errors import INTERRUPTING, CutShort, Interruption, Nondeterministic, NotAffine, TooManyPaths, VeridpError
from veridp.kernel.distributions import Distribution, Number, ScaledNoise, exact
from veridp.kernel.expressions import (
    RUN,
    Affine,
    Condition,
    Decider,
    Key,
    affine,
    decided,
    in_arguments,
    is_integer,
    settle,
)
from veridp.kernel.feasibility import has_room
from veridp.kernel.generator import MIN_SEEDS, Size, StandInGenerator
from veridp.kernel.loops import MAX_VISITS, Added, LoopHead, LoopPlace, Loops, Visit, Visits, watched_loops
from veridp.kernel.modules import seeing_stand_ins
from veridp.kernel.noise import Geometric, Integers
from veridp.kernel.output import Raised, failed, leaf_key
from veridp.kernel.output import raised as raised_output
from veridp.kernel.path import PLAIN, Again, Fork, Option, Path, Step, entries_of, map_leaves, outline_of, output_text
from veridp.kernel.recognition import expressions_in
from veridp.kernel.retries import Retries, rational
from veridp.kernel.site import Site, here, raised_at
from veridp.kernel.stand_ins import RAISED, Symbolic
from veridp.kernel.state import Watch, watched_entropy
from veridp.kernel.symbols import Noise, Relation, Rounds, drawn_in, has_no_atoms
from veridp.kernel.text import NoisyText, WrittenNumber, goes_into_output, replaced
from veridp.kernel.weights import Weight, weight_of
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.mechanism.randomness import CURRENT, sharing

MAX_PATHS = 100_000
MAX_FORKS = 2_000  # on one path; a loop that can go on for ever is stopped here
FORKS_BETWEEN_LOOKS = 64  # at how unlikely the choices of a run are
LEAST_LOG_PROBABILITY = -1000.0  # to the base 2: about 1e-300, below which floats have no numbers


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
) -> Iterator[Path]:
    """The paths, one at a time, as they are found, by runs of a type."""
    loops = Loops.of(mechanism.bound()) if retries else None
    listed = partial(_listed, mechanism, data, max_paths, defer, partial(run_type or Run, functions=functions))
    return listed(None) if loops is None else iter(_settled(listed, loops))


def _listed(
    mechanism: Mechanism, data: Any, max_paths: int, defer: bool, make: Callable[..., Run], loops: Loops | None
) -> Iterator[Path]:
    plain = mechanism.bound()
    function, watch = seeing_stand_ins(plain), Watch(mechanism.name, plain)
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


def _settled(listed: Callable[[Loops], Iterator[Path]], loops: Loops) -> list[Path]:
    """The paths, listed until nothing more is learned about loops that count: which do, and for how many rounds."""
    while True:
        try:
            paths = list(listed(loops))
            if not _learned(paths, loops):
                return paths
        except _Learned:
            continue
        except CutShort:
            raise
        except VeridpError:
            if not any(loops.counting.values()):
                raise
            loops.counting = dict.fromkeys(loops.counting, ())  # something depends on how often they went round


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
    factors = {(head.name, head.place, head.taken): f for head, f in Retries(paths, rational).factors.items()}
    found = {(name, at, way): 1 / factors.get((name, at + 1, way), Fraction(1)) for name, at, way in counted}
    changed = any(loops.chances.get(key) != chance for key, chance in found.items())
    loops.chances = dict(found)
    return changed


def loop_place(head: str, steps: Sequence[Step]) -> LoopPlace:
    return head, len(steps), tuple(step.taken for step in steps if isinstance(step, Fork))


class _Learned(Exception):
    """Raised where a run learned something about a loop: the paths are listed again."""


class _Stop(Interruption):
    """Ends a run from inside user code; no `except Exception` of the user can swallow it."""


Results = dict[Key, tuple[Any, ...]]


class Stage:
    """A step, kept for the runs that take it again: what was asked, the answer, and what was worked out after it."""

    __slots__ = ("answer", "asked", "results", "step")

    def __init__(self, step: Step, asked: object, answer: Any) -> None:
        self.step = step
        self.asked = asked
        self.answer = answer
        self.results: Results = {}


@dataclass(frozen=True, eq=False)
class Way:
    """How a run is to begin: the stages to go through again, with how many draws and which conditions they make."""

    stages: tuple[Stage, ...] = ()
    drawn: int = 0
    conditions: tuple[Condition, ...] = ()
    last: Stage | None = None  # one more, where ways that part at a fork share the stages before it


class Run(StandInGenerator, Decider):
    """One run: the generator that the mechanism draws from, and what its symbols ask for their truth."""

    def __init__(self, way: Way, begun: Results, functions: bool = True, loops: Loops | None = None) -> None:
        self.functions, self.loops = functions, loops
        self.stages = list(way.stages) if way.last is None else [*way.stages, way.last]
        self.given = len(self.stages)
        self.place = 0  # how many stages have been gone through
        self.next = self.stages[0] if self.stages else None  # what earlier runs met here; None past these
        self.drawn = way.drawn  # these two count to the end of the way, and past it up to here
        self.conditions = list(way.conditions)
        self.results = begun
        self.postponed: list[Way] = []
        self.error: VeridpError | None = None
        self.back: Again | None = None  # set where a loop came back
        self.visits = 0  # of heads of loops
        self.learned = False  # whether more is known of a loop than when it began
        self.marks: dict[str, WrittenNumber] = {}  # numbers that were written into texts, by their marks
        self.tape: list[tuple[object, Any]] | None = None  # what was drawn since the generator was first copied
        self.position = 0  # on the tape
        self.seeds: set[Noise] = set()  # what generators were seeded with
        self.branched = False  # whether other generators draw from this one

    @property
    def steps(self) -> tuple[Step, ...]:
        """What it has done so far."""
        return tuple([stage.step for stage in self.stages[: self.place]])

    # ------------------------------------------------------------------------------------------------- draws

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        if size is not None or type(loc) is not float or type(scale) is not float or not scale > 0:
            return super()._located(kind, loc, scale, size)
        noise = self.noise(_scaled(kind, scale))
        return noise + loc if loc else noise

    def noise(self, distribution: Distribution) -> Affine:
        return self.draw(distribution) if self.tape is None else self.again(self, distribution)

    def draw(self, distribution: Distribution) -> Affine:
        """Noise that no copy of the generator has drawn before."""
        return self._drawn(distribution, lambda: Noise(self.drawn, distribution, here()))

    def _drawn(self, distribution: Distribution, make: Callable[[], Noise]) -> Affine:
        if self.next is None:
            self._check()
            noise = make()
            self.stages.append(Stage(noise, distribution, Affine(0, {noise: 1}, "i" if distribution.integer else "f")))
            self.next = self.stages[-1]
            self.drawn += 1
        elif self.next.asked is not distribution and not _is_draw(self.next.step, distribution):
            self._disagree(f"drew {distribution}", self.next.step)
        return self._answer()  # type: ignore[no-any-return]

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        return values[self.pick(values, weights) if self.tape is None else self.again(self, tuple(weights), values)]

    def pick(self, values: Sequence[Any], weights: Sequence[Number]) -> int:
        """The index of a value that no copy of the generator has chosen before."""
        if self.next is not None and _is_choice(self.next.step, weights):
            return self._answer()  # type: ignore[no-any-return]
        options = [
            Option((), weight, f"choose {output_text(value)}") for value, weight in zip(values, weights, strict=True)
        ]
        return self._fork(options)

    def again(self, reader: Run | _Copy, asked: Distribution | tuple[Number, ...], values: Sequence[Any] = ()) -> Any:
        """What the tape has at the reader's position: copies of a generator draw what the original draws."""
        tape = [] if self.tape is None else self.tape
        if reader.position == len(tape):
            tape.append((asked, self.pick(values, asked) if isinstance(asked, tuple) else self.draw(asked)))
        before, answer = tape[reader.position]
        if before != asked:
            self.refuse("a copy of rng draws from another distribution than rng does in the same state")
        reader.position += 1
        return answer

    def __deepcopy__(self, memo: object) -> _Copy:
        if self.branched or ((adoption := CURRENT.get()) is not None and adoption.sources.names):
            self.refuse("a copy of one of several generators draws the same numbers again")
        if self.tape is None:
            self.tape = []
        return _Copy(self, self.position)

    def _chance(self, p: Any) -> Any:
        value = settle(p)
        if not isinstance(value, Affine) or not self.functions:
            return super()._chance(value)
        if not 0 <= value <= 1:
            raise ValueError("p < 0, p > 1 or p is NaN")
        weight = weight_of(value)
        return super()._chance(value) if weight is None else weight

    def _answer(self) -> Any:
        """The answer of the stage that is next, which is thereby gone through."""
        stage: Stage = self.next  # type: ignore[assignment]
        self.place = place = self.place + 1
        self.next = self.stages[place] if place < len(self.stages) else None
        self.results = stage.results
        return stage.answer

    # ------------------------------------------------------------------------------------------------- forks

    def decide(self, condition: Condition) -> bool:
        if self.next is not None and self.next.asked is condition:
            return self._answer() == 0  # type: ignore[no-any-return]
        if condition.relation in (Relation.AT_LEAST, Relation.ABOVE):
            return self._take((Option((condition,)), Option((condition.negated(),))), condition) == 0
        equal = condition.relation is Relation.EQUAL
        if has_no_atoms(condition.slack.terms):
            return not equal
        ways = [
            Condition(condition.slack, Relation.EQUAL),
            Condition(condition.slack, Relation.ABOVE),
            Condition(-condition.slack, Relation.ABOVE),
        ]
        return (self._fork([_option(way) for way in ways]) == 0) is equal

    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        options = [_being_first_extreme(values, index, largest) for index in range(len(values))]
        possible = [index for index, option in enumerate(options) if option is not None]
        return possible[0] if len(possible) == 1 else self._fork(options)  # one alone is no matter of chance

    def _fork(self, options: Sequence[Option | None]) -> int:
        """The index of the option to go with; None marks one that the constants already rule out."""
        if None not in options:
            return self._take(tuple(options))  # type: ignore[arg-type]
        numbered = [(index, option) for index, option in enumerate(options) if option is not None]
        return numbered[self._take(tuple(option for _, option in numbered))][0]

    def _take(self, options: tuple[Option, ...], asked: Condition | None = None) -> int:
        """The index of the option to go with."""
        if self.next is None:
            self._new_fork(options, asked)
        elif not _is_fork(self.next.step, options):
            self._disagree(_fork_text(options), self.next.step)
        return self._answer()  # type: ignore[no-any-return]

    def _new_fork(self, options: tuple[Option, ...], asked: Condition | None) -> None:
        if self.back is not None:
            raise _Stop
        possible = self.choose_way(options)
        if not possible:
            raise RuntimeError("no way is open at a fork; the exploration lost track of its conditions")
        if self.place - self.drawn >= MAX_FORKS:
            self._stop(
                TooManyPaths(
                    f"{here()}: one run met {MAX_FORKS} forks without an end; bound the loop (for … in range(…)), "
                    f"or use an engine that samples"
                )
            )
        if (self.place - self.drawn) % FORKS_BETWEEN_LOOKS == 0 and self._is_hopeless():
            self._stop(
                TooManyPaths(
                    f"{here()}: a run goes on whose choices have a probability below 1e-300; bound the loop "
                    f"(for … in range(…)), or use an engine that samples"
                )
            )
        site, (taken, *others) = here(), possible
        begun = tuple(self.stages) if others else ()
        for other in reversed(others):
            stage = Stage(Fork(options, other, site), asked, other)
            conditions = (*self.conditions, *options[other].conditions)
            self.postponed.append(Way(begun, self.drawn, conditions, stage))
        self.next = Stage(Fork(options, taken, site, implied=not others), asked, taken)
        self.stages.append(self.next)
        if others:
            self.conditions += options[taken].conditions

    def _is_hopeless(self) -> bool:
        """Whether its choices are so unlikely that a loop, whose chance to go on falls in every round, must have made
        them."""
        weights = [step.option.weight for step in self.steps if isinstance(step, Fork)]
        return sum(math.log2(weight) for weight in weights if not isinstance(weight, Weight)) < LEAST_LOG_PROBABILITY

    def choose_way(self, options: Sequence[Option]) -> Sequence[int]:
        """The options that are possible here: the run takes the first, later runs the others."""
        possible: list[int] = []
        for index, option in enumerate(options):
            last_resort = index == len(options) - 1 and not possible  # the options cover everything
            if option.weight and (last_resort or has_room(self.conditions, option.conditions)):
                possible.append(index)
        return possible

    # ----------------------------------------------------------------------------------------------- replays

    def _disagree(self, now: str, before: Step) -> NoReturn:
        then = f"drew {before.distribution}" if isinstance(before, Noise) else _fork_text(before.options)
        self._stop(
            Nondeterministic(
                f"{here()}: run again on the same noise, it {now}, where it {then} before; "
                f"it must depend on rng, data and arguments alone (no global state, clock or randomness of its own)"
            )
        )

    def write(self, number: Affine, form: str) -> str:
        if not self.functions or not goes_into_output(sys._getframe()):
            self.refuse("noise turned into text is not affine, unless `return` itself writes the text")
        self.marks[str(len(self.marks))] = WrittenNumber(number, form)
        return f"\ue000{len(self.marks) - 1}\ue001"

    def refuse(self, what: str) -> NoReturn:
        self._stop(
            NotAffine(
                f"{here().prefix}{what}; keep to sums, scaling by plain numbers and comparisons, "
                f"or use an engine that samples"
            )
        )

    # ------------------------------------------------------------------------------------- other generators

    def spawn(self, n_children: int) -> list[Any]:
        """Generators that are independent of each other and of this one: they draw from the same stream."""
        self._branch()
        return [sharing(self) for _ in range(operator.index(n_children))]

    def _branch(self) -> None:
        self.branched = True
        if self.tape is not None:
            self.refuse("a copy of one of several generators draws the same numbers again")

    def takes_as_seed(self, seed: Any) -> bool:
        """Whether a generator with this seed may draw from here: it is a number that was drawn, of very many."""
        seed = settle(seed)
        if not isinstance(seed, Affine):
            return False
        drawn = [symbol for symbol in seed.terms if isinstance(symbol, Noise)]
        ranges = [n.distribution.count for n in drawn if isinstance(n.distribution, Integers)]
        if len(ranges) < len(seed.terms) or math.prod(ranges) < MIN_SEEDS:
            return False
        if not self.seeds.isdisjoint(drawn):
            self.refuse("two generators have the same seed, or one that depends on it")
        self._branch()
        self.seeds.update(drawn)
        return True

    def as_one(self, number: Any) -> Any:
        """The number, which was drawn in parts."""
        return number

    def check_seeds(self, output: Any) -> None:
        """Raise NotAffine where the seed of a generator is used for something else too, which tells of its numbers."""
        said = expressions_in(
            output, [c for step in self.steps if isinstance(step, Fork) for c in step.option.conditions]
        )
        for seed in self.seeds.intersection(s for e in said for s in drawn_in(e.terms)):
            raise NotAffine(
                f"{seed.site}: the random seed of a generator is released or compared, so its numbers are no secret; "
                f"use it as a seed alone, or use an engine that samples"
            )

    # ------------------------------------------------------------------------------------------------- loops

    def watched(self) -> AbstractContextManager[None]:
        """In which the function runs."""
        return nullcontext() if self.loops is None else watched_loops(partial(self.at_head, self.loops))

    def at_head(self, loops: Loops, variables: dict[str, Any], head: LoopHead, every: Visits) -> None:
        """Called at the head of a loop, with what the call was there before: see whether it has come back."""
        visits = every[head]
        if self.back is not None or len(visits) >= MAX_VISITS or (loops.replayed and head.name not in loops.replayed):
            return
        rounds = visits[0].rounds if visits else self._rounds(loops, variables, head)
        now = None if self.tape is not None else loops.visit(variables, head, self.visits, self.place, rounds)
        for before in visits if now is not None else ():
            added = before.added(now)  # type: ignore[arg-type]
            if added is None or not self._forgets(before.place):
                continue
            if added == (() if rounds is None else rounds.added) and self.next is None:
                for each in every.values():
                    each[:] = [visit for visit in each if visit.order <= before.order]  # later ones are forgotten
                self.come_back(before, variables)
                return
            if added and rounds is None and head.name not in loops.counting:
                self.learn(loops, head, added)
        if rounds is not None and (now is None or visits):
            self.learn(loops, head, ())  # it does not count after all
        self.visits += 1
        visits += [] if now is None else [now]

    def _rounds(self, loops: Loops, variables: dict[str, Any], head: LoopHead) -> Rounds | None:
        """The number of its rounds, where the loop counts: what it adds to stands for what they leave in the end."""
        added = loops.counting.get(head.name, ()) if self.tape is None else ()
        if not added or any(not is_integer(variables.get(name)) for name, _ in added):
            return None
        chance = loops.chances.get(loop_place(head.name, self.steps), Fraction(1, 2))
        number = self.count(Geometric(exact(chance)), head.name, added)
        for name, step in added:
            variables[name] = variables[name] + (number - 1) * step
        (rounds,) = number.terms
        return rounds  # type: ignore[return-value]

    def count(self, distribution: Distribution, head: str, added: Added) -> Affine:
        """The number of rounds of a loop."""
        return self._drawn(distribution, lambda: Rounds(self.drawn, distribution, here(), head, added))

    def learn(self, loops: Loops, head: LoopHead, added: Added) -> None:
        """End the run: with this known, it goes another way."""
        loops.counting[head.name] = added
        self.learned = True
        raise _Stop

    def _forgets(self, place: int) -> bool:
        """Whether it has drawn or chosen since that place, and decided by what it drew since, or by data, alone."""
        before, since = self.steps[:place], self.steps[place:]
        drawn = sum(isinstance(step, Noise) for step in before)
        asked = [c for step in since if isinstance(step, Fork) for c in step.option.conditions]
        used = [symbol for condition in asked for symbol in drawn_in(condition.slack.terms)]
        return bool(since) and all(s.index >= drawn for s in used if isinstance(s, Noise))

    def come_back(self, before: Visit, variables: dict[str, Any]) -> None:
        """End the path."""
        self.back = Again(before.place, before.head, before.order)
        raise _Stop

    def _check(self) -> None:
        """End the run where its time or memory is used up: a loop may draw without end."""
        if self.back is not None:  # user code swallowed the stop
            raise _Stop
        try:
            check()
        except CutShort as cut:
            self._stop(cut)

    def _stop(self, error: VeridpError) -> NoReturn:
        self.error = error
        raise _Stop


class _Copy(StandInGenerator):
    """A deep copy of a run's generator, which draws the same numbers as the original does from there on."""

    def __init__(self, run: Run, position: int) -> None:
        self.run, self.position = run, position

    def noise(self, distribution: Distribution) -> Any:
        return self.run.again(self, distribution)

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        return values[self.run.again(self, tuple(weights), values)]

    def _chance(self, p: Any) -> Any:
        return self.run._chance(p)

    def refuse(self, what: str) -> NoReturn:
        self.run.refuse(what)

    def __deepcopy__(self, memo: object) -> _Copy:
        return _Copy(self.run, self.position)


def _option(way: Condition) -> Option | None:
    """The option that this condition holds, told by the arguments of its functions; None where it never does."""
    asked = in_arguments(way)
    if isinstance(asked, bool):
        return Option(()) if asked else None
    return Option((way,) if asked is None else tuple(asked))


def _being_first_extreme(values: Sequence[Affine | Number], index: int, largest: bool) -> Option | None:
    """The option that this value is the first extreme: beyond all before it, and at least as far as all after."""
    conditions = []
    for other, value in enumerate(values):
        if other == index:
            continue
        ahead = _difference(values[index], value) if largest else _difference(value, values[index])
        strict = other < index
        if isinstance(ahead, Affine):
            conditions.append(Condition(ahead, Relation.ABOVE if strict else Relation.AT_LEAST))
        elif ahead < 0 or (strict and ahead == 0):
            return None
    return Option(tuple(conditions), label=f"entry {index} is the {'largest' if largest else 'smallest'}")


def _difference(first: Affine | Number, second: Affine | Number) -> Affine | Number:
    if isinstance(first, Affine):
        return first - second  # type: ignore[no-any-return]
    return second.__rsub__(first) if isinstance(second, Affine) else affine(first - second, {})


@lru_cache(maxsize=4096)
def _scaled(kind: Callable[[Number], Distribution], scale: float) -> Distribution:
    """The distribution: the same object each time it is drawn from."""
    return kind(exact(scale))


def _is_draw(step: Step, distribution: Distribution) -> bool:
    return isinstance(step, Noise) and step.distribution == distribution


def _is_choice(step: Step, weights: Sequence[Number]) -> bool:
    """Whether the step is a finite choice by these weights."""
    return (
        step.__class__ is Fork
        and len(step.options) == len(weights)
        and not step.option.conditions
        and step.option.weight == weights[step.taken]
    )


def _is_fork(step: Step, options: Sequence[Option]) -> bool:
    """Whether the step is a fork with as many options, of which the one that it took is the same."""
    return isinstance(step, Fork) and len(step.options) == len(options) and step.option.same(options[step.taken])


def _fork_text(options: Sequence[Option]) -> str:
    option = options[0]
    asked = " and ".join(condition.text() for condition in option.conditions)
    return f"asked whether {asked}" if asked else f"had to {option.label}"


def follow(run: Run, name: str, function: Callable[..., Any], data: Any, defer: bool) -> Path:
    """The path of one run."""
    raised: list[Exception] = []
    entropy: list[Site] = []
    token, noted = RUN.set(run), RAISED.set(raised)
    try:
        with watched_entropy(entropy), run.watched(), _silent_stop():
            output = map_leaves(lambda leaf: replaced(leaf, run.marks), function(run, _copied(data)))
            if not defer:
                output = map_leaves(decided, output)
    except _Stop:
        output = None
    except MemoryError:
        raise out_of_memory() from None
    except INTERRUPTING:
        raise
    except BaseException as error:
        output = None
        if run.error is None and not raised:
            with suppress(_Stop):  # a message with a stand-in in it: it ends the exploration
                output = _raised(error, name)
    finally:
        RAISED.reset(noted)
        RUN.reset(token)
    if run.learned:
        raise _Learned
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
    sys.unraisablehook = lambda lost: None if lost.exc_type is _Stop else hook(lost)
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
