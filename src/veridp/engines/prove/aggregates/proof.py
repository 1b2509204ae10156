"""Proofs for every number of records: a mechanism of sums, or of means, over its records.

A record that is added, removed or replaced changes the sums by as much in small data as in large ones. So an alignment
of the rest of the code, with these sums left open, serves all sizes. Of means of n records and noise of scale c/n the
same is true: both are those of one record, divided by n, and so are the shifts; what these cost is the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.claim import Claim
from veridp.engines.prove.aggregates.grammar import Aggregates, aggregates_of, numbers_in
from veridp.engines.prove.alignment.divergence import prove_by_divergence
from veridp.engines.prove.alignment.proof import AlignmentProof, ProofForEverySize, prove_by_alignment
from veridp.engines.prove.cases import certified_word, interval_of
from veridp.engines.prove.events import check_noise, ended, explored, replayed
from veridp.engines.prove.records import Summary, record_sums
from veridp.errors import (
    EnginesDisagree,
    ExplorationDisagrees,
    MechanismFailed,
    NotExplorable,
    NotInductive,
)
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.output import is_finite_number, output_of
from veridp.kernel.path import Path, leaves
from veridp.kernel.replay.agreement import Replayed
from veridp.kernel.returned import identity
from veridp.kernel.symbols import Unknown
from veridp.mechanism import Mechanism
from veridp_check.checker import check
from veridp_check.records import RecordSums

SIZES = (1, 2, 3, 8, 30, 100, 257)  # of plain runs that are compared with the sums, in turn
PLAIN_RUNS = 56
SUM_TOLERANCE = 1e-9  # relative: sums of floats depend on the order in which they are added up
MEANS = "means"  # as certificates call them
REPLACE = "replace"
RELATIONS = (REPLACE, "replace-unordered", "add-remove", "add-remove-unordered")


@dataclass(frozen=True, eq=False)
class AggregateProof(ProofForEverySize):
    """ε for data of every size: proved of sums, or means, over any number of records; at the δ that is claimed."""

    mechanism: Mechanism
    alignment: AlignmentProof
    means: bool

    @property
    def epsilon(self) -> float:
        return self.alignment.epsilon

    @property
    def exact_epsilon(self) -> Fraction:
        return self.alignment.exact_epsilon or Fraction(0)

    @property
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search."""
        found = {**self.alignment.certificate, "size": None}
        return {**found, "data": MEANS} if self.means else found

    @property
    def restriction(self) -> str:
        """For which records alone it holds, in words."""
        return self.alignment.restriction

    @property
    def privacy(self) -> str:
        return self.alignment.privacy

    def keeps(self, claim: Claim) -> bool:
        """Whether the claim covers what is proved."""
        return claim.covers_proof(self.alignment)

    def __str__(self) -> str:
        who = f"{self.mechanism} under {self.mechanism.adjacency}"
        return f"{who}: {self.privacy} is proved for every size {self.restriction}"


def prove_aggregates(mechanism: Mechanism) -> AggregateProof:
    """The smallest ε that an alignment proves for any number of records of the domain's interval.

    NotInductive where the mechanism is not one of sums over records, or has no such alignment. That it is one rests on
    its text; that text and certificate say what it does was seen in plain runs on data of several sizes.
    """
    delta = 0.0 if mechanism.claim is None else mechanism.claim.tolerated.delta
    proof = AggregateProof(mechanism, *_proved(mechanism, None, delta))
    checked = check(proof.certificate)
    if checked.rejection is not None:
        raise EnginesDisagree(
            f"{proof}, but the checker rejects the certificate at {checked.rejection.place}: "
            f"{checked.rejection.reason}; this is a fault in veridp, please report it"
        )
    return proof


def prove_aggregates_of(mechanism: Mechanism, size: int, delta: float) -> AlignmentProof:
    """The same for one size: what code decides and computes of noisy sums is no obstacle, nor are many records."""
    return _proved(mechanism, size, delta)[0]


def _proved(mechanism: Mechanism, size: int | None, delta: float) -> tuple[AlignmentProof, bool]:
    """The proof, and whether it is one of means."""
    word = certified_word(mechanism.adjacency)
    if interval_of(mechanism) is None or word not in RELATIONS:
        raise NotInductive(
            f"a proof for every size under {mechanism.adjacency} needs records of an interval, not {mechanism.domain!r}"
        )
    try:
        return _aligned(mechanism, size, delta, means=False), False
    except NotInductive as reason:
        if reason.__cause__ is None or not word.startswith(REPLACE):
            raise
        first = reason  # such as a scale that depends on the number of records, which is left open among the sums
    try:
        return _aligned(mechanism, size, delta, means=True), True
    except NotInductive as reason:
        raise NotInductive(f"{first}; as a function of means: {reason}") from reason


