"""Table 2, figure 9 and the costs of sessions."""

from __future__ import annotations

import math

import pytest

from veridp.collect import Rates
from veridp.collect.evaluation import (
    CommitmentCost,
    ModularPedersen,
    commitment_costs,
    figure_9_conclusions,
    played_attacks,
    session_costs,
    several_numbers,
    table_2,
    table_2_conclusions,
)
from veridp.collect.protocols import VGRR
from veridp.local.conclusions import Agreement
from veridp.local.study import People, adult_ages


def test_table_2_says_which_theorem_is_reversed() -> None:
    rows = table_2(adult_ages())
    grr, sr, pm = rows
    assert [row.standing for row in rows] == ["robust", "robust", "not robust"]
    assert (grr.s_max, sr.s_max) == (90, 90)
    # 24 bins, of which a window of 10 has a second copy: 34 entries. The ten that stay closed may all be of bin 23,
    # where the honest extremes have them in bins 0 to 9 and 14 to 23, which stand for 17 and 90 years.
    lowest, highest = ((276 + sum(range(start, start + 10))) / 34 for start in (0, 14))
    assert pm.s_max == pytest.approx(17 + 73 * ((276 + 10 * 23) / 34 - lowest) / (highest - lowest))
    assert [row.gain for row in rows] == pytest.approx([0.05 * (row.s_max - 38.58165) for row in rows], abs=1e-5)
    said = table_2_conclusions(rows)
    assert [one.standing for one in said] == [Agreement.AGREES, *[Agreement.CORRECTED] * 3]
    assert "Theorem 3.3 is reversed" in said[2].text.en
    assert "定理 3.3 は逆" in said[2].text.ja


def test_table_2_is_of_any_peoples_range() -> None:
    rows = table_2(People.own("column", [0.0, 0.25, 1.0]))
    assert [row.s_in for row in rows] == [1.0, 1.0, 1.0]


def test_commitments_modulo_a_prime_open_and_their_bytes_are_counted() -> None:
    layout = VGRR(Rates(2, 1), tuple("abcd")).layout  # 5 entries, 4 opened
    (cost,) = commitment_costs([ModularPedersen.of_bits(128)], layout, 1)
    assert cost.entries == 5
    assert 5 * 16 + 4 * 16 < cost.sent < 5 * 16 + 4 * 16 + 160  # commitments, keys, and the frames of two messages
    assert min(cost.commit, cost.verify) >= 0


def test_figure_9_is_judged_by_its_costs() -> None:
    def costs(*seconds: float) -> list[CommitmentCost]:
        names = ("modular-128", "modular-256", "modular-512", "ristretto255", "blake2b")
        return [CommitmentCost(name, 222, s / 2, s / 2, 0) for name, s in zip(names, seconds, strict=True)]

    growing = figure_9_conclusions(costs(0.01, 0.05, 0.25, 0.015, 0.001))
    assert [one.standing for one in growing] == [Agreement.AGREES] * 2
    assert "17 times as fast with ristretto255 and 250 times as fast with blake2b" in growing[1].text.en
    assert figure_9_conclusions(costs(0.3, 0.05, 0.25, 0.5, 0.001))[0].standing is Agreement.DIFFERS
    assert figure_9_conclusions(costs(0.3, 0.05, 0.25, 0.5, 0.001))[1].standing is Agreement.DIFFERS


def test_a_session_is_two_rows_and_the_bytes_of_its_messages() -> None:
    """A row of the session and one of its token, with what was sent, but for the frame of the commitment."""
    costs = session_costs(2)
    assert [(cost.protocol, cost.scheme) for cost in costs] == [
        (protocol, scheme) for protocol in ("vgrr", "sr-ho", "pm-ho") for scheme in ("blake2b", "ristretto255")
    ]
    for cost in costs:
        assert cost.rows == 2
        assert 0 < cost.sent - cost.stored < 80
        assert math.isclose(cost.sessions_per_second, 1 / cost.server)
    assert [cost.sent for cost in costs if cost.scheme == "ristretto255"] == [4897, 280, 2009]


def test_the_open_questions_are_answered_with_exact_numbers() -> None:
    """k = 3 at ε = 1, in the middle of a range of length 1: half of √3/t(ε) and of 1/t(ε/3), for the rates in use."""
    sampled, split = several_numbers()
    assert [(row.standing, row.s_in, row.s_max) for row in (sampled, split)] == [("robust", 1, 1)] * 2
    assert sampled.error == pytest.approx(math.sqrt(3) / 2 / math.tanh(sampled.epsilon / 2))
    assert split.error == pytest.approx(1 / 2 / math.tanh(split.epsilon / 6))
    assert (sampled.entries, split.entries) == (8 + 3, 3 * (11 + 8))
    played = {(row.protocol, row.attack): row for row in played_attacks(adult_ages(), 8)}
    assert played["SR-HO", "drop-out"].played == played["SR-HO", "drop-out"].exact == pytest.approx(163)
    assert played["PM-HO", "best-vector"].exact == pytest.approx(113.464, abs=1e-3)
    assert all(abs(row.played - row.exact) <= 5 * row.error + 1e-9 for row in played.values())
