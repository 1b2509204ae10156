"""From the paths on two inputs to the loss over the outputs that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.errors import NotExact
from veridp.exact.block import Block
from veridp.exact.event import Entry, Event
from veridp.exact.lattice import without_overlap
from veridp.exact.line import Line, Numbers
from veridp.exact.loss import Atom, Loss, Mixture, Product
from veridp.exact.masses import log_masses
from veridp.exact.pieces import ClassKey, Factor, Piece, factors
from veridp.program.affine import Affine, Condition, Noise
from veridp.program.distribution import Number, exact
from veridp.program.path import Path
from veridp.program.template import Slot

Combination = tuple[Fraction, ...]


def loss_between(left: Sequence[Path], right: Sequence[Path]) -> Loss:
    """The loss over the outputs of two lists of paths."""
    return loss_of_factors(*shared_factors(left, right))


def shared_factors(left: Sequence[Path], right: Sequence[Path]) -> tuple[list[Factor], list[Factor]]:
    """The factors of two lists of paths, taken apart in the same way."""
    mine, theirs = factors(left), factors(right)
    if [part.positions for part in mine] != [part.positions for part in theirs]:
        mine, theirs = factors(left, split=False), factors(right, split=False)
    return mine, theirs


def loss_of_factors(mine: Sequence[Factor], theirs: Sequence[Factor]) -> Loss:
    """The loss over outputs that fall apart in the same way on either side."""
    space = _Space()
    parts = tuple(space.factor_loss(a, b) for a, b in zip(mine, theirs, strict=True))
    return parts[0] if len(parts) == 1 else Product(parts)


class _Space:
    """Builds the loss, and remembers the numeric parts that it has built: classes often share them."""

    def __init__(self) -> None:
        self.numeric: dict[object, Loss] = {}

    def factor_loss(self, left: Factor, right: Factor) -> Loss:
        mine, theirs = without_overlap(left.classes, right.classes), without_overlap(right.classes, left.classes)
        keys = list(dict.fromkeys([*mine, *theirs]))
        plans = [self._plan(_Class(key, left), mine.get(key, []), theirs.get(key, [])) for key in keys]
        masses = log_masses([side for plan in plans for side in (plan.left, plan.right)])
        parts = [plan.loss(*pair) for plan, pair in zip(plans, batched(masses), strict=True)]
        return parts[0] if len(parts) == 1 else Mixture(tuple(parts))

    def _plan(self, shared: _Class, left: list[Piece], right: list[Piece]) -> _Plan:
        count = len(shared.key.free)
        if not count or not left or not right:
            return _Plan(shared, left, right)
        if len(left) == len(right) == 1:
            return self._separated(shared, left[0], right[0])
        plain = [tuple(Fraction(int(i == j)) for j in range(count)) for i in range(count)]
        certain = [Piece(1, (), ())]
        return _Plan(shared, certain, certain, (self._numeric_loss(shared, plain, left, right),))

    def _numeric_loss(
        self, shared: _Class, combinations: Sequence[Combination], left: Sequence[Piece], right: Sequence[Piece]
    ) -> Loss:
        entries = tuple(shared.entry(combination) for combination in combinations)
        key = (entries, tuple(piece.key for piece in left), tuple(piece.key for piece in right))
        if key not in self.numeric:
            sides = Numbers(tuple(left)), Numbers(tuple(right))
            several = len(entries) > 1
            self.numeric[key] = (
                Block(entries, *sides) if several else Line(entries[0], *sides, shared.lattice(combinations[0]))
            )
        return self.numeric[key]

    def _separated(self, shared: _Class, left: Piece, right: Piece) -> _Plan:
        """The loss of two pieces, as a product over those of their entries that no noise ties together.

        The entries are first combined so that each carries as little noise as possible: a change of coordinates that
        both sides share leaves the loss as it is.
        """
        apart = taken_apart(left, right)
        parts = tuple(
            self._numeric_loss(
                shared, [apart.combinations[entry] for entry in group.entries], [group.left], [group.right]
            )
            for group in apart.groups
        )
        return _Plan(shared, [apart.rest.left], [apart.rest.right], parts)


def batched(values: Sequence[float]) -> list[tuple[float, float]]:
    """The values two by two."""
    return list(zip(values[::2], values[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class _Plan:
    """A class whose loss is known but for the probabilities of two lists of pieces."""

    shared: _Class
    left: list[Piece]
    right: list[Piece]
    numeric: tuple[Loss, ...] = ()

    def loss(self, log_left: float, log_right: float) -> Loss:
        atom = Atom(self.shared.event(), log_left, log_right)
        return Product((atom, *self.numeric)) if self.numeric else atom


@dataclass(frozen=True, eq=False)
class _Class:
    """A class of outputs, and how its leaves stand in the whole output."""

    key: ClassKey
    factor: Factor

    def event(self) -> Event:
        positions = self.factor.positions
        if positions is None:
            return Event(template=self.key.template)
        leaves = enumerate(self.key.template.leaves)
        constants = [(positions[place], leaf) for place, leaf in leaves if not isinstance(leaf, Slot)]
        return Event(equal=tuple((self._name(place), place, leaf) for place, leaf in constants))

    def entry(self, combination: Combination) -> Entry:
        slots = [place for place, leaf in enumerate(self.key.template.leaves) if isinstance(leaf, Slot)]
        used = [(slots[index], factor) for index, factor in zip(self.key.free, combination, strict=True) if factor]
        positions = self.factor.positions
        placed = [(place if positions is None else positions[place], float(factor)) for place, factor in used]
        return Entry(tuple(placed), tuple(self._name(place) for place, _ in placed))

    def _name(self, place: int) -> str:
        """`output` where the leaf is the whole, `output[2]` in a flat list, else its number."""
        tree = self.key.template.tree
        whole = self.factor.positions is None
        if whole and not isinstance(tree, tuple):
            return "output"
        flat = not any(isinstance(branch, tuple) for branch in tree) if whole else self.factor.flat
        return f"output[{place}]" if flat else f"leaf {place + 1}"

    def lattice(self, combination: Combination) -> float | None:
        """The remainder modulo 1 of a combination of entries that move in whole steps; None for a continuous one."""
        offset = Fraction(0)
        for index, factor in zip(self.key.free, combination, strict=True):
            remainder = self.key.lattices[index]
            if factor and remainder is None:
                return None
            offset += factor * (remainder or 0)
        return float(offset % 1)


# ------------------------------------------------------------------------- taking a piece's numbers apart


@dataclass(frozen=True, eq=False)
class Pair:
    """A piece on either side, and which of the combined entries its numbers are."""

    left: Piece
    right: Piece
    entries: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Apart:
    """Two pieces of a class as independent pairs: combined entries in groups, and the conditions that concern none."""

    combinations: list[Combination]
    groups: list[Pair]
    rest: Pair


def taken_apart(left: Piece, right: Piece) -> Apart:
    """The two pieces, taken apart in the same way: the losses of the groups and of the rest add up to theirs."""
    combinations = _reduced(left.numbers)
    mine, theirs = (_combined(piece, combinations) for piece in (left, right))
    groups = _groups(mine, theirs)
    pairs = []
    for group in groups:
        entries = tuple(sorted(group.entries))
        left_side, right_side = (
            Piece(1, tuple(conditions), tuple(piece.numbers[entry] for entry in entries))
            for piece, conditions in ((mine, group.left), (theirs, group.right))
        )
        pairs.append(Pair(left_side, right_side, entries))
    rest = Pair(
        _without(mine, [condition for group in groups for condition in group.left]),
        _without(theirs, [condition for group in groups for condition in group.right]),
    )
    return Apart(combinations, pairs, rest)


def _reduced(numbers: Sequence[Affine]) -> list[Combination]:
    """As many combinations of the numbers, in reduced echelon form: each with a noise of its own."""
    count = len(numbers)
    rows = [
        ({n: Fraction(c) for n, c in number.terms.items()}, [Fraction(int(i == k)) for i in range(count)])
        for k, number in enumerate(numbers)
    ]
    symbols = sorted({symbol for terms, _ in rows for symbol in terms})
    done = 0
    for symbol in symbols:
        pivot = next((k for k in range(done, count) if rows[k][0].get(symbol)), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        lead = rows[done][0][symbol]
        rows[done] = ({n: c / lead for n, c in rows[done][0].items()}, [c / lead for c in rows[done][1]])
        for k in range(count):
            factor = rows[k][0].get(symbol, Fraction(0))
            if k != done and factor:
                terms = {
                    n: rows[k][0].get(n, Fraction(0)) - factor * rows[done][0].get(n, Fraction(0))
                    for n in {*rows[k][0], *rows[done][0]}
                }
                rows[k] = (
                    {n: c for n, c in terms.items() if c},
                    [a - factor * b for a, b in zip(rows[k][1], rows[done][1], strict=True)],
                )
        done += 1
    return [tuple(made) for _, made in rows]


def _combined(piece: Piece, combinations: Sequence[Combination]) -> Piece:
    return Piece(piece.weight, piece.conditions, tuple(_combination(piece.numbers, made) for made in combinations))


def _combination(numbers: Sequence[Affine], factors_: Combination) -> Affine:
    total: Affine | Number = 0
    for number, factor in zip(numbers, factors_, strict=True):
        if factor:
            total = number * exact(factor) + total
    if not isinstance(total, Affine):
        raise NotExact("the numeric entries lose their noise when combined; the two inputs give different structures")
    return total


@dataclass
class _Group:
    """Entries that hang together on either side, and the conditions that concern them."""

    entries: set[int]
    left: list[Condition]
    right: list[Condition]


def _groups(left: Piece, right: Piece) -> list[_Group]:
    """The groups of entries: joined where noise, on either side, ties them together."""
    parent: dict[object, object] = {}

    def root(member: object) -> object:
        while parent.setdefault(member, member) is not member:
            member = parent[member]
        return member

    for side, piece in enumerate((left, right)):
        members = [[entry, *((side, n.index) for n in _noises(x))] for entry, x in enumerate(piece.numbers)]
        members += [[(side, n.index) for n in _noises(condition.slack)] for condition in piece.conditions]
        for first, *others in members:
            for other in others:
                parent[root(other)] = root(first)
    groups: dict[object, _Group] = {}
    for entry in range(len(left.numbers)):
        groups.setdefault(root(entry), _Group(set(), [], [])).entries.add(entry)
    for side, piece in enumerate((left, right)):
        for condition in piece.conditions:
            group = groups.get(root((side, _noises(condition.slack)[0].index)))
            if group is not None:
                (group.right if side else group.left).append(condition)
    return list(groups.values())


def _noises(expression: Affine) -> list[Noise]:
    return [symbol for symbol in expression.terms if isinstance(symbol, Noise)]


def _without(piece: Piece, conditions: Sequence[Condition]) -> Piece:
    taken = {id(condition) for condition in conditions}
    return Piece(piece.weight, tuple(c for c in piece.conditions if id(c) not in taken), ())
