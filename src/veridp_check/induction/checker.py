"""Whether a certificate for every size proves what it says. Part of the checker.

The loop is given as a system: states, whose symbols stand for any real numbers, and steps. Both runs, on D and on its
neighbour, take the same steps; the certificate says by how much the symbols differ between the two runs in each state
(a *place* is a state and a phase: what has moved so far), and how the noise of each step is shifted. If every step
leads from places whose differences are as stated to such places again, then by induction so does every run, however
many queries there are. Where the certificate states a size, phases count the queries too: then differences and shifts
may depend on how many were asked, and what is left may grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.coverage import check_runs
from veridp_check.document import NUMERIC, CertificateFlaw, LinearForm, text_of
from veridp_check.induction.reader import (
    QUERY,
    InductionAlignment,
    InductionCertificate,
    InductionMove,
    InductionStep,
    Place,
)
from veridp_check.noise import ShiftPrice
from veridp_check.shifts import count

Phases = Mapping[str, Sequence[tuple[int, str]]]  # from each phase: by how much the query may move, and the next phase


def _phases(certificate: InductionCertificate) -> list[Phases]:
    """How queries move, step by step, for each polytope of differences; the first phase is first.

    For one size, a phase is that of the adjacency and how many queries were asked: from the last, none follows.
    """
    phases = _phases_of_every_size(certificate)
    return phases if certificate.size is None else [_counted(each, certificate.size) for each in phases]


def _counted(phases: Phases, size: int) -> Phases:
    return {
        f"{phase} after {k}": [(by, f"{following} after {k + 1}") for by, following in moves if k < size]
        for k in range(size + 1)
        for phase, moves in phases.items()
    }


def _phases_of_every_size(certificate: InductionCertificate) -> list[Phases]:
    """How queries move under the adjacency.

    linf: any query up or down. monotone: all up, or all down, or not at all. l1: one query moves, and the phase tells
    how long ago that was, up to twice the period of the loop.
    """
    match certificate.adjacency:
        case "linf":
            return [{"any": [(1, "any"), (-1, "any")]}]
        case "monotone":
            return [{"up": [(0, "up"), (1, "up")]}, {"down": [(0, "down"), (-1, "down")]}]
        case "l1":
            oldest = 2 * certificate.period
            phases: dict[str, list[tuple[int, str]]] = {"before": [(0, "before"), (1, "up 1"), (-1, "down 1")]}
            for age in range(1, oldest + 1):
                for way in ("up", "down"):
                    phases[f"{way} {age}"] = [(0, f"{way} {min(age + 1, oldest)}")]
            return [phases]
    raise CertificateFlaw("/adjacency", f"there is no induction for neighbours under {certificate.adjacency!r}")


def check_neighbours(certificate: InductionCertificate) -> str:
    """There is an alignment for each polytope of differences."""
    wanted = len(_phases(certificate))
    if len(certificate.alignments) != wanted:
        reason = f"{wanted} needed under {certificate.adjacency}, one for each polytope of differences"
        raise CertificateFlaw("/alignments", f"{reason}, not {len(certificate.alignments)}")
    for a, (alignment, phases) in enumerate(zip(certificate.alignments, _phases(certificate), strict=True)):
        for p, each in enumerate(alignment.places):
            if each.phase not in phases:
                raise CertificateFlaw(f"/alignments/{a}/places/{p}/phase", f"{certificate.adjacency} has no such phase")
        for m, move in enumerate(alignment.moves):
            if move.phase is not None and move.phase not in phases:
                raise CertificateFlaw(f"/alignments/{a}/moves/{m}/phase", f"{certificate.adjacency} has no such phase")
    many = "however many there are" if certificate.size is None else f"{certificate.size} of them"
    return f"queries that move one after the other as {certificate.adjacency} has it, {many}"


# ------------------------------------------------------------------------------------------------------ the system


def check_system(certificate: InductionCertificate) -> str:
    """From every state, whatever its symbols and the query are, just one step can be taken; and one at the end.

    So its steps determine a run; they and the numbers that they release determine its output.
    """
    for s, step in enumerate(certificate.steps):
        if step.output.count(NUMERIC) != len(step.numbers):
            raise CertificateFlaw(
                f"/steps/{s}/numbers", f"{step.output.count(NUMERIC)} needed, one for each {NUMERIC} of the output"
            )
    _check_ways(certificate, "start", None, 0)
    for number, state in enumerate(certificate.states):
        for when in ("step", "end"):
            _check_ways(certificate, when, number, len(state.symbols))
    return (
        f"{count(len(certificate.states), 'state')}, {count(len(certificate.steps), 'step')}; "
        f"just one leads on, whatever noise, query and symbols are"
    )


def _check_ways(certificate: InductionCertificate, when: str, source: int | None, symbols: int) -> None:
    numbered = [(s, step) for s, step in enumerate(certificate.steps) if (step.when, step.source) == (when, source)]
    where = when if source is None else f"{when} of state {source}"
    if not numbered:
        raise CertificateFlaw("/steps", f"there is none for the {where}")
    try:
        check_runs([step for _, step in numbered], certificate.noises, 1 + symbols, place="")
    except CertificateFlaw as flaw:
        which = flaw.place.strip("/")
        place = f"/steps/{numbered[int(which)][0]}" if which else "/steps"
        raise CertificateFlaw(place, f"at the {where}: {flaw.reason}") from None


# ------------------------------------------------------------------------------------------------------- the moves


@dataclass(frozen=True)
class _Taken:
    """A step taken from a place while the query moves by so much, with the move that the certificate has for it."""

    step: InductionStep
    source: Place | None
    target: Place | None
    move: InductionMove
    place: str

    def change(self, expression: LinearForm) -> Fraction:
        """By how much the expression differs between the two runs."""
        differences = () if self.source is None else self.source.differences
        moves = dict(zip(self.step.draws, self.move.moves, strict=True))
        total = sum((c * moves[row] for row, c in expression.noise.items()), start=Fraction(0))
        for index, c in expression.data.items():
            total += c * (self.move.query if index == QUERY else differences[index - 1])
        return total


def _taken(certificate: InductionCertificate, a: int) -> Iterator[_Taken]:
    """All moves that a run can come to under one polytope of differences; raises Flaw where one is not there."""
    alignment, phases = certificate.alignments[a], _phases(certificate)[a]
    table = _Table(alignment, f"/alignments/{a}")
    first = next(iter(phases))
    pending = [(None, first)]
    seen: set[tuple[int | None, str]] = set()
    while pending:
        state, phase = pending.pop()
        if (state, phase) in seen:
            continue
        seen.add((state, phase))
        for s, step in enumerate(certificate.steps):
            if step.source != state:
                continue
            if step.when == "end" and certificate.size is not None and phases[phase]:
                continue  # queries follow
            ways = phases[phase] if step.when == "step" else [(0, phase)]
            for by, following in ways:
                yield table.taken(s, step, None if state is None else phase, by, following)
                if step.target is not None:
                    pending.append((step.target, following))  # type: ignore[arg-type]


class _Table:
    """The places and moves of an alignment, each to be found once."""

    def __init__(self, alignment: InductionAlignment, place: str) -> None:
        self.place = place
        self.places: dict[tuple[int, str], Place] = {}
        for p, each in enumerate(alignment.places):
            if self.places.setdefault((each.state, each.phase), each) is not each:
                raise CertificateFlaw(
                    f"{place}/places/{p}", f"state {each.state} in phase {each.phase!r} is listed twice"
                )
        self.moves: dict[tuple[int, str | None, Fraction], tuple[int, InductionMove]] = {}
        for m, move in enumerate(alignment.moves):
            if self.moves.setdefault((move.step, move.phase, move.query), (m, move))[0] != m:
                raise CertificateFlaw(f"{place}/moves/{m}", "this move is listed twice")

    def taken(self, s: int, step: InductionStep, phase: str | None, by: int, following: str) -> _Taken:
        key = (s, phase, Fraction(by))
        if key not in self.moves:
            raise CertificateFlaw(
                f"{self.place}/moves", f"step {s} in phase {phase!r}, where the query moves by {by}, is missing"
            )
        m, move = self.moves[key]
        source = None if step.source is None or phase is None else self._place(step.source, phase)
        target = None if step.target is None else self._place(step.target, following)
        return _Taken(step, source, target, move, f"{self.place}/moves/{m}")

    def _place(self, state: int, phase: str) -> Place:
        if (state, phase) not in self.places:
            raise CertificateFlaw(f"{self.place}/places", f"state {state} in phase {phase!r} is missing")
        return self.places[state, phase]


def _all(certificate: InductionCertificate) -> Iterator[_Taken]:
    for a in range(len(certificate.alignments)):
        yield from _taken(certificate, a)


def check_shifts(certificate: InductionCertificate) -> str:
    """Every step keeps its conditions and the numbers that it releases, and leads to the differences stated next.

    With the noise of the step, its query and the symbols moved as stated, the left side of each condition changes by a
    sum that does not depend on what they are; so no inequality that held can fail if that is >= 0, and no equation if
    it is 0. A query that moves by less is a mean of those checked; the same mean of shifts and differences serves.
    """
    checked = 0
    for each in _all(certificate):
        for k, condition in enumerate(each.step.conditions):
            change = each.change(condition.slack)
            if change < 0 or (change and condition.relation == "=="):
                where = f"/steps/{each.move.step}/conditions/{k}"
                raise CertificateFlaw(each.place, f"it changes condition {where} by {text_of(change)}")
        for k, number in enumerate(each.step.numbers):
            if change := each.change(number):
                where = f"/steps/{each.move.step}/numbers/{k}"
                raise CertificateFlaw(each.place, f"it changes the number {where} by {text_of(change)}")
        _check_updates(certificate, each)
        checked += 1
    return (
        f"{count(checked, 'move')}, each of which keeps every condition and number, and leads to the differences stated"
    )


def _check_updates(certificate: InductionCertificate, each: _Taken) -> None:
    if each.target is None:
        return
    symbols = certificate.states[each.target.state].symbols
    for name, stated in zip(symbols, each.target.differences, strict=True):
        change = each.change(each.step.updates[name])
        if change != stated:
            where = f"state {each.target.state} in phase {each.target.phase!r} it is said to by {text_of(stated)}"
            raise CertificateFlaw(each.place, f"it makes {name} differ by {text_of(change)}, but in {where}")


def check_costs(certificate: InductionCertificate) -> str:
    """Every shift is one that the noise allows, and costs what is stated; noise in whole steps must stay.

    A query may move by any part of what is checked, and a mean of whole steps is not a whole step.
    """
    for each in _all(certificate):
        prices = []
        for k, (row, move) in enumerate(zip(each.step.draws, each.move.moves, strict=True)):
            noise = certificate.noises[row]
            price = noise.price(move)
            if price is None or (noise.whole and move):
                raise CertificateFlaw(
                    f"{each.place}/moves/{k}", f"{noise.kind} noise must not be moved by {text_of(move)}"
                )
            prices.append(price)
        amount = ShiftPrice.total(prices).amount
        if amount != each.move.cost:
            raise CertificateFlaw(
                f"{each.place}/cost", f"the moves cost {text_of(amount)}, not {text_of(each.move.cost)}"
            )
    kinds = sorted({noise.kind for noise in certificate.noises}) or ["no"]
    return f"the moves are allowed for {' and '.join(kinds)} noise, and cost what is stated"


def check_induction(certificate: InductionCertificate) -> str:
    """What a run may cost from each place on covers each step and what is left after it: so it covers every run."""
    for each in _all(certificate):
        rest = Fraction(0) if each.target is None else each.target.left
        if rest < 0:
            raise CertificateFlaw(each.place, f"what is left after it is below 0: {text_of(rest)}")
        if each.source is not None and each.move.cost + rest > each.source.left:
            where = f"state {each.source.state} in phase {each.source.phase!r}"
            left, taken = text_of(each.source.left), text_of(each.move.cost + rest)
            raise CertificateFlaw(each.place, f"from {where}, {left} is left, but it takes {taken}")
    long = ", however long" if certificate.size is None else ""
    return f"no step takes more than what is left, so that no run does{long}"


def check_epsilon(certificate: InductionCertificate) -> str:
    """No run costs more than ε from the start on."""
    worst = Fraction(0)
    for each in _all(certificate):
        if each.source is None:
            total = each.move.cost + (Fraction(0) if each.target is None else each.target.left)
            worst = max(worst, total)
            if total > certificate.epsilon:
                most = text_of(certificate.epsilon)
                raise CertificateFlaw(each.place, f"a run that starts so may cost {text_of(total)}, above ε = {most}")
    return f"the dearest run costs {text_of(worst)}, and ε is {text_of(certificate.epsilon)}"


INDUCTION_STEPS = (
    ("neighbours", check_neighbours),
    ("system", check_system),
    ("shifts", check_shifts),
    ("costs", check_costs),
    ("induction", check_induction),
    ("epsilon", check_epsilon),
)
