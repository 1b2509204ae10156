"""What a verdict depends on besides the mechanism: bounds of the data, an assumed adjacency, and where the noise
comes from."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from numbers import Real

import numpy as np

from veridp.adjacency import Adjacency, Domain, Pair, adjacency
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import OutOfTime, at_most
from veridp.budget.child_process import inside
from veridp.claim import number
from veridp.engines.exact import compare
from veridp.errors import INTERRUPTING, CutShort, MechanismFailed, VeridpError
from veridp.kernel.site import Site, here
from veridp.mechanism import adapters
from veridp.mechanism.randomness import ON_SEED
from veridp.sampling.sample import sample
from veridp.verdict import Remark, setting_text

# -------------------------------------------------------------------------------------------------------------- growth
# What a verdict depends on beside the mechanism: bounds of the data, and an adjacency that nobody stated.


GROWTH_TIME_SHARE = 0.25  # of the time that is left
MOST_PAIRS = 16  # compared on either domain
ABOVE = 1e-6  # by how much, relatively, a cost must exceed another to be called larger


def look_for_caveats(findings: Findings) -> None:
    """Add a sentence where the exact cost grows with the domain, or under `replace` where the adjacency is assumed.

    It compares the relation's own pairs alone, so its silence promises nothing. Where it had something to compare
    and could not, the evidence says so.
    """
    started = time.monotonic()
    try:
        with at_most(max(findings.deadline.left * GROWTH_TIME_SHARE, 1e-3)):
            findings.caveats += filter(None, (_grows(findings.case), _replaced(findings.case)))
    except (VeridpError, OutOfTime) as reason:
        why = "out of time" if isinstance(reason, CutShort | OutOfTime) else str(reason)
        findings.note("domain", f"whether the cost grows with it was not checked: {why}", time.monotonic() - started)


def _grows(case: AuditCase) -> str:
    """A sentence where the cost on a domain of twice the width exceeds the cost on the domain."""
    relation, domain = case.mechanism.adjacency, case.mechanism.domain
    wide = _doubled(domain)
    if wide is None:
        return ""
    if relation.vertices(1) is not None:  # query answers, whose moves have a bound of their own
        return ""
    near, far = _pairs(case, relation, domain), _pairs(case, relation, wide)
    before, after = _cost(case, relation, near), _cost(case, relation, far)
    if not after > before * (1 + ABOVE):
        return ""
    return (
        f"the cost grows with the domain: ε = {number(before)} on {setting_text(domain)}, but {number(after)} on "
        f"{setting_text(wide)}; clip the data in the mechanism"
    )


def _replaced(case: AuditCase) -> str:
    """A sentence where the adjacency is assumed, and replacing one value costs more than the claim."""
    mechanism = case.mechanism
    if "adjacency" not in mechanism.assumed or _doubled(mechanism.domain) is None:
        return ""
    relation = adjacency("replace")
    cost = _cost(case, relation, _pairs(case, relation, mechanism.domain))
    if not case.claim.excludes(cost):
        return ""
    return (
        f"adjacency {mechanism.adjacency} is assumed: a value moves by at most 1; where one value is replaced by any "
        f"other of {setting_text(mechanism.domain)}, ε = {number(cost)}"
    )


def _doubled(domain: Domain) -> tuple[float, float] | None:
    """The interval of twice the width around the same centre; None where the domain is a list of values."""
    if not isinstance(domain, tuple) or len(domain) != 2 or not all(isinstance(end, Real) for end in domain):
        return None
    low, high = domain
    half = (high - low) / 2
    return low - half, high + half


def _pairs(case: AuditCase, relation: Adjacency, domain: Domain) -> list[Pair]:
    return [pair for _, pair in zip(range(MOST_PAIRS), relation.pairs(case.size, domain), strict=False)]


def _cost(case: AuditCase, relation: Adjacency, pairs: list[Pair]) -> float:
    """The largest exact ε among the pairs, at the claimed δ."""
    mechanism = case.mechanism.stating(adjacency=relation)
    comparisons = (compare(mechanism, pair.left, pair.right) for pair in pairs)
    return max((comparison.epsilon_at(case.claim.delta) for comparison in comparisons), default=0.0)


# ---------------------------------------------------------------------------------------------------------- randomness
# Where the noise comes from: a seed that is used again and again, or entries that share their noise.


RUNS = 3  # in which a seed that does not follow from rng shows
FORK_OUTPUTS = 64  # of either of two forked processes
REPEATED_BY_CHANCE = 1e-9  # the probability below which equal outputs are no coincidence
COMPARED = 32  # outputs in which two entries are compared
SPREAD_TOLERANCE = 1e-9  # the spread of a difference without noise, relative to the noise of its parts


def reused_noise(case: AuditCase) -> list[Remark]:
    """Remarks on noise that is the same in every run, or the same in two entries of the output.

    A mechanism without remarks may have such faults all the same: this is a look, not a proof.
    """
    return [*_fixed_seeds(case), *_shared_noise(case)]


def _fixed_seeds(case: AuditCase) -> list[Remark]:
    runs = [_seeds_of_a_run(case, run) for run in range(RUNS)]
    fixed = set.intersection(*map(set, runs))
    return [
        Remark(f"its noise is seeded with {seed} in every run, so it is always the same", site.file, site.line)
        for site, seed in sorted(fixed, key=lambda entry: (entry[0].file, entry[0].line))
    ]


def _seeds_of_a_run(case: AuditCase, run: int) -> list[tuple[Site, str]]:
    """The places that seed a generator in one run, and the seeds that they use."""
    seen: list[tuple[Site, str]] = []

    def record(seed: object) -> None:
        if isinstance(seed, int | float | str | bytes | tuple | list):
            seen.append((here(), repr(seed)))

    token = ON_SEED.set(record)
    try:
        case.mechanism.bound()(np.random.default_rng([case.seed, run]), case.example)
    except INTERRUPTING:
        raise
    except BaseException:  # other parts of the audit report it
        return []
    finally:
        ON_SEED.reset(token)
    return seen


def check_forks(case: AuditCase) -> None:
    """Raise MechanismFailed where two forked processes draw the same outputs: samples would not be independent.

    A library that fetches random numbers ahead does this, if it does not notice the fork. It is asked of mechanisms
    with randomness of their own, and where outputs vary enough to tell.
    """
    a_program = isinstance(getattr(case.mechanism.function, "source", None), adapters.Command)
    if case.mechanism.vectorised is None or a_program or not inside():
        return
    first, second = (_drawn_in_a_fork(case, stage) for stage in (6, 7))
    if first is None or first != second:
        return
    likeliest = max(first.count(output) for output in first) / len(first)
    if likeliest ** len(first) < REPEATED_BY_CHANCE:
        raise MechanismFailed(
            f"{case.mechanism.name} draws the same noise in every forked process, so that parallel samples would not "
            f"be independent; run it as a program of its own, with veridp.adapters.command"
        )


def _drawn_in_a_fork(case: AuditCase, stage: int) -> list[str] | None:
    """Outputs of a forked process, with a seed of its own; None where it ended without any."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        with suppress(VeridpError):
            outputs = sample(case.mechanism, case.example, FORK_OUTPUTS, case.seed_of(stage), workers=1)
            sender.send(list(map(repr, outputs)))

    process = context.Process(target=work)
    process.start()
    sender.close()
    try:
        return list(receiver.recv())
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _shared_noise(case: AuditCase) -> list[Remark]:
    """Whether two numeric entries of the output always differ by the same amount, though each of them varies."""
    try:
        outputs = sample(case.mechanism, case.example, COMPARED, case.seed_of(4), workers=1)
        numbers = outputs.matrix().astype(float)
    except (VeridpError, ValueError, TypeError):
        return []
    if np.isnan(numbers).any() or numbers.shape[1] < 2 or np.all(numbers == np.round(numbers)):
        return []
    spread = numbers.std(axis=0)
    for first in range(numbers.shape[1]):
        differences = (numbers - numbers[:, [first]]).std(axis=0)
        same = (differences <= SPREAD_TOLERANCE * spread[first]) & (spread > 0)
        same[: first + 1] = False
        if same.any():
            second = int(np.flatnonzero(same)[0])
            sentence = f"entries {first} and {second} of the output carry the same noise: their difference has none"
            return [Remark(sentence, *case.defined_at())]
    return []
