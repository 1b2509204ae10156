"""What people claim in other notions than pure ε, judged; all of it is in benchmarks/claims.py, a part of it here."""

from __future__ import annotations

import pytest

import veridp
from veridp.verdict import Standing

from .claims import CLAIMS, StatedClaim

NAMES = (  # quick ones of every kind
    "classical", "decimal_logarithm", "five_columns_as_one", "epsilon_for_mu", "renyi_without_its_half", "four_answers",
    "four_answers_by_the_rule_for_two", "key_above_a_threshold_without_the_one", "half_of_delta", "uniform_noise",
    "uniform_noise_of_half_the_width", "geometric_count",
)  # fmt: skip


@pytest.mark.parametrize("claim", [one for one in CLAIMS if one.name in NAMES], ids=lambda claim: claim.name)
def test_a_true_claim_is_proved_and_a_false_one_refuted(claim: StatedClaim) -> None:
    verdict = veridp.audit(claim.function, seconds=120, **claim.stated, **claim.settings)
    assert verdict.standing is (Standing.PROVED if claim.true else Standing.REFUTED)
    if not claim.true:
        assert verdict.witness is not None
        assert verdict.witness.confidence == 1


def test_there_are_twenty_of_each() -> None:
    assert sum(claim.true for claim in CLAIMS) == 20
    assert sum(not claim.true for claim in CLAIMS) >= 20
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.name for claim in CLAIMS} >= set(NAMES)
