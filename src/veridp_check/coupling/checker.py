"""Whether a certificate of couplings proves what it says. Part of the checker.

The mechanism is given case by case: for each value of the data, or for each region of them, as one or several parts
that decide disjoint entries of the output by noise of their own. A coupling tells how the events of a part are shared
out among those of another with the same output, and by which shifts their noise is carried over. If for each event of
the other part, what comes in, each share at its price, is at most e^ε times as likely as the event itself, then each
output is at most e^ε times as likely in the one case as in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from veridp_check.alignment.reader import DifferenceHull, ShiftRule, ShiftTable
from veridp_check.coupling.cases import check_cases, check_neighbours
from veridp_check.coupling.reader import Cases, CouplingCase, CouplingEvent, CouplingPair, EventTransport, PartCoupling
from veridp_check.coverage import check_runs, counterexample, in_words, noise_name, relation_of, supports_of
from veridp_check.document import NUMERIC, CertificateFlaw, LinearCondition, LinearForm, decimal_of, text_of
from veridp_check.enclosures import MAX_EXPONENT, exp_above, log_above
from veridp_check.linear import Ask
from veridp_check.noise import OPAQUE, NoiseDraw, probability_between
from veridp_check.records import bounds_of
from veridp_check.shifts import Carried, Kept, check_cost, check_kept, count, depends_on_whole

BETWEEN_VALUES = DifferenceHull(((),))  # two given values: nothing is left open that could move


# ------------------------------------------------------------------------------------------------------------ parts


def check_parts(certificate: Cases) -> str:
    """In every case each run is in one event of each part, except with probability 0; and parts share no noise."""
    checked: set[object] = set()
    for c, case in enumerate(certificate.cases):
        _check_independent(certificate, case, f"/cases/{c}")
        for number in case.parts:
            if (key := (number, None if certificate.by_value else c)) not in checked:
                checked.add(key)
                events, place = certificate.parts[number].events, f"/parts/{number}/events"
                _check_noise_decides(events, place)
                given = [*case.conditions, *bounds_of(certificate.records)]
                check_events(events, certificate.noises, certificate.entries, given, place)
    return f"{count(len(certificate.parts), 'part')}, in each of which the probabilities of all events sum to 1"


def _check_independent(certificate: Cases, case: CouplingCase, place: str) -> None:
    """No draw is of two parts; that each entry of the output is of one part only is seen with the cases."""
    drawn: dict[int, int] = {}
    for number in case.parts:
        part = certificate.parts[number]
        used = [certificate.noises[row] for event in part.events for row in event.draws]
        for draw in {draw for noise in used for draw in (noise.draw, *noise.of)}:
            if drawn.setdefault(draw, number) != number:
                raise CertificateFlaw(f"{place}/parts", f"draw {draw} is of parts {drawn[draw]} and {number} both")


def _check_noise_decides(events: Sequence[CouplingEvent], place: str) -> None:
    """Every condition of an event has noise in it: so the event has the same probability on all data of its case.

    A condition on data alone tells data apart and belongs to the case, where the neighbours see it.
    """
    for e, event in enumerate(events):
        for k, condition in enumerate(event.conditions):
            if not condition.slack.noise and not condition.slack.functions:
                reason = "a condition without noise: data that are told apart need cases of their own"
                raise CertificateFlaw(f"{place}/{e}/conditions/{k}", reason)


def check_events(
    events: Sequence[CouplingEvent], known: Sequence[NoiseDraw], size: int, given: Sequence[LinearCondition], place: str
) -> None:
    """Each run is in one of the events, and these have probabilities and the numbers that their outputs want."""
    if not events:
        raise CertificateFlaw(place, "there is no event")
    for e, event in enumerate(events):
        if not 0 < event.weight <= 1:
            raise CertificateFlaw(
                f"{place}/{e}/weight", f"a probability above 0 is needed, not {text_of(event.weight)}"
            )
        if event.output.count(NUMERIC) != len(event.numbers):
            raise CertificateFlaw(
                f"{place}/{e}/numbers", f"{event.output.count(NUMERIC)} needed, one for each {NUMERIC}"
            )
    used = {row for event in events for row in event.draws}
    noises = {row: noise for row, noise in enumerate(known) if row in used}
    check_runs(events, noises, size, given, place)


# -------------------------------------------------------------------------------------------------------- couplings


@dataclass(frozen=True)
class EventPiece:
    """An event without the noise that is only compared with constants: its probability, and the draws that are left."""

    event: CouplingEvent
    weight: Fraction
    rows: tuple[int, ...]
    conditions: tuple[tuple[int, LinearCondition], ...]  # with their places


def piece_of(event: CouplingEvent, noises: Sequence[NoiseDraw]) -> EventPiece:
    """The event without its finite choices.

    A draw that an opaque number of the event is a function of is no such choice: it decides about that number too.
    """
    named = {row for form in (*(c.slack for c in event.conditions), *event.numbers) for row in form.noise}
    sources = {draw for row in named for draw in noises[row].of}
    weight, kept = event.weight, []
    for row in event.draws:
        asked = [c for c in event.conditions if c.slack.noise.get(row)]
        alone = all(_is_alone(c.slack, row) for c in asked) and not any(n.noise.get(row) for n in event.numbers)
        alone = alone and noises[row].draw not in sources
        chance = _probability(noises[row], row, asked) if alone else None
        if chance is None:
            kept.append(row)
        else:
            weight *= chance
    left = [
        (k, c)
        for k, c in enumerate(event.conditions)
        if c.slack.functions or any(c.slack.noise.get(row) for row in kept)
    ]
    return EventPiece(event, weight, tuple(kept), tuple(left))


def _is_alone(slack: LinearForm, row: int) -> bool:
    others = any(c for other, c in slack.noise.items() if other != row)
    return not others and not any(slack.data.values()) and not slack.functions


def _probability(noise: NoiseDraw, row: int, conditions: Sequence[LinearCondition]) -> Fraction | None:
    """The probability of conditions on one noise alone; None where it is not rational."""
    if not conditions:
        return Fraction(1)
    low, high = ends_of(noise, row, conditions)
    if low is not None and high is not None and low > high:
        return Fraction(0)
    return probability_between(noise, low, high)


def ends_of(
    noise: NoiseDraw, row: int, conditions: Sequence[LinearCondition]
) -> tuple[Fraction | None, Fraction | None]:
    """Between which numbers conditions on it alone leave the noise; None where there is no end."""
    low: Fraction | None = None
    high: Fraction | None = None
    for condition in conditions:
        slope = condition.slack.noise[row]
        bound = -condition.slack.constant / slope
        if slope > 0 or condition.relation == "==":
            least = _next_whole(bound, 1) if noise.whole and condition.relation == ">" else bound
            low = least if low is None else max(low, least)
        if slope < 0 or condition.relation == "==":
            most = _next_whole(bound, -1) if noise.whole and condition.relation == ">" else bound
            high = most if high is None else min(high, most)
    return low, high


def _next_whole(bound: Fraction, way: int) -> Fraction:
    """The next whole number beyond the bound, upwards or downwards."""
    return Fraction(
        (bound.numerator // bound.denominator) + 1 if way > 0 else -(-bound.numerator // bound.denominator) - 1
    )


@dataclass(frozen=True)
class CouplingUse:
    """A coupling where a pair of cases uses it."""

    certificate: Cases
    pair: CouplingPair
    number: int
    position: int

    @property
    def coupling(self) -> PartCoupling:
        return self.certificate.couplings[self.number]

    @property
    def place(self) -> str:
        return f"/couplings/{self.number}"


def uses(certificate: Cases) -> Iterator[CouplingUse]:
    """Each coupling once for each polytope that it is used with; between values, once."""
    seen: set[object] = set()
    for k, pair in enumerate(certificate.pairs):
        left, right = certificate.cases[pair.left], certificate.cases[pair.right]
        if not len(left.parts) == len(right.parts) == len(pair.couplings):
            raise CertificateFlaw(
                f"/pairs/{k}/couplings", "one is needed for each part, of which both cases have as many"
            )
        for position, number in enumerate(pair.couplings):
            coupling = certificate.couplings[number]
            if (coupling.left, coupling.right) != (left.parts[position], right.parts[position]):
                raise CertificateFlaw(f"/pairs/{k}/couplings/{position}", f"coupling {number} is of other parts")
            if certificate.parts[coupling.left].entries != certificate.parts[coupling.right].entries:
                raise CertificateFlaw(
                    f"/pairs/{k}/couplings/{position}", "the parts decide different entries of the output"
                )
            if (number, pair.polytope) not in seen:
                seen.add((number, pair.polytope))
                yield CouplingUse(certificate, pair, number, position)


def check_couplings(certificate: Cases) -> str:
    """Every share of an event is carried into an event with the same output, and the ratios are as stated.

    An output without noise to shift needs no shares: its probabilities are compared.
    """

    @cache
    def pieces(part: int) -> list[EventPiece]:
        return [piece_of(event, certificate.noises) for event in certificate.parts[part].events]

    shifts = 0
    for use in uses(certificate):
        lefts, rights = pieces(use.coupling.left), pieces(use.coupling.right)
        for t, transport in enumerate(use.coupling.transports):
            place = f"{use.place}/transports/{t}"
            if isinstance(transport.shifts, ShiftTable) and transport.shifts.at == "whole":
                raise CertificateFlaw(
                    f"{place}/shifts/at", "shifts for whole differences only, but the data need not be whole"
                )
            carried = carried_by(use, lefts[transport.source], rights[transport.target], transport, place)
            shifts += check_kept(carried)
            check_cost(carried)
            if (where := depends_on_whole(carried)) is not None:
                raise CertificateFlaw(
                    where, "whole noise is moved by what depends on the data, which need not be whole"
                )
        _check_ratio(use, lefts, rights)
    exact = f", {count(shifts, 'shift')} of noise" if shifts else ", all of them ratios of probabilities"
    return f"{count(len(certificate.couplings), 'coupling')}{exact}"


def carried_by(use: CouplingUse, left: EventPiece, right: EventPiece, transport: EventTransport, place: str) -> Carried:
    noises = [use.certificate.noises[row] for row in left.rows]
    others = [use.certificate.noises[row] for row in right.rows]
    if any(noise.kind == OPAQUE for noise in (*noises, *others)):
        raise CertificateFlaw(place, "it shifts noise that a function is of, which has another value then")
    if left.event.output != right.event.output:
        raise CertificateFlaw(place, f"it carries the output {left.event.output} into {right.event.output}")
    if [(f.name, f.of) for f in left.event.functions] != [(f.name, f.of) for f in right.event.functions]:
        raise CertificateFlaw(place, "the events have different functions of their numbers")
    if [(n.kind, n.parameters) for n in noises] != [(n.kind, n.parameters) for n in others]:
        raise CertificateFlaw(place, "the events have different noise to shift")
    moves = (
        [len(transport.shifts.moves)]
        if isinstance(transport.shifts, ShiftRule)
        else [len(shift.moves) for shift in transport.shifts.shifts]
    )
    if any(given != len(noises) for given in moves):
        raise CertificateFlaw(
            f"{place}/shifts", f"{len(noises)} moves are needed, one for each noise that is not a finite choice"
        )
    if transport.share <= 0:
        raise CertificateFlaw(f"{place}/share", f"a share above 0 is needed, not {transport.share}")
    number = use.pair.polytope
    polytope = BETWEEN_VALUES if number is None else use.certificate.polytopes[number]
    return Carried(noises, list(_kept(left, right, noises, place)), polytope, transport.shifts, f"{place}/shifts")


def _kept(left: EventPiece, right: EventPiece, noises: Sequence[NoiseDraw], place: str) -> Iterator[Kept]:
    """What the shifts must keep so that noise of the left event becomes noise of the right one.

    A condition of the right event is a multiple of one that holds on the left, plus a constant that is to spare; a
    number of the right event is that of the left one up to a constant.
    """
    known = [_Form.of(c.slack, left.rows, c.relation) for _, c in left.conditions]
    for k, condition in right.conditions:
        form = _Form.of(condition.slack, right.rows, condition.relation)
        continuous = not form.functions and any(not noises[place].whole for place in form.noise)
        spare = [found for each in known if (found := form.spare_over(each, continuous)) is not None]
        if not spare:
            raise CertificateFlaw(place, f"condition {k} of the right event follows from no condition of the left one")
        yield Kept(form.noise, form.data, condition.relation == "==", f"condition {k} of the right event", max(spare))
    for k, (mine, theirs) in enumerate(zip(left.event.numbers, right.event.numbers, strict=True)):
        before, after = _Form.of(mine, left.rows, ""), _Form.of(theirs, right.rows, "")
        if (before.noise, before.data, before.functions) != (after.noise, after.data, after.functions):
            raise CertificateFlaw(
                place, f"number {k} of the right event is made of other noise or data than that of the left one"
            )
        yield Kept(after.noise, after.data, True, f"number {k} of the right event", after.constant - before.constant)


@dataclass(frozen=True)
class _Form:
    """An expression whose noise is given by its place among the noise to shift, its functions by theirs.

    Events with the same output have the same functions, place by place, of arguments that are among their numbers; and
    as these are kept, so are the functions.
    """

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    functions: Mapping[int, Fraction]
    constant: Fraction
    relation: str

    @classmethod
    def of(cls, expression: LinearForm, rows: Sequence[int], relation: str) -> _Form:
        noise = {rows.index(row): c for row, c in expression.noise.items() if c}
        data = {i: c for i, c in expression.data.items() if c}
        functions = {function.place: c for function, c in expression.functions.items()}
        return cls(noise, data, functions, expression.constant, relation)

    @property
    def terms(self) -> dict[tuple[str, int], Fraction]:
        kinds = {"noise": self.noise, "data": self.data, "function": self.functions}
        return {(kind, k): c for kind, coefficients in kinds.items() for k, c in coefficients.items()}

    def spare_over(self, known: _Form, continuous: bool) -> Fraction | None:
        """The constant by which it is more than a positive multiple of what is known to hold; None if it is none.

        An equation follows from an equation alone, and what is above 0 from what is above 0; but where continuous noise
        decides, the boundary has no probability.
        """
        if self.relation == ">" and known.relation != ">" and not continuous:
            return None
        mine, theirs = self.terms, known.terms
        if mine.keys() != theirs.keys() or not mine:
            return None
        factors = {mine[key] / theirs[key] for key in mine}
        if len(factors) > 1 or min(factors) <= 0 or (self.relation == "==") != (known.relation == "=="):
            return None
        return self.constant - factors.pop() * known.constant


def _check_ratio(use: CouplingUse, lefts: Sequence[EventPiece], rights: Sequence[EventPiece]) -> None:
    """What comes into each event is at most ratio · e^cost times as likely as it; and all of the left is shared out."""
    coupling, place = use.coupling, use.place
    if coupling.ratio <= 0:
        raise CertificateFlaw(f"{place}/ratio", f"a number above 0 is needed, not {coupling.ratio}")
    shared = [Fraction(0)] * len(lefts)
    load = [Fraction(0)] * len(rights)
    for transport in coupling.transports:
        cost = (
            transport.shifts.cost
            if isinstance(transport.shifts, ShiftRule)
            else max(shift.cost for shift in transport.shifts.shifts)
        )
        shared[transport.source] += transport.share
        amount = lefts[transport.source].weight * transport.share * _exp_above(cost - coupling.cost, place)
        load[transport.target] += amount
    for j, amount in enumerate(load):
        if amount > coupling.ratio * rights[j].weight:
            times = text_of(coupling.ratio)
            raise CertificateFlaw(f"{place}/ratio", f"what comes into event {j} is more than {times} times as likely")
    places, others = by_output(lefts), by_output(rights)
    for output, found in places.items():
        mine = [i for i in found if lefts[i].weight]
        if any(shared[i] for i in mine):
            for i in mine:
                if shared[i] != 1:
                    raise CertificateFlaw(
                        f"{place}/transports", f"the shares of event {i} sum to {text_of(shared[i])}, not 1"
                    )
        else:
            theirs = [rights[j] for j in others.get(output, ())]
            _check_probabilities(use, output, [lefts[i] for i in mine], theirs, place)


def by_output(pieces: Sequence[EventPiece]) -> dict[str, list[int]]:
    """The places of the pieces, by their output."""
    found: dict[str, list[int]] = {}
    for place, piece in enumerate(pieces):
        found.setdefault(piece.event.output, []).append(place)
    return found


def _check_probabilities(
    use: CouplingUse, output: str, mine: Sequence[EventPiece], theirs: Sequence[EventPiece], place: str
) -> None:
    """An output that comes about by finite choices alone, on both sides; or that functions of noise decide."""
    coupling = use.coupling
    if any(use.certificate.noises[row].kind == OPAQUE for piece in (*mine, *theirs) for row in piece.rows):
        _check_everywhere(use, output, mine, theirs)
        return
    for piece in (*mine, *theirs):
        if piece.rows or piece.event.numbers:
            raise CertificateFlaw(
                f"{place}/transports", f"the output {output} has noise to shift, and its events are not shared"
            )
    chance, other = (sum((piece.weight for piece in some), start=Fraction(0)) for some in (mine, theirs))
    if chance * _exp_above(-coupling.cost, place) > coupling.ratio * other:
        times = text_of(chance / other) if other else "without bound"
        paid = f", after {text_of(coupling.cost)} is paid" if coupling.cost else ""
        reason = f"the output {output} is {times} times as likely, not {text_of(coupling.ratio)}{paid}"
        raise CertificateFlaw(f"{place}/ratio", reason)


def _check_everywhere(use: CouplingUse, output: str, mine: Sequence[EventPiece], theirs: Sequence[EventPiece]) -> None:
    """Wherever the noise lies, and whatever functions of it come to, what holds on the left has at most so many times
    the weight of what holds on the right.

    Let f be the density of all noise η, and L(η) and R(η) the weights of the events of the output that hold there on
    either side. Both release the same numbers of the same noise, n(η). So they give the output with numbers in any set
    A with the probabilities ∫ [n(η) in A] L f and ∫ [n(η) in A] R f, and L <= cR makes the one at most c times the
    other. The value of a function is a variable of its own: what holds for all its values holds for the one it has.
    The draws that it is a function of are among η, and the same on both sides, and so is its value. The noise that was
    left out as a finite choice is independent of them.
    """
    coupling, known = use.coupling, use.certificate.noises
    if use.pair.polytope is not None:
        raise CertificateFlaw(use.place, "functions of noise are compared between values of the data only")
    pieces = [*mine, *theirs]
    if any(piece.event.functions for piece in pieces):
        raise CertificateFlaw(use.place, f"the output {output} has functions of two kinds")
    if len({tuple(number.text for number in piece.event.numbers) for piece in pieces}) > 1:
        raise CertificateFlaw(use.place, f"both sides must give {output} with the same numbers of the same noise")
    noises = {row: known[row] for piece in pieces for row in piece.rows}
    if len({noise.draw for noise in noises.values()}) < len(noises):
        raise CertificateFlaw(use.place, f"both sides must give {output} with the same noise in each draw")
    whole = frozenset(noise_name(row) for row, noise in noises.items() if noise.whole)
    asked = [[relation_of(c) for _, c in piece.conditions] for piece in pieces]
    paid = _exp_above(-coupling.cost, use.place)

    def holding(ask: Ask) -> tuple[Fraction, Fraction]:
        held = [piece.weight if all(ask(each, True) for each in asked[k]) else 0 for k, piece in enumerate(pieces)]
        return Fraction(sum(held[: len(mine)])), Fraction(sum(held[len(mine) :]))

    def right(weights: tuple[Fraction, Fraction]) -> bool:
        return weights[0] * paid <= coupling.ratio * weights[1]

    what = f"the output {output} is at most {decimal_of(coupling.ratio)} times as likely wherever the noise lies"
    found = counterexample(use.place, what, holding, right, list(supports_of(noises)), whole)
    if found is not None:
        raise CertificateFlaw(f"{use.place}/ratio", f"{what}: not where {in_words(found[1])}")


def _exp_above(x: Fraction, place: str) -> Fraction:
    if abs(x) > MAX_EXPONENT:
        raise CertificateFlaw(f"{place}/cost", f"costs that differ by more than {MAX_EXPONENT} are not compared")
    return exp_above(x)


def check_epsilon(certificate: Cases) -> str:
    """No pair of cases loses more than ε: the costs of its parts, and the logarithm of the product of their ratios."""
    worst = Fraction(0)
    for k, pair in enumerate(certificate.pairs):
        couplings = [certificate.couplings[number] for number in pair.couplings]
        ratio = Fraction(1)
        for coupling in couplings:
            ratio *= coupling.ratio
        total = sum((coupling.cost for coupling in couplings), start=Fraction(0))
        total += log_above(ratio) if ratio > 1 else 0
        worst = max(worst, total)
        if total > certificate.epsilon:
            shown = decimal_of(total) if ratio > 1 else text_of(total)
            raise CertificateFlaw(f"/pairs/{k}", f"it loses {shown}, above ε = {text_of(certificate.epsilon)}")
    return f"the worst pair loses {decimal_of(worst, 12)}, and ε is {decimal_of(certificate.epsilon, 12)}"


COUPLING_STEPS = (
    ("cases", check_cases),
    ("neighbours", check_neighbours),
    ("parts", check_parts),
    ("couplings", check_couplings),
    ("epsilon", check_epsilon),
)
