"""Reading a certificate: from JSON to values, with the place of everything that is not as it should be.

Part of the checker: it knows the format, and nothing of the search that wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from veridp.errors import BadInput
from veridp.prove.noise_rules import Noise, parameters_of

FORMAT = "veridp-certificate"
VERSION = 1
RATIONAL = re.compile(r"-?[0-9]{1,300}(/[0-9]{1,300})?")  # within the range of a float
WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
RELATIONS = (">=", ">", "==")
NUMERIC = "#"  # stands for a numeric entry in the text of an output


class Flaw(Exception):
    """What is wrong with a certificate, and where; ends the check."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place or '/'}: {reason}")
        self.place = place or "/"
        self.reason = reason


@dataclass(frozen=True)
class Linear:
    """constant + Σ coefficient · noise + Σ coefficient · data; noise by its row, data by its entry."""

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    constant: Fraction


@dataclass(frozen=True)
class Condition:
    """How an expression stands to 0: `>=`, `>` or `==`."""

    slack: Linear
    relation: str


@dataclass(frozen=True)
class Shift:
    """By how much each noise of an event is moved at one corner, and the cost that is stated for it."""

    moves: tuple[Fraction, ...]
    cost: Fraction


@dataclass(frozen=True)
class Event:
    """Runs with one output; `shifts` has a row for each polytope, with an entry for each of its corners."""

    output: int
    weight: Fraction
    paths: int
    draws: tuple[int, ...]
    conditions: tuple[Condition, ...]
    numbers: tuple[Linear, ...]
    shifts: tuple[tuple[Shift, ...], ...]


@dataclass(frozen=True)
class Certificate:
    """What a certificate says; nothing of it is believed yet."""

    mechanism: str
    arguments: Mapping[str, str]
    adjacency: str
    size: int
    data: str
    epsilon: Fraction
    polytopes: tuple[tuple[tuple[Fraction, ...], ...], ...]
    outputs: tuple[str, ...]
    noises: tuple[Noise, ...]
    events: tuple[Event, ...]


# ------------------------------------------------------------------------------------------------------- the file


def load_document(file: str | Path) -> object:
    """The JSON of a file; raises BadInput where it cannot be read, or is no JSON."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give the file of a certificate") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: not UTF-8 text; give the file of a certificate") from None
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice, parse_constant=_no_constant)
    except RecursionError:
        raise BadInput(f"{file}: not a certificate: too deeply nested; give one that veridp wrote") from None
    except ValueError as error:
        raise BadInput(f"{file}: not a certificate: {error}; give one that veridp wrote") from None


def _no_name_twice(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Two values under one name: which of them is meant would be up to the reader."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} is given twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# ------------------------------------------------------------------------------------------------------ its parts


@dataclass(frozen=True)
class Node:
    """A value of the document and its place, as a JSON pointer."""

    value: object
    place: str

    def flaw(self, reason: str) -> Flaw:
        return Flaw(self.place, reason)

    def fields(self, *names: str) -> dict[str, Node]:
        """The fields of an object that has exactly these."""
        found = self.mapping()
        for name in names:
            if name not in found:
                raise self.flaw(f"the field {name!r} is missing")
        for name, node in found.items():
            if name not in names:
                raise node.flaw("there is no such field")
        return found

    def mapping(self) -> dict[str, Node]:
        if not isinstance(self.value, dict):
            raise self.flaw(f"an object is needed, not {_shown(self.value)}")
        return {name: Node(value, f"{self.place}/{_escaped(name)}") for name, value in self.value.items()}

    def entries(self) -> list[Node]:
        if not isinstance(self.value, list):
            raise self.flaw(f"a list is needed, not {_shown(self.value)}")
        return [Node(value, f"{self.place}/{index}") for index, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.flaw(f"a text is needed, not {_shown(self.value)}")
        return self.value

    def one_of(self, words: Sequence[str]) -> str:
        word = self.text()
        if word not in words:
            raise self.flaw(f"one of {', '.join(words)} is needed, not {_shown(word)}")
        return word

    def whole(self, least: int = 0) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < least:
            raise self.flaw(f"a whole number of at least {least} is needed, not {_shown(self.value)}")
        return self.value

    def rational(self) -> Fraction:
        """A number written as "p" or "p/q": JSON's own numbers are read with rounding by many programs."""
        if not isinstance(self.value, str) or RATIONAL.fullmatch(self.value) is None:
            raise self.flaw(f'a rational such as "-3/40" is needed, not {_shown(self.value)}')
        numerator, _, denominator = self.value.partition("/")
        if denominator and not int(denominator):
            raise self.flaw("the denominator is 0")
        return Fraction(int(numerator), int(denominator or 1))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


# ------------------------------------------------------------------------------------------------------ the whole


