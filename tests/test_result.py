"""What every engine returns is a result: the same words, with values that are true of one small mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import veridp
from veridp.accounting import Leaf, Repeated, account
from veridp.claim import Claim
from veridp.engines import exact, finder, prove, sniper, statdp
from veridp.errors import BadInput
from veridp.report.notebook import result_exhibits
from veridp.result import Result
from veridp.verdict import Standing

SCALE = 1.5  # of normal noise
TRUE = 1.0  # the ε of `coin`: it tells the truth with probability e / (1 + e)


@veridp.mechanism(adjacency="replace", domain=[0, 1], size=1)
def coin(rng: np.random.Generator, data: Any, *, epsilon: float = TRUE) -> float:
    """Randomised response to one question."""
    honest = rng.random() < math.exp(TRUE) / (1 + math.exp(TRUE))
    return data[0] if honest else 1 - data[0]


Engine = Callable[[veridp.Mechanism], Result]
ENGINES: dict[str, Engine] = {
    "Comparison": lambda mechanism: exact.compare(mechanism, [0], [1]),
    "certified Comparison": lambda mechanism: exact.compare(mechanism, [0], [1], certified=True),
    "Worst": lambda mechanism: exact.worst(mechanism),
    "Proof": lambda mechanism: prove.prove(mechanism),
    "ProofForSizes": lambda mechanism: prove.prove_sizes(mechanism, 1),
    "Detection": lambda mechanism: statdp.detect(mechanism, samples=4000, selection_samples=1000, seed=1),
    "AttackResult": lambda mechanism: sniper.search(mechanism, samples=2000, final_samples=8000, seed=1, workers=1),
    "FinderResult": lambda mechanism: finder.search(mechanism, restarts=1, seed=1, workers=1),
    "Verdict": lambda mechanism: veridp.audit(mechanism, seconds=math.inf),
}
UPWARD = ("Proof", "ProofForSizes", "Verdict")  # who bounds ε from above
EXACT = ("Comparison", "certified Comparison", "Worst", "FinderResult", "Verdict")
# Others speak at confidence 0.95 or more, with fixed seeds; by chance each would be wrong at most once in twenty seeds.


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[0.5, TRUE, 2.0], scope="module")
def judged(request: pytest.FixtureRequest, engine: str) -> Result:
    """The engine's result on a claim that is too small, true, or more than needed."""
    return ENGINES[engine](coin.bind(epsilon=request.param))


def test_it_has_the_words_of_a_result(judged: Result) -> None:
    assert isinstance(judged, Result)


def test_bounds_hold_the_true_epsilon(engine: str, judged: Result) -> None:
    assert judged.bounds.lower <= TRUE * (1 + 1e-12) <= judged.bounds.upper * (1 + 1e-9)
    assert judged.bounds.upper == (pytest.approx(TRUE, rel=1e-9) if engine in UPWARD else math.inf)
    if engine in EXACT:
        assert judged.bounds.lower == pytest.approx(TRUE, rel=1e-6)
    elif engine in UPWARD:
        assert judged.bounds.lower == 0
    else:
        assert judged.bounds.lower > 0.5  # with these samples; so the claim of 0.5 is refuted below


def test_the_witness_shows_the_lower_bound(engine: str, judged: Result) -> None:
    witness = judged.witness
    if engine in ("Proof", "ProofForSizes"):
        assert witness is None
        return
    assert witness is not None
    assert {tuple(np.ravel(witness.left)), tuple(np.ravel(witness.right))} == {(0,), (1,)}  # type: ignore[call-overload]
    assert (witness.confidence == 1) == (engine in EXACT)
    assert witness.epsilon().lower <= TRUE * (1 + 1e-12)
    if engine in EXACT:
        assert witness.epsilon().lower == pytest.approx(judged.bounds.lower, abs=1e-6)


def test_a_claim_is_refuted_where_the_bounds_exclude_it(judged: Result) -> None:
    claim, document = judged.claim, judged.to_dict()
    assert claim is not None
    too_small = claim.epsilon < TRUE
    refuted = claim.refuted_by(lambda _: judged.bounds.lower)
    assert refuted == (too_small and judged.witness is not None)
    assert document.get("refuted", document.get("standing") == Standing.REFUTED.value) == refuted
    if judged.bounds.upper < math.inf:
        assert claim.covers(judged.bounds.upper) == (not too_small)
        assert document.get("proved", document.get("standing") == Standing.PROVED.value) == (not too_small)


def test_the_document_says_what_the_result_says(judged: Result) -> None:
    document, witness = judged.to_dict(), judged.witness
    assert isinstance(judged.claim, Claim)
    assert document["claim"] == {"epsilon": judged.claim.epsilon, "delta": 0.0}
    assert document["mechanism"] == str(coin.bind(epsilon=judged.claim.epsilon))
    assert (document["witness"] is None) == (witness is None)
    if witness is not None:
        assert document["witness"]["left"] == witness.left
        assert document["witness"]["event"] == str(witness.event)
    assert document.get("finished", True) is judged.finished is True
    assert document.get("seconds", judged.seconds) == judged.seconds > 0
    assert judged.searched
    assert all(isinstance(what, str) for what in judged.searched)


