"""Mechanisms of the literature, right and wrong, each once, with its true cost. The engines know nothing of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from veridp.catalogue.additive import (
    gaussian,
    geometric,
    laplace,
    laplace_parallel,
    noisy_hist1,
    noisy_hist2,
    truncated_geometric,
)
from veridp.catalogue.gap_svt import (
    adaptive_svt,
    bad_adaptive_svt,
    bad_gap_svt,
    gap_svt,
    monotone_svt,
    numerical_svt,
)
from veridp.catalogue.local import one_time_rappor, randomized_response, rappor
from veridp.catalogue.selection import (
    exponential_mechanism,
    noisy_max1,
    noisy_max2,
    noisy_max3,
    noisy_max4,
    noisy_max_gumbel,
    noisy_max_sum,
)
from veridp.catalogue.sums import (
    bad_partial_sum,
    bad_smart_sum,
    finder_sum,
    partial_sum,
    prefix_sum,
    smart_sum,
)
from veridp.catalogue.svt import at, at1, at2, at3, at4, at5, svt1, svt2, svt3, svt4, svt5, svt6, svt34_parallel
from veridp.errors import BadTarget
from veridp.mechanism import Mechanism

__all__ = ["Catalogue", "UnknownMechanism", "catalogue"]


ELSEWHERE = "`veridp catalogue` lists what it has; a function of your own is file.py:function"


class UnknownMechanism(BadTarget, KeyError):
    """The catalogue has no mechanism of this name."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class Catalogue(Mapping[str, Mechanism]):
    """Mechanisms by name; cannot be changed."""

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = dict(mechanisms)

    def __getitem__(self, name: str) -> Mechanism:
        try:
            return self._mechanisms[name]
        except KeyError:
            raise UnknownMechanism(self._unknown(name)) from None

    def _unknown(self, name: object) -> str:
        near = difflib.get_close_matches(str(name), self._mechanisms, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else ELSEWHERE
        return f"the catalogue has no mechanism {name!r}; {advice}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._mechanisms)

    def __len__(self) -> int:
        return len(self._mechanisms)

    def __repr__(self) -> str:
        return f"<catalogue of {len(self)} mechanisms: {', '.join(self)}>"


catalogue = Catalogue(
    {
        "laplace": laplace,
        "noisy_hist1": noisy_hist1,
        "noisy_hist2": noisy_hist2,
        "laplace_parallel": laplace_parallel,
        "truncated_geometric": truncated_geometric,
        "geometric": geometric,
        "gaussian": gaussian,
        "noisy_max1": noisy_max1,
        "noisy_max2": noisy_max2,
        "noisy_max3": noisy_max3,
        "noisy_max4": noisy_max4,
        "noisy_max_gumbel": noisy_max_gumbel,
        "noisy_max_sum": noisy_max_sum,
        "exponential_mechanism": exponential_mechanism,
        "svt1": svt1,
        "svt2": svt2,
        "svt3": svt3,
        "svt4": svt4,
        "svt5": svt5,
        "svt6": svt6,
        "svt34_parallel": svt34_parallel,
        "numerical_svt": numerical_svt,
        "gap_svt": gap_svt,
        "bad_gap_svt": bad_gap_svt,
        "adaptive_svt": adaptive_svt,
        "bad_adaptive_svt": bad_adaptive_svt,
        "monotone_svt": monotone_svt,
        "partial_sum": partial_sum,
        "bad_partial_sum": bad_partial_sum,
        "smart_sum": smart_sum,
        "bad_smart_sum": bad_smart_sum,
        "prefix_sum": prefix_sum,
        "randomized_response": randomized_response,
        "one_time_rappor": one_time_rappor,
        "rappor": rappor,
        "at": at,
        "at1": at1,
        "at2": at2,
        "at3": at3,
        "at4": at4,
        "at5": at5,
        "finder_sum": finder_sum,
    }
)
