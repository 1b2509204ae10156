"""`adjacency=`, `domain=` and `size=` mean the same in every function that takes a mechanism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import veridp
from veridp.engines.prove.induction.proof import prove_for_every_size
from veridp.engines.prove.search import prove_sizes
from veridp.errors import BadInput
from veridp.mechanism import as_mechanism

ZEROS = [0.0, 0.0]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "explore": lambda f, **settings: veridp.explore(f, ZEROS, **settings),
    "sample": lambda f, **settings: veridp.sample(f, ZEROS, 10, **settings),
    "tally": lambda f, **settings: veridp.tally(f, ZEROS, 10, **settings),
    "exact.compare": lambda f, **settings: veridp.exact.compare(f, ZEROS, [1.0, 0.0], **settings),
    "exact.worst": lambda f, **settings: veridp.exact.worst(f, max_pairs=2, **settings),
    "exact.law": lambda f, **settings: veridp.exact.law(f, ZEROS, **settings),
    "prove": lambda f, **settings: veridp.prove(f, **settings),
    "prove_sizes": lambda f, **settings: prove_sizes(f, **settings),
    "prove_for_every_size": lambda f, **settings: prove_for_every_size(f, **settings),
    "statdp.detect": lambda f, **settings: veridp.statdp.detect(f, selection_samples=200, samples=200, **settings),
    "sniper.search": lambda f, **settings: veridp.sniper.search(f, samples=200, final_samples=200, **settings),
    "finder.search": lambda f, **settings: veridp.finder.search(f, restarts=1, samples=2000, workers=1, **settings),
    "audit": lambda f, **settings: veridp.audit(f, **settings),
    "check": lambda f, **settings: veridp.check(f, **settings),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def whether_above(rng: Any, data: Any, *, epsilon: float = 1.0) -> bool:
    above = False
    for value in data:
        above = bool(value + rng.laplace(scale=2 / epsilon) > 1)
    return above


@every_function
def test_every_function_takes_the_settings_and_checks_them_alike(name: str) -> None:
    call = FUNCTIONS[name]
    with pytest.raises(BadInput, match=r"adjacency = 'l9' is unknown; use one of linf, l1"):
        call(whether_above, adjacency="l9")
    with pytest.raises(BadInput, match=r"domain must be a pair \(low, high\) or a list of values, got 'x'"):
        call(whether_above, domain="x")
    with pytest.raises(BadInput, match=r"size must be an integer >= 1, got 0"):
        call(whether_above, size=0)
    with pytest.raises(BadInput, match=r"whether_above takes no argument 'scale'; its arguments are: epsilon"):
        call(whether_above, scale=2)


def _pair(result: Any) -> tuple[Any, Any]:
    found = result.witness if hasattr(result, "witness") else result
    return found.left, found.right


@pytest.mark.parametrize("name", ["exact.worst", "sniper.search", "finder.search"])
def test_searches_keep_to_the_settings(name: str) -> None:
    result = FUNCTIONS[name](whether_above, adjacency="l1", domain=(0, 0.5), size=2)
    left, right = _pair(result)
    assert sum(mine != theirs for mine, theirs in zip(left, right, strict=True)) == 1
    assert {len(left), max(map(abs, [*left, *right])) <= 0.5} == {2, True}


def test_proofs_and_audits_keep_to_the_settings() -> None:
    assert veridp.prove(whether_above, adjacency="l1", size=3).epsilon == 0.5
    assert veridp.audit(whether_above, adjacency="l1", domain=(0, 2), size=2).assumed == {}
    assert set(veridp.check(whether_above, adjacency="l1").assumed) == {"size", "domain"}


def test_pairs_must_be_neighbours_under_a_stated_adjacency_only() -> None:
    far = [0.0, 0.0], [1.0, 1.0]
    assert veridp.exact.compare(whether_above, [0.0], [5.0]).epsilon > 0.5  # a plain function: nobody said who is
    with pytest.raises(BadInput, match="are not neighbours under l1"):
        veridp.exact.compare(whether_above, *far, adjacency="l1")
    with pytest.raises(BadInput, match="under l1"):
        veridp.sniper.search(whether_above, pairs=[far], adjacency="l1")
    with pytest.raises(BadInput, match="under l1"):
        veridp.statdp.detect(whether_above, pairs=[far], adjacency="l1")


def test_pairs_must_be_neighbours_under_the_adjacency_of_a_library() -> None:
    library = pytest.importorskip("diffprivlib.mechanisms")
    with pytest.raises(BadInput, match="are not neighbours under linf"):
        veridp.exact.compare(library.Laplace(epsilon=1.0, sensitivity=1.0), [0.0], [5.0])


def names(rng: Any, data: Any, *, adjacency: str, domain: str = "own", size: int = 1) -> str:
    return f"{adjacency} {domain} {size}"


def test_a_name_that_the_mechanism_has_as_an_argument_is_its_own() -> None:
    assert veridp.tally(names, None, 3, adjacency="l9", size=7).counts == {"l9 own 7": 3}
    (path,) = veridp.explore(names, None, adjacency="l9", domain="x")
    assert path.output == "l9 x 1"
    bound = as_mechanism(names, adjacency="l9", size=7)
    assert bound.arguments == {"adjacency": "l9", "size": 7}
    assert bound.assumed == {"adjacency", "domain", "size"}


def test_a_setting_is_no_argument_of_a_function_that_takes_any() -> None:
    def anything(rng: Any, data: Any, **options: Any) -> list[str]:
        return sorted(options)

    bound = as_mechanism(anything, adjacency="l1", scale=2)
    assert bound.adjacency.name == "l1"
    assert bound(None, None) == ["scale"]


def noisy_total(rng: Any, records: Any) -> Any:
    return sum(record["n"] for record in records) + rng.laplace(scale=2.0)


PAIRS = [([{"n": 1}], [{"n": 0}]), ([{"n": 1}, {"n": 3}], [{"n": 1}, {"n": 1}])]


@pytest.mark.parametrize("name", ["prove", "exact.worst", "finder.search"])
def test_pairs_are_all_the_neighbours_that_count(name: str) -> None:
    found = FUNCTIONS[name](noisy_total, pairs=PAIRS)
    assert found.epsilon == pytest.approx(1.0)  # a total moves by 2, and the noise has scale 2


def test_an_audit_of_pairs_speaks_of_them_alone() -> None:
    verdict = veridp.audit(noisy_total, 1.0, pairs=PAIRS)
    assert (verdict.standing.name, verdict.assumed, verdict.epsilon.lower) == ("PROVED", {}, pytest.approx(1.0))
    assert "for 2 given pairs" in verdict.how
    assert veridp.audit(noisy_total, 0.9, pairs=PAIRS).standing.name == "REFUTED"
    assert veridp.statdp.detect(noisy_total, 0.2, pairs=PAIRS, selection_samples=2000, samples=4000).refuted


def test_pairs_leave_no_room_for_other_settings() -> None:
    with pytest.raises(BadInput, match="pairs name all inputs and neighbours; leave out adjacency"):
        veridp.audit(noisy_total, 1.0, pairs=PAIRS, adjacency="l1")
    for wrong, why in (([], "pairs is empty"), ([1], "1 is not a pair"), ("ab", "'ab' is not a pair")):
        with pytest.raises(BadInput, match=why):
            veridp.prove(noisy_total, pairs=wrong)