CHARTS = {
    "Comparison": ["outputs", "profile", "tradeoff"],
    "certified Comparison": ["outputs", "profile", "tradeoff"],
    "Worst": ["outputs", "profile", "tradeoff"],
    "Proof": ["profile"],
    "ProofForSizes": ["profile"],
    "Detection": ["p-values"],
    "AttackResult": ["profile", "tradeoff"],
    "FinderResult": ["outputs", "profile", "tradeoff"],
    "Verdict": ["outputs", "profile", "tradeoff"],
}


@pytest.mark.parametrize("judged", [TRUE], indirect=True)
def test_it_shows_itself(engine: str, judged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("veridp.report.notebook.SECONDS_IN_A_NOTEBOOK", math.inf)
    assert len(repr(judged)) < 200
    assert "coin" in repr(judged)
    exhibits = result_exhibits(judged, math.inf)
    assert exhibits.missing == ()
    assert [chart.name for chart in exhibits.charts] == CHARTS[engine]
    figure = judged.plot(tmp_path / "figure.svg", seconds=math.inf)
    assert len([axes for axes in figure.axes if axes.get_visible()]) == len(CHARTS[engine])
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")
    text = judged._repr_html_()
    assert text.count("<svg") == len(CHARTS[engine])
    if judged.witness is not None:
        assert escape(str(judged.witness.event)) in text
    frame = judged.to_frame()
    if engine in ("Comparison", "certified Comparison", "Worst"):
        assert frame["left"].sum() == pytest.approx(1.0)
        assert frame["loss"].max() == pytest.approx(TRUE)
    elif engine == "Detection":
        assert frame["p_value"].tolist() == [point.p_value for point in judged.curve]
    elif engine == "Verdict":
        assert frame["epsilon.upper"].tolist() == [pytest.approx(TRUE)]
    else:
        assert len(frame) >= 1
    with pytest.raises(BadInput, match=f"no chart 'histogram' to draw; it has {CHARTS[engine][0]}"):
        judged.plot(only="histogram", seconds=math.inf)


def test_bounds_are_those_at_the_claimed_delta() -> None:
    @veridp.mechanism(epsilon=0.3, delta=0.05, size=1)
    def noisy(rng: np.random.Generator, data: Any) -> Any:
        return data[0] + rng.normal(scale=SCALE)

    comparison = exact.compare(noisy, [0], [1])
    lower = comparison.bounds.lower
    # Balle and Wang (2018), Theorem 8, with sensitivity 1
    delta = ndtr(0.5 / SCALE - lower * SCALE) - math.exp(lower) * ndtr(-0.5 / SCALE - lower * SCALE)
    assert delta == pytest.approx(0.05, rel=1e-6)
    assert comparison.epsilon == math.inf
    assert comparison.refuted
    assert comparison.bounds.lower > 0.3


def test_programs_and_accounts_show_themselves_too() -> None:
    pytest.importorskip("matplotlib")
    compared = veridp.pipeline.compare(veridp.catalogue["laplace"], [0], [1])  # ε = 0.1
    assert repr(compared) == "<PipelineResult: laplace: [0] against [1] (given)>"
    (profile,) = result_exhibits(compared, math.inf).charts
    drawn = profile.series[0]
    assert drawn.y == pytest.approx([max(1 - math.exp((x - 0.1) / 2), 0.0) for x in drawn.x], abs=1e-9)
    assert compared.to_frame()["epsilon"].tolist() == [pytest.approx(0.1)]
    searched = veridp.pipeline.search(veridp.catalogue["laplace"], [0.0], max_pairs=2)
    assert searched.to_frame()["epsilon"].max() == pytest.approx(0.1)
    found = account(Repeated(3, Leaf.laplace(0.1)), delta=1e-6, second_opinion=False)
    assert repr(found).startswith(f"<Account: ε = {found.epsilon:.6g} at δ = 1e-06 by ")
    assert found.to_frame().query("method == 'basic'")["epsilon"].tolist() == [pytest.approx(0.3)]
    every = prove.prove_for_every_size(veridp.catalogue["svt1"])
    assert repr(every) == "<Induction: svt1 under linf: 0.1-DP is proved for every size>"
    assert every.to_dict()["certificate"] == every.certificate
    with pytest.raises(BadInput, match="about no pair of inputs"):
        every.plot()
    for result, charts in ((compared, 1), (searched, 1), (found, 1), (every, 0)):
        assert result._repr_html_().count("<svg") == charts
    figure = found.plot(only="bounds")
    finite = [bound.epsilon for bound in found.bounds if math.isfinite(bound.epsilon)]
    assert [bar.get_height() for bar in figure.axes[0].patches] == pytest.approx(finite)
