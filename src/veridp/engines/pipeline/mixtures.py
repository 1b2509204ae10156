"""What an output does not tell: the chances by which a program went one way and not another.

An output that comes about in several ways has the probability of all of them together. What one way costs is then only
an upper bound, and may be far above the truth: a coin before another coin, or noise of a scale that a coin chose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veridp.engines.pipeline.alignment import kind_of, near
from veridp.engines.pipeline.recording import Coin, ProgramRun, Script
from veridp.kernel.distributions import Distribution
from veridp.kernel.noise import Uniform

MAX_CHANCES = 64  # coins, choices and draws that are looked at
MAX_OTHERS = 3  # ways in which one of them may fall, that are tried
RARE = 1e-3  # probability of the tail into which noise that only decides is moved
MAX_HALVINGS = 60  # of an interval that holds the end of a tail
Chance = tuple[str, int]  # "toss", "choice" or "draw", and its place among the draws or the choices


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The parts of an output that change where a coin, a choice, or noise that only decides falls otherwise."""

    run: Callable[[Script], ProgramRun]
    left: ProgramRun
    deciding: tuple[int, ...]  # draws that no number of the output follows
    noisy: frozenset[str]  # parts of the output that follow draws

    @cached_property
    def _changed(self) -> dict[Chance, dict[str, bool]]:
        """For each chance, what changes with it, and whether into a thing of another kind."""
        found: dict[Chance, dict[str, bool]] = {}
        governing, unsure = set[Chance](), set[str]()
        for chance, script in self._others():
            run = self.run(script)
            leaves, changed = run.leaves, found.setdefault(chance, {})
            governs = _laws(run) != _laws(self.left)  # the same numbers would then have been other noise
            kept = chance[1] if chance[0] == "choice" else None
            again = [self.run(redrawn(run, seed, kept)).leaves for seed in range(MAX_OTHERS if governs else 0)]
            for name in dict.fromkeys([*self.left.leaves, *leaves]):
                mine, theirs = (side.get(name, "missing") for side in (self.left.leaves, leaves))
                if kind_of(mine) != kind_of(theirs):
                    changed[name] = True
                elif not near(mine, theirs):
                    changed.setdefault(name, False)
                    if not continuous(theirs) and any(not near(theirs, one.get(name, "missing")) for one in again):
                        unsure.add(name)  # noise of integers may give the same thing on both ways
            governing |= {chance} if governs else set()
        every = {name: False for changed in found.values() for name in changed} | dict.fromkeys(self.noisy, False)
        found = {chance: {**every, **changed} if chance in governing else changed for chance, changed in found.items()}
        return found | {("unsure", 0): dict.fromkeys(unsure, False)}

    @property
    def too_many(self) -> bool:
        """Whether there are more chances than are looked at."""
        return len(self.left.tossed) + len(self.left.choices) + len(self.deciding) > MAX_CHANCES

    def tells(self, chance: Chance) -> bool:
        """Whether a part of the output tells how it fell: one that nothing else changes."""
        others = [changed for other, changed in self._changed.items() if other != chance]
        return not self.too_many and any(
            name not in self.noisy and not any(name in changed for changed in others)
            for name in self._changed.get(chance, {})
        )

    @cached_property
    def mixed(self) -> frozenset[str]:
        """The noisy parts that another chance changes, which the output does not tell."""
        if self.too_many:
            return self.noisy
        untold = [changed for chance, changed in self._changed.items() if not self.tells(chance)]
        return frozenset(name for changed in untold for name, kind in changed.items() if not kind) & self.noisy

    def _others(self) -> Iterator[tuple[Chance, Script]]:
        if self.too_many:
            return
        draws = self.left.draws
        tosses = [event for event in self.left.events if isinstance(event, Coin)]
        for place in self.left.tossed:
            value = draws[place].value
            met = {
                float(threshold)
                for toss in tosses
                for threshold, drawn in zip(toss.thresholds, toss.drawn, strict=True)
                if drawn == value and 0 < threshold < 1
            }
            ends = [0.0, *sorted(met), 1.0]
            others = [(low + high) / 2 for low, high in itertools.pairwise(ends) if not low <= value < high]
            yield from (
                (("toss", place), Script.moving(self.left, place, other - value)) for other in others[:MAX_OTHERS]
            )
        for place, choice in enumerate(self.left.choices):
            options = [k for k, weight in enumerate(choice.weights) if weight and k != choice.chosen]
            yield from (
                (("choice", place), Script.choosing(self.left, place, option)) for option in options[:MAX_OTHERS]
            )
        for place in self.deciding:
            if not isinstance(draws[place].distribution, Uniform):
                ends = ends_of_tails(draws[place].distribution, RARE)
                yield from (
                    (("draw", place), Script.moving(self.left, place, end - draws[place].value)) for end in ends
                )


def _laws(run: ProgramRun) -> list[object]:
    """What each draw, toss and choice was one of."""
    tosses = (event.thresholds.tolist() for event in run.events if isinstance(event, Coin))
    return [
        *((draw.site, str(draw.distribution)) for draw in run.draws),
        *tosses,
        *(one.weights for one in run.choices),
    ]


def continuous(value: object) -> bool:
    """Whether no other way gives just this value: a number with a fraction."""
    return isinstance(value, float) and not value.is_integer()


def redrawn(run: ProgramRun, seed: int, kept: int | None = None) -> Script:
    """The noise of the run drawn anew, but for the coins and one choice."""
    rng, moves = np.random.default_rng(seed), np.zeros(len(run.draws))
    for place, draw in enumerate(run.draws):
        if place not in run.tossed:
            moves[place] = draw.distribution.draw(rng, 1)[0].item() - draw.value
    choices = (
        one if place == kept else replace(one, chosen=int(rng.choice(len(one.weights), p=one.weights)))
        for place, one in enumerate(run.choices)
    )
    return replace(Script.repeating(run, moves), choices=tuple(choices))


def ends_of_tails(noise: Distribution, probability: float) -> list[float]:
    """Where the two tails of this probability begin, or the support ends."""
    ends = []
    for side, tail in ((1.0, noise.log_above), (-1.0, noise.log_below)):
        near, far = 0.0, noise.width
        for _ in range(MAX_HALVINGS):
            beyond = tail(np.array([noise.middle + side * far])).item() <= math.log(probability)
            step = (far - near) / 2 if beyond else 2 * (far - near)
            near, far = (near, far - step) if beyond else (far, far + step)
        ends.append(noise.middle + side * far)
    return ends
