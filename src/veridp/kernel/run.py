"""One run of a mechanism on symbols: what it draws and asks, the stages it shares with others, and where it forks."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from veridp.budget import check
from veridp.errors import CutShort, Interruption, Nondeterministic, NotAffine, TooManyPaths, VeridpError
from veridp.kernel.distributions import Distribution, Number, ScaledNoise, exact
from veridp.kernel.expressions import (
    Affine,
    Condition,
    Decider,
    Key,
    Select,
    affine,
    in_arguments,
    is_integer,
    numpy_function,
    settle,
)
from veridp.kernel.feasibility import has_room
from veridp.kernel.flow.branches import ChosenEntry, asking_frame, chosen_entry, stored_entry
from veridp.kernel.flow.loops import MAX_VISITS, Added, Leave, LoopHead, LoopPlace, Loops, Visit, Visits, watched_loops
from veridp.kernel.flow.retries import rational_mass
from veridp.kernel.generator import MAX_LISTED, MIN_SEEDS, Size, StandInGenerator
from veridp.kernel.handmade.coins import CoinCall, CoinTrial, LateFailure, LoopCoin, OpenNumber, Toss, is_unlikely, log2
from veridp.kernel.noise import Geometric, Integers, Uniform
from veridp.kernel.output import leaf_key
from veridp.kernel.path import Again, Fork, Option, Step, output_text
from veridp.kernel.site import here
from veridp.kernel.slivers import LEFT_OUT, Sliver, sliver_chance
from veridp.kernel.stand_ins.text import WrittenNumber, goes_into_output
from veridp.kernel.state.fingerprint import fingerprint
from veridp.kernel.state.memory import changed
from veridp.kernel.substitution import expressions_in
from veridp.kernel.symbols import CoinDraw, Noise, Relation, Rounds, drawn_in, has_no_atoms
from veridp.kernel.weights import Weight, weight_of
from veridp.mechanism.randomness import CURRENT, sharing

MAX_FORKS = 2_000  # on one path; a loop that can go on for ever is stopped here
FORKS_BETWEEN_LOOKS = 64  # at how unlikely the choices of a run are
LEAST_LOG_PROBABILITY = -1000.0  # to the base 2: about 1e-300, below which floats have no numbers
RARE_LOG_PROBABILITY = -200.0  # at which coins are looked for
MAX_STEPS_OF_OPEN_LOOP = 64  # where coins were looked for, and the loop has not come back by then


def loop_place(head: str, steps: Sequence[Step]) -> LoopPlace:
    return head, len(steps), tuple(step.taken for step in steps if isinstance(step, Fork))


class LearnedOfLoop(Exception):
    """Raised where a run learned something about a loop: the paths are listed again."""


class RunStopped(Interruption):
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

    @classmethod
    def of(cls, step: Step) -> Stage:
        """The stage of a step that was taken elsewhere."""
        if isinstance(step, Fork):
            return cls(step, step.coin if isinstance(step, Toss) else None, step.taken)
        return cls(step, step.distribution, Affine(0, {step: 1}, "i" if step.distribution.integer else "f"))


@dataclass(frozen=True, eq=False)
class Way:
    """How a run is to begin: the stages to go through again, with how many draws and which conditions they make."""

    stages: tuple[Stage, ...] = ()
    drawn: int = 0
    conditions: tuple[Condition, ...] = ()
    last: Stage | None = None  # one more, where ways that part at a fork share the stages before it


class Run(StandInGenerator, Decider):
    """One run: the generator that the mechanism draws from, and what its symbols ask for their truth."""

    def __init__(
        self,
        way: Way,
        begun: Results,
        functions: bool = True,
        loops: Loops | None = None,
        choosing: bool = False,
        trial: CoinTrial | None = None,
        failing: LateFailure | None = None,
    ) -> None:
        self.functions, self.loops = functions, loops
        self.trial = trial  # a call that is to be followed to its end, and no further
        self.tried = self.ended = False  # whether it began, and returned
        self.failing = failing  # a call that is to raise
        self.returned: Any = None
        self.forgetting = 0  # how many calls are under way whose steps are not those of the path
        self.scripted = 0  # how many of them follow a script
        self.choosing = choosing  # whether branches that choose an entry of the output leave it undecided
        self.chosen: list[tuple[list[Any] | None, int, Any]] = []  # such entries: list (None: the output), place, value
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
        if distribution.integer:
            self.made_integer()
        return self.draw(distribution) if self.tape is None else self.again(self, distribution)

    def draw(self, distribution: Distribution) -> Affine:
        """Noise that no copy of the generator has drawn before."""
        return self._drawn(distribution, lambda: Noise(self.drawn, distribution, here()))

    def _drawn(self, distribution: Distribution, make: Callable[[], Noise]) -> Affine:
        if self.next is None:
            self._check()
            self._check_script()
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
        if self.choosing and condition.relation in (Relation.AT_LEAST, Relation.ABOVE):
            asking = asking_frame(sys._getframe(1))
            if asking is not None:
                if (found := chosen_entry(asking)) is not None:
                    return self.leave_undecided(condition, *found)
                if (store := stored_entry(asking, condition)) is not None:
                    return self.store_undecided(condition, store)
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

    def leave_undecided(self, condition: Condition, entries: list[Any] | None, entry: ChosenEntry) -> bool:
        """Go the first way, which appends its value; what stands there in the end is a choice between both."""
        then, other = entry.then, entry.other
        leaf = condition if then is True and other is False else None
        place = entry.place if entries is None else len(entries)
        self.chosen.append((entries, place, Select.of(condition, then, other) if leaf is None else leaf))
        return True

    def store_undecided(self, condition: Condition, store: Callable[[], None]) -> bool:
        """Write a choice into the entry in place of what the branch would write, and go past the branch."""
        store()
        return False

    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        options = [being_first_extreme(values, index, largest) for index in range(len(values))]
        possible = [index for index, option in enumerate(options) if option is not None]
        return possible[0] if len(possible) == 1 else self._fork(options)  # one alone is no matter of chance

    def _fork(self, options: Sequence[Option | None]) -> int:
        """The index of the option to go with; None marks one that the constants already rule out."""
        if None not in options:
            return self._take(tuple(options))  # type: ignore[arg-type]
        numbered = [(index, option) for index, option in enumerate(options) if option is not None]
        return numbered[self._take(tuple(option for _, option in numbered))][0]

    def _take(self, options: tuple[Option, ...], asked: Condition | LoopCoin | None = None) -> int:
        """The index of the option to go with."""
        if self.next is None:
            self._new_fork(options, asked)
        elif not _is_fork(self.next.step, options):
            self._disagree(_fork_text(options), self.next.step)
        return self._answer()  # type: ignore[no-any-return]

    def _new_fork(self, options: tuple[Option, ...], asked: Condition | LoopCoin | None) -> None:
        if self.back is not None or self.ended:
            raise RunStopped
        self._check_script()
        if self.tried and is_unlikely(self.steps[len(self.trial.steps) :], self._drawn_before_trial):  # type: ignore[union-attr]
            raise RunStopped
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
        fork = partial(Toss, coin=asked) if isinstance(asked, LoopCoin) else Fork
        for other in reversed(others):
            stage = Stage(fork(options, other, site), asked, other)
            conditions = (*self.conditions, *options[other].conditions)
            self.postponed.append(Way(begun, self.drawn, conditions, stage))
        self.next = Stage(fork(options, taken, site, implied=not others), asked, taken)
        self.stages.append(self.next)
        if others:
            self.conditions += options[taken].conditions

    def _is_hopeless(self) -> bool:
        """Whether its choices are so unlikely that a loop, whose chance to go on falls in every round, must have made
        them."""
        weights = [step.option.weight for step in self.steps if isinstance(step, Fork)]
        if self.loops is not None:
            weights.append(rational_mass([c for c in self.conditions if len(c.slack.terms) == 1]) or 1)
        rare = self.loops is not None and self.loops.coins is None
        least = RARE_LOG_PROBABILITY if rare else LEAST_LOG_PROBABILITY
        return sum(log2(weight) for weight in weights if not isinstance(weight, Weight)) < least

    def choose_way(self, options: Sequence[Option]) -> Sequence[int]:
        """The options that are possible here: the run takes the first, later runs the others."""
        possible: list[int] = []
        for index, option in enumerate(options):
            last_resort = index == len(options) - 1 and not possible  # the options cover everything
            if option.weight and (last_resort or has_room(self.conditions, option.conditions)):
                possible.append(index)
        left_out = LEFT_OUT.get() if self.loops is None else None  # a loop that retries makes what is rare likely
        return possible if left_out is None or len(possible) < 2 else self._without_slivers(options, possible, left_out)

    def _without_slivers(self, options: Sequence[Option], possible: list[int], left_out: list[Sliver]) -> list[int]:
        """The possible options but for those as rare as rounding errors."""
        chances = {index: sliver_chance(self.conditions, options[index].conditions) for index in possible}
        kept = [index for index in possible if chances[index] is None]
        if kept:
            left_out.extend(Sliver(here(), chance) for chance in chances.values() if chance is not None)
        return kept or possible

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
        if self.loops is None:
            return nullcontext()
        loops = self.loops
        return watched_loops(
            partial(self.at_head, loops), lambda frame: (self.at_call(loops, frame), self.forgetting > 0)
        )

    def at_head(self, loops: Loops, variables: dict[str, Any], head: LoopHead, every: Visits) -> None:
        """Called at the head of a loop, with what the call was there before: see whether it has come back."""
        visits = every[head]
        if len(visits) >= MAX_VISITS and loops.coins is not None and not self.forgetting:
            self._check_end(visits[-1])
        if (
            self.forgetting
            or self.back is not None
            or len(visits) >= MAX_VISITS
            or (loops.replayed and head.name not in loops.replayed)
        ):
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

    def _check_end(self, last: Visit) -> None:
        """Stop where a loop goes on and on though its coins are one fork each: no listing comes to its end."""
        if self.place - last.place > MAX_STEPS_OF_OPEN_LOOP:
            self._stop(
                TooManyPaths(
                    f"{here()}: a loop goes on whose end depends on noisy numbers; bound it (for … in range(…)), "
                    f"or use an engine that samples"
                )
            )

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
        raise RunStopped

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
        raise RunStopped

    # ------------------------------------------------------------------------------------------------- coins

    def at_call(self, loops: Loops, frame: FrameType) -> Leave | None:
        """Called where a call with a loop begins: what to do when it ends, where it may toss a coin."""
        book = loops.coins
        if book is None or self.back is not None or self.tape is not None or self.branched:
            return None
        number = OpenNumber.of(frame, () if book.replayed else self.conditions) if self.functions else None
        call = CoinCall.of(frame, number)
        if call is None:
            return None
        if book.is_tried(call.key):
            return self._try(call, loops, frame)
        if call.key not in book.known and self.next is None and not book.replayed:
            book.trials.append(CoinTrial(call, self.steps, fingerprint(loops.function)))
            self.learned = True
            raise RunStopped
        found = book.known.get(call.open_key if book.replayed and number is not None else call.key)
        if found is None or (not book.replayed and changed(found[1], fingerprint(loops.function))):
            return None
        if self.failing is not None and self.place == self.failing.place:
            raise self.failing.error
        return self.toss(found[0]) if number is None else self.toss_at(found[0], number, frame)

    def _forget(self, change: int) -> None:
        """Enter or leave a call whose steps are forgotten: what it draws from a range is not listed."""
        self.forgetting += change
        self.max_listed = 1 if self.forgetting else MAX_LISTED

    def _try(self, call: CoinCall, loops: Loops, frame: FrameType) -> Leave:
        """Follow a call that is tried."""
        if call.open is not None:
            frame.f_locals[call.open.name] = call.open.sample
        trial = self.trial if not self.tried and self.trial is not None else None
        first = trial is not None and call.key == trial.call.key and self.place == len(trial.steps)
        if first:
            self.tried = True
            self._drawn_before_trial = sum(isinstance(step, Noise) for step in self.steps)
        self._forget(+1)

        def leave(returns: bool, value: Any) -> None:
            self._forget(-1)
            if first:
                same = not call.changed() and not changed(trial.state, fingerprint(loops.function))  # type: ignore[union-attr]
                self.ended, self.returned = returns and same, value
                raise RunStopped

        return leave

    def toss_at(self, coin: LoopCoin, number: OpenNumber, frame: FrameType) -> Leave:
        """Toss a coin whose probability is e^-γ for a noisy γ: as if a uniform number was compared with it."""
        uniform = self._drawn(Uniform(), lambda: CoinDraw(self.drawn, Uniform(), here(), number.noise, number.at))
        heads = Condition(numpy_function(np.exp, [-number.value]) - uniform, Relation.ABOVE)
        frame.f_locals[number.name] = number.sample
        return self._led(coin, (Option((heads,), rounded=True), Option((heads.negated(),), rounded=True)))

    def toss(self, coin: LoopCoin) -> Leave:
        return self._led(coin, coin.options)

    def _led(self, coin: LoopCoin, options: tuple[Option, ...]) -> Leave:
        """Choose what the call is to return, and lead it there by a way that is no part of the path."""
        taken = self._take(options, coin)
        before = self.stages, self.place, self.next, self.results
        self.stages, self.place = list(map(Stage.of, coin.scripts[taken])), 0
        self.next = self.stages[0] if self.stages else None
        self._forget(+1)
        self.scripted += 1

        def leave(returns: bool, value: Any) -> None:
            if self.next is not None or not returns or leaf_key(value) != coin.values[taken]:
                self._stop(Nondeterministic(f"{here()}: a call returns another value than before on the same draws"))
            self.stages, self.place, self.next, self.results = before
            self._forget(-1)
            self.scripted -= 1

        return leave

    def _check_script(self) -> None:
        """Stop where a call that follows a script draws more than it says."""
        if self.scripted:
            self._stop(Nondeterministic(f"{here()}: a call draws more than before on the same draws"))

    def _check(self) -> None:
        """End the run where its time or memory is used up: a loop may draw without end."""
        if self.back is not None:  # user code swallowed the stop
            raise RunStopped
        try:
            check()
        except CutShort as cut:
            self._stop(cut)

    def _stop(self, error: VeridpError) -> NoReturn:
        self.error = error
        raise RunStopped


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


def being_first_extreme(values: Sequence[Affine | Number], index: int, largest: bool) -> Option | None:
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
