"""What the mechanisms of this folder say about themselves: their claim, their inputs, and what they truly cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENTRIES: list["Entry"] = []


@dataclass(frozen=True)
class Entry:
    """A function, its claim and its true cost; the derivation is the function's docstring."""

    target: Any
    name: str
    claim: float
    truth: float
    adjacency: str
    domain: object
    size: int | None
    phrasing_of: str | None

    @property
    def right(self) -> bool:
        """Whether the claim is true."""
        return self.truth <= self.claim * (1 + 1e-12)


def world(
    *,
    claim: float,
    truth: float = math.nan,
    adjacency: str,
    domain: object = None,
    size: int | None = None,
    phrasing_of: str | None = None,
    target: Any = None,
) -> Callable[[Any], Any]:
    """Registers a function as it stands; `truth` is its least ε over all neighbours of that size (default: the claim).

    `target` is what is audited where that is not the decorated function itself, such as the method of an instance.
    """

    def register(function: Any) -> Any:
        true = claim if math.isnan(truth) else truth
        audited = function if target is None else target
        ENTRIES.append(Entry(audited, function.__name__, claim, true, adjacency, domain, size, phrasing_of))
        return function

    return register
