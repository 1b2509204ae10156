"""Two runs of a program, on two inputs, whose releases are kept the same by shifting the noise; and what that shows."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import LOSS_ERROR, MAKERS, number
from veridp.engines.pipeline.aligned_runs import AlignedRuns
from veridp.engines.pipeline.faults import Faults
from veridp.engines.pipeline.recording import Program
from veridp.engines.pipeline.result import Candidate, Fault, PipelineResult
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.verdict import Remark

MAX_OTHER_NOISE = 4  # sequences of it that are compared where the first shows nothing
VARIED_COST = 0.01  # relatively, of these: costs that differ
COST_ERROR = 1e-4  # relative error allowed to a cost that rests on measured slopes
SECONDS = 60.0


def compare(
    program: Mechanism | Function,
    left: Any,
    right: Any,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    pattern: str = "given",
    **arguments: Any,
) -> PipelineResult:
    """What two runs of the program show, the right one with its noise shifted to release what the left one did.

    All sources of randomness are adopted, as for every mechanism. `epsilon=` or another claim is what the composed cost
    is held against. The noise of the left run follows from the seed. Each
    fault found is a candidate: the runs show it, but for two inputs and one sequence of noise, and nothing is proved by
    their silence.

    >>> def clipped(rng, data): return min(sum(data), 10) + rng.laplace(scale=2.0)
    >>> round(compare(clipped, [1, 2], [1, 2, 1]).epsilon, 9)
    0.5
    """
    mechanism = claiming(program, arguments)
    return contained(
        lambda _: compared(mechanism, left, right, seed, pattern), Deadline(seconds), known=(mechanism, left, right)
    )


def claiming(program: Mechanism | Function, arguments: dict[str, Any]) -> Mechanism:
    """The program as a mechanism with these arguments, of which `epsilon=`, `rho=` and the like are its claim."""
    claimed = {name: arguments[name] for name in ("epsilon", "delta", *MAKERS) if name in arguments}
    others = {name: value for name, value in arguments.items() if name not in claimed}
    return as_mechanism(program, **others).claiming(**claimed)


def compared(mechanism: Mechanism, left: Any, right: Any, seed: int = 0, pattern: str = "given") -> PipelineResult:
    """The same, in this process and without a limit of its own.

    Noise may decide which way the program goes, and what that costs. Where one sequence of noise shows nothing, others
    are compared too, and the result is that of the first that shows a candidate, or else of one whose cost is not
    known, or else of the costliest.
    """
    started = time.monotonic()
    runs = AlignedRuns(Program.of(mechanism), left, right, seed)
    results = [_result(runs, pattern)]
    if not results[0].candidates:
        for script in runs.other_noise(rare=results[0].priced)[:MAX_OTHER_NOISE]:
            own = (seed, script) if script.draws or script.choices else (script.seed, None)
            results.append(_result(AlignedRuns(runs.program, left, right, *own), pattern))
            if results[-1].candidates:
                break
    shown = max(results, key=lambda one: (bool(one.candidates), not one.priced, one.epsilon if one.priced else 0.0))
    lost = shown.lost
    costs = [result.epsilon for result in results if result.priced]
    if not shown.candidates and shown.priced and min(costs) < max(costs) * (1 - VARIED_COST):
        seen = f"ε from {number(min(costs))} to {number(max(costs))} in {len(costs)} runs"
        lost = (*lost, Remark(f"what the releases cost depends on the noise: {seen}"))
    return replace(shown, lost=lost, runs=sum(result.runs for result in results), seconds=time.monotonic() - started)


def _result(runs: AlignedRuns, pattern: str) -> PipelineResult:
    candidates, lost = Faults(runs).found()
    releases = tuple(runs.costs.releases)
    if not candidates:
        unknown = [release for release in releases if None in release.parts]
        lost += [Remark("what this noise costs is not known", release.file, release.line) for release in unknown]
    result = PipelineResult(
        mechanism=runs.program.mechanism,
        left=runs.left_data,
        right=runs.right_data,
        releases=releases,
        candidates=tuple(candidates),
        lost=tuple(lost),
        aligned=runs.aligned,
        runs=runs.runs + runs.costs.runs,
        seconds=0.0,
        seed=runs.seed,
        pattern=pattern,
    )
    if _too_dear(result) is not None:  # on the way that this run went; does the output tell it?
        result = replace(result, releases=tuple(runs.costs.told), runs=runs.runs + runs.costs.runs)
    dear = _too_dear(result)
    return result if dear is None else replace(result, candidates=(*result.candidates, dear))


def _too_dear(result: PipelineResult) -> Candidate | None:
    """A candidate where the releases together cost more than is claimed; what decisions cost is only a bound."""
    claim = result.claim
    epsilon = result.output_epsilon
    if claim is None or not result.priced or not claim.excludes(epsilon * (1 - COST_ERROR) - LOSS_ERROR):
        return None
    released = [release for release in result.releases if release.reaches_output]
    most = max(released, key=lambda release: (release.epsilon, release.l2 / (release.scale or 1.0)))
    scale = "" if most.scale is None else f", but the scale of its noise is only {most.scale:.6g}"
    sentence = f"the value here moves by {most.distance:.6g} between the two inputs{scale}; {result.cost_text}"
    return Candidate(Fault.COST, f"{sentence}, and {claim} is claimed", most.file, most.line)
