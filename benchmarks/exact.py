"""How long exact comparisons take, against drawing samples in the same run. `python benchmarks/exact.py [--quick]`

A ratio above 1 says that the exact answer is there before the samples are. Samples are drawn with the fastest reading
of this machine, on one thread; each time is the best of several repeats, and the two sides of a ratio take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import veridp
from veridp.engines.exact import Comparison, compare
from veridp.errors import VeridpError
from veridp.sampling.sample import sample, tally

SVT1 = veridp.catalogue["svt1"]
LEFT, RIGHT = [10.0] * 9 + [-10.0], [9.0] * 9 + [-9.0]
READINGS = ("batch", "compiled")


@dataclass(frozen=True)
class Line:
    """One line of the table; the ratio must reach what is required, where something is."""

    what: str
    ours: float
    theirs: float
    required: float | None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def __str__(self) -> str:
        needed = "" if self.required is None else f"{self.required:.2f}"
        mark = "" if self.required is None else ("ok" if self.ratio >= self.required else "TOO LOW")
        return f"{self.what:<62}{self.ours:>10.4f} s{self.theirs:>10.4f} s{self.ratio:>9.2f}{needed:>10}  {mark}"


def best(repeats: int, *runs: Callable[[], object]) -> list[float]:
    """The least seconds of each of the runs, which take turns."""
    least = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            least[index] = min(least[index], time.perf_counter() - start)
    return least


def fastest_reading() -> str:
    """The reading that draws samples of SVT1 fastest; each has compiled what it compiles before it is measured."""
    for reading in READINGS:
        sample(SVT1, LEFT, 1000, reading=reading, workers=1)
    times = best(2, *(lambda r=reading: sample(SVT1, LEFT, 10**6, reading=r, workers=1) for reading in READINGS))
    return READINGS[times.index(min(times))]


def one_comparison(repeats: int, reading: str) -> list[Line]:
    """Ten-query SVT1: all of `compare`, from exploring to ε, against drawing samples of one input."""
    lines = []
    for count, required in ((10**6, 1.0), (10**5, None)):
        ours, theirs = best(
            repeats,
            lambda: compare(SVT1, LEFT, RIGHT).epsilon,
            lambda count=count: sample(SVT1, LEFT, count, reading=reading, workers=1),  # type: ignore[misc]
        )
        lines.append(Line(f"compare SVT1, 10 queries / {count:.0e} samples of it", ours, theirs, required))
    return lines


@dataclass(frozen=True)
class Timed:
    """A mechanism of the catalogue, compared once: its ε, or why there is none, and the seconds."""

    name: str
    outcome: str
    seconds: float

    def __str__(self) -> str:
        return f"  {self.name:<28}{self.outcome:>14}{self.seconds:>10.4f} s"


def compared_once(name: str) -> Timed:
    """ε and its witness, between the first two neighbours of the usual size in which all queries move, if any do."""
    mechanism = veridp.catalogue[name]
    pairs = list(mechanism.adjacency.pairs(mechanism.size, mechanism.domain))
    pair = next((p for p in pairs if p.pattern == "one above, rest below"), pairs[0])
    start = time.perf_counter()
    try:
        outcome = _told(compare(mechanism, pair.left, pair.right))
    except VeridpError as error:
        outcome = type(error).__name__
    return Timed(name, outcome, time.perf_counter() - start)


def _told(comparison: Comparison) -> str:
    assert comparison.witness.left_probability.upper > 0
    return f"{comparison.epsilon:.6g}"


def whole_catalogue(repeats: int, count: int, reading: str) -> tuple[Line, list[Timed]]:
    """Every mechanism, against 10^8 samples of SVT1 counted; these are scaled up from `count`, measured."""
    rounds, seconds = [], float("inf")
    for _ in range(repeats):
        rounds.append([compared_once(name) for name in veridp.catalogue])
        seconds = min(seconds, *best(1, lambda: tally(SVT1, LEFT, count, reading=reading, workers=1)))
    timed = [min(times, key=lambda one: one.seconds) for times in zip(*rounds, strict=True)]
    ours = sum(one.seconds for one in timed)
    what = f"the {len(timed)} mechanisms of the catalogue / 1e+08 samples of SVT1"
    if count < 10**8:
        what += f" (from {count:.0e})"
    return Line(what, ours, seconds * 10**8 / count, 1.0), timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and 10^6 samples scaled to 10^8")
    quick = parser.parse_args().quick
    reading = fastest_reading()
    print(f"samples by the {reading} reading, one thread")
    print(f"{'what':<62}{'exact':>12}{'samples':>12}{'ratio':>9}{'required':>10}")
    for line in one_comparison(3 if quick else 15, reading):
        print(line, flush=True)
    line, timed = whole_catalogue(1 if quick else 3, 10**6 if quick else 10**7, reading)
    print(line)
    print("each mechanism (ε, seconds):")
    for one in timed:
        print(one)


if __name__ == "__main__":
    main()
