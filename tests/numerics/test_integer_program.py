"""Whole-number programs against all whole numbers of a range."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from veridp.errors import NotSolved
from veridp.numerics import linear as whole
from veridp.numerics.linear import Infeasible, LinearProgram, solve, solve_whole


def test_random_programs_have_the_least_cost_of_all_whole_numbers():
    rng = random.Random(7)
    differing = 0
    for _ in range(60):
        program, count = LinearProgram(), rng.randint(1, 3)
        costs = [Fraction(rng.randint(1, 9), rng.choice([1, 3, 7])) for _ in range(count)]
        columns = [program.variable(cost, whole=True) for cost in costs]
        for column in columns:
            program.at_least_zero({column: -1}, 4)
        rows = [([rng.randint(-4, 4) for _ in columns], Fraction(rng.randint(-9, 9), 2)) for _ in range(2)]
        for coefficients, constant in rows:
            program.at_least_zero(dict(zip(columns, coefficients, strict=True)), constant)
        met = [
            sum(c * x for c, x in zip(costs, point, strict=True))
            for point in itertools.product(range(5), repeat=count)
            if all(sum(a * x for a, x in zip(row, point, strict=True)) + k >= 0 for row, k in rows)
        ]
        (answer,), (relaxed,) = solve_whole([program]), solve([program])
        differing += isinstance(relaxed, Infeasible) != (not met) or (bool(met) and relaxed.cost != min(met))
        assert min(met, default=None) == (None if isinstance(answer, Infeasible) else answer.cost)
    assert differing > 10


def test_an_equation_that_no_whole_numbers_meet_has_no_answer():
    """Without bounds on the variables: branching alone would never end."""
    program = LinearProgram()
    x, y = (program.variable(Fraction(1), whole=True) for _ in range(2))
    program.zero({x: 2, y: -2}, 1)
    assert isinstance(solve_whole([program])[0], Infeasible)


def test_a_search_without_end_is_an_error(monkeypatch):
    program = LinearProgram()
    x, y = (program.variable(Fraction(1), whole=True) for _ in range(2))
    z = program.variable(Fraction(1))
    program.zero({x: 3, y: -3, z: 1}, Fraction(1))
    program.at_least_zero({z: -1}, Fraction(1, 2))
    monkeypatch.setattr(whole, "MAX_BRANCHES", 20)
    with pytest.raises(NotSolved, match="in 20 branches"):
        solve_whole([program])
