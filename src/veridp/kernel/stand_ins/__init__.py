"""What stands in for a number, and for an array of numbers, while a mechanism runs."""

from veridp.kernel.stand_ins import linear as linear
from veridp.kernel.stand_ins import moves as moves
from veridp.kernel.stand_ins import numpy_functions as numpy_functions
from veridp.kernel.stand_ins.arrays import (
    RAISED,
    Array,
    Symbolic,
    Vector,
    as_numpy,
    as_python,
    first_symbolic,
    noting_errors,
    objects,
)

__all__ = [
    "RAISED",
    "Array",
    "Symbolic",
    "Vector",
    "as_numpy",
    "as_python",
    "first_symbolic",
    "noting_errors",
    "objects",
]
