"""Whose values are collected in a study: the ages of the Adult data set, or a column of the user's own."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.estimate import Floats

ADULT_THETAS = (40.0, 50.0, 60.0, 70.0, 80.0)
CITATION = (
    "Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C5XW20. CC BY 4.0"
)


@dataclass(frozen=True, eq=False)
class People:
    """Values between two ends, and the thresholds θ that attacks on them use."""

    name: str
    values: Floats
    low: float
    high: float
    thetas: tuple[float, ...]
    source: str = ""

    @cached_property
    def mean(self) -> float:
        return float(self.values.mean())

    @classmethod
    def own(cls, name: str, values: ArrayLike, low: float | None = None, high: float | None = None) -> People:
        """People from a column of numbers; θ are its 50th to 90th percentiles."""
        column = np.asarray(values, dtype=float)
        if len(column) < 2 or column.min() == column.max():
            raise BadInput(f"{name}: a study needs two values or more that differ")
        ends = float(column.min()) if low is None else low, float(column.max()) if high is None else high
        if not (ends[0] <= column.min() and column.max() <= ends[1]):
            raise BadInput(f"{name}: values go from {column.min():g} to {column.max():g}, beyond the range {ends}")
        thetas = tuple(sorted({float(theta) for theta in np.quantile(column, (0.5, 0.6, 0.7, 0.8, 0.9))}))
        return cls(name, column, *ends, thetas)


def adult_ages() -> People:
    """The 32,561 ages of the Adult data set's training part, from 17 to 90."""
    text = (files("veridp.local") / "data" / "adult_age_counts.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    ages = np.repeat([float(row["age"]) for row in rows], [int(row["count"]) for row in rows])
    return People("Adult ages", ages, 17.0, 90.0, ADULT_THETAS, CITATION)
