"""Running a mechanism without noise: every draw is the value around which its distribution lies."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from veridp.errors import MechanismFailed, NotExplorable
from veridp.kernel.distributions import Distribution, Number, ScaledNoise
from veridp.kernel.generator import Size, StandInGenerator, over_shape
from veridp.kernel.site import Site, raised_at
from veridp.kernel.stand_ins import Symbolic
from veridp.mechanism import Mechanism
from veridp.sampling.encode import encode


@dataclass(frozen=True)
class DrawSite:
    """A place in the mechanism where noise was drawn, and how much: a parameter of its distribution."""

    site: Site
    parameter: float
    is_scale: bool  # whether the noise grows with the parameter


MOST_DRAWS = 100_000  # in one run: drawing until a value pleases would never end


class NoiseFree(StandInGenerator):
    """A generator whose noise is 0 where it has a location.

    A uniform number is the middle of its range, integer noise and finite choices are their likeliest value. What it
    was asked for is kept in `draws`.
    """

    def __init__(self) -> None:
        self.draws: list[DrawSite] = []
        self.drawn = 0

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        self._count()
        for width in np.ravel(np.asarray(scale, dtype=object)):
            self._note(width, is_scale=True)
        return over_shape(lambda place, _: place, size, loc, scale)

    def noise(self, distribution: Distribution) -> Any:
        self._count()
        if distribution.integer:
            self._note(list(distribution.parameters.values())[-1])
        return distribution.typical

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        self._count()
        chances = [Fraction(weight) for weight in weights]
        self._note(max(chances))
        return values[chances.index(max(chances))]

    def refuse(self, what: str) -> NoReturn:
        raise NotExplorable(f"{what}: it cannot be run without noise")

    def _count(self) -> None:
        self.drawn += 1
        if self.drawn > MOST_DRAWS:
            self.refuse(f"it draws more than {MOST_DRAWS} times, perhaps until a value pleases")

    def _note(self, parameter: Any, is_scale: bool = False) -> None:
        if not isinstance(parameter, Symbolic):
            self.draws.append(DrawSite(_caller(), float(parameter), is_scale))


def _caller() -> Site:
    """The innermost line outside of generators and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("veridp.", "numpy", "functools")
    ):
        if _is_mechanism(frame.f_globals["__name__"]):
            break
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


def _is_mechanism(module: str) -> bool:
    return module.startswith("veridp.") and not module.startswith(
        ("veridp.kernel", "veridp.sampling", "veridp.engines.statdp", "veridp.mechanism")
    )


def noise_free(mechanism: Mechanism, data: Any) -> Any:
    """What the mechanism returns on the data without noise.

    Raises NotExplorable where it has randomness of its own: then no run of it is without noise.
    """
    output, again = (_run(mechanism, data, NoiseFree()) for _ in range(2))
    if encode([output]) != encode([again]):
        raise NotExplorable(f"{mechanism.name} draws noise from elsewhere than rng; it cannot be run without noise")
    return output


def draws_of(mechanism: Mechanism, data: Any) -> tuple[DrawSite, ...]:
    """The noise that the mechanism would have drawn in a run without noise."""
    generator = NoiseFree()
    _run(mechanism, data, generator)
    return tuple(generator.draws)


def without_noise(mechanism: Mechanism) -> Callable[..., Any]:
    """The mechanism as a function that takes its generator for another, one without noise."""

    def quiet(rng: object, data: Any, **arguments: Any) -> Any:
        return mechanism.function(NoiseFree(), data, **arguments)

    return quiet


def _run(mechanism: Mechanism, data: Any, generator: NoiseFree) -> Any:
    try:
        return mechanism.bound()(generator, copy.deepcopy(data))
    except NotExplorable:
        raise
    except (Exception, SystemExit) as error:
        where = raised_at(error.__traceback__)
        raise MechanismFailed(
            f"{where}: {mechanism.name}, run without noise, raised {type(error).__name__}: {error}"
        ) from error
