"""Exact linear programs against another exact solver, with their dual solutions; and what happens when floats err."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import z3

from veridp.errors import NotSolved
from veridp.numerics import linear, simplex
from veridp.numerics.linear import Infeasible, LinearProgram, solve
from veridp.numerics.simplex import Hint, Vertex, hints

Row = tuple[dict[int, Fraction], Fraction, bool]


def number(rng: random.Random) -> Fraction:
    """Whole, dyadic, thirds, sevenths, tenths, and of all magnitudes from 1e-9 to 1e9."""
    sign = rng.choice([-1, 1])
    return sign * rng.choice(
        [
            Fraction(rng.randint(1, 3)),
            Fraction(rng.uniform(0, 2)),
            Fraction(rng.randint(1, 9), rng.choice([3, 7, 10])),
            Fraction(10 ** rng.uniform(-9, 9)),
        ]
    )


def random_program(rng: random.Random, columns: int, height: int) -> tuple[LinearProgram, list[Row]]:
    program = LinearProgram()
    for _ in range(columns):
        free = rng.random() < 0.2
        program.variable(Fraction(0) if free or rng.random() < 0.2 else abs(number(rng)), free=free)
    rows: list[Row] = []
    for _ in range(height):
        terms = {column: number(rng) for column in rng.sample(range(columns), rng.randint(0, columns))}
        rows.append((terms, number(rng) if rng.random() < 0.8 else Fraction(0), rng.random() < 0.3))
        add = program.zero if rows[-1][2] else program.at_least_zero
        add(*rows[-1][:2])
    return program, rows


def least_cost(program: LinearProgram, rows: list[Row]) -> Fraction | None:
    """By z3; None where there is no solution."""

    def exact(value: Fraction) -> z3.ArithRef:
        return z3.Q(value.numerator, value.denominator)

    variables = [z3.Real(f"x{k}") for k in range(len(program.costs))]
    optimize = z3.Optimize()
    optimize.add(*(x >= 0 for k, x in enumerate(variables) if k not in program.free))
    for terms, constant, equal in rows:
        total = z3.Sum([exact(constant), *(exact(c) * variables[k] for k, c in terms.items())])
        optimize.add(total == 0 if equal else total >= 0)
    costs = [exact(cost) * x for cost, x in zip(program.costs, variables, strict=True)]
    goal = optimize.minimize(z3.Sum(costs))
    return Fraction(str(optimize.lower(goal))) if optimize.check() == z3.sat else None


def total_of(prices: tuple[Fraction, ...], rows: list[Row], column: int) -> Fraction:
    return sum((p * terms.get(column, 0) for p, (terms, _, _) in zip(prices, rows, strict=True)), start=Fraction(0))


def check(program: LinearProgram, rows: list[Row], answer: Vertex | Infeasible, least: Fraction | None) -> None:
    """That the answer is right, by the other solver and by what it says itself."""
    prices, columns = answer.prices, range(len(program.costs))
    assert all(price >= 0 or equal for price, (_, _, equal) in zip(prices, rows, strict=True))
    bound = -sum(price * constant for price, (_, constant, _) in zip(prices, rows, strict=True))
    if isinstance(answer, Infeasible):
        assert least is None
        assert bound > 0
        assert all(total_of(prices, rows, k) <= 0 for k in columns)
        assert all(total_of(prices, rows, k) == 0 for k in program.free)
        return
    assert answer.cost == least == bound == sum(c * x for c, x in zip(program.costs, answer.values, strict=True))
    assert all(total_of(prices, rows, k) <= program.costs[k] for k in columns)
    assert all(x >= 0 or k in program.free for k, x in enumerate(answer.values))
    for terms, constant, equal in rows:
        total = sum((c * answer.values[k] for k, c in terms.items()), start=constant)
        assert total == 0 if equal else total >= 0


@pytest.fixture(scope="module")
def programs() -> list[tuple[LinearProgram, list[Row], Fraction | None]]:
    rng = random.Random(18)
    made = [random_program(rng, rng.randint(1, 6), rng.randint(0, 7)) for _ in range(150)]
    return [(program, rows, least_cost(program, rows)) for program, rows in made]


def test_optima_and_impossibilities_are_those_of_z3(programs):
    answers = solve([program for program, _, _ in programs])
    for (program, rows, least), answer in zip(programs, answers, strict=True):
        check(program, rows, answer, least)
    assert 30 < sum(isinstance(answer, Infeasible) for answer in answers) < 120


@pytest.mark.parametrize("lie", ["none", "missed", "nothing", "everything"])
def test_a_wrong_hint_costs_steps_and_changes_no_answer(programs, lie, monkeypatch):
    def lying(asked):
        for program in asked:
            rows, columns = [*range(len(program.rows))], [*range(len(program.costs))]
            yield {
                "none": None,
                "missed": Hint(True, rows[::2], [], [], []),
                "nothing": Hint(False, [], [], [], []),
                "everything": Hint(False, rows, [], columns[::-1], []),
            }[lie]

    monkeypatch.setattr(linear, "hints", lambda asked: list(lying(asked)))
    for (program, rows, least), answer in zip(programs, solve([p for p, _, _ in programs]), strict=True):
        check(program, rows, answer, least)


def test_floats_too_large_to_hold_give_no_hint_and_an_exact_answer():
    program = LinearProgram()
    x, y = program.variable(Fraction(1)), program.variable(Fraction(2, 10**400))
    program.at_least_zero({x: 10**400, y: 1}, -(10**800))
    assert hints([program.integers]) == [None]
    (answer,) = solve([program])
    assert answer.values == (10**400, 0)
    assert answer.cost == 10**400  # y = 10^800 would cost twice as much


def test_many_programs_as_one_have_the_same_cost(programs):
    """Side by side in one program they are blocks of its matrices."""
    chosen = [(program, rows, least) for program, rows, least in programs if least is not None]
    together = LinearProgram()
    for program, rows, _ in chosen:
        start = len(together.costs)
        for column, cost in enumerate(program.costs):
            together.variable(cost, free=column in program.free)
        for terms, constant, equal in rows:
            add = together.zero if equal else together.at_least_zero
            add({start + column: value for column, value in terms.items()}, constant)
    assert len(together.rows) > 4 * simplex.MAX_DENSE
    (answer,) = solve([together])
    assert answer.cost == sum(least for _, _, least in chosen)


def test_a_program_that_takes_too_many_steps_is_an_error_and_no_answer(monkeypatch):
    program = LinearProgram()
    program.at_least_zero({program.variable(Fraction(1)): 3}, -1)
    monkeypatch.setattr(linear, "hints", lambda asked: [None] * len(asked))
    monkeypatch.setattr(simplex, "MAX_PIVOTS", 1)
    with pytest.raises(NotSolved, match="has no exact solution after 1 steps"):
        solve([program])
    monkeypatch.setattr(simplex, "MAX_PIVOTS", 2)
    assert solve([program])[0].cost == Fraction(1, 3)


@pytest.mark.parametrize(("cost", "free"), [(Fraction(-1), False), (Fraction(1), True)])
def test_costs_without_a_lower_bound_are_refused(cost, free):
    with pytest.raises(ValueError, match="variable cannot cost"):
        LinearProgram().variable(cost, free=free)