def _aligned(mechanism: Mechanism, size: int | None, delta: float, *, means: bool) -> AlignmentProof:
    parts = aggregates_of(mechanism, means=means)
    many = 1 if size is None else size
    try:
        sums = _sums_of_a_record(parts)
        paths, confirmed = _paths(parts, sums.count, many)
    except (NotExplorable, ExplorationDisagrees, MechanismFailed) as error:
        raise NotInductive(f"{mechanism.name} has no proof for every size: {error}") from error
    word = certified_word(mechanism.adjacency)
    of_one = _divided(sums, many) if means else sums
    sizes = ((1,) if size is None else (size,)) if word.startswith(REPLACE) else (size or 0, (size or 0) + 1)
    seen = tuple(RecordSums(of_one.constants, of_one.places * each) for each in sizes)
    summary = Summary((of_one,) if word.startswith(REPLACE) else (RecordSums(sums.constants, ()), sums), (), word)
    whole = any(noise.distribution.integer for path in paths for noise in path.noises)
    proof = prove_by_alignment(mechanism, many, paths, summary.polytopes(apart=whole), seen)
    if delta and not (mechanism.claim is not None and mechanism.claim.covers_proof(proof)):
        apart = summary.polytopes(apart=True)
        proof = prove_by_divergence(mechanism, many, paths, summary.polytopes(apart=False), delta, seen, None, apart)
    if math.isinf(proof.epsilon):
        blame = proof.blame
        raise NotInductive(f"no alignment of sums: {proof.explained if blame is None else blame.sentence}")
    _compare(mechanism, parts, sums, (*SIZES, *sizes) if size is None else sizes)
    return replace(proof, replayed=confirmed)


def _divided(sums: RecordSums, many: int) -> RecordSums:
    """The sums divided by the number of records."""
    (cells,) = sums.places
    terms = [tuple({p: c / many for p, c in each.items()} for each in cell.terms) for cell in cells]
    divided = tuple(replace(cell, terms=each) for cell, each in zip(cells, terms, strict=True))
    return RecordSums(tuple(c / many for c in sums.constants), (divided,))


def _sums_of_a_record(parts: Aggregates) -> RecordSums:
    """What one record adds to the sums, by exploring them on open records."""
    ends = interval_of(parts.sums)
    start = [Fraction(float(x)) for x in numbers_in(parts.sums.bound()(np.random.default_rng(0), []))]
    for folds in (True, False):
        try:
            listed = [_sum_paths(parts.sums, unknowns("data", size, ends, folds)) for size in (1, 2)]
        except (NotExplorable, ExplorationDisagrees, MechanismFailed):
            if not folds:
                raise
            continue
        found = record_sums(listed, start, ends or (Fraction(0), Fraction(0)))
        if found is not None:
            return found
    raise NotInductive(f"what a record adds to the sums of {parts.sums.name} is not known on its whole interval")


def _sum_paths(sums: Mechanism, data: list[Affine]) -> Sequence[Path]:
    """The paths of the sums, each of which is a number that may depend on the data."""
    paths = explored(sums, data)
    replayed(sums, data, paths)
    found = []
    for path in paths:
        values = leaves(path.output)
        if not all(isinstance(value, Affine) or is_finite_number(value) for value in values):
            raise NotInductive(f"{sums.name} may fail, or has sums that are no numbers")
        numbers = [v if isinstance(v, Affine) else Affine(Fraction(v), {}) for v in values]
        if not all(isinstance(symbol, Unknown) for number in numbers for symbol in number.terms):
            raise NotInductive(f"{sums.name} adds up functions of records that are no polynomials on pieces")
        found.append(replace(path, output=numbers))
    return found


def _paths(parts: Aggregates, count: int, many: int) -> tuple[Sequence[Path], Replayed]:
    """The paths of the rest, on open sums, and what plain runs say of them."""
    data: list[Any] = [*unknowns("sum", count), *[many] * parts.means]
    paths = explored(parts.rest, data)
    confirmed = replayed(parts.rest, data, paths)
    found = ended(paths)
    check_noise(found)
    if not all(isinstance(path.weight, int | Fraction) for path in found):
        raise NotInductive(f"{parts.rest.name} chooses with probabilities that depend on sums over its records")
    return found, confirmed


def _compare(mechanism: Mechanism, parts: Aggregates, sums: RecordSums, sizes: Sequence[int]) -> None:
    """Raise ExplorationDisagrees where a plain run is not what the rest makes of the sums of its data."""
    rng = np.random.default_rng(0)
    low, high = map(float, interval_of(mechanism) or (0, 0))
    plain, added, rest = mechanism.bound(), parts.sums.bound(), parts.rest.bound()
    for seed in range(PLAIN_RUNS):
        size = sizes[seed % len(sizes)]
        drawn = rng.uniform(low, high, size) if seed % 3 < 2 else rng.choice([low, high], size)
        data = [float(x) for x in drawn]
        output = output_of(plain, np.random.default_rng(seed), copy.deepcopy(data))
        numbers = [*numbers_in(added(np.random.default_rng(0), copy.deepcopy(data)))]
        stated = [float(x) for x in sums.of_any([Fraction(x) for x in data])]
        if not _is_close([float(x) for x in numbers], stated):
            raise ExplorationDisagrees(f"the sums of {mechanism.name} on {size} records are {numbers}, not {stated}")
        seen = [*(x / size for x in numbers), size] if parts.means else list(numbers)
        again = output_of(rest, np.random.default_rng(seed), seen)
        if not _is_close(leaves(output), leaves(again)):
            raise ExplorationDisagrees(
                f"{mechanism.name} returned {output!r} on {size} records, but {again!r} on their sums {seen}"
            )


def _is_close(first: Sequence[Any], second: Sequence[Any]) -> bool:
    if len(first) != len(second):
        return False
    for one, other in zip(first, second, strict=True):
        if is_finite_number(one) and is_finite_number(other):
            if not math.isclose(one, other, rel_tol=SUM_TOLERANCE, abs_tol=SUM_TOLERANCE):
                return False
        elif identity(one) != identity(other):
            return False
    return True
