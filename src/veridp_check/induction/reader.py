"""Reading a certificate for every size, or step by step for one: a loop as a finite system of states and steps, and
how each is carried over.

Part of the checker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.document import (
    HEADER,
    RELATIONS,
    DocumentNode,
    LinearCondition,
    LinearForm,
    Stated,
    arguments_in,
    coefficients_in,
    draws_in,
    noise_in,
    stated_in,
)
from veridp_check.noise import NoiseDraw

WHEN = ("start", "step", "end")
MAX_PERIOD = 10_000  # steps
MAX_SIZE = 10_000  # queries, where they are counted
QUERY = 0  # the index of the query among the data of an expression; the symbols of the state follow it


@dataclass(frozen=True)
class State:
    """What is known of the loop's variables: constants as text, symbols for any real number."""

    constants: Mapping[str, str]
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class InductionStep:
    """One way to the loop (start), through its body (step), or from it (end). Expressions are in the noise that it
    draws, and as data the query and the symbols of the state that it is taken from."""

    when: str
    source: int | None
    target: int | None
    draws: tuple[int, ...]
    conditions: tuple[LinearCondition, ...]
    output: tuple[str, ...]
    numbers: tuple[LinearForm, ...]
    updates: Mapping[str, LinearForm]

    @property
    def weight(self) -> Fraction:
        """Steps are chosen by their conditions alone."""
        return Fraction(1)


@dataclass(frozen=True)
class Place:
    """How the symbols of a state differ between the two runs in a phase, and what a run may cost from there on."""

    state: int
    phase: str
    differences: tuple[Fraction, ...]  # in the order of the state's symbols
    left: Fraction


@dataclass(frozen=True)
class InductionMove:
    """The shifts of a step's noise, in a phase (None at the start), while the query moves by so much."""

    step: int
    phase: str | None
    query: Fraction
    moves: tuple[Fraction, ...]
    cost: Fraction


@dataclass(frozen=True)
class InductionAlignment:
    """Places and moves for one polytope of differences."""

    places: tuple[Place, ...]
    moves: tuple[InductionMove, ...]


@dataclass(frozen=True)
class InductionCertificate(Stated):
    """What a certificate for every size says; or one for one size, in whose phases queries are counted."""

    period: int
    noises: tuple[NoiseDraw, ...]
    states: tuple[State, ...]
    steps: tuple[InductionStep, ...]
    alignments: tuple[InductionAlignment, ...]


def read_induction(document: object) -> InductionCertificate:
    """The certificate in the document; raises Flaw where it is not made as one."""
    field = DocumentNode(document).fields(*HEADER, "period", "noises", "states", "steps", "alignments")
    if field["domain"].value is not None:
        raise field["domain"].flaw("null is needed: an induction is for all numbers")
    if field["size"].value is not None:
        field["size"].whole(least=1, most=MAX_SIZE)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    states = tuple(_state(node) for node in field["states"].entries())
    steps = tuple(_step(node, states, noises) for node in field["steps"].entries())
    return InductionCertificate(
        **vars(stated_in(field)),
        period=field["period"].whole(least=1, most=MAX_PERIOD),
        noises=noises,
        states=states,
        steps=steps,
        alignments=tuple(_alignment(node, states, steps) for node in field["alignments"].entries()),
    )


def _state(node: DocumentNode) -> State:
    field = node.fields("constants", "symbols")
    symbols = tuple(symbol.text() for symbol in field["symbols"].entries())
    constants = arguments_in(field["constants"])
    if len({*symbols, *constants}) != len(symbols) + len(constants):
        raise field["symbols"].flaw("a name is given twice")
    return State(constants, symbols)


