"""Noisy numbers in texts: explored where the text is only returned, refused elsewhere."""

import json

import pytest

import veridp
from veridp.errors import NotAffine
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.path import leaves
from veridp.kernel.replay.agreement import Listing
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


def line_by_line(rng, data):
    lines = []
    for name, value in zip("ab", data, strict=True):
        noisy = value + rng.laplace()
        lines.append(f"{name}: {noisy:.1f}")
    return "\n".join(lines)


def in_a_variable(rng, data):
    text = "noisy: "
    text += str(data[0] + rng.laplace())
    return {"text": f"<{text}>"}


def in_a_dict(rng, data):
    found = {}
    for name, value in zip("ab", data, strict=True):
        found[name] = f"{value + rng.laplace():.1f}"
    lines = [f"{value + rng.laplace():.2f}" for value in data]
    return found, "; ".join(lines)


def as_json(rng, data):
    noisy = {"visits": round(data[0] + rng.laplace(), 1), "all": [data[1] + rng.laplace(), None, "x"]}
    return json.dumps(noisy, sort_keys=True)


@pytest.mark.parametrize(
    ("mechanism", "texts"),
    [
        (sentence, [["about {data[0] + n0:.0f} of 2"]]),
        (listed, [["{data[0] + n0:.1f}, {data[1] + n1:.1f}"]]),
        (formatted, [["{data[0] + n0:.2f}", "{round(data[0] + n0)}"]]),
        (either, [["few"], ["n = {data[0] + n0:.1f}"]]),
        (line_by_line, [["a: {data[0] + n0:.1f}\nb: {data[1] + n1:.1f}"]]),
        (in_a_variable, [["<noisy: {data[0] + n0}>"]]),
        (in_a_dict, [["{data[0] + n0:.1f}", "{data[1] + n1:.1f}", "{data[0] + n2:.2f}; {data[1] + n3:.2f}"]]),
        (as_json, [['{"all": [{data[1] + n1}, null, "x"], "visits": {0.1·round(10·data[0] + 10·n0)}}']]),
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


def looks_at_its_list(rng, data):
    lines = []
    lines.append(f"{data[0] + rng.laplace():.3f}")
    return lines if len(lines[0]) > 5 else None


def pads_its_variable(rng, data):
    text = f"{data[0] + rng.laplace():.3f}"
    return f"{text:>12}"


def sorts_its_lines(rng, data):
    lines = [str(value + rng.laplace()) for value in data]
    return "; ".join(sorted(lines))


class Log:
    """A list that looks at what is appended to it."""

    def __init__(self):
        self.longest = 0

    def append(self, text):
        self.longest = max(self.longest, len(text))


def appends_to_something(rng, data):
    log = Log()
    log.append(f"{data[0] + rng.laplace()}")
    return log.longest


ELSEWHERE: list[str] = []


def keeps_it_elsewhere(rng, data):
    ELSEWHERE.append(f"{data[0] + rng.laplace()}")
    return len(ELSEWHERE.pop())


def closes_over_it(rng, data):
    text = f"{data[0] + rng.laplace()}"

    def length():
        return len(text)

    return text, length()


def looks_at_json(rng, data):
    return len(json.dumps({"noisy": data[0] + rng.laplace()}))


def looks_at_locals(rng, data):
    text = f"{data[0] + rng.laplace()}"
    return text, len(locals()["text"])


@pytest.mark.parametrize(
    "mechanism",
    [
        looks_at_it, compares_it, pads_it, measures_it, cuts_it, looks_at_a_helpers, uses_it_as_a_key,
        looks_at_its_list, pads_its_variable, sorts_its_lines, keeps_it_elsewhere,
        appends_to_something, closes_over_it, looks_at_json, looks_at_locals,
    ],
)  # fmt: skip
def test_a_text_that_code_may_look_at_is_refused(mechanism):
    with pytest.raises(NotAffine, match="turned into text"):
        explore(mechanism, unknowns("data", 2))
