"""A task: what is collected, how privately, and under which rules. Its digest binds everything that is said in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property

from veridp.collect.commitments import DEFAULT_SCHEME, SCHEMES, scheme
from veridp.collect.frequency import VGRR, VOLH, VOUE
from veridp.collect.harmless import CLOSENESS, Harmless, rates
from veridp.collect.layout import digest
from veridp.collect.numeric import GRRHO, PMHO, SRHO
from veridp.collect.session import Verifier
from veridp.errors import BadInput

OF_ITEMS: dict[str, type[VGRR] | type[VOUE] | type[VOLH]] = {kind.name: kind for kind in (VGRR, VOUE, VOLH)}
OF_NUMBERS = ("grr-ho", "sr-ho", "pm-ho")
MECHANISMS = (*OF_ITEMS, *OF_NUMBERS)
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Task:
    """The definition of a collection; clients compute its digest themselves, so all see the same rules.

    `resolution` is the number of points of grr-ho, of copies of sr-ho, and of bins of pm-ho. `expires` is in seconds
    since 1970, `session_seconds` how long a session stays open. An estimate needs `minimum_batch` accepted reports
    and is refused where a larger share than `maximum_abort_rate` of the clients challenged did not complete.
    """

    name: str
    mechanism: str
    epsilon: float
    items: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    resolution: int = 0
    closeness: float = CLOSENESS
    scheme: str = DEFAULT_SCHEME
    minimum_batch: int = 100
    maximum_abort_rate: float = 0.05
    session_seconds: int = 600
    expires: int = 4_102_444_800

    def __post_init__(self) -> None:
        for field in fields(self):  # 17 and 17.0 are one definition
            object.__setattr__(self, field.name, _typed(field.name, str(field.type), getattr(self, field.name)))
        _check(NAME.fullmatch(self.name) is not None, "name", self.name, "lower-case letters, digits, '.', '_', '-'")
        _check(self.mechanism in MECHANISMS, "mechanism", self.mechanism, f"one of {', '.join(MECHANISMS)}")
        _check(self.scheme in SCHEMES, "scheme", self.scheme, f"one of {', '.join(SCHEMES)}")
        _check(1 <= self.minimum_batch < 1 << 53, "minimum_batch", self.minimum_batch, "1 or more")
        _check(0 <= self.maximum_abort_rate <= 1, "maximum_abort_rate", self.maximum_abort_rate, "from 0 to 1")
        _check(1 <= self.session_seconds <= 31 * 86400, "session_seconds", self.session_seconds, "1 to 2678400")
        _check(0 < self.expires < 1 << 53, "expires", self.expires, "seconds since 1970")
        if self.mechanism in OF_ITEMS:
            _check(2 <= len(self.items) <= MOST_ITEMS, "items", len(self.items), f"2 to {MOST_ITEMS} items")
            odd = next((item for item in self.items if not item.isprintable() or not 0 < len(item) <= 200), None)
            _check(odd is None, "item", odd, "printable texts of 1 to 200 characters")
            _check(not (self.low or self.high or self.resolution), "low, high", self.low, "items alone, and no range")
        else:
            _check(not self.items, "items", len(self.items), "a range, low and high, and no items")
            _check(0 <= self.resolution <= MOST_ITEMS, "resolution", self.resolution, "a number of points")
        _ = self.protocol.layout  # what cannot be laid out is said now

    @cached_property
    def protocol(self) -> Harmless:
        copies = rates(self.epsilon, self.closeness)
        if self.mechanism in OF_ITEMS:
            return OF_ITEMS[self.mechanism](copies, self.items)
        if self.mechanism == "grr-ho":
            return GRRHO(copies, self.low, self.high, self.resolution or 16)
        if self.mechanism == "sr-ho":
            return SRHO(copies, self.low, self.high, self.resolution or 1)
        return PMHO(copies, self.low, self.high, self.resolution or 16)

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier(self.protocol.layout, scheme(self.scheme))

    @cached_property
    def digest(self) -> bytes:
        """What every hash of the task's sessions is bound to."""
        return digest(b"veridp task", self.to_json().encode())

    @cached_property
    def largest_message(self) -> int:
        """The bytes that no message of the task exceeds."""
        layout, kind = self.protocol.layout, self.verifier.scheme
        opening = layout.closed * 5 + layout.size * layout.width + kind.proof_bytes(layout)
        return 256 + max(opening, kind.commitment_bytes(layout))

    def to_json(self) -> str:
        """The one text that says all of it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_document(cls, document: object) -> Task:
        """The task that a JSON document describes; refuses unknown names and wrong types."""
        if not isinstance(document, Mapping):
            raise BadInput("a task is a JSON object")
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(map(str, document)) - set(known)):
            raise BadInput(f"a task has no {unknown[0]!r}; it has {', '.join(known)}")
        for name in ("name", "mechanism", "epsilon"):
            if name not in document:
                raise BadInput(f"the task has no {name!r}; give one")
        return cls(**document)

    @classmethod
    def from_json(cls, text: str) -> Task:
        try:
            return cls.from_document(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput("the task is not a JSON document") from None


def _check(good: bool, name: str, found: object, needed: str) -> None:
    if not good:
        raise BadInput(f"{name} = {found!r} of the task; give {needed}")


def _typed(name: str, kind: str, value: object) -> object:
    """The value as the field's type, without conversions that could hide a mistake."""
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "int" and type(value) is int:
        return value
    if kind == "float" and isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300:
        return float(value)
    if kind.startswith("tuple") and isinstance(value, list | tuple) and all(type(item) is str for item in value):
        return tuple(value)
    raise BadInput(f"{name} = {value!r} of the task is not a {kind.replace('tuple[str, ...]', 'list of strings')}")
