"""Verdicts on mechanisms whose paths can be listed: the catalogue, and mistakes that people make."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import pytest

import veridp
from veridp.audit import explored, sampled
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import Deadline
from veridp.claim import CLAIM_TOLERANCE, Claim, Interval, Witness
from veridp.errors import BadInput, EnginesDisagree
from veridp.target import load
from veridp.verdict import Standing, Verdict

MISTAKES = Path(__file__).parent / "mistakes.py"
SECONDS = 600.0
# Neighbours for which alignments have no polytope, or noise that no shift of constant price moves.
NOT_PROVABLE = {"gaussian", "exponential_mechanism", "finder_sum"}


MAX_SIZE = 6  # of inputs, at which every broken mechanism of the catalogue is broken
SIZES = {"svt34_parallel": 3, "adaptive_svt": 2, "gap_svt": 2, "numerical_svt": 3}  # of mechanisms with very many paths


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried bounds how long it takes, not the clock: so no verdict depends on how busy the machine is."""
    monkeypatch.setattr(explored, "MAX_PAIRS", 12)
    monkeypatch.setattr(explored, "RESTARTS", 1)


def mistake(name: str, **options: Any) -> Verdict:
    settings: dict[str, Any] = {"adjacency": "l1", "size": 3, "seconds": SECONDS}
    return veridp.audit(load(f"{MISTAKES}:{name}"), **(settings | options))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(veridp.catalogue))
def test_the_verdict_agrees_with_the_true_epsilon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    climb = explored.ascend  # which takes longest, and adds nothing to what is judged already
    judged = lambda findings: findings.refuted or findings.proved  # noqa: E731
    monkeypatch.setattr(explored, "ascend", lambda findings: None if judged(findings) else climb(findings))
    mechanism = veridp.catalogue[name]
    size = SIZES.get(name, min(mechanism.size, MAX_SIZE))
    true_epsilon, keeps = mechanism.true_epsilon(size), mechanism.keeps_claim(size)
    verdict = veridp.audit(mechanism, size=size, seconds=SECONDS)
    assert true_epsilon is not None
    if not verdict.claim.delta:
        assert verdict.epsilon.lower <= true_epsilon * (1 + 1e-9)
        assert verdict.epsilon.upper >= true_epsilon * (1 - 1e-9)
    if keeps:
        assert verdict.standing is not Standing.REFUTED
        assert verdict.standing is Standing.PROVED or name in NOT_PROVABLE
    else:
        assert verdict.standing is Standing.REFUTED
        _confirm(verdict, mechanism)


def _confirm(verdict: Verdict, mechanism: veridp.Mechanism) -> None:
    """Sampling, which the verdict does not rest on, sees the witness's event as often as the verdict says.

    Two frequencies of 20 000 within 5 standard errors: a false alarm in fewer than two of a million runs.
    """
    witness, count = verdict.witness, 20_000
    assert witness is not None
    for data, probability in ((witness.left, witness.left_probability), (witness.right, witness.right_probability)):
        event: Any = witness.event
        seen = veridp.tally(mechanism, data, count, seed=5, events={"event": event}).frequency("event")
        error = 5 * math.sqrt(max(probability.upper * (1 - probability.upper), 1 / count) / count)
        assert probability.lower - error <= seen <= probability.upper + error


MISTAKEN = [
    ("wrong_scale", {}, 2.0),
    ("budget_twice", {}, 2.0),
    ("sensitivity_off", {}, 3.0),
    ("clipped_after_summing", {"adjacency": "replace", "domain": (0, 5)}, 3.0),
    ("leaked_value", {}, math.inf),
    ("reused_seed", {}, math.inf),
    ("shared_noise", {}, math.inf),
]


@pytest.mark.parametrize(("name", "options", "epsilon"), MISTAKEN)
def test_a_typical_mistake_is_refuted(name: str, options: dict[str, Any], epsilon: float) -> None:
    verdict = mistake(name, **options)
    assert verdict.standing is Standing.REFUTED
    assert verdict.epsilon.lower == pytest.approx(epsilon, rel=1e-6)
    assert verdict.look_at[0].file == str(MISTAKES)


@pytest.mark.parametrize(
    ("name", "options"), [("right", {}), ("clipped_before_summing", {"adjacency": "replace", "domain": (0, 5)})]
)
def test_their_right_twins_are_not(name: str, options: dict[str, Any]) -> None:
    verdict = mistake(name, **options)
    assert verdict.standing is not Standing.REFUTED
    assert verdict.epsilon.lower == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reused_seed", "np.random.default_rng(42)"),
        ("reused_global_seed", "np.random.seed(7)"),
        ("reused_standard_seed", 'random.Random("noise")'),
    ],
)
def test_a_reused_seed_is_shown_at_its_line(name: str, words: str) -> None:
    verdict = mistake(name)
    remark = verdict.look_at[0]
    assert "in every run" in remark.sentence
    assert words in MISTAKES.read_text().splitlines()[remark.line - 1]
    assert verdict.standing is Standing.REFUTED


