"""The search for a proof, for one size or beyond one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from veridp.adjacency import Polytope
from veridp.adjacency.base import numbers_of
from veridp.budget import Deadline
from veridp.budget.child_process import Reporter, contained
from veridp.claim import Claim, Interval
from veridp.engines.prove.aggregates.proof import AggregateProof, prove_aggregates_of
from veridp.engines.prove.alignment.divergence import preference, prove_by_divergence
from veridp.engines.prove.alignment.proof import AlignmentProof, Proof, prove_by_alignment
from veridp.engines.prove.alignment.weights import WeightedEvents, weighted_events
from veridp.engines.prove.bounds.proof import prove_by_bounds, prove_values_by_bounds
from veridp.engines.prove.bounds.redrawn import RedrawnProof, prove_redrawn
from veridp.engines.prove.cases import certified_word, has_finite_domain, interval_of
from veridp.engines.prove.composition.proof import prove_by_composition
from veridp.engines.prove.composition.sampled_rounds import prove_by_rounds
from veridp.engines.prove.coupling.proof import CouplingProof, prove_on_regions, prove_on_values
from veridp.engines.prove.events import (
    NoiseEvent,
    check_noise,
    check_sampler,
    ended,
    explored,
    piece_of,
    releasing_arguments,
    replayed,
)
from veridp.engines.prove.formulas import formulated
from veridp.engines.prove.induction.proof import Induction, prove_for_every_size
from veridp.engines.prove.induction.stepwise import prove_by_steps
from veridp.engines.prove.records import Summary, mapped, summarised, unsummarised
from veridp.engines.prove.regions import between, is_on_data
from veridp.errors import (
    BadInput,
    EnginesDisagree,
    ExplorationDisagrees,
    MechanismFailed,
    NotExplorable,
    NotInductive,
    NotSolved,
)
from veridp.kernel.explore import MAX_PATHS
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.output import Raised, output_of
from veridp.kernel.path import Path, leaves
from veridp.kernel.returned import identity
from veridp.kernel.slivers import leaving_out_slivers, slivers_text
from veridp.kernel.state.memory import from_first_run
from veridp.kernel.symbols import Unknown, drawn_in
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.presentation import Presentable
from veridp_check.checker import check
from veridp_check.document import LISTED, MOVES
from veridp_check.noise import OPAQUE
from veridp_check.records import Seen

# -------------------------------------------------------------------------------------------------------------- search
# The search for a proof: by alignment of open data, by couplings where data or chance decide, by bounds of densities
# where any two data are neighbours, or value by value.


REPLACE = "replace"  # as certificates call it
KIND_RUNS = 32  # in which values of a list are compared with floats
MANY_RECORDS = 8  # past this, what each of them decides gives too many paths, and the text is read first
MAX_PATHS_BESIDE_A_PROOF = 128  # listed to lower an ε that the text of the function has a proof for
MAX_COUPLED_RECORDS = 2  # of a sample: the couplings of more take long, and seldom prove less than what is between them
CLEARLY = 1 - 1e-9  # a coupling must be cheaper than the alignment by more than rounding


def prove(
    mechanism: Mechanism | Function,
    size: int | None = None,
    *,
    delta: float | None = None,
    seconds: float = math.inf,
    **arguments: Any,
) -> Proof:
    """The smallest ε that alignment, couplings or bounds prove for all neighbours of this size; inf if none do.

    It is the smallest at `delta`: the δ that the mechanism claims where none is given. A mechanism that takes an
    argument of that name gets it, and claims it.

    An answer, also that there is none, is given only after plain runs of the function agreed with the paths that it
    rests on (else ExplorationDisagrees), and a proof only after the independent checker accepted its certificate (else
    EnginesDisagree).

    Data are left open where the adjacency has a polytope of differences, as any two numbers of an interval have. Else,
    and where the mechanism cannot be explored or proved with open data, the data over its domain are gone through one
    by one, if that is a list of values; the proof then says that it holds for these alone.

    A loop over the queries that has some thousands of paths or more is proved step by step, without listing them, where
    its text can be read as such; one that knew all paths might find a smaller ε.

    Raises CutShort where the `seconds` or the memory do not suffice: half a proof proves nothing.
    """
    bound = as_mechanism(mechanism, **arguments).stating(size=size)
    if delta is not None and bound.takes("delta"):
        bound, delta = bound.bind(delta=delta), None
    at = bound.claim.tolerated.delta if delta is None and bound.claim is not None else delta or 0.0
    if not isinstance(at, Real) or not 0 <= at < 1:
        raise BadInput(f"delta must be at least 0 and below 1, got {at!r}")
    deadline = Deadline(seconds)
    return contained(
        lambda _: replace(_checked_proof(bound, size, float(at)), seconds=deadline.spent), deadline, known=(bound,)
    )


def _checked_proof(mechanism: Mechanism, size: int | None, delta: float) -> Proof:
    with from_first_run(mechanism.name, mechanism.bound()), leaving_out_slivers() as left_out:
        proof = _search(mechanism, size, delta)
    if math.isfinite(proof.epsilon):
        certificate = proof.certificate
        checked = check(certificate)
        if checked.rejection is not None:
            raise EnginesDisagree(
                f"{proof}, but the checker rejects the certificate at {checked.rejection.place}: "
                f"{checked.rejection.reason}; this is a fault in veridp, please report it"
            )
        made = {
            f"{n['made']} as {n['kind']} noise": None
            for n in certificate["noises"]
            if "made" in n and n["kind"] != OPAQUE
        }
        return replace(proof, recognised=tuple(made), left_out=slivers_text(left_out))
    return proof


def _search(mechanism: Mechanism, size: int | None, delta: float) -> Proof:
    size = 1 if _is_one_number(mechanism) else mechanism.size if size is None else size
    redrawn = None if delta else _redrawn(mechanism, size)
    if redrawn is not None:
        return redrawn
    if interval_of(mechanism) is not None and mechanism.adjacency.on_records:
        return _prove_records(mechanism, size, delta)
    polytopes = mechanism.adjacency.polytopes(size, mechanism.domain)
    listed = has_finite_domain(mechanism) and certified_word(mechanism.adjacency) != LISTED
    if polytopes is None:
        if not listed:
            raise BadInput(
                f"{mechanism.name}: no proof method for '{mechanism.adjacency}' over a range yet; give a short list of "
                f'values, e.g. domain=[0, 1] or --domain "[0, 1]", '
                f"or use linf, l1 or monotone, or an adjacency with vertices"
            )
        return _value_by_value(mechanism, size, delta)
    if listed and not _is_one_number(mechanism) and _tells_from_floats(mechanism, size):
        return prove_on_values(mechanism, size, delta)
    if not delta and (stepwise := prove_by_steps(mechanism, size)) is not None:
        return stepwise
    data = _open_data(mechanism, size)
    try:
        found = explored(mechanism, data)
        paths = ended(found)
    except NotExplorable as error:
        if listed:
            return prove_on_values(mechanism, size, delta)
        if certified_word(mechanism.adjacency) in MOVES and interval_of(mechanism, summed=True) is not None:
            with suppress(NotExplorable, ExplorationDisagrees, MechanismFailed):
                return _prove_records(mechanism, size, delta)  # it may work on the domain alone
        raise type(error)(f"{error}; or give it a list of values as its domain, which a proof can enumerate") from error
    check_noise(paths)
    _check_returns(mechanism, size, data, found)
    try:
        weighted = weighted_events(paths, polytopes, mechanism.domain)
        if weighted is not None and len(paths) < len(found):
            raise NotExplorable(f"{mechanism.name} retries, and chooses with probabilities that depend on the data")
    except (NotExplorable, ExplorationDisagrees):
        if listed:
            return prove_on_values(mechanism, size, delta)
        raise
    if weighted is None and (ends := interval_of(mechanism)) is not None:
        paths = between(*ends, paths)
    return _over_polytopes(mechanism, size, delta, polytopes, _OpenRuns(data, found, paths, weighted), listed)


def _redrawn(mechanism: Mechanism, size: int) -> RedrawnProof | None:
    """A proof for a number that is drawn again until it is plausible: of listed records, for all between them."""
    if mechanism.adjacency.on_records and has_finite_domain(mechanism):
        try:
            numbers = numbers_of(mechanism.domain)
        except (BadInput, TypeError, ValueError):
            return None
        if len(set(numbers)) < 2 or _tells_from_floats(mechanism, size):
            return None
        mechanism = mechanism.stating(domain=(min(numbers), max(numbers)))
    return prove_redrawn(mechanism, size, _open_data(mechanism, size))


@dataclass(frozen=True)
class _OpenRuns:
    """The paths with the data left open, all and without their retries; and their events, where weights are open."""

    data: Any
    found: Sequence[Path]
    paths: Sequence[Path]
    weighted: WeightedEvents | None


def _over_polytopes(
    mechanism: Mechanism, size: int, delta: float, polytopes: tuple[Polytope, ...], runs: _OpenRuns, listed: bool
) -> Proof:
    """The least proof for all differences of the polytopes; on a list of values, also value by value."""
    data, found, paths, weighted = runs.data, runs.found, runs.paths, runs.weighted
    bounded = prove_by_bounds(mechanism, size, paths) if weighted is None else None
    if bounded is not None and math.isfinite(bounded.epsilon) and not delta:
        return _replayed(bounded, data, found)  # no shift of uniform noise has a price: nothing else would prove less
    if weighted is None:
        segments = mechanism.adjacency.segments(size, mechanism.domain)
        aligned = _aligned(mechanism, size, paths, polytopes, delta, segments=segments)
        proof: Proof = _coupled_if_cheaper(aligned, paths, segments)
    else:
        proof = _aligned(mechanism, size, paths, polytopes, delta, weighted=weighted.events)
        proof = replace(proof, rounding=weighted.rounding)
    if bounded is not None and bounded.epsilon < proof.epsilon:
        return _replayed(bounded, data, found)
    if listed and (weighted is not None or not math.isfinite(proof.epsilon)):  # on a list, weights are numbers
        on_values = _on_values(proof, delta)
        if on_values is not None:
            return on_values
    if not math.isfinite(proof.epsilon) and _may_be_summed(mechanism, found):
        with suppress(NotExplorable):
            seen = _prove_mapped(mechanism, size, paths, delta) if weighted is None else None
            if seen is not None:
                return _replayed(seen, data, found)
        with suppress(NotExplorable, ExplorationDisagrees, MechanismFailed):
            summed = _prove_records(mechanism, size, delta)
            return summed if math.isfinite(summed.epsilon) else _replayed(proof, data, found, weighted is not None)
    return _replayed(proof, data, found, weighted is not None)


def _aligned(
    mechanism: Mechanism,
    size: int,
    paths: Sequence[Path],
    polytopes: tuple[Polytope, ...],
    delta: float,
    records: tuple[Seen, ...] = (),
    weighted: Sequence[NoiseEvent] | None = None,
    segments: tuple[Polytope, ...] = (),
) -> AlignmentProof:
    """The proof by alignment of the smallest ε at this δ: of pure ε, or of (ε, δ); first those that cover the claim."""
    pure = prove_by_alignment(mechanism, size, paths, polytopes, records, weighted)
    if not delta:
        return pure
    with_delta = prove_by_divergence(mechanism, size, paths, polytopes, delta, records, weighted, segments)
    uncovered, _ = first = preference(pure)
    if not uncovered and mechanism.claim is not None and mechanism.claim.notion is not None:
        return pure  # it may say more in that notion
    return with_delta if preference(with_delta) < first else pure


def _prove_mapped(mechanism: Mechanism, size: int, paths: Sequence[Path], delta: float) -> Proof | None:
    """A proof for all data of which the mechanism sees a continuous function alone; None where none is found."""
    word = certified_word(mechanism.adjacency)
    if word not in MOVES:
        return None
    summary = mapped([releasing_arguments(path) for path in paths], size, word)
    if summary is None:
        return None
    proof = _aligned(mechanism, size, summary.paths, summary.polytopes(apart=False), delta, summary.sums)
    return proof if math.isfinite(proof.epsilon) else None


def _may_be_summed(mechanism: Mechanism, paths: Sequence[Path]) -> bool:
    """Whether data alone decide something, or functions of them are released, which sums over records may explain."""
    known = mechanism.adjacency.single or certified_word(mechanism.adjacency) in MOVES
    if not known or interval_of(mechanism, summed=True) is None:
        return False
    return _data_decide(paths) or any(_is_of_data(leaf) for path in paths for leaf in leaves(path.output))


def _data_decide(paths: Sequence[Path]) -> bool:
    """Whether data alone decide something."""
    return any(is_on_data(condition) for path in paths for condition in path.conditions)


def _is_of_data(leaf: Any) -> bool:
    """Whether a function of data alone is in it."""
    functions = leaf.functions if isinstance(leaf, Affine) else ()
    return any(all(isinstance(symbol, Unknown) for symbol in drawn_in([each])) for each in functions)


def _check_returns(mechanism: Mechanism, size: int, data: Any, paths: Sequence[Path]) -> None:
    """Raise MechanismFailed where it raises on every path."""
    if all(isinstance(path.output, Raised) for path in paths):
        replayed(mechanism, data, paths)
        raise MechanismFailed(f"{mechanism.name} {paths[0].output} on all data of size {size}; return an output")


def _replayed(proof: Proof, data: Any, paths: Sequence[Path], weighted: bool = False) -> Proof:
    """The proof, once plain runs agree with the paths, also at an ordinary input and at its costliest neighbours.

    Where weights depend on the data, also where they are farthest from each other in the domain.
    """
    at: list[Any] = [[float(step) for step in move] for move in proof.moves]  # beside 0, where any data may lie
    if not _is_one_number(proof.mechanism):
        at.append([0.0] * proof.size)
    if weighted:
        low, high = (float(end(numbers_of(proof.mechanism.domain))) for end in (min, max))
        at += [[first, *[rest] * (proof.size - 1)] for first, rest in ((low, high), (high, low))]
    return replace(proof, replayed=replayed(proof.mechanism, data, paths, at))


def _open_data(mechanism: Mechanism, size: int, *record: Any) -> Any:
    """A list of open numbers, or records; where the data are one number, that."""
    numbers = unknowns("data", size, *record)
    return numbers[0] if _is_one_number(mechanism) else numbers


def _is_one_number(mechanism: Mechanism) -> bool:
    """Whether the data are one number of an interval."""
    return mechanism.adjacency.single and interval_of(mechanism) is not None


def _prove_records(mechanism: Mechanism, size: int, delta: float, *, many: bool = False) -> Proof:
    """A proof for all records of an interval; the number of one person is one record.

    What one record decides is taken for a function of it, where the code can do with that; else path by path. Where
    records are sampled, or used with numbers that were released before, it is proved step by step. Where its text can
    be read as a function of sums, that is a proof too, and its paths are listed only if they are few; not at all where
    records decide in many ways, as `many` says.
    """
    in_steps = prove_by_rounds(mechanism, size, delta) or prove_by_composition(mechanism, size, delta)
    if in_steps is not None:
        return in_steps
    aggregated: Proof | None = None
    with suppress(NotInductive, NotExplorable, ExplorationDisagrees, MechanismFailed):
        aggregated = prove_aggregates_of(mechanism, size, delta)
    if aggregated is None or not math.isfinite(aggregated.epsilon):
        return _prove_by_paths(mechanism, size, delta)
    if many or size > MANY_RECORDS:
        return aggregated
    try:
        proof = _prove_by_paths(mechanism, size, delta, MAX_PATHS_BESIDE_A_PROOF)
    except (NotExplorable, ExplorationDisagrees, MechanismFailed):
        return aggregated
    return proof if proof.epsilon <= aggregated.epsilon else aggregated


def _prove_by_paths(mechanism: Mechanism, size: int, delta: float, max_paths: int = MAX_PATHS) -> Proof:
    """A proof from the paths of this size, which are open records and what they decide."""
    try:
        proof = _prove_sums(mechanism, size, delta, folds=True, max_paths=max_paths)
    except (NotExplorable, ExplorationDisagrees, MechanismFailed):
        return _prove_sums(mechanism, size, delta, folds=False, max_paths=max_paths)
    if not math.isfinite(proof.epsilon) and certified_word(mechanism.adjacency) == REPLACE:
        with suppress(NotExplorable, ExplorationDisagrees, MechanismFailed):
            return _prove_sums(mechanism, size, delta, folds=False, max_paths=max_paths)
    return proof


def _prove_sums(mechanism: Mechanism, size: int, delta: float, *, folds: bool, max_paths: int) -> Proof:
    ends = interval_of(mechanism, summed=True) or (Fraction(0), Fraction(0))
    word = certified_word(mechanism.adjacency)
    sizes = range(size, size + mechanism.adjacency.extra + 1)
    data = {each: _open_data(mechanism, each, ends, folds) for each in sizes}
    listed = {each: explored(mechanism, open_data, max_paths=max_paths) for each, open_data in data.items()}
    check_sampler(listed.values())
    found = {each: ended(paths) for each, paths in listed.items()}
    for each, paths in listed.items():
        check_noise(found[each])
        _check_returns(mechanism, each, data[each], paths)
    summary = _summary(found, size, ends, word, folds)
    if summary is None or (mechanism.adjacency.any_order and not summary.in_any_order):
        raise NotExplorable(
            f"{mechanism.name}: what it draws and asks is not the same for sums over any {size} records, so "
            f"nothing is proved under {mechanism.adjacency} over an interval; give a short list of values, "
            f'e.g. domain=[0, 1] or --domain "[0, 1]"'
        )
    whole = any(noise.distribution.integer for path in summary.paths for noise in path.noises)
    together, apart = summary.polytopes(apart=whole), summary.polytopes(apart=True)
    aligned = _aligned(mechanism, size, summary.paths, together, delta, summary.sums, segments=apart)
    proof = _coupled_if_cheaper(aligned, summary.paths, apart)
    first, *more = [replayed(mechanism, data[each], paths) for each, paths in listed.items()]
    return replace(proof, replayed=sum(more, start=first))


def _summary(
    found: dict[int, Sequence[Path]], size: int, ends: tuple[Fraction, Fraction], word: str, folds: bool
) -> Summary | None:
    """What the mechanism with these paths, for each size, sees of its data: sums, formulas, or the records."""
    released = {each: [releasing_arguments(path) for path in paths] for each, paths in found.items()}
    summary = summarised(list(released.values()), size, ends, word)
    if len(found) == 1 and (formulas := formulated(found[size], size, ends, word)) is not None:
        summary = formulas
    if word == REPLACE and not folds and (summary is None or _data_decide(summary.paths)):
        summary = mapped(released[size], size, word, ends) or summary
    if summary is None and len(found) == 1 and not folds:
        summary = unsummarised(released[size], size, ends, word)
    return summary


def _coupled_if_cheaper(proof: AlignmentProof, paths: Sequence[Path], segments: tuple[Polytope, ...]) -> Proof:
    """A proof by couplings, where chance or data alone decide something, and that is cheaper than to keep it."""
    if not _data_decide(paths) and all(piece_of(event).weight == 1 for event in proof.events):
        return proof
    try:
        coupled = prove_on_regions(proof.mechanism, proof.size, paths, segments, proof.records)
    except (NotExplorable, NotSolved):  # too many regions, or too large a program for the shares
        return proof
    return coupled if coupled.epsilon < proof.epsilon * CLEARLY else proof


def _value_by_value(mechanism: Mechanism, size: int, delta: float) -> Proof:
    """A proof by couplings, or by bounds of densities where there is none; first for all records between the values."""
    filled = _between_values(mechanism, size, delta) if mechanism.adjacency.on_records else None
    if filled is not None:
        return filled
    proof = prove_on_values(mechanism, size, delta)
    if math.isfinite(proof.epsilon):
        return proof
    bounded = prove_values_by_bounds(mechanism, size)
    return bounded if bounded is not None and math.isfinite(bounded.epsilon) else proof


def _between_values(mechanism: Mechanism, size: int, delta: float) -> Proof | None:
    """A proof for all records between the listed ones; None where there is none.

    Of pure ε, only one of noisy steps on a sample, within the claim or of many records: couplings of samples are
    exponentially many, while elsewhere they may prove less.
    """
    with suppress(NotExplorable, ExplorationDisagrees, MechanismFailed, BadInput):
        numbers = numbers_of(mechanism.domain)
        between_them = mechanism.stating(domain=(min(numbers), max(numbers)))
        if delta:
            found: Proof | None = _prove_records(between_them, size, delta, many=size > 1)
        else:
            found = prove_by_composition(between_them, size, delta)
            sampled = found is not None and found.noisy.sample is not None
            covered = found is not None and (mechanism.claim is None or mechanism.claim.covers_proof(found))
            found = found if sampled and (covered or size > MAX_COUPLED_RECORDS) else None
        if found is not None and math.isfinite(found.epsilon) and not _tells_from_floats(mechanism, size):
            return found
    return None


def _tells_from_floats(mechanism: Mechanism, size: int) -> bool:
    """Whether it gives other outputs on the numbers that its domain lists than on the same numbers as floats."""
    numbers = list(mechanism.domain)
    if not all(isinstance(value, int | np.number) or type(value) is float for value in numbers):
        return False  # no numbers, which are never taken for open ones
    function, rng = mechanism.bound(), np.random.default_rng(0)
    for seed in range(KIND_RUNS if any(type(value) is not float for value in numbers) else 0):
        data = [numbers[k] for k in rng.integers(len(numbers), size=size)]
        plain, floats = (
            identity(output_of(function, np.random.default_rng(seed), list(some))) for some in (data, map(float, data))
        )
        if plain != floats:
            return True
    return False


def _on_values(proof: Proof, delta: float) -> Proof | None:
    """A proof for the values of the domain alone, where there is one."""
    try:
        on_values: CouplingProof = prove_on_values(proof.mechanism, proof.size, delta)
    except BadInput:  # too many values
        return None
    return on_values if math.isfinite(on_values.epsilon) else None


# --------------------------------------------------------------------------------------------------------------- sizes
# Proofs beyond one size: for every size up to one, and for every size at all where an induction goes through.


@dataclass(frozen=True, eq=False)
class ProofForSizes(Presentable):
    """Proofs for the sizes from 1 on, and the induction that covers all sizes, or why there is none."""

    proofs: tuple[Proof, ...]
    induction: Induction | AggregateProof | None
    why_not: str = ""
    finished: bool = True  # whether all sizes that were asked for were tried

    @property
    def epsilon(self) -> float:
        """The ε that holds for all the sizes of `scope`; inf if it is not proved for one of them."""
        return max(proof.epsilon for proof in self.proofs) if self.induction is None else self.induction.epsilon

    @property
    def claim(self) -> Claim | None:
        return self.proofs[-1].claim

    @property
    def bounds(self) -> Interval:
        """For the sizes of `scope`: proofs bound ε from above."""
        return Interval(0.0, self.epsilon)

    @property
    def witness(self) -> None:
        """Proofs have none."""
        return None

    @property
    def searched(self) -> tuple[str, ...]:
        return tuple(f"size {proof.size}: {proof.extent}" for proof in self.proofs)

    @property
    def seconds(self) -> float:
        """The seconds that the proofs of the sizes took together."""
        return sum(proof.seconds for proof in self.proofs)

    def to_dict(self) -> dict[str, Any]:
        """The proof for the last size as plain data, and what holds for all."""
        sizes = {"epsilon": self.epsilon, "scope": self.scope, "why_not": self.why_not}
        return {**self.proofs[-1].to_dict(), "sizes": sizes, "finished": self.finished}

    @property
    def scope(self) -> str:
        if self.induction is None:
            return f"for sizes 1..{self.proofs[-1].size}"
        return f"for every size {self.induction.restriction}".rstrip()

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate of the induction; BadInput where there is none: each of the proofs has its own."""
        if self.induction is None:
            raise BadInput(
                f"{self}: there is no single certificate for several sizes ({self.why_not}); use that of one size"
            )
        return self.induction.certificate

    def __str__(self) -> str:
        who = f"{self.proofs[-1].mechanism} under {self.proofs[-1].mechanism.adjacency}"
        if self.induction is not None:
            return f"{who}: {self.induction.privacy} is proved {self.scope}"
        deltas = {proof.at_delta for proof in self.proofs} - {0.0}
        privacy = f"({self.epsilon:.6g}, {max(deltas):.6g})-DP" if deltas else f"{self.epsilon:.6g}-DP"
        proved = f"{privacy} is proved" if math.isfinite(self.epsilon) else "no alignment found"
        return f"{who}: {proved} {self.scope}"


def prove_sizes(
    mechanism: Mechanism | Function, size: int | None = None, *, seconds: float = math.inf, **arguments: Any
) -> ProofForSizes:
    """Proofs for all sizes from 1 to this one, and for every size if an induction over the queries goes through.

    Cut short, the proofs of the sizes until then; CutShort where there is none.
    """
    bound = as_mechanism(mechanism, **arguments).stating(size=size)
    return contained(lambda reporter: _proofs(bound, reporter), Deadline(seconds), known=(bound,))


def _proofs(mechanism: Mechanism, reporter: Reporter) -> ProofForSizes:
    proofs: list[Proof] = []
    for size in range(1, mechanism.size + 1):
        proofs.append(prove(mechanism, size))
        reporter.best(ProofForSizes(tuple(proofs), None, "cut short", finished=False))
    try:
        return ProofForSizes(tuple(proofs), prove_for_every_size(mechanism))
    except NotInductive as reason:
        return ProofForSizes(tuple(proofs), None, str(reason))
