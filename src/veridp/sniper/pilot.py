"""A few samples ahead of a search, to plan it by: how long they take, and whether few outputs differ.

Every worker draws them, the same ones: what is done once in a process, such as compiling the mechanism, is done in all
at a time, and what they tell does not depend on how many workers there are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from veridp.sniper.crew import Crew
from veridp.sniper.scout import SEEN_WELL, Setting

PILOTS = (1, 10, 100, 1000, 10_000, 50_000)  # samples drawn to learn how long they take, as far as there is time


@dataclass(frozen=True)
class Pilot:
    """What the samples told."""

    cost: float  # seconds a sample
    few: bool  # whether so few outputs differ that each is seen often
    drawn: int


@dataclass(frozen=True)
class PilotTask:
    """Samples of this input to draw; one lot that takes longer than `longest` is the last."""

    data: object
    longest: float
    key: tuple[int, ...]


def piloted(setting: Setting, task: PilotTask) -> Pilot:
    drawn = 0
    for number, count in enumerate(PILOTS):
        start = time.monotonic()
        outputs = setting.draw(task.data, count, *task.key, number)
        took = time.monotonic() - start
        drawn += count
        if number and took > task.longest:  # the first pays for what is done once
            break
    return Pilot(took / count, outputs.grouped(len(outputs) // SEEN_WELL) is not None, drawn)


def pilot(crew: Crew, data: object, longest: float, key: tuple[int, ...]) -> Pilot:
    """What the samples tell, and how long they take the slowest of the workers."""
    found = list(crew.run(piloted, [PilotTask(data, longest, key)] * crew.hands))
    return replace(found[0], cost=max(one.cost for one in found))
