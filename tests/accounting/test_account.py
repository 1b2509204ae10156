"""Accounts of trees: what each node costs, what the whole rests on, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from veridp.accounting import GuaranteeBasis, Leaf, Parallel, PostProcessed, Repeated, Sequential, Subsampled, account
from veridp.accounting.account import INSTALL
from veridp.accounting.domination import Domination
from veridp.adjacency import adjacency
from veridp.claim import Claim, Interval, Witness
from veridp.conversions import epsilon_of_rdp, epsilon_of_zcdp
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.errors import BadInput, BudgetSpent
from veridp.mechanism import Mechanism
from veridp.notions import GaussianDP
from veridp.verdict import Evidence, Standing, Verdict

PLD = "privacy loss distribution"


def tight(release: Any, delta: float = 1e-5) -> float:
    return account(release, delta, second_opinion=False)[PLD].epsilon


def test_post_processing_is_free() -> None:
    leaf = Repeated(5, Leaf.laplace(0.2))
    mine, theirs = (account(node, 1e-6, second_opinion=False) for node in (PostProcessed(leaf), leaf))
    assert [bound.epsilon for bound in mine.bounds] == [bound.epsilon for bound in theirs.bounds]


def test_a_repetition_is_a_sequence() -> None:
    leaf = Leaf.gaussian(scale=3.0)
    assert tight(Repeated(3, leaf)) == pytest.approx(tight(Sequential([leaf] * 3)), rel=1e-9)
    assert tight(Repeated(2, Repeated(3, leaf))) == pytest.approx(tight(Repeated(6, leaf)), rel=1e-9)
    assert tight(Repeated(0, leaf)) == 0.0
    assert tight(Sequential([])) == 0.0


def test_parallel_parts_cost_the_largest() -> None:
    parts = Parallel({"a": Leaf.laplace(0.3), "b": Leaf.laplace(0.5), "c": Leaf.claimed(0.1)})
    found = account(parts, 1e-5, second_opinion=False)
    assert found["basic"].epsilon == 0.5
    assert found[PLD].epsilon == pytest.approx(tight(Leaf.laplace(0.5)), rel=1e-6)


def test_parallel_parts_of_which_none_is_the_worst_cost_the_largest_at_every_delta() -> None:
    """Laplace noise is worse at small δ, normal noise at large: the two together are as bad as the worse of them."""
    laplace, gaussian = Leaf.claimed(0.2), Leaf.gaussian(scale=6.0)
    for delta in (1e-2, 1e-4, 1e-8):
        worst = max(leaf.pairs.epsilon(delta) for leaf in (laplace, gaussian))
        assert tight(Parallel({"a": laplace, "b": gaussian}), delta) == pytest.approx(worst, rel=1e-5)
    twice = tight(Repeated(2, Parallel({"a": laplace, "b": gaussian})))
    assert twice >= max(tight(Repeated(2, leaf)) for leaf in (laplace, gaussian)) - 1e-9


def test_samples_cost_less_and_a_sample_of_all_costs_the_same() -> None:
    leaf = Leaf.laplace(1.0)
    assert tight(Subsampled(1.0, leaf)) == pytest.approx(tight(leaf), rel=1e-9)
    found = account(Subsampled(0.1, leaf), 0.0, second_opinion=False)
    assert found["basic"].epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1.0)))
    assert found[PLD].epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1.0)), rel=1e-6)


def test_a_sample_of_a_sequence_is_dominated_by_what_it_is_made_of() -> None:
    """Sampling once for k mechanisms leaks more than sampling anew for each."""
    leaf = Leaf.gaussian(scale=2.0)
    once, anew = Subsampled(0.1, Repeated(4, leaf)), Repeated(4, Subsampled(0.1, leaf))
    assert tight(once) > tight(anew)
    # four answers with noise 2 are one with noise 1
    assert tight(once) == pytest.approx(tight(Subsampled(0.1, Leaf.gaussian(scale=1.0))), rel=1e-4)


def test_a_sample_without_replacement_under_replace() -> None:
    leaf = Leaf.laplace(0.8, relation="replace")
    found = account(Subsampled(0.2, leaf), 1e-3, second_opinion=False)
    # δ'(ln(1 + γ(e^ε - 1))) = γ δ(ε)
    inside = leaf.pairs.epsilon(1e-3 / 0.2)
    assert found[PLD].epsilon == pytest.approx(math.log1p(0.2 * math.expm1(inside)), rel=1e-5)
    assert "without replacement" in str(found)


def test_zcdp_and_rdp_of_normal_noise_have_their_closed_forms() -> None:
    found = account(Repeated(9, Leaf.gaussian(scale=6.0)), 1e-6, second_opinion=False)
    rho = 9 / 72
    assert f"ρ = {rho:g}" in found["zCDP"].note
    orders = np.linspace(1.001, 200, 200_000)
    assert found["zCDP"].epsilon == pytest.approx(epsilon_of_rdp(rho * orders, orders, 1e-6), rel=1e-6)
    assert found["zCDP"].epsilon <= rho + 2 * math.sqrt(rho * math.log(1e6))
    assert found["RDP"].epsilon == pytest.approx(found["zCDP"].epsilon, rel=1e-4)
    assert epsilon_of_zcdp(0.0, 1e-6) == 0.0


def test_claims_in_other_notions_are_taken_at_their_best() -> None:
    mechanism = Mechanism(lambda rng, data: data, mu=1 / 3.0)
    claimed, known = (account(Repeated(9, leaf), 1e-6) for leaf in (Leaf.of(mechanism), Leaf.gaussian(scale=3.0)))
    for method in ("zCDP", "RDP", "privacy loss distribution", "basic"):
        assert claimed[method].epsilon == pytest.approx(known[method].epsilon)
    assert claimed.epsilon == pytest.approx(GaussianDP(1.0).epsilon(1e-6))
    assert "0.333333-GDP as (ε, δ) by Balle and Wang" in claimed["basic"].note
    assert claimed["zCDP"].note == "ρ = 0.5; 0.333333-GDP is μ²/2-zCDP"

    rho = account(Repeated(4, Leaf.stated(Claim.stated(rho=0.125))), 1e-6)
    assert rho.epsilon == rho["zCDP"].epsilon == pytest.approx(epsilon_of_zcdp(0.5, 1e-6))
    assert "0.125-zCDP as (ε, δ) by Canonne, Kamath and Steinke" in rho["privacy loss distribution"].note

    rdp = account(Repeated(4, Leaf.stated(Claim.stated(rdp=(8, 0.5)))), 1e-6)
    assert rdp.epsilon == rdp["RDP"].epsilon
    assert rdp.epsilon == pytest.approx(epsilon_of_rdp(np.array([2.0]), np.array([8.0]), 1e-6), rel=0.02)

    corner = 1 / (1 + math.exp(0.5))
    curve = account(Repeated(4, Leaf.stated(Claim.stated(tradeoff=[(0, 1), (corner, corner), (1, 0)]))), 1e-6)
    pure = account(Repeated(4, Leaf.claimed(0.5)), 1e-6)
    assert curve["privacy loss distribution"].epsilon == pytest.approx(pure["privacy loss distribution"].epsilon)


def test_a_sample_of_a_claim_in_another_notion_costs_less() -> None:
    whole = Leaf.stated(Claim.stated(rho=0.125))
    assert account(Subsampled(0.1, whole), 1e-5).epsilon < 0.5 * account(whole, 1e-5).epsilon


def test_zcdp_of_a_pair_that_gives_away_on_one_side() -> None:
    """P sits on one of two outputs that Q is likely to give: no ε²/2 holds there, for Q can do what P cannot."""
    table = [[1.0, 0.0], [0.5, 0.5]]
    leaf = Leaf.exact(compare(lambda rng, data: rng.choice(2, p=table[data]), 0, 1))
    found = account(Repeated(3, leaf), 0.9, second_opinion=False)
    # with probability 1/2 each, the second output tells all; given that it does not, the two are the same
    assert found["zCDP"].note == "ρ = 0"
    assert found[PLD].epsilon <= found["RDP"].epsilon + 1e-9
    assert math.isinf(account(Repeated(3, leaf), 0.5, second_opinion=False)["zCDP"].epsilon)


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_leaks_of_a_sampled_claim_are_paid_in_full(rate: float) -> None:
    """One person more: the leak is as likely as without a sample, even if the loss stays finite."""
    release = Subsampled(rate, Leaf.claimed(0.5, 1e-3))
    found = account(release, 2e-3, second_opinion=False)
    for method in ("basic", "advanced", "zCDP", "RDP"):
        assert found[method].epsilon >= found[PLD].epsilon - 1e-9
    assert math.isinf(account(release, 5e-4, second_opinion=False)["zCDP"].epsilon)


def test_advanced_composition_has_its_closed_form() -> None:
    """k costs of ε each: kε tanh(ε/2) + ε sqrt(2k L), where L is the lesser of ln 1/δ and ln(e + ε sqrt(k)/δ)."""
    found = account(Repeated(1000, Leaf.claimed(0.01)), 1e-5, second_opinion=False)["advanced"].epsilon
    log = math.log(math.e + 0.01 * math.sqrt(1000) / 1e-5)
    assert log < math.log(1e5)
    assert found == pytest.approx(10 * math.tanh(0.005) + 0.01 * math.sqrt(2000 * log))


def test_the_tightest_is_marked() -> None:
    found = account(Repeated(100, Leaf.claimed(0.1)), 1e-5)
    assert found.epsilon == min(bound.epsilon for bound in found.bounds)
    marked = [line for line in str(found).split("\n") if "tightest" in line]
    assert len(marked) == 1
    assert marked[0].startswith(found.tightest.method)


# ------------------------------------------------------------------------------------------------ what it rests on


def verdict(standing: Standing) -> Verdict:
    claim = Claim(0.5)
    witness = Witness([0], [1], "anything", Interval.exactly(0.9), Interval.exactly(0.1))
    return Verdict(
        standing,
        claim,
        Interval(0.0, 0.5) if standing is not Standing.REFUTED else Interval(2.0, math.inf),
        witness if standing is Standing.REFUTED else None,
        (Evidence("none", "made up"),),
    )


def test_a_leaf_that_is_only_not_refuted_taints_the_whole() -> None:
    doubtful = Leaf.judged(verdict(Standing.NOT_REFUTED), "median")
    found = account(Sequential([Leaf.laplace(0.1), PostProcessed(Repeated(2, doubtful))]), second_opinion=False)
    assert found.basis is GuaranteeBasis.NOT_REFUTED
    assert found.not_refuted == ("median",)
    assert "not refuted: no more is known of median" in str(found)


def test_the_weakest_basis_counts() -> None:
    proved = Leaf.judged(verdict(Standing.PROVED), "count")
    assert account(proved, second_opinion=False).basis is GuaranteeBasis.PROVED
    assert account(Sequential([proved, Leaf.claimed(0.1)]), second_opinion=False).basis is GuaranteeBasis.CLAIMED


def test_a_refuted_leaf_is_refused() -> None:
    with pytest.raises(BadInput, match="is refuted"):
        Leaf.judged(verdict(Standing.REFUTED), "median")


def test_a_proof_makes_a_leaf() -> None:
    def noisy(rng: Any, queries: Any) -> Any:
        return queries[0] + rng.laplace(scale=4)

    leaf = Leaf.proved(prove(Mechanism(noisy, adjacency=adjacency("l1")), size=1))
    assert leaf.basis is GuaranteeBasis.PROVED
    assert account(leaf, 0.0, second_opinion=False)["basic"].epsilon == 0.25


def test_a_claim_makes_a_leaf_and_none_does_not() -> None:
    def noisy(rng: Any, queries: Any, *, epsilon: float = 0.5) -> Any:
        return queries[0] + rng.laplace(scale=1 / epsilon)

    assert account(Leaf.of(noisy, epsilon=0.25), 0.0, second_opinion=False).epsilon == 0.25
    with pytest.raises(BadInput, match="has no claim"):
        Leaf.of(lambda rng, data: data)


# --------------------------------------------------------------------------------------------------- exact losses


@pytest.mark.parametrize("k", [1, 20])
def test_exact_losses_of_laplace_noise_compose_like_its_closed_form(k: int) -> None:
    comparison = compare(lambda rng, x: x + rng.laplace(scale=4.0), 0.0, 1.0)
    found = tight(Repeated(k, Leaf.exact(comparison)))
    assert found == pytest.approx(tight(Repeated(k, Leaf.laplace(0.25))), rel=1e-4)


def test_exact_losses_of_a_finite_mechanism_compose_exactly() -> None:
    table = [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]
    comparison = compare(lambda rng, data: rng.choice(3, p=table[data]), 0, 1)
    leaf = Leaf.exact(comparison)
    found = account(Repeated(10, leaf), 1e-3, second_opinion=False)
    assert "exact" in found[PLD].note
    # losses ±ln 2.5 and 0: the sum is a multiple of ln 2.5, by enumeration of how often each output came
    total: dict[int, float] = {}
    for a in range(11):
        for b in range(11 - a):
            c = 10 - a - b
            ways = math.factorial(10) / math.factorial(a) / math.factorial(b) / math.factorial(c)
            total[a - c] = total.get(a - c, 0.0) + ways * 0.5**a * 0.3**b * 0.2**c

    def delta(epsilon: float) -> float:
        losses = {m * math.log(2.5): mass for m, mass in total.items()}
        return sum(mass * -math.expm1(epsilon - loss) for loss, mass in losses.items() if loss > epsilon)

    assert delta(found[PLD].epsilon) == pytest.approx(1e-3, rel=1e-6)
    assert found.basis is GuaranteeBasis.EXACT
    assert "only if these are the worst" in found.standing
    assert account(Leaf.exact(comparison, dominating=True), second_opinion=False).basis is GuaranteeBasis.CLAIMED


def test_exact_losses_in_both_directions() -> None:
    """One input tells more about the other than the other way round: both count."""
    table = [[0.9, 0.1], [1.0, 0.0]]
    pairs = Leaf.exact(compare(lambda rng, data: rng.choice(2, p=table[data]), 0, 1)).pairs
    assert pairs.removed.infinite == pytest.approx(0.1)
    assert pairs.added.infinite == 0.0
    leaf = Leaf.exact(compare(lambda rng, data: rng.choice(2, p=table[data]), 0, 1))
    assert tight(leaf, 0.05) == math.inf
    assert tight(leaf, 0.2) == pytest.approx(0.0)


def test_geometric_noise_by_its_exact_losses_is_randomised_response() -> None:
    from veridp.accounting import mechanisms

    leaf = Leaf.exact(compare(mechanisms.geometric.bind(epsilon=0.5), [0], [1]))
    assert tight(Repeated(50, leaf)) == pytest.approx(tight(Repeated(50, Leaf.claimed(0.5))), rel=1e-6)


# --------------------------------------------------------------------------------------------- budgets and refusals


def test_a_budget_is_checked() -> None:
    found = account(Repeated(10, Leaf.laplace(0.1)), 1e-5, second_opinion=False)
    found.check(Claim(1.0))
    assert found.within(Claim(0.99, 1e-5))
    assert not found.within(Claim(0.5, 1e-5))
    with pytest.raises(BudgetSpent, match="above the budget"):
        found.check(Claim(0.5, 1e-5))


@pytest.mark.parametrize(
    "release",
    [
        Subsampled(0.5, Leaf.laplace(800.0)),
        Repeated(10_000, Leaf.gaussian(scale=1.0)),
        Leaf.gaussian(scale=0.01),
        Repeated(3, Leaf.claimed(30.0)),
        Repeated(10, Leaf.laplace(0.0)),
    ],
)
def test_losses_out_of_the_ordinary_are_never_understated(release: Any) -> None:
    """Where e^ε is out of reach of floats, and where there is no loss at all."""
    found = account(release, 1e-5, second_opinion=False)
    for method in ("basic", "advanced", "zCDP", "RDP"):
        assert found[method].epsilon >= found[PLD].epsilon * (1 - 1e-9)
    assert math.isfinite(found[PLD].epsilon)


def test_relations_do_not_mix() -> None:
    mixed = Sequential([Leaf.laplace(0.1, relation="replace"), Leaf.laplace(0.1, relation="add-remove")])
    with pytest.raises(BadInput, match=r"release.sequential\[0\] .* under replace, .*\[1\] .* under add-remove"):
        account(mixed)


def test_parallel_parts_under_replace_must_be_fixed() -> None:
    parts = {"a": Leaf.laplace(0.1, relation="replace"), "b": Leaf.laplace(0.2, relation="replace")}
    with pytest.raises(BadInput, match="declare the parts fixed"):
        account(Parallel(parts))
    assert account(Parallel(parts, fixed=True), second_opinion=False)["basic"].epsilon == 0.2


def test_no_delta_leaves_pure_methods_alone() -> None:
    found = account(Sequential([Leaf.laplace(0.1), Leaf.gaussian(scale=5.0)]), 0.0, second_opinion=False)
    assert all(math.isinf(bound.epsilon) for bound in found.bounds)
    assert all(bound.note for bound in found.bounds)


def test_claims_that_take_more_delta_than_there_is() -> None:
    found = account(Repeated(10, Leaf.claimed(0.1, 1e-6)), 1e-6, second_opinion=False)
    assert math.isinf(found.epsilon)
    assert "give a delta as large" in found["basic"].note


def test_without_dp_accounting_its_lines_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = account(Leaf.laplace(0.1), second_opinion=True)
    assert found["RDP (dp-accounting)"].note == INSTALL
    assert math.isfinite(found.epsilon)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Subsampled(0.0, Leaf.laplace(1.0)), "rate must be in"),
        (lambda: Repeated(-1, Leaf.laplace(1.0)), "times must be"),
        (lambda: Leaf.laplace(), "either epsilon or scale"),
        (lambda: Leaf.laplace(scale=-1.0), "must be finite and > 0"),
        (lambda: Leaf.gaussian(1.0), "epsilon and delta"),
        (lambda: Leaf.randomised_response(1.0, 1), "values must be >= 2"),
        (lambda: Leaf.claimed(1.0, 2.0), "delta must be in"),
        (lambda: account(Leaf.laplace(1.0), 1.5), "delta must be in"),
        (lambda: account(Leaf.laplace(1.0))["magic"], "no method 'magic'"),
    ],
)
def test_bad_input_is_named(make: Any, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        make()


def test_a_node_is_dominated_as_a_whole() -> None:
    """A sequence as one pair: the same δ as when it is composed at the top."""
    sequence = Sequential([Leaf.laplace(0.3), Leaf.laplace(0.2)])
    pair = Domination(sequence).of(sequence).removed
    assert pair.epsilon(1e-4) == pytest.approx(tight(sequence, 1e-4), rel=1e-5)
