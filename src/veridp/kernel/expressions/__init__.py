"""Affine expressions in noise, open values and functions of these, the conditions they make, and undecided choices.

All three are plain values. Nothing is decided until a condition is asked for its truth; then the run under way says
which way to go. Nothing is rounded: coefficients are exact rationals, and strict and weak inequalities stay apart.
"""

from veridp.kernel.expressions.affine import (
    Affine,
    affine,
    decided,
    is_integer,
    is_whole,
    settle,
    unknown,
    unknowns,
)
from veridp.kernel.expressions.comparison import in_arguments, sign_of
from veridp.kernel.expressions.decider import RUN, Decider, Key
from veridp.kernel.expressions.records import bounded_extreme, function_of, is_of_record, is_sure, range_of
from veridp.kernel.expressions.ufuncs import numpy_function
from veridp.kernel.expressions.undecided import Condition, Select, whole_of

__all__ = [
    "RUN",
    "Affine",
    "Condition",
    "Decider",
    "Key",
    "Select",
    "affine",
    "bounded_extreme",
    "decided",
    "function_of",
    "in_arguments",
    "is_integer",
    "is_of_record",
    "is_sure",
    "is_whole",
    "numpy_function",
    "range_of",
    "settle",
    "sign_of",
    "unknown",
    "unknowns",
    "whole_of",
]
