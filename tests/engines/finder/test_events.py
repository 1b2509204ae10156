"""Events with open ends: all forms of an output, and truth on many outputs at once."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.finder.events import End, EventForm, Forms, draw_ends
from veridp.kernel.output import Kind, Slot, Template

SAMPLED = ["at", "at3", "gap_svt", "noisy_max1", "noisy_max3", "smart_sum", "truncated_geometric", "rappor"]


def named(rng: Any, data: Any) -> Any:
    """Text, None, truth values and numbers, nested."""
    noise = rng.laplace(scale=2.0)
    if noise > 1:
        return {"kind": "high", "values": [noise, data[0]]}
    return {"kind": "low", "values": None} if noise < -1 else (bool(noise > 0), [1, 2.5])


def forms_of(mechanism: Any, data: Any) -> Forms:
    return Forms(veridp.explore(mechanism, data, defer=True))


@pytest.mark.parametrize("name", [*SAMPLED, "named"])
def test_many_outputs_at_once_are_judged_as_one_by_one(name: str) -> None:
    mechanism = named if name == "named" else veridp.catalogue[name]
    size = 3
    data = [1.0, 0.5, 2.0] if name == "named" else mechanism.adjacency.example(size, mechanism.domain)
    outputs = veridp.sample(mechanism, data, 300, seed=1)
    forms, rng = forms_of(mechanism, data), np.random.default_rng(2)
    met = 0
    for _ in range(12):
        form = draw_ends(forms.draw(rng), rng)
        event = form.event(np.sort(rng.normal(scale=10, size=len(form.ends))).tolist())
        happened = event(outputs)
        assert happened.dtype == bool
        assert happened.tolist() == [event.holds(output) for output in outputs]
        met += int(happened.sum())
    assert met > 0


def test_the_forms_of_a_sparse_vector_are_its_outputs() -> None:
    forms = forms_of(veridp.catalogue["at1"], [1.0] * 4)
    trees = sorted(len(form.tree) for form in forms.listed or ())
    assert trees == [1, 2, 3, 4, 4]
    assert all(not form.numbers for form in forms.listed or ())


def test_numbers_are_open_and_get_ends() -> None:
    forms = forms_of(veridp.catalogue["at3"], [1.0, 1.0])
    (last,) = [form for form in forms.listed or () if len(form.tree) == 2 and form.numbers]
    assert last.tree[0] is None
    assert isinstance(last.tree[1], Slot)
    event = last.with_ends([End(1, True), End(1, False)]).event([-1.0, 2.0])
    assert str(event) == "output is [None, #] and output[1] in [-1, 2]"
    assert event.holds([None, 1.5])
    assert not event.holds([None, 2.5])
    assert not event.holds([1.5])


def test_where_outputs_are_many_a_form_asks_for_a_few_leaves() -> None:
    rappor = veridp.catalogue["one_time_rappor"]
    forms = forms_of(rappor, 0)
    assert forms.listed is None
    form = forms.draw(np.random.default_rng(3))
    assert form.partial is not None
    assert 1 < len(form.partial) < 20
    event = form.event([])
    share = event(veridp.sample(rappor, 0, 20_000, seed=4)).mean()
    # each bit is 1 with probability about one half; five standard errors, so that one in 10^6 runs fails
    assert share == pytest.approx(0.5 ** len(form.partial), abs=5 * math.sqrt(0.25 / 20_000) + 0.03)


def test_an_end_is_drawn_for_every_number_or_for_one() -> None:
    form = EventForm((Slot(Kind.FLOAT, 0),))
    rng = np.random.default_rng(5)
    kinds = {tuple(end.lower for end in draw_ends(form, rng).ends) for _ in range(50)}
    assert kinds == {(True,), (False,), (True, False)}


def test_events_survive_pickling() -> None:
    entry = LinearEntry(((0, 1.0),), ("output",))
    event = ExactEvent(template=Template(Slot(Kind.FLOAT, 0)), within=((entry, (NumberSpan(0.0, 1.0),)),))
    again = pickle.loads(pickle.dumps(event))  # noqa: S301 - made on the line above
    assert again == event
    assert (again.holds(0.5), again.holds(1.5), again.holds("text")) == (True, False, False)
