"""What samples of a mechanism say: lower bounds at a confidence that all searches share."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from veridp.audit.findings import Findings
from veridp.audit.programs import confirmed_by_samples
from veridp.audit.witness import exact_witness
from veridp.budget import time_left
from veridp.budget.child_process import listening
from veridp.claim import Claim, Witness
from veridp.engines.exact import compare
from veridp.errors import BadInput, EnginesDisagree, MissingExtra, VeridpError
from veridp.kernel.symbols import count_text
from veridp.sampling.sample import sample

if TYPE_CHECKING:
    from veridp.engines.sniper.classifier import ModelFamily
    from veridp.engines.sniper.result import AttackResult
    from veridp.engines.statdp.result import Detection

QUICK_SELECTION, QUICK_SAMPLES = 20_000, 100_000
CHECKED_SELECTION, CHECKED_SAMPLES = 5_000, 20_000  # by which a proof is checked
CHECKED_ALPHA = 1e-9  # a false alarm would be taken for a fault in veridp
QUICK_SHARE = 0.15  # of alpha, and of the time that is left, for the quick look
TIMED_SECONDS = 0.02  # that outputs must take together for their rate to be measured
LONGEST_TIMED_SECONDS = 0.1  # of a call that still takes no longer for four times the outputs
EVENT_SHARE = 0.1  # the same, for tests of plain events
EVENT_SAMPLES, EVENT_FINAL_SAMPLES = 500, 5_000  # so few that one process draws them in about a second


def measure_rate(findings: Findings) -> None:
    """Note how many outputs one process draws in a second: what a search can see in its time depends on it."""
    case, seconds, count, rates = findings.case, 0.0, 0, [0.0, 0.0]
    while seconds < TIMED_SECONDS or (rates[-1] > 2 * rates[-2] and seconds < LONGEST_TIMED_SECONDS):
        count, started = 4 * count or 1, time.perf_counter()
        sample(case.mechanism, case.example, count, case.seed_of(10), workers=1)
        seconds = time.perf_counter() - started
        rates.append(count / seconds)
    findings.outputs_per_second = rates[-1]


def try_events(findings: Findings) -> None:
    """Sequential tests of plain events: refutes gross violations after some hundred samples.

    An event is an output, or a half-line of one number computed from it. Any kind of claim is tested.
    """
    from veridp.engines.sniper import search
    from veridp.engines.sniper.refutation import PLAIN_EVENTS

    case = findings.case
    findings.tell("testing plain events")
    before = list(findings.searched)

    def take_attack(finding: AttackResult) -> None:
        findings.alpha = EVENT_SHARE * case.alpha
        findings.searched = [*before, f"plain events on {count_text(finding.tried, 'pair')}"]
        findings.so_far = f"{finding.drawn} samples {'' if finding.refuted else 'do not '}refute the claim"
        _report(findings, finding.witness)

    with findings.timed("events") as found:
        try:
            with listening(take_attack):
                result = search(
                    case.mechanism,
                    case.size,
                    samples=EVENT_SAMPLES,
                    final_samples=EVENT_FINAL_SAMPLES,
                    models=PLAIN_EVENTS,
                    pairs=["patterns"],
                    first_pairs=(*findings.first_pairs, *findings.candidates),
                    until_refuted=True,
                    seconds=max(time_left(), 1e-3),
                    confidence=1 - EVENT_SHARE * case.alpha,
                    claim=case.claim,
                    seed=case.seed_of(9),
                    progress=lambda stage, share, best: findings.tell(f"plain events: {stage}", best),
                )
        except BadInput as reason:
            found.append(f"no test: {reason}")
            return
        take_attack(result)
        found.append(findings.so_far + _cut_short(findings, result.finished))


def look_quickly(findings: Findings) -> None:
    """StatDP with few samples: finds gross mistakes, and shows them by an event that a person understands."""
    from veridp.engines.statdp import detect

    case, alpha = findings.case, _quick_alpha(findings)
    if not alpha:
        findings.note("statdp", "not asked: its test is for claims without δ", 0.0)
        return
    findings.tell("a quick statistical look")
    before = list(findings.searched)

    def take_detection(detection: Detection) -> None:
        findings.alpha = EVENT_SHARE * case.alpha + alpha
        findings.results["statdp"] = detection
        findings.searched = [*before, *detection.searched]
        findings.so_far = f"p = {detection.corrected_p_value:.3g} against the claim, {detection.event}"
        _report(findings, detection.witness)

    with findings.timed("statdp") as found:
        try:
            with listening(take_detection):
                detection = detect(
                    case.mechanism.bind(**case.mechanism.values),  # as it is: no other arguments are to be judged
                    size=case.size,
                    test_epsilons=[case.claim.epsilon],
                    first_pairs=findings.first_pairs,
                    selection_samples=QUICK_SELECTION,
                    samples=QUICK_SAMPLES,
                    alpha=alpha,
                    seconds=max(time_left(), 1e-3),
                    seed=case.seed_of(2),
                    progress=lambda stage, share, best: findings.tell(f"a quick look: {stage}", best),
                )
        except BadInput as reason:
            found.append(f"no test: {reason}")
            return
        take_detection(detection)
        found.append(findings.so_far + _cut_short(findings, detection.finished))


def cross_check(findings: Findings) -> None:
    """Test a proof on samples, where no pair could be compared exactly.

    The test spends nothing of alpha: it claims nothing, but raises EnginesDisagree where it contradicts the proof.
    """
    from veridp.engines.statdp import detect

    case, proved = findings.case, Claim(findings.upper)
    findings.tell("checking the proof on samples")
    with findings.timed("statdp") as found:
        try:
            detection = detect(
                case.mechanism.bind(**case.mechanism.values),
                size=case.size,
                test_epsilons=[proved.epsilon],
                selection_samples=CHECKED_SELECTION,
                samples=CHECKED_SAMPLES,
                alpha=CHECKED_ALPHA,
                seconds=max(time_left(), 1e-3),
                seed=case.seed_of(8),
            )
        except BadInput as reason:
            found.append(f"the proof is not checked on samples: {reason}")
            return
        cut = _cut_short(findings, detection.finished)
        if detection.witness is not None and detection.witness.refutes(proved):
            raise EnginesDisagree(
                f"{case.mechanism.name}: {proved} is proved {findings.scope}, but refuted by samples at confidence "
                f"1 - {CHECKED_ALPHA:g} ({detection.event}); one of the engines is wrong. Please report it with the "
                f"mechanism's code"
            )
        found.append(f"samples do not contradict the proof{cut}")


def attack(findings: Findings) -> None:
    """DP-Sniper, with the rest of alpha and of the time; by simple models alone where others are not installed."""
    from veridp.engines.sniper import search
    from veridp.engines.sniper.classifier import DEFAULT, QUICK, check_installed

    models: tuple[ModelFamily, ...] = DEFAULT
    try:
        check_installed(models)
    except MissingExtra as missing:
        models = QUICK
        findings.caveats.append(f"no boosted trees were tried: {missing}")
    case = findings.case
    findings.tell("attacking")
    before = list(findings.searched)

    def take_attack(finding: AttackResult) -> None:
        findings.alpha = case.alpha
        findings.results["sniper"] = finding
        findings.searched = [*before, *finding.searched]
        findings.so_far = f"ε >= {max(finding.epsilon_lower, 0.0):.6g} at confidence {finding.confidence:.6g}"
        findings.smallest_mass = _noticeable(finding.samples, 1 - finding.confidence)
        findings.detectable = finding.detectable
        _report(findings, finding.witness)

    with findings.timed("sniper") as found:
        with listening(take_attack):
            result = search(
                case.mechanism,
                case.size,
                models=models,
                first_pairs=(*findings.first_pairs, *findings.candidates),
                seconds=max(time_left(), 1e-3),
                confidence=1 - (case.alpha - EVENT_SHARE * case.alpha - _quick_alpha(findings)),
                claim=case.claim,
                seed=case.seed_of(3),
                progress=lambda stage, share, best: findings.tell(f"attacking: {stage}", best),
            )
        take_attack(result)
        found.append(findings.so_far + _cut_short(findings, result.finished))
        found.extend(filter(None, [confirmed_by_samples(findings)]))


def _report(findings: Findings, witness: Witness | None) -> None:
    """Reports what a search has found so far."""
    if witness is not None:
        take(findings, witness)
    findings.report()


def _cut_short(findings: Findings, finished: bool) -> str:
    """What is said of a search that was cut short; the verdict says so too."""
    findings.finished = findings.finished and finished
    return "" if finished else ", cut short"


def _quick_alpha(findings: Findings) -> float:
    """The part of alpha that the quick look may spend; it is set aside whether or not there is time for the look."""
    return 0.0 if findings.case.claim.delta else QUICK_SHARE * findings.case.alpha


def _noticeable(samples: int, alpha: float) -> float:
    """The probability that an event must have to occur at all in so many samples, but with probability alpha."""
    return 1.0 if samples < 1 else -math.log(alpha) / samples


def take(findings: Findings, witness: Witness) -> None:
    """The witness as evidence, at its own confidence."""
    findings.witness_found(findings.shown_by(witness), witness)


def confirm_exactly(findings: Findings) -> None:
    """Re-evaluate a sampled witness by the exact loss between its two inputs, where that can be had."""
    case, sampled = findings.case, findings.witness
    if sampled is None or sampled.confidence == 1:
        return
    with findings.timed("exact") as found:
        try:
            comparison = compare(case.mechanism, sampled.left, sampled.right)
            epsilon = comparison.epsilon_at(case.claim.tolerated.delta)
        except VeridpError as reason:
            found.append(f"the sampled witness is not checked exactly: {reason}")
            return
        weaker = epsilon < sampled.epsilon(case.claim.tolerated.delta).lower
        if weaker and comparison.is_lower_bound:
            found.append(f"the sampled witness is not checked exactly: ε >= {epsilon:.6g} between its inputs")
            return
        if weaker:
            findings.lower, findings.witness = 0.0, None
            found.append(f"the sampled witness was a false alarm: exactly, ε = {epsilon:.6g} between its inputs")
        else:
            found.append(f"exactly, ε = {epsilon:.6g} between the inputs of the sampled witness")
        findings.witness_found(epsilon, exact_witness(comparison, case.claim))