def _step(node: DocumentNode, states: Sequence[State], noises: Sequence[NoiseDraw]) -> InductionStep:
    field = node.fields("when", "from", "to", "draws", "conditions", "output", "numbers", "updates")
    when = field["when"].one_of(WHEN)
    source, target = (_state_number(field[name], states) for name in ("from", "to"))
    if (source is None) != (when == "start"):
        raise field["from"].flaw("null at the start, and nowhere else, is needed")
    if when == "end" and target is not None:
        raise field["to"].flaw("null is needed at the end")
    symbols = () if source is None else states[source].symbols
    reader = _Reader(draws_in(field["draws"], noises, "step"), symbols, when == "step")
    updates = {name: reader.linear(entry, ()) for name, entry in field["updates"].mapping().items()}
    wanted = () if target is None else states[target].symbols
    if sorted(updates) != sorted(wanted):
        raise field["updates"].flaw(f"each symbol of the next state is needed ({', '.join(wanted) or 'none'})")
    return InductionStep(
        when=when,
        source=source,
        target=target,
        draws=reader.draws,
        conditions=tuple(reader.condition(entry) for entry in field["conditions"].entries()),
        output=tuple(entry.text() for entry in field["output"].entries()),
        numbers=tuple(reader.linear(entry, ()) for entry in field["numbers"].entries()),
        updates=updates,
    )


def _state_number(node: DocumentNode, states: Sequence[State]) -> int | None:
    if node.value is None:
        return None
    number = node.whole()
    if number >= len(states):
        raise node.flaw(f"there is no state {number}")
    return number


@dataclass(frozen=True)
class _Reader:
    """Reads the expressions of a step."""

    draws: tuple[int, ...]
    symbols: tuple[str, ...]
    has_query: bool

    def linear(self, node: DocumentNode, more: Sequence[str]) -> LinearForm:
        field = node.fields("noise", "query", "state", "constant", *more)
        noise = coefficients_in(field["noise"], self.draws, "noise that this step draws")
        query = field["query"].rational()
        if query and not self.has_query:
            raise field["query"].flaw("there is no query here")
        data = {QUERY: query} if query else {}
        for name, entry in field["state"].mapping().items():
            if name not in self.symbols:
                raise entry.flaw(f"{name} is no symbol of the state that this step is taken from")
            data[1 + self.symbols.index(name)] = entry.rational()
        return LinearForm(noise, data, field["constant"].rational())

    def condition(self, node: DocumentNode) -> LinearCondition:
        return LinearCondition(self.linear(node, ("relation",)), node.mapping()["relation"].one_of(RELATIONS))


def _alignment(node: DocumentNode, states: Sequence[State], steps: Sequence[InductionStep]) -> InductionAlignment:
    field = node.fields("places", "moves")
    return InductionAlignment(
        tuple(_place(entry, states) for entry in field["places"].entries()),
        tuple(_move(entry, steps) for entry in field["moves"].entries()),
    )


def _place(node: DocumentNode, states: Sequence[State]) -> Place:
    field = node.fields("state", "phase", "differences", "left")
    number = field["state"].whole()
    if number >= len(states):
        raise field["state"].flaw(f"there is no state {number}")
    given = field["differences"].mapping()
    symbols = states[number].symbols
    if sorted(given) != sorted(symbols):
        raise field["differences"].flaw(f"each symbol of the state is needed ({', '.join(symbols) or 'none'})")
    differences = tuple(given[symbol].rational() for symbol in symbols)
    return Place(number, field["phase"].text(), differences, field["left"].rational())


def _move(node: DocumentNode, steps: Sequence[InductionStep]) -> InductionMove:
    field = node.fields("step", "phase", "query", "moves", "cost")
    number = field["step"].whole()
    if number >= len(steps):
        raise field["step"].flaw(f"there is no step {number}")
    moves = tuple(entry.rational() for entry in field["moves"].entries())
    if len(moves) != len(steps[number].draws):
        raise field["moves"].flaw(f"{len(steps[number].draws)} moves are needed, one for each draw, not {len(moves)}")
    phase = None if field["phase"].value is None else field["phase"].text()
    return InductionMove(number, phase, field["query"].rational(), moves, field["cost"].rational())
