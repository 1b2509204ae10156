"""The law of a mechanism's output with the data left open: explored once, used for many inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veridp.engines.exact.loss import PrivacyLoss
from veridp.engines.exact.pieces import ClassKey, DistributionPiece, Factor, factors
from veridp.engines.exact.space import loss_between, loss_of_factors
from veridp.errors import VeridpError
from veridp.kernel.distributions import Number, exact
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Condition, unknowns
from veridp.kernel.identity import Raised
from veridp.kernel.path import Path, condition_with_values, leaves, with_values
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.symbols import Unknown
from veridp.mechanism import Mechanism

MAX_PATH_RATIO = 4  # leaving the data open may find at most so many times the paths of one input: else it does not pay


@dataclass(frozen=True, eq=False)
class OpenLaw:
    """Paths whose conditions name the entries of the data; and their classes, where the outputs do not."""

    paths: Sequence[Path]
    classes: dict[ClassKey, list[DistributionPiece]] | None

    @classmethod
    def of(cls, mechanism: Mechanism, size: int, count: int) -> OpenLaw | None:
        """The law for data of this size, of which one input had `count` paths.

        None where the mechanism does to data what symbols cannot express, or where that takes far more paths.
        """
        try:
            paths = explore(mechanism, unknowns("data", size), defer=True, max_paths=MAX_PATH_RATIO * count)
        except VeridpError:
            return None
        if any(isinstance(path.output, Raised) for path in paths):
            return None  # code that fails on symbols need not fail on numbers
        discrete = not any(isinstance(leaf, Symbolic) for path in paths for leaf in leaves(path.output))
        return cls(paths, _interned(factors(paths, split=False)[0].classes) if discrete else None)

    def loss(self, left: Sequence[float], right: Sequence[float]) -> PrivacyLoss:
        """The loss between two inputs."""
        if self.classes is None:
            return loss_between(*(with_values(self.paths, _values(data)) for data in (left, right)))
        return loss_of_factors(*([Factor(None, self._at(_values(data)))] for data in (left, right)))

    def _at(self, values: Mapping[Unknown, Number]) -> dict[ClassKey, list[DistributionPiece]]:
        known: dict[int, Condition | bool] = {}
        found: dict[ClassKey, list[DistributionPiece]] = {}
        for key, pieces in (self.classes or {}).items():
            for piece in pieces:
                told = [condition_with_values(condition, values, known) for condition in piece.conditions]
                if not any(condition is False for condition in told):
                    kept = tuple(condition for condition in told if condition is not True)
                    found.setdefault(key, []).append(DistributionPiece(piece.weight, kept, ()))  # type: ignore[arg-type]
        return found


def _values(data: Sequence[Any]) -> dict[Unknown, Number]:
    return {Unknown(f"data[{index}]"): exact(value) for index, value in enumerate(data)}


def _interned(classes: dict[ClassKey, list[DistributionPiece]]) -> dict[ClassKey, list[DistributionPiece]]:
    """The classes with equal conditions made one object, so that each is worked out once."""
    known: dict[object, Condition] = {}

    def one(piece: DistributionPiece) -> DistributionPiece:
        single = [known.setdefault(key, c) for key, c in zip(piece.key[1], piece.conditions, strict=True)]
        return DistributionPiece(piece.weight, tuple(single), piece.numbers)

    return {key: [one(piece) for piece in pieces] for key, pieces in classes.items()}
