"""Changing certificates, by hand and at random, and running the command on them: shared by the tests of the checker."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st

from veridp.cli import main
from veridp_check.checker import check

Document = dict[str, Any]


@dataclass(frozen=True)
class Tampering:
    """A change of the certificate of a mechanism, and where and why the checker has to reject it.

    A place that ends in a slash stands for all within.
    """

    what: str
    name: str
    edit: Callable[[Document], object]
    place: str
    reason: str

    def assert_rejected(self, document: Document) -> None:
        self.edit(document)
        rejection = check(document).rejection
        assert rejection is not None
        if self.place.endswith("/") and self.place != "/":
            assert rejection.place.startswith(self.place)
        else:
            assert rejection.place == self.place
        assert self.reason in rejection.reason


def at(document: Any, pointer: str) -> Any:
    for part in pointer.strip("/").split("/") if pointer != "/" else []:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def put(pointer: str, value: Any) -> Callable[[Document], None]:
    parent, _, last = pointer.rpartition("/")

    def edit(document: Document) -> None:
        holder = at(document, parent or "/")
        if isinstance(holder, list):
            holder[int(last)] = value
        else:
            holder[last] = value

    return edit


def drop(pointer: str) -> Callable[[Document], None]:
    parent, _, last = pointer.rpartition("/")

    def edit(document: Document) -> None:
        holder = at(document, parent or "/")
        del holder[int(last) if isinstance(holder, list) else last]

    return edit


def pointers(value: Any, place: str = "") -> Iterator[str]:
    """The places of all values within, the document itself left out."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield f"{place}/{name}"
        yield from pointers(entry, f"{place}/{name}")


def tampered(document: Document, draw: Callable[[Any], Any]) -> str:
    """Change one value, at random, in place; the pointer to it."""
    pointer = draw(st.sampled_from([p for p in pointers(document) if p not in ("/format", "/version")]))
    parent, _, last = pointer.rpartition("/")
    holder, old = at(document, parent or "/"), at(document, pointer)
    ways = ["drop"] if not isinstance(old, str | int) else ["drop", "change", "change", "change"]
    if isinstance(holder, list):
        ways += ["double", "swap"]
    match draw(st.sampled_from(ways)):
        case "drop":
            drop(pointer)(document)
        case "double":
            holder.insert(int(last), copy.deepcopy(old))
        case "swap":
            other = draw(st.integers(0, len(holder) - 1))
            holder[int(last)], holder[other] = holder[other], holder[int(last)]
        case "change":
            put(pointer, draw(_other(old)))(document)
    return pointer


def _other(old: str | int) -> st.SearchStrategy[Any]:
    if isinstance(old, int):
        return st.sampled_from([old + 1, old - 1, 0])
    words = [">=", ">", "==", "laplace", "exponential", "logistic", "gumbel", "linf", "l1", "monotone", "whole", "real"]
    if old.lstrip("-").replace("/", "").isdigit():
        number = Fraction(old)
        changes = [number + 1, number - 1, -number, 2 * number, number / 2, number * Fraction(9, 10), Fraction(0)]
        return st.sampled_from([str(change) for change in changes])
    return st.sampled_from([*words, old + "x"])


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["veridp", *words])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capfd.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def changes(old: Any) -> Iterator[Any]:
    """What a value is changed to."""
    if isinstance(old, bool) or old is None:
        yield "1"
    elif isinstance(old, int):
        yield from {old + 1, max(old - 1, 0)} - {old}
    elif isinstance(old, str):
        try:
            number = Fraction(old)
        except ValueError:
            words = (
                ">=",
                ">",
                "==",
                "logistic",
                "exponential",
                "linf",
                "l1",
                "monotone",
                "any",
                "whole",
                "True",
                "False",
            )
            yield from (word for word in words if word != old)
        else:
            yield from map(str, {-number, number / 2, number * 2, number + 1, Fraction(0)} - {number})


def mutants(document: Document) -> Iterator[tuple[str, Document]]:
    """The document with one value changed, left out, doubled, or swapped with the next."""
    for pointer in pointers(document):
        if pointer in ("/format", "/version", "/kind"):
            continue
        parent, _, last = pointer.rpartition("/")
        old = at(document, pointer)
        for new in () if isinstance(old, dict | list) else changes(old):
            forged = copy.deepcopy(document)
            put(pointer, new)(forged)
            yield f"{pointer} = {new!r}", forged
        forged = copy.deepcopy(document)
        drop(pointer)(forged)
        yield f"{pointer} left out", forged
        if isinstance(at(document, parent or "/"), list):
            place = int(last)
            forged = copy.deepcopy(document)
            at(forged, parent).insert(place, copy.deepcopy(old))
            yield f"{pointer} doubled", forged
            if place:
                forged = copy.deepcopy(document)
                holder = at(forged, parent)
                holder[place - 1], holder[place] = holder[place], holder[place - 1]
                yield f"{pointer} swapped", forged
