"""Loops over records that add functions of one record to numbers and lists, and do nothing else."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from veridp.engines.prove.aggregates.vectors import VectorReader, assigned_name, is_whole, stored_in


@dataclass(frozen=True)
class Collected:
    """What a loop over records may add to, numbers and lists; and names that stood for something before it.

    What is added to the `rounded` lists must be whole: as arrays of whole numbers they cut off the rest of each sum.
    """

    numbers: set[str]
    lists: set[str]
    rounded: set[str]
    taken: set[str]


def collected_names(reader: VectorReader, loop: ast.For, target: str, collected: Collected) -> list[str]:
    """The names of what the loop adds to; refused where it does anything else.

    A loop over fixed values within it is no more than its steps, written out: what they add depends on the record and
    on the value, and what they set for themselves is set again for each record before it is read.
    """
    changed: dict[str, None] = {}
    _read(reader, loop.body, collected, {target}, changed, False)
    return list(changed)


def _read(
    reader: VectorReader,
    body: Sequence[ast.stmt],
    collected: Collected,
    known: set[str],
    changed: dict[str, None],
    inside: bool,
) -> None:
    """`known` are the names of what follows from one record; those that a branch sets are known there alone."""
    for node in body:
        match node:
            case ast.Pass() | ast.Continue():
                continue
            case ast.Break() if inside:  # out of the loop over fixed values
                continue
            case ast.If(test=test, body=then, orelse=orelse) if reader.is_of(test, known):
                _read(reader, then, collected, set(known), changed, inside)
                _read(reader, orelse, collected, set(known), changed, inside)
                continue
            case ast.For(target=ast.Name(id=name), iter=values, body=steps, orelse=[]):
                if name not in collected.taken and reader.is_fixed(values):
                    _read(reader, steps, collected, {*known, name}, changed, True)
                    continue
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub(), value=value):
                if name in collected.numbers and reader.is_of(value, known):
                    changed[name] = None
                    continue
            case ast.AugAssign(
                target=ast.Subscript(value=ast.Name(id=name), slice=index), op=ast.Add() | ast.Sub(), value=value
            ):
                exact = name not in collected.rounded or is_whole(value)
                if name in collected.lists and exact and reader.is_of(index, known) and reader.is_of(value, known):
                    changed[name] = None
                    continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name not in collected.taken and reader.is_of(value, known):
                    known.add(name)
                    continue
        reader.refuse(node, f"'{ast.unparse(node).splitlines()[0]}' in a loop over the records")


def names_of_loops(reader: VectorReader, body: Sequence[ast.stmt]) -> set[str]:
    """The names that loops over records, as statements of this body, set for themselves."""
    loops = [node for node in body if isinstance(node, ast.For) and reader.vector(node.iter) is not None]
    added = {assigned_name(each.target) for node in loops for each in ast.walk(node) if isinstance(each, ast.AugAssign)}
    return stored_in(loops) - added
