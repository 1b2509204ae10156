"""Noisy numbers in texts: explored where the text is only returned, refused elsewhere."""

import pytest

import veridp
from veridp.errors import NotAffine
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.path import leaves
from veridp.kernel.replay import Listing
from veridp.mechanism import as_mechanism


def sentence(rng, data):
    return f"about {data[0] + rng.laplace():.0f} of {len(data)}"


def listed(rng, data):
    return ", ".join(f"{value + rng.laplace(scale=2):.1f}" for value in data)


def formatted(rng, data):
    noisy = data[0] + rng.laplace()
    return {"text": "{:.2f}".format(noisy), "whole": str(round(noisy))}  # noqa: UP032


def either(rng, data):
    noisy = data[0] + rng.laplace()
    return "few" if noisy < 3 else "n = " + f"{noisy:.1f}"


@pytest.mark.parametrize(
    ("mechanism", "texts"),
    [
        (sentence, [["about {data[0] + n0:.0f} of 2"]]),
        (listed, [["{data[0] + n0:.1f}, {data[1] + n1:.1f}"]]),
        (formatted, [["{data[0] + n0:.2f}", "{round(data[0] + n0)}"]]),
        (either, [["few"], ["n = {data[0] + n0:.1f}"]]),
    ],
)
def test_a_text_that_is_only_returned_holds_its_numbers(mechanism, texts):
    data = unknowns("data", 2)
    paths = explore(mechanism, data)
    told = [[leaf if isinstance(leaf, str) else leaf.text() for leaf in leaves(path.output)] for path in paths]
    assert sorted(told) == sorted(texts)
    assert Listing.of(as_mechanism(mechanism), data, paths).replay().reached == len(paths)


@pytest.mark.parametrize("mechanism", [sentence, listed, formatted, either])
def test_what_a_text_says_costs_what_its_numbers_cost(mechanism):
    claimed = veridp.mechanism(epsilon=1.0, adjacency="linf", size=2)(mechanism)
    assert veridp.prove(claimed).epsilon == 1


def looks_at_it(rng, data):
    text = f"{data[0] + rng.laplace():.3f}"
    return data[1] if text.startswith("-123.4") else text


def compares_it(rng, data):
    return "low" if f"{data[0] + rng.laplace():.3f}" < "5" else "high"


def pads_it(rng, data):
    return f"{f'{data[0] + rng.laplace():.3f}':>12}"


def measures_it(rng, data):
    return len(f"{data[0] + rng.laplace():.3f}")


def cuts_it(rng, data):
    return str(data[0] + rng.laplace())[:3]


def written(value):
    return f"{value:.2f}"


def looks_at_a_helpers(rng, data):
    return data[1] if written(data[0] + rng.laplace()) == "-7.77" else 0


def uses_it_as_a_key(rng, data):
    return {f"{data[0] + rng.laplace():.1f}": 1}


@pytest.mark.parametrize(
    "mechanism",
    [looks_at_it, compares_it, pads_it, measures_it, cuts_it, looks_at_a_helpers, uses_it_as_a_key],
)
def test_a_text_that_code_may_look_at_is_refused(mechanism):
    with pytest.raises(NotAffine, match="turned into text"):
        explore(mechanism, unknowns("data", 2))