def test_a_seed_that_follows_from_rng_is_no_mistake() -> None:
    from veridp.audit.caveats import reused_noise

    assert reused_noise(AuditCase.of(load(f"{MISTAKES}:seeded_from_rng"), 3, 0.05, 0)) == []


def test_entries_that_share_noise_are_named() -> None:
    assert "entries 0 and 1 of the output carry the same noise" in mistake("shared_noise").look_at[0].sentence


def test_a_claim_with_delta_is_judged_at_its_delta() -> None:
    gaussian = veridp.catalogue["gaussian"]
    kept = veridp.audit(gaussian, seconds=SECONDS)
    assert kept.standing is Standing.PROVED
    assert kept.epsilon.lower == pytest.approx(kept.epsilon.upper, rel=1e-6)
    assert kept.epsilon.upper == pytest.approx(0.0607037816, abs=1e-9)
    loud = veridp.mechanism(epsilon=0.5, delta=1e-5, adjacency="l1", size=1)(lambda rng, data: data[0] + rng.normal())
    verdict = veridp.audit(loud, seconds=SECONDS)
    assert verdict.standing is Standing.REFUTED
    # Balle and Wang (2018): δ(ε) = Φ(1/2 - ε) - e^ε Φ(-1/2 - ε) for a shift of one standard deviation
    assert verdict.epsilon.lower == pytest.approx(4.377, abs=2e-3)
    witness = verdict.witness
    assert witness is not None
    excess = witness.left_probability.lower - math.exp(0.5) * witness.right_probability.upper
    assert excess == pytest.approx(0.5 - math.exp(0.5) * 0.158655, abs=1e-5)


def test_the_snippet_shows_the_witness_again(capsys: pytest.CaptureFixture[str]) -> None:
    for verdict in (
        veridp.audit(veridp.catalogue["svt4"], size=3, seconds=SECONDS),
        mistake("wrong_scale", epsilon=0.5),
    ):
        exec(verdict.snippet, {})  # noqa: S102 - it is meant to be run
        witness = verdict.witness
        assert witness is not None
        assert str(witness.left) in capsys.readouterr().out


def test_the_verdict_depends_on_the_seed_alone() -> None:
    first, again = (mistake("budget_twice", seed=3) for _ in range(2))
    assert (first.standing, first.epsilon, first.snippet) == (again.standing, again.epsilon, again.snippet)
    assert first.seed == 3
    assert first.versions["veridp"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"alpha": 0.0}, r"alpha must be in \(0, 1\), got 0.0"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"seconds": 0.0}, "seconds must be a number > 0"),
        ({"epsilon": -1.0}, "epsilon must be a number >= 0"),
        ({"adjacency": "near"}, "adjacency = 'near' is unknown"),
        ({"colour": 1}, "takes no argument 'colour'"),
    ],
)
def test_bad_input(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        mistake("right", **options)


# ------------------------------------------------------------------------------------------- findings and verdicts


def found(confidence: float = 1.0) -> Witness:
    return Witness([0], [1], "x", Interval.exactly(0.5), Interval.exactly(0.1), confidence)


@pytest.fixture
def findings() -> Findings:
    return Findings(AuditCase.of(veridp.catalogue["laplace"], 1, 0.05, 0), Deadline(60.0), None)


def test_a_computed_witness_above_a_proof_is_a_fault(findings: Findings) -> None:
    findings.prove(0.1, "", "")
    with pytest.raises(EnginesDisagree, match="one of the engines is wrong"):
        findings.witness_found(1.6, found())


def test_a_sampled_witness_above_a_proof_gives_way(findings: Findings) -> None:
    findings.witness_found(1.6, found(0.95))
    assert findings.refuted
    findings.prove(0.1, "", "everywhere")
    assert findings.verdict().standing is Standing.PROVED
    assert findings.witness is None


def sampled_witness(low: float, high: float) -> Witness:
    """Of [0] and [1] (0.1 apart under Laplace noise of scale 10), with such ends of its intervals."""
    return Witness([0.0], [1.0], "x", Interval(low, 1.0), Interval(0.0, high), 0.95)


def test_a_sampled_witness_is_evaluated_exactly_where_that_can_be(findings: Findings) -> None:
    findings.witness_found(math.log(0.52 / 0.48), sampled_witness(0.52, 0.48))
    sampled.confirm_exactly(findings)
    assert findings.lower == pytest.approx(0.1, rel=1e-9)
    assert findings.witness is not None
    assert findings.witness.confidence == 1
    assert "exactly, ε = 0.1 between the inputs" in findings.evidence[-1].finding


def test_a_sampled_witness_that_the_exact_loss_contradicts_is_dropped(findings: Findings) -> None:
    findings.witness_found(math.log(5), sampled_witness(0.5, 0.1))
    assert findings.refuted
    sampled.confirm_exactly(findings)
    assert not findings.refuted
    assert findings.lower == pytest.approx(0.1, rel=1e-9)
    assert "false alarm: exactly, ε = 0.1" in findings.evidence[-1].finding


def test_rounding_is_no_disagreement(findings: Findings) -> None:
    findings.prove(0.1, "", "")
    findings.witness_found(0.1 * (1 + CLAIM_TOLERANCE / 2), Witness([0], [1], "x", Interval(0, 1), Interval(0, 1)))
    assert (findings.lower, findings.proved, findings.met) == (0.1, True, True)


def test_progress_shows_the_interval() -> None:
    told: list[str] = []
    veridp.audit(
        veridp.catalogue["svt4"], size=3, seconds=SECONDS, progress=lambda stage, share, best: told.append(stage)
    )
    assert told[0] == "running it once, ε in [0, ∞]"
    assert any(stage.startswith("comparing exactly") and stage.endswith(", 0.175]") for stage in told)


def test_an_interruption_gives_the_verdict_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(found: Findings) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("veridp.audit.explored.compare_exactly", interrupted)
    verdict = mistake("right")
    assert verdict.standing is Standing.PROVED
    assert not verdict.finished
    assert verdict.epsilon == Interval(0.0, 1.0)


def test_a_verdict_may_not_say_more_than_it_has() -> None:
    with pytest.raises(BadInput, match="REFUTED needs a witness"):
        Verdict(Standing.REFUTED, Claim(1.0), Interval(0, 2))
    with pytest.raises(BadInput, match="PROVED needs an upper bound"):
        Verdict(Standing.PROVED, Claim(1.0), Interval(0, 2))


def test_a_composition_is_shown_beside_its_ledger() -> None:
    laplace = veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(lambda rng, data: data[0] + rng.laplace())

    def twice(rng: Any, data: Any) -> Any:
        return [laplace(rng, data), laplace(rng, data)]

    verdict = veridp.audit(twice, epsilon=1.5, adjacency="l1", size=1, seconds=SECONDS)
    assert verdict.standing is Standing.REFUTED
    (line,) = [one.finding for one in verdict.evidence if one.engine == "ledger"]
    before, attack = line.split(", attack >= ")
    assert before.endswith("ledger 2 (basic), exact 2")
    assert attack.endswith(" (95% confidence)")
    assert 1.8 < float(attack.split()[0]) < 2.0  # above 2 in 5 % of the seeds at most
    assert verdict.alpha == pytest.approx(0.05)
    plain = veridp.audit(lambda rng, data: data[0] + rng.laplace(), epsilon=1.0, size=1, seconds=SECONDS)
    assert "ledger" not in {one.engine for one in plain.evidence}


def test_a_loss_that_no_event_shows_is_left_to_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """ε = 1 is reached a thousand standard deviations out only, where no float holds a probability."""

    def mechanism(rng: Any, data: Any) -> Any:
        return data[0] + rng.normal(scale=1000) + rng.laplace()

    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 500)
    monkeypatch.setattr(sniper, "FINAL", 5_000)
    verdict = veridp.audit(mechanism, 0.5, size=1, seconds=600)
    assert "sniper" in [evidence.engine for evidence in verdict.evidence]


