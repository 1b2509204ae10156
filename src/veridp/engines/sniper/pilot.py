"""A few samples ahead of a level, which tell whether few outputs differ.

Every worker draws them, the same ones: what is done once in a process, such as compiling the mechanism, is done in all
at a time, and what they tell does not depend on how many workers there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from veridp.engines.sniper.pair_attack import SEEN_WELL, Setting
from veridp.engines.sniper.tasks import TaskPool

MAX_PILOT_SAMPLES = 50_000  # samples


@dataclass(frozen=True)
class PilotTask:
    """So many samples of this input to draw."""

    data: object
    samples: int
    key: tuple[int, ...]


def piloted(setting: Setting, task: PilotTask) -> bool:
    outputs = setting.draw(task.data, task.samples, *task.key)
    return outputs.grouped(len(outputs) // SEEN_WELL) is not None


def few_outputs(pool: TaskPool, data: object, samples: int, key: tuple[int, ...]) -> tuple[bool, int]:
    """Whether so few outputs differ that each is seen often, among at most so many samples; and how many were drawn."""
    task = PilotTask(data, min(samples, MAX_PILOT_SAMPLES), key)
    few = set(pool.run(piloted, [task] * pool.hands))
    return few == {True}, task.samples
