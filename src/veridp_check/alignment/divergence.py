"""Whether a certificate of (ε, δ) proves what it says: shifts of the noise, priced by how their loss is distributed.

Part of the checker. The events and their shifts are those of an alignment, and are checked as such; what differs is
what the shifts are said to prove.

Let f be the density of all noise, D and D' neighbours whose difference is in a polytope, R_k the runs of event k on D,
and Δ_k its shift. On D', η + Δ_k for η in R_k is a run of event k that gives the same output. The events are disjoint
on D' too, so for every set S of outputs

    P[M(D) in S] - e^ε P[M(D') in S]  <=  Σ_k ∫_{R_k} (f(η) - e^ε f(η + Δ_k))₊ dη  =  E[(1 - e^(ε - L(η)))₊],

where L(η) = ln f(η)/f(η + Δ_k) for the event k that η is in. Events with the same shift are a *group*: L is the loss of
one of the groups' shifts, so the expectation is at most E[(1 - e^(ε - max_g L_g))₊] over all noise, and so at most the
sum of E[(1 - e^(ε - L_g))₊] over the groups g; `largest_loss` has how the former is bounded. An event does not read
every row of noise. Its shift may be taken to move the rows that it does not read as the shifts of other events do,
without any effect on its runs: so events are in one group where their shifts agree on the rows that they share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from veridp_check.alignment.checker import (
    check_convexity,
    check_events,
    check_neighbours,
    check_outputs,
    check_shifts,
    places_of,
)
from veridp_check.alignment.reader import Certificate, DifferenceBox, NoiseMove, ShiftRule, ShiftTable
from veridp_check.document import CertificateFlaw, decimal_of, text_of
from veridp_check.enclosures import gaussian_delta_above
from veridp_check.losses.distribution import discrete_gaussian_delta_above, laplace_delta_above
from veridp_check.losses.largest import LargestLoss, NoiseLoss
from veridp_check.noise import DISCRETE_GAUSSIAN, POWER_TAILED, STEEPNESS_BOUNDED, NoiseDraw, ShiftLoss
from veridp_check.shifts import (
    MAX_RULE_ENTRIES,
    Carried,
    bounds_in,
    check_whole_rule,
    count,
    linked_noises,
    moved,
)

TWO_SIDED = ("normal", *STEEPNESS_BOUNDED, *POWER_TAILED)  # noise with a loss in either direction
Column = NoiseMove | tuple[Fraction, ...]  # how one row of noise moves: by a rule, or at each corner of a table
MAX_LARGEST = 1_000  # groups of which the largest loss is looked at


@dataclass
class ShiftGroup:
    """Shifts of several events that agree on the rows which they share, over one polytope; and where the first is."""

    shape: object  # of their tables: shifts of different shapes are never in one group
    place: str
    polytope: object
    columns: dict[int, Column] = field(default_factory=dict)
    weight: Fraction = Fraction(0)  # the dearest weight of its events

    def takes(self, columns: dict[int, Column]) -> bool:
        return all(self.columns.get(row, column) == column for row, column in columns.items())

    def farthest(self, row: int) -> Fraction:
        """How far the row is moved at most, whatever the difference."""
        column = self.columns[row]
        ends = column if isinstance(column, tuple) else _ends(column, self.polytope, self.place)
        return max(map(abs, ends), default=Fraction(0))

    @property
    def moved(self) -> dict[int, object]:
        """How it moves each row: equal for two groups where both move it alike; rows that it keeps are left out."""
        found: dict[int, object] = {}
        for row, column in self.columns.items():
            how: tuple[object, ...] = column if isinstance(column, tuple) else _told(column)
            if len(set(how)) > 1 or how[0]:
                found[row] = how[0] if len(set(how)) == 1 else (self.shape, how)
        return found

    def only(self, rows: Collection[int]) -> ShiftGroup:
        """The same of these rows alone."""
        kept = {row: column for row, column in self.columns.items() if row in rows}
        return ShiftGroup(self.shape, self.place, self.polytope, kept)


def _told(move: NoiseMove) -> tuple[object, ...]:
    return move.constant, *sorted(each for each in move.slopes.items() if each[1])


def check_moves(certificate: Certificate) -> str:
    """Every move is one that the noise allows."""
    for at in places_of(certificate):
        for k, noise in enumerate(at.noises):
            for move, place in _moves(at, k):
                if move and noise.loss(move) is None:
                    raise CertificateFlaw(place, f"{noise.kind} noise must not be moved by {text_of(move)}")
    kinds = sorted({noise.kind for noise in certificate.noises}) or ["no"]
    return f"the moves are allowed for {' and '.join(kinds)} noise"


def _moves(at: Carried, k: int) -> Iterator[tuple[Fraction, str]]:
    """The moves of one noise, among which are the farthest either way, and their places."""
    if isinstance(at.shifts, ShiftTable):
        for c, shift in enumerate(at.shifts.shifts):
            yield shift.moves[k], f"{at.place}/table/{c}/moves/{k}"
        return
    place = f"{at.place}/rule/{k}"
    check_whole_rule(at.noises[k], at.shifts.moves[k], place)
    for end in _ends(at.shifts.moves[k], at.polytope, place):
        yield end, place


def _ends(move: NoiseMove, polytope: object, place: str) -> list[Fraction]:
    if not isinstance(polytope, DifferenceBox):
        raise CertificateFlaw(place, "a rule is for a box, not for corners")
    return [move.constant + end for end in bounds_in(move.slopes, polytope)]


def check_delta(certificate: Certificate) -> str:
    """Over each polytope, the groups of shifts have losses whose δ at ε sum to no more than δ; so at the other ε."""
    most, groups = Fraction(0), 0
    for p in range(len(certificate.polytopes)):
        found = _groups(certificate, p)
        groups += len(found)
        most = max(most, _check_point(certificate, p, found, (certificate.epsilon, certificate.delta), "/delta"))
        for k, point in enumerate(certificate.profile):
            _check_point(certificate, p, found, point, f"/profile/{k}")
    others = f", and as stated at {count(len(certificate.profile), 'other')}" if certificate.profile else ""
    losses = f"{count(groups, 'group')} of shifts, whose losses have δ <= {decimal_of(most, 6)}"
    return f"{losses} at the ε that is stated{others}"


def _check_point(
    certificate: Certificate, p: int, groups: Sequence[ShiftGroup], point: tuple[Fraction, Fraction], place: str
) -> Fraction:
    """What δ is at most over a polytope, at an ε; raises CertificateFlaw where that is more than is stated."""
    epsilon, delta = point
    total = sum((_delta(certificate, group, epsilon) for group in groups), start=Fraction(0))
    if total > delta and len(groups) > 1 and (largest := largest_loss(certificate, p)) is not None:
        total = min(total, largest.delta_above(epsilon))
    if total > delta:
        raise CertificateFlaw(place, f"over polytope {p} δ is {decimal_of(total)} at this ε, not {decimal_of(delta)}")
    return total


def check_notions(certificate: Certificate) -> str:
    """ρ and μ, where they are stated, are no less than those of the one shift that all events have.

    The output on D is a function of the shifted noise, and that on D' the same function of the noise itself: what
    bounds a divergence of the two noises bounds it for the outputs. Noise with a price either way has a loss between
    -pure and pure, so it is pure²/2-zCDP (Bun and Steinke 2016, Proposition 3.3; a bound on one side would not do).
    Normal noise is μ²/2-zCDP and μ-GDP, and zCDP of independent noise adds up. Discrete Gaussian noise that is moved
    by Δ is Δ²/2v-zCDP (Canonne, Kamath and Steinke 2020, Proposition 5), which grows with |Δ|; it is not μ-GDP.
    Rényi divergences of independent noise add up too; for several shifts, `largest_loss` has the argument.
    """
    for p in range(len(certificate.polytopes)) if certificate.rdp else ():
        _check_divergences(certificate, _groups(certificate, p), p)
    stated = [name for name in ("rho", "mu") if getattr(certificate, name) is not None]
    for name in stated:
        for p in range(len(certificate.polytopes)):
            groups = _groups(certificate, p)
            if len(groups) > 1:
                raise CertificateFlaw(f"/{name}", f"over polytope {p} the events have {len(groups)} different shifts")
            moving = {certificate.noises[row].kind for row in groups[0].columns if groups[0].farthest(row)}
            if moving == {DISCRETE_GAUSSIAN} and not groups[0].weight:
                _check_discrete(certificate, groups[0])
                continue
            if groups[0].weight or not moving <= set(TWO_SIDED):
                raise CertificateFlaw(f"/{name}", f"over polytope {p} its loss is not bounded on both sides")
            bound = _loss(certificate.noises, groups[0])
            rho = (bound.pure**2 + bound.squared) / 2
            if moving <= {"laplace", "normal"}:
                rho = _loss(certificate.noises, groups[0], total_squares).squared / 2
            _check_notion(certificate, bound, rho)
    names = [{"rho": "ρ", "mu": "μ"}[name] for name in stated] + ["Rényi divergences"] * bool(certificate.rdp)
    return " and ".join(names) + " as stated" if names else "none is stated"


def _check_divergences(certificate: Certificate, groups: Sequence[ShiftGroup], p: int) -> None:
    moving = {certificate.noises[row].kind for group in groups for row in group.columns if group.farthest(row)}
    loss = largest_loss(certificate, p) if moving <= {"laplace", "normal"} else None
    if loss is None:
        raise CertificateFlaw("/rdp", f"over polytope {p} no Rényi divergence is known")
    for k, (order, stated) in enumerate(certificate.rdp):
        found = loss.divergence_above(order)
        if found is None or found > stated:
            known = "not known" if found is None else f"{decimal_of(found)}, not less"
            raise CertificateFlaw(f"/rdp/{k}", f"the divergence is {known}")


def _check_notion(certificate: Certificate, bound: ShiftLoss, rho: Fraction) -> None:
    if certificate.rho is not None and certificate.rho < rho:
        raise CertificateFlaw("/rho", f"ρ is {decimal_of(rho)}, not less")
    if certificate.mu is not None and (bound.pure or certificate.mu**2 < bound.squared):
        raise CertificateFlaw(
            "/mu", "noise that is not normal is moved" if bound.pure else "μ² is below that of the shift"
        )


def _check_discrete(certificate: Certificate, group: ShiftGroup) -> None:
    noises = certificate.noises
    moved = [(noises[row], group.farthest(row)) for row in group.columns]
    rho = sum((move**2 / (2 * noise.parameters[0]) for noise, move in moved if move), start=Fraction(0))
    if certificate.mu is not None:
        raise CertificateFlaw("/mu", "noise that is not normal is moved")
    if certificate.rho is not None and certificate.rho < rho:
        raise CertificateFlaw("/rho", f"ρ is {decimal_of(rho)}, not less")


def _groups(certificate: Certificate, p: int) -> list[ShiftGroup]:
    """The shifts over one polytope, in groups."""
    groups: list[ShiftGroup] = []
    here = [at for k, at in enumerate(places_of(certificate)) if k % len(certificate.polytopes) == p]
    for event, at in zip(certificate.events, here, strict=True):
        columns: dict[int, Column]
        if isinstance(at.shifts, ShiftRule):
            shape: object = "rule"
            columns = dict(zip(event.draws, at.shifts.moves, strict=True))
        else:
            shape = at.shifts.entries, at.shifts.at
            columns = {row: tuple(s.moves[k] for s in at.shifts.shifts) for k, row in enumerate(event.draws)}
        group = next((g for g in groups if g.shape == shape and g.takes(columns)), None)
        if group is None:
            group = ShiftGroup(shape, at.place, at.polytope)
            groups.append(group)
        group.columns.update(columns)
        group.weight = max(group.weight, at.weight)
    return groups


def _delta(certificate: Certificate, group: ShiftGroup, at: Fraction) -> Fraction:
    """A rational just above E[(1 - e^(ε - L))₊] of the group's loss, whatever the difference.

    The weight of an event that depends on the data adds to its loss.
    """
    noises = certificate.noises
    moved = {row: farthest for row in group.columns if (farthest := group.farthest(row))}
    moving, epsilon = [noises[row] for row in moved], at - group.weight
    discrete = discrete_delta_above(epsilon, moving, list(moved.values()))
    if discrete is not None:
        return discrete
    return delta_above(epsilon, _loss(noises, group), moving, _prices(noises, group))


def largest_loss(certificate: Certificate, p: int) -> LargestLoss | None:
    """What bounds the largest loss of all shifts over one polytope; None where weights depend on the data, or shifts
    are very many."""
    groups = _groups(certificate, p)
    if len(groups) > MAX_LARGEST or any(group.weight for group in groups):
        return None
    return _largest(certificate.noises, [(group, group.moved) for group in groups])


def _largest(noises: Sequence[NoiseDraw], groups: Sequence[tuple[ShiftGroup, dict[int, object]]]) -> LargestLoss:
    """Rows that all groups move alike are common to them; groups of which the rest moves no row in common are
    independent. Where there is nothing of either, groups that do the same with one row are taken together."""
    first, moved = groups[0]
    if len(groups) == 1:
        return LargestLoss(_noise_loss(noises, first.only(moved)))
    shared = {row for row, move in moved.items() if all(other.get(row) == move for _, other in groups)}
    common = _noise_loss(noises, first.only(shared))
    rest = [(group, {row: m for row, m in other.items() if row not in shared}) for group, other in groups]
    parts = _components(rest)
    if len(parts) > 1:
        return LargestLoss(common, tuple(_largest(noises, part) for part in parts))
    uses = Counter(row for _, other in rest for row in other)
    row, _ = uses.most_common(1)[0]
    alike: dict[object, list[tuple[ShiftGroup, dict[int, object]]]] = {}
    for group, other in rest:
        alike.setdefault(other.get(row), []).append((group, other))
    return LargestLoss(common, tuple(_largest(noises, part) for part in alike.values()), independent=False)


def _components(
    groups: Sequence[tuple[ShiftGroup, dict[int, object]]],
) -> list[list[tuple[ShiftGroup, dict[int, object]]]]:
    """The groups, those together that move a row in common."""
    parts: list[tuple[set[int], list[tuple[ShiftGroup, dict[int, object]]]]] = []
    for each in groups:
        rows = set(each[1])
        touching = [part for part in parts if part[0] & rows]
        parts = [part for part in parts if not part[0] & rows]
        parts.append((rows.union(*(part[0] for part in touching)), [*(g for part in touching for g in part[1]), each]))
    return [part for _, part in parts]


def _noise_loss(noises: Sequence[NoiseDraw], group: ShiftGroup) -> NoiseLoss:
    """A bound on the loss of what the group moves, at every difference."""
    prices = _prices(noises, group)
    other = _loss(noises, group.only([row for row in group.columns if noises[row].kind != "laplace"]))
    return NoiseLoss(other.pure, other.squared, tuple(sorted(prices.items())), other.lost)


def _prices(noises: Sequence[NoiseDraw], group: ShiftGroup) -> Counter[Fraction]:
    """By how many scales Laplace noise moves at most, whatever the difference, and how much of it does."""
    moved = [(noises[row], group.farthest(row)) for row in group.columns if noises[row].kind == "laplace"]
    return Counter(farthest / noise.parameters[0] for noise, farthest in moved if farthest)


def discrete_delta_above(epsilon: Fraction, moving: Sequence[NoiseDraw], moves: Sequence[Fraction]) -> Fraction | None:
    """Just above the same where discrete Gaussian noise of one variance moves by no more than this; None elsewhere."""
    if {noise.kind for noise in moving} != {DISCRETE_GAUSSIAN} or any(move.denominator > 1 for move in moves):
        return None
    variances = {noise.parameters[0] for noise in moving}
    if len(variances) > 1:
        return None
    return discrete_gaussian_delta_above(epsilon, variances.pop(), Counter(abs(int(move)) for move in moves))


def delta_above(
    epsilon: Fraction, bound: ShiftLoss, moving: Sequence[NoiseDraw], prices: Mapping[Fraction, int] | None = None
) -> Fraction:
    """A rational just above E[(1 - e^(ε - L))₊] of a loss within the bound, of this noise that moves.

    `prices` are by how many scales Laplace noise moves at most, and how much of it does.

    With a normal number N as `ShiftLoss` says, it is at most `lost` + E[(1 - e^(ε - pure - N))₊], and grows with each
    part of the bound.
    """
    alone = moving[0].delta_alone(bound.pure, epsilon) if len(moving) == 1 else None
    if alone is not None:
        return alone
    found = bound.lost + gaussian_delta_above(epsilon - bound.pure, bound.squared)
    kinds = {noise.kind for noise in moving}
    if found and prices and kinds == {"laplace"}:
        return min(found, laplace_delta_above(epsilon, prices))
    if found and prices and kinds == {"laplace", "normal"}:
        mixed = NoiseLoss(squared=bound.squared, prices=tuple(sorted(prices.items())))
        return min(found, LargestLoss(mixed).delta_above(epsilon))
    return found


def total_loss(noises: Sequence[NoiseDraw], rows: Sequence[int], moves: Sequence[Fraction]) -> ShiftLoss:
    """A bound on the loss of these moves of the rows."""
    total = ShiftLoss()
    for row, move in zip(rows, moves, strict=True):
        loss = noises[row].loss(move) if move else ShiftLoss()
        if loss is None:
            raise CertificateFlaw("/noises", f"{noises[row].kind} noise must not be moved by {text_of(move)}")
        total += loss
    return total


LossOfMoves = Callable[[Sequence[NoiseDraw], Sequence[int], Sequence[Fraction]], ShiftLoss]


def total_squares(noises: Sequence[NoiseDraw], rows: Sequence[int], moves: Sequence[Fraction]) -> ShiftLoss:
    """Σ p² of Laplace and normal noise that is moved by p scales: twice its zCDP, which is convex in the moves."""
    losses = [total_loss(noises, [row], [move]) for row, move in zip(rows, moves, strict=True)]
    return ShiftLoss(squared=sum((loss.pure**2 + loss.squared for loss in losses), start=Fraction(0)))


def _loss(noises: Sequence[NoiseDraw], group: ShiftGroup, total_of: LossOfMoves = total_loss) -> ShiftLoss:
    """A bound on the loss of the group's shift at every difference.

    `pure` and `squared` are convex in the moves, and so is what each noise adds to `lost`, l. Then ln(1 - l) is
    concave, and so is the sum of these, the logarithm of the probability that nothing is lost. So each part of
    `ShiftLoss` is largest at a corner, for a rule, whose moves are affine in the difference, as for means of the shifts
    of a table. Rows of a rule that depend on no common entry are at their worst together; where too many entries are
    connected, what each row has at most is added up.
    """
    rows = sorted(group.columns)
    columns = [group.columns[row] for row in rows]
    tables = [column for column in columns if isinstance(column, tuple)]
    if tables or not columns:
        corners = zip(*tables, strict=True) if tables else ()
        return _worst([total_of(noises, rows, moves) for moves in corners])
    rule = ShiftRule(tuple(column for column in columns if isinstance(column, NoiseMove)), Fraction(0))
    box = group.polytope
    if not isinstance(box, DifferenceBox):
        raise CertificateFlaw(group.place, "a rule is for a box, not for corners")
    total = ShiftLoss()
    for linked in linked_noises(rule):
        own = [rows[k] for k in linked]
        entries = sorted({i for k in linked for i in rule.moves[k].slopes})
        if len(entries) <= MAX_RULE_ENTRIES:
            tried = [[moved(rule, k, difference) for k in linked] for difference in box.corners(entries)]
            total += _worst([total_of(noises, own, moves) for moves in tried])
            continue
        for k in linked:
            ends = _ends(rule.moves[k], box, group.place)
            total += _worst([total_of(noises, [rows[k]], [end]) for end in ends])
    return total


def _worst(losses: Sequence[ShiftLoss]) -> ShiftLoss:
    return reduce(ShiftLoss.or_more, losses, ShiftLoss())


DIVERGENCE_STEPS = (
    ("neighbours", check_neighbours),
    ("outputs", check_outputs),
    ("shifts", check_shifts),
    ("moves", check_moves),
    ("convexity", check_convexity),
    ("events", check_events),
    ("delta", check_delta),
    ("notions", check_notions),
)
