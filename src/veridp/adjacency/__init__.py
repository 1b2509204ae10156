"""Who is a neighbour of whom: one class per relation, with all that engines ask of it.

A *domain* says which values data may take: a pair (low, high) of numbers for an interval, or any other collection
(a range, a list) for exactly these values.
"""

from veridp.adjacency.base import (
    BY_NAME,
    Adjacency,
    Domain,
    GivenPairs,
    OwnAdjacency,
    Pair,
    Phases,
    adjacency,
    is_interval,
    is_registered,
    register,
)
from veridp.adjacency.differences import (
    AllMoveTogether,
    EveryQueryMoves,
    OneQueryMoves,
    Scaled,
    moved_within,
    patterns,
)
from veridp.adjacency.polytope import Box, Corner, Hull, Patch, Polytope, box_of, moving
from veridp.adjacency.records import (
    MANY_PAIRS,
    AddOrRemoveRecord,
    AddOrRemoveRecordUnordered,
    AnyTwoValues,
    ReplaceRecord,
    ReplaceRecordUnordered,
    Rows,
    is_frame,
    rows_of,
)

__all__ = [
    "BY_NAME",
    "MANY_PAIRS",
    "AddOrRemoveRecord",
    "AddOrRemoveRecordUnordered",
    "Adjacency",
    "AllMoveTogether",
    "AnyTwoValues",
    "Box",
    "Corner",
    "Domain",
    "EveryQueryMoves",
    "GivenPairs",
    "Hull",
    "OneQueryMoves",
    "OwnAdjacency",
    "Pair",
    "Patch",
    "Phases",
    "Polytope",
    "ReplaceRecord",
    "ReplaceRecordUnordered",
    "Rows",
    "Scaled",
    "adjacency",
    "box_of",
    "is_frame",
    "is_interval",
    "is_registered",
    "moved_within",
    "moving",
    "patterns",
    "register",
    "rows_of",
]