def read_certificate(document: object) -> Certificate:
    """The certificate in the document.

    Raises BadInput where the document is none at all, and Flaw where it says that it is one but is not made as one.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInput(f'this is not a certificate: it has no "format": "{FORMAT}"; give a file that veridp wrote')
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise BadInput(
            f"a certificate of version {_shown(document.get('version'))} is not known here, only of version {VERSION}; "
            f"use the veridp that wrote it"
        )
    names = ("format", "version", "mechanism", "arguments", "adjacency", "size", "data", "epsilon")
    field = Node(document, "").fields(*names, "polytopes", "outputs", "noises", "events")
    size = field["size"].whole(least=1)
    noises = tuple(_noise(node) for node in field["noises"].entries())
    outputs = tuple(node.text() for node in field["outputs"].entries())
    return Certificate(
        mechanism=field["mechanism"].text(),
        arguments={name: node.text() for name, node in field["arguments"].mapping().items()},
        adjacency=field["adjacency"].text(),
        size=size,
        data=field["data"].one_of(("real", "whole")),
        epsilon=field["epsilon"].rational(),
        polytopes=tuple(
            tuple(_corner(corner, size) for corner in polytope.entries()) for polytope in field["polytopes"].entries()
        ),
        outputs=outputs,
        noises=noises,
        events=tuple(_event(node, size, noises, outputs) for node in field["events"].entries()),
    )


def _corner(node: Node, size: int) -> tuple[Fraction, ...]:
    entries = node.entries()
    if len(entries) != size:
        raise node.flaw(f"a corner has {size} entries, as the data have, not {len(entries)}")
    return tuple(entry.rational() for entry in entries)


def _noise(node: Node) -> Noise:
    found = node.mapping()
    for name in ("draw", "kind"):
        if name not in found:
            raise node.flaw(f"the field {name!r} is missing")
    kind = found["kind"].text()
    names = parameters_of(kind)
    if names is None:
        raise found["kind"].flaw(f"the kind of noise {_shown(kind)} is not known")
    field = node.fields("draw", "kind", *names)
    noise = Noise(field["draw"].whole(), kind, tuple(field[name].rational() for name in names))
    for name, value in zip(names, noise.parameters, strict=True):
        if (wrong := noise.wrong(name, value)) is not None:
            raise field[name].flaw(wrong)
    return noise


def _event(node: Node, size: int, noises: Sequence[Noise], outputs: Sequence[str]) -> Event:
    field = node.fields("output", "weight", "paths", "draws", "conditions", "numbers", "shifts")
    output = field["output"].whole()
    if output >= len(outputs):
        raise field["output"].flaw(f"there is no output {output}")
    draws = _draws(field["draws"], noises)
    return Event(
        output=output,
        weight=field["weight"].rational(),
        paths=field["paths"].whole(least=1),
        draws=draws,
        conditions=tuple(_condition(c, draws, size) for c in field["conditions"].entries()),
        numbers=tuple(_linear(n.fields("noise", "data", "constant"), draws, size) for n in field["numbers"].entries()),
        shifts=tuple(tuple(_shift(s, draws) for s in row.entries()) for row in field["shifts"].entries()),
    )


def _draws(node: Node, noises: Sequence[Noise]) -> tuple[int, ...]:
    """The rows of the noise that a run draws: the first draw, the second, and so on, none left out."""
    rows = []
    for place, entry in enumerate(node.entries()):
        row = entry.whole()
        if row >= len(noises):
            raise entry.flaw(f"there is no noise {row}")
        if noises[row].draw != place:
            raise entry.flaw(f"noise {row} is draw {noises[row].draw} of a run, not draw {place}")
        rows.append(row)
    return tuple(rows)


def _condition(node: Node, draws: Sequence[int], size: int) -> Condition:
    field = node.fields("noise", "data", "constant", "relation")
    return Condition(_linear(field, draws, size), field["relation"].one_of(RELATIONS))


def _linear(field: Mapping[str, Node], draws: Sequence[int], size: int) -> Linear:
    noise = _coefficients(field["noise"], draws, "noise that this event draws")
    data = _coefficients(field["data"], range(size), "entry of the data")
    return Linear(noise, data, field["constant"].rational())


def _coefficients(node: Node, known: Sequence[int], what: str) -> dict[int, Fraction]:
    found = {}
    for name, entry in node.mapping().items():
        if WHOLE.fullmatch(name) is None or int(name) not in known:
            raise entry.flaw(f"{_shown(name)} is no {what}")
        found[int(name)] = entry.rational()
    return found


def _shift(node: Node, draws: Sequence[int]) -> Shift:
    field = node.fields("moves", "cost")
    moves = field["moves"].entries()
    if len(moves) != len(draws):
        raise field["moves"].flaw(f"{len(draws)} moves are needed, one for each draw of the event, not {len(moves)}")
    return Shift(tuple(move.rational() for move in moves), field["cost"].rational())
