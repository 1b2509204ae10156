"""Draws from a large range that are released as they are: rows of a matrix, hash functions, masks.

What is computed from such a draw may be any function of it, whose probability is out of reach. But the draw is part of
the output, and does not depend on the data. So the loss at outputs with one value of the draw is the loss given that
value, where the function is a number. Some values are tried, and outputs with others are taken for one: this is a
function of the output, and the loss found is a lower bound.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Integers
from veridp.kernel.path import Fork, Option, Path, entries_of, outline_of, with_values
from veridp.kernel.site import Site
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.substitution import expressions_in
from veridp.kernel.symbols import Derived, Noise, drawn_in

TRIED_VALUES = 48  # of all draws together
OTHER_VALUES = "\ue004 other values of the released draws"  # the output with those
HERE = Site("<exact>", 0)  # of a fork that is not in the code
WHOLE = re.compile(r"0?[0-9]*[bdox]?")  # formats that write a whole number in full


Released = tuple[tuple[object, ...], ...]  # how draws are released, with their ranges


def given_released(paths: Iterator[Path]) -> tuple[Iterator[Path], Released]:
    """The paths for some values of draws that they release and compute functions of, and how they release them.

    All paths, and nothing, where there are no such draws. The same values are tried where draws are released alike.
    """
    first = next(paths, None)
    if first is None or not _large(first):
        return (iter(()) if first is None else itertools.chain([first], paths)), ()
    every = [first, *paths]
    ways = {noise: {_release(noise, path) for path in every} for noise in _large(first)}
    draws = [noise for noise, found in ways.items() if len(found) == 1 and None not in found]
    computed = {s for path in every for s in _in_functions(path)}
    if not computed or not computed <= set(draws):
        return iter(every), ()
    released = tuple((noise.distribution, *ways[noise].pop()) for noise in draws)  # type: ignore[misc]
    return _with_tried_values(every, draws), released


def _with_tried_values(paths: Sequence[Path], draws: Sequence[Noise]) -> Iterator[Path]:
    counts = [noise.distribution.count for noise in draws]  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    rows = [tuple(int(rng.integers(count)) for count in counts) for _ in range(TRIED_VALUES)]
    tried = dict.fromkeys(rows)
    chance = Fraction(1, math.prod(counts))
    for values in tried:
        for path in with_values(paths, dict(zip(draws, values, strict=True))):
            yield Path((*path.steps, Fork((Option((), chance),), 0, HERE)), path.output)
    yield Path((Fork((Option((), 1 - len(tried) * chance),), 0, HERE),), OTHER_VALUES)


def _large(path: Path) -> list[Noise]:
    return [noise for noise in path.noises if isinstance(noise.distribution, Integers)]


def _in_functions(path: Path) -> Iterator[Noise]:
    """The draws that functions are computed of."""
    for expression in expressions_in(path.output, path.conditions):
        functions = [symbol for symbol in expression.terms if isinstance(symbol, Derived)]
        yield from (symbol for symbol in drawn_in(functions) if isinstance(symbol, Noise))


def _release(noise: Noise, path: Path) -> tuple[object, ...] | None:
    """Where the path releases the draw, and how; None where it does not."""
    if noise not in path.noises:
        return None
    outline = outline_of(path.output)
    for place, leaf in zip(outline.places, entries_of(path.output), strict=True):
        if isinstance(leaf, Affine) and list(leaf.terms) == [noise]:
            return outline, place, leaf.constant, leaf.terms[noise]
        if isinstance(leaf, NoisyText) and _writes_alone(leaf, noise):
            return outline, place, "text"
    return None


def _writes_alone(text: NoisyText, noise: Noise) -> bool:
    """Whether the text begins with the draw, and goes on with what no whole number has in it."""
    number, *rest = [part for part in text.parts if part != ""]
    if isinstance(number, str) or not all(isinstance(part, str) for part in rest):
        return False
    apart = not rest or not re.match(r"[0-9A-Za-z_,.]", str(rest[0]))
    plain = number.number.terms == {noise: 1} and not number.number.constant
    return apart and plain and WHOLE.fullmatch(number.form) is not None
