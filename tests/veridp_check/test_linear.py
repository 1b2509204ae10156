"""Linear conditions: z3 says the same, points keep what they must, and cells cover everything once."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
import z3

from veridp_check import linear
from veridp_check.linear import Ask, LinearExpression, LinearRelation, LinearSystem, Undecided, cells, number, variable

NAMES = ("a", "b", "c", "d")


def random_relations(rng: random.Random, count: int) -> list[LinearRelation]:
    """Conditions with small coefficients, so that boundaries meet often."""
    found = []
    for _ in range(count):
        terms = {name: Fraction(rng.randint(-3, 3), rng.choice([1, 1, 2, 3])) for name in NAMES if rng.random() < 0.6}
        value = LinearExpression(
            {name: c for name, c in terms.items() if c}, Fraction(rng.randint(-6, 6), rng.choice([1, 2]))
        )
        found.append(LinearRelation(value, rng.choice([">=", ">", ">=", ">", "=="])))
    return found


def box() -> list[LinearRelation]:
    sides = [(variable(name), sign) for name in NAMES for sign in (1, -1)]
    return [LinearRelation(value * Fraction(sign) + number(9), ">=") for value, sign in sides]


def possible_by_z3(relations: list[LinearRelation], whole: frozenset[str]) -> bool:
    variables = {name: z3.ToReal(z3.Int(name)) if name in whole else z3.Real(name) for name in NAMES}

    def exact(value: Fraction) -> z3.ArithRef:
        return z3.Q(value.numerator, value.denominator)

    solver = z3.Solver()
    for relation in relations:
        terms = [exact(c) * variables[name] for name, c in relation.value.terms.items()]
        value = z3.Sum([exact(relation.value.constant), *terms])
        solver.add(value >= 0 if relation.sign == ">=" else value > 0 if relation.sign == ">" else value == 0)
    return bool(solver.check() == z3.sat)


@pytest.mark.parametrize("seed", range(100))
def test_conditions_hold_together_where_z3_says_so(seed: int) -> None:
    rng = random.Random(seed)
    whole = frozenset(name for name in NAMES if rng.random() < 0.4)
    relations = random_relations(rng, rng.randint(1, 8)) + box()
    rng.shuffle(relations)
    system = LinearSystem(whole)
    point = system.point() if all(system.assume(relation) for relation in relations) else None
    assert (point is not None) == possible_by_z3(relations, whole)
    if point is not None:
        assert all(relation.holds(point) for relation in relations)
        assert all(point[name].denominator == 1 for name in whole)


@pytest.mark.parametrize("seed", range(12))
def test_each_point_is_in_a_cell_with_its_answer(seed: int) -> None:
    rng = random.Random(seed)
    asked = random_relations(rng, 5)

    def question(ask: Ask) -> tuple[bool, ...]:
        """Later conditions are asked where the first one holds."""
        return tuple(ask(relation) for relation in (asked if ask(asked[0]) else asked[:2]))

    found = list(cells(question, box()))
    for values in itertools.product([Fraction(-3), Fraction(0), Fraction(1, 2)], repeat=len(NAMES)):
        point = dict(zip(NAMES, values, strict=True))
        answer = tuple(relation.holds(point) for relation in asked)
        expected = answer if answer[0] else answer[:2]
        here = [LinearRelation(variable(name) - number(value), "==") for name, value in point.items()]
        assert [cell.answer for cell in found if cell.system.point(*here) is not None] == [expected]


def test_without_its_boundary_a_condition_leaves_no_cell_at_zero() -> None:
    def question(ask: Ask) -> bool:
        return ask(LinearRelation(variable("a"), ">="), boundary=False)

    at_zero = LinearRelation(variable("a"), "==")
    assert sorted(cell.answer for cell in cells(question)) == [False, True]
    assert [cell for cell in cells(question) if cell.system.point(at_zero) is not None] == []


def test_whole_variables_take_whole_values_alone() -> None:
    a, b = variable("a"), variable("b")
    whole = frozenset("ab")
    system = LinearSystem(whole)
    assert not system.assume(LinearRelation(a * Fraction(2) - b * Fraction(2) - number(1), "=="))
    system = LinearSystem(whole)
    assert system.assume(LinearRelation(a - number(Fraction(1, 3)), ">"))
    assert system.assume(LinearRelation(number(Fraction(5, 3)) - a, ">"))
    assert system.point() == {"a": 1}
    assert system.point(LinearRelation(a - number(1), ">")) is None


def test_a_question_that_takes_too_long_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MAX_CELLS", 3)
    with pytest.raises(Undecided, match="more than 3 cells"):
        list(cells(lambda ask: [ask(LinearRelation(variable(name), ">")) for name in NAMES]))
    monkeypatch.setattr(linear, "MAX_BRANCHES", 3)
    x, y, z = map(variable, "xyz")
    system = LinearSystem(frozenset("xy"))
    between = (x - y - z, "=="), (z - number(Fraction(1, 4)), ">"), (number(Fraction(1, 2)) - z, ">")
    assert all(system.assume(LinearRelation(*relation)) for relation in between)
    with pytest.raises(Undecided, match="more than 3 branches"):
        system.point()


def test_a_conflict_that_does_not_add_up_is_not_believed() -> None:
    system = LinearSystem()
    a, b = variable("a"), variable("b")
    assert all(system.assume(LinearRelation(value, ">=")) for value in (a, b, a + b + number(1)))
    (row,) = system.rows
    system.rows[row] = {place: -c for place, c in system.rows[row].items()}  # as a fault in pivoting might
    with pytest.raises(ArithmeticError, match="could not be verified"):
        system.assume(LinearRelation(a + b - number(1), ">="))