def test_a_proof_is_cross_checked_by_samples_where_no_pair_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of scale 1e200 is out of reach for the exact engine; a false alarm has a probability of 1e-9."""

    def laplace(rng: Any, data: Any) -> Any:
        return 1e200 * data[0] + rng.laplace(scale=1e200)

    verdict = veridp.audit(laplace, 1.0, size=1, seconds=600)
    assert verdict.standing is Standing.PROVED
    assert "samples do not contradict the proof" in [evidence.finding for evidence in verdict.evidence]

    proof = veridp.prove(lambda rng, data: rng.laplace(), size=1)
    monkeypatch.setattr("veridp.engines.prove.prove", lambda *_: proof)
    with pytest.raises(EnginesDisagree, match=r"0-DP is proved .* but refuted by samples"):
        veridp.audit(laplace, 1.0, size=1, seconds=600)


def test_a_proof_is_cross_checked_by_pairs_also_where_it_says_zero() -> None:
    def constant(rng: Any, data: Any) -> Any:
        return rng.laplace()

    def laplace(rng: Any, data: Any) -> Any:
        return data[0] + data[1] + rng.laplace()

    limits = explored.LEAST_PAIRS_OF_NO_COST, explored.LEAST_PAIRS
    for mechanism, least in zip((constant, laplace), limits, strict=True):
        verdict = veridp.audit(mechanism, 2.0, size=3, seconds=600)
        assert verdict.standing is Standing.PROVED
        (searched,) = [text for text in verdict.searched if "pairs by exact loss" in text]
        assert int(searched.split()[0]) >= min(least, explored.MAX_PAIRS)


def test_a_probability_too_small_for_floats_is_not_taken_for_0() -> None:
    def steep(rng: Any, data: Any) -> Any:
        return 1e6 * data[0] + rng.laplace()

    verdict = veridp.audit(steep, 1e6, adjacency="l1", size=1, seconds=SECONDS)
    assert verdict.standing is Standing.PROVED
    assert verdict.epsilon.lower <= 1e6
    assert veridp.exact.compare(steep, [0.0], [1.0]).witness.epsilon(0.0).lower <= 1e6
