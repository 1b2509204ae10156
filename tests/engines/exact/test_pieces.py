"""Components: against groups found by brute force, and kinds against the measures of their conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from veridp import catalogue
from veridp.engines.exact import compare
from veridp.engines.exact.curve import Density
from veridp.engines.exact.masses import log_masses
from veridp.engines.exact.measure import Component, Splitter, kind_of
from veridp.engines.exact.pieces import DistributionPiece, factors
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Condition


def two_vectors(rng, data):
    """Two runs of a sparse vector on the same queries, and a coin between them that decides nothing."""

    def run():
        threshold = rng.laplace(scale=2)
        answers = []
        for query in data:
            answers.append(query + rng.laplace(scale=4) > threshold)
            if answers[-1]:
                break
        return answers

    return run(), rng.random() < 0.5, run()


def pieces_of(mechanism, data) -> list[DistributionPiece]:
    (whole,) = factors(explore(mechanism, data), split=False)
    return [piece for pieces in whole.classes.values() for piece in pieces]


def groups(conditions: Sequence[Condition]) -> set[frozenset[int]]:
    """The conditions, by identity, in groups joined by the noise that they share, found by trying every two."""
    found = [{id(condition)} for condition in conditions]
    named = {id(condition): set(condition.slack.terms) for condition in conditions}
    merged = True
    while merged:
        merged = False
        for one in found:
            for other in found:
                if one is not other and any(named[a] & named[b] for a in one for b in other):
                    one |= other
                    found.remove(other)
                    merged = True
                    break
            if merged:
                break
    return {frozenset(group) for group in found}


def told(components: Sequence[Component]) -> set[frozenset[int]]:
    return {frozenset(id(condition) for condition in component.conditions) for component in components}


@pytest.mark.parametrize("backwards", [False, True])
def test_components_are_the_groups_that_share_no_noise(backwards: bool) -> None:
    splitter = Splitter({})
    pieces = pieces_of(two_vectors, [1.0, 0.0, 2.0])
    assert len(pieces) == 4 * 2 * 4
    for piece in reversed(pieces) if backwards else pieces:
        conditions = piece.conditions[::-1] if backwards else piece.conditions
        assert told(splitter.split(conditions)) == groups(conditions)


def test_components_that_a_later_condition_ties_together_become_one() -> None:
    def joined(rng, data):
        first, second, third = (rng.laplace(scale=scale) for scale in (1, 2, 3))
        return first > 0, second > 1, first > third, second > first

    for piece in pieces_of(joined, []):
        assert told(Splitter({}).split(piece.conditions)) == groups(piece.conditions)


def test_the_runs_of_a_vector_have_the_same_kinds() -> None:
    """Each run ends in one of four ways, whichever noise it draws; the coin has two."""
    splitter = Splitter({})
    seen = {
        component.kind
        for piece in pieces_of(two_vectors, [1.0, 0.0, 2.0])
        for component in splitter.split(piece.conditions)
    }
    assert len(seen) == 4 + 2


@pytest.mark.parametrize("name", ["svt1", "svt34_parallel", "bad_gap_svt", "noisy_max2", "smart_sum"])
def test_components_of_a_kind_have_one_measure(name: str) -> None:
    """The first two of each kind, measured each by itself."""
    splitter = Splitter({})
    seen: dict[int, list[Component]] = {}
    for piece in pieces_of(catalogue[name], [1.0, 0.0, 2.0, 1.0]):
        for component in splitter.split(piece.conditions):
            seen.setdefault(component.kind, []).append(component)
    for first, *others in seen.values():
        masses = {Density([DistributionPiece(1, component.conditions, ())]).mass for component in (first, *others[-1:])}
        assert len(masses) == 1


def test_kinds_tell_numbers_of_other_noise_apart() -> None:
    def shown(rng, data):
        threshold, noise, other = rng.laplace(scale=2), rng.laplace(), rng.laplace()
        if noise > threshold:
            return [noise, other, threshold, noise + 1, other * 2]
        return None

    (path,) = (path for path in explore(shown, []) if path.output is not None)
    components = Splitter({}).split(path.conditions)
    kinds = [kind_of(components, [number]) for number in path.output]
    assert len(set(kinds)) == 5
    assert kind_of(components, path.output[:2]) != kind_of(components, path.output[1::-1])


def test_masses_of_products_are_products() -> None:
    """Two independent runs: the probability of each pair is the product of those of its parts."""
    alone = explore(lambda rng, data: two_vectors(rng, data)[0], [1.0, 0.0, 2.0])
    (single,) = factors(alone, split=False)
    parts = {
        key.template.tree: log
        for key, log in zip(single.classes, log_masses(list(single.classes.values())), strict=True)
    }
    (whole,) = factors(explore(two_vectors, [1.0, 0.0, 2.0]), split=False)
    for key, log in zip(whole.classes, log_masses(list(whole.classes.values())), strict=True):
        first, _, second = key.template.tree
        assert log == pytest.approx(parts[first] + math.log(0.5) + parts[second], abs=1e-13)


def test_the_loss_of_parallel_runs_is_the_sum_of_their_losses() -> None:
    """svt34_parallel draws afresh for its two parts, whichever comes first."""
    left, right = [1.0, 2.0, 0.0, -3.0], [0.0, 3.0, 1.0, -2.0]
    three, four = (catalogue[name].bind(cutoff=2) for name in ("svt3", "svt4"))
    apart = [compare(part, left, right).loss for part in (three, four)]

    def swapped(rng, data):
        return four(rng, data), three(rng, data)

    for both in (catalogue["svt34_parallel"], swapped):
        loss = compare(both, left, right).loss
        assert loss.supremum == pytest.approx(sum(part.supremum for part in apart), rel=1e-10)
        assert loss.backward == pytest.approx(sum(part.backward for part in apart), rel=1e-10)
        assert loss.backward == pytest.approx(loss.reversed.supremum, rel=1e-14)
