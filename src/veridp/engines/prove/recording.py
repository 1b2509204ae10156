"""A generator that writes down what is drawn from it, so that a certificate can tell the run. Part of the checker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

FINITE = ("integers", "choice", "permutation", "permuted", "shuffle")
FEW_TRIALS = 32  # a binomial of up to so many trials counts as a finite choice, not as noise


@dataclass(frozen=True)
class RecordedDraw:
    """What a program drew: the noise without its location."""

    kind: str
    parameters: tuple[float, ...]
    value: float


class RecordingGenerator(np.random.Generator):
    """A NumPy generator that writes down the noise in the order in which it is drawn.

    Finite choices are made, and not written down. What a certificate has no word for is written down and refused, so
    that a program which goes on all the same is not taken for one that did not draw it.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng.bit_generator)
        self.draws: list[RecordedDraw] = []
        self._rng = rng
        for name in FINITE:  # NumPy's own would draw from this generator, and be written down
            setattr(self, name, getattr(rng, name))

    def _refuse(self, name: str) -> NoReturn:
        self.draws.append(RecordedDraw(name, (), math.nan))
        raise AttributeError(f"a certificate has no word for rng.{name}; draw noise that it knows", name=name, obj=self)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("laplace", self._rng.laplace, loc, scale, size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("normal", self._rng.normal, loc, scale, size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("gumbel", self._rng.gumbel, loc, scale, size)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("logistic", self._rng.logistic, loc, scale, size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("exponential", self._rng.exponential, 0.0, scale, size)

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.normal(size=size)

    def standard_exponential(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.exponential(size=size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        unit = self._scaled(
            "uniform", self._rng.uniform, 0.0, np.ones(np.broadcast_shapes(low.shape, high.shape)), size
        )
        return _plain(low + (high - low) * unit)

    def random(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.uniform(size=size)

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._whole("geometric", self._rng.geometric, size, p)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._whole("poisson", self._rng.poisson, size, lam)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._whole("binomial", self._rng.binomial, size, n, p)

    def _scaled(self, kind: str, standard: Callable[..., Any], loc: Any, scale: Any, size: Any) -> Any:
        """Noise at loc; a scale of 0 is no noise."""
        loc, scale = np.asarray(loc, dtype=float), np.asarray(scale, dtype=float)
        scales = np.broadcast_to(scale, _shape(size, loc, scale))
        values = scales * standard(size=scales.shape)
        for width, value in zip(scales.flat, values.flat, strict=True):
            if width:
                self.draws.append(RecordedDraw(kind, (float(width),), float(value)))
        return _plain(loc + values)

    def _whole(self, kind: str, draw: Callable[..., Any], size: Any, *parameters: Any) -> Any:
        given = [np.asarray(parameter, dtype=float) for parameter in parameters]
        shape = _shape(size, *given)
        columns = [np.broadcast_to(parameter, shape) for parameter in given]
        values = np.asarray(draw(*(c.astype(int) if k < len(columns) - 1 else c for k, c in enumerate(columns))))
        for *at, value in zip(*(column.flat for column in columns), values.flat, strict=True):
            if kind != "binomial" or at[0] > FEW_TRIALS:
                self.draws.append(RecordedDraw(kind, tuple(float(x) for x in at), float(value)))
        return _plain(values)


def _refusal(name: str) -> Any:
    """What takes the place of something that a certificate has no word for."""
    if not callable(getattr(np.random.Generator, name)):
        return property(lambda self: self._refuse(name))

    def refuse(self: RecordingGenerator, *_: Any, **__: Any) -> NoReturn:
        self._refuse(name)

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in (*vars(RecordingGenerator), *FINITE):
        setattr(RecordingGenerator, _name, _refusal(_name))


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(parameter.shape for parameter in parameters))
    return tuple(size) if isinstance(size, tuple | list) else (int(size),)


def _plain(values: Any) -> Any:
    return values.item() if np.ndim(values) == 0 else values
