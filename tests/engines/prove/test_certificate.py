"""What is written into a certificate, and what cannot be."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from veridp import catalogue, mechanism
from veridp.adjacency import OwnAdjacency
from veridp.engines.prove import prove
from veridp.engines.prove.certificate import certificate_of, certificate_text, save_certificate
from veridp.engines.prove.replay import spot_check
from veridp.errors import BadInput
from veridp_check.checker import check


@mechanism(adjacency="l1")
def above(rng, queries, *, scale=4, threshold=0.5):
    """Whether the query, with noise, is above the threshold; the noisy query itself if so."""
    noisy = queries[0] + rng.laplace(scale=scale)
    return ["yes", noisy] if noisy > threshold else ["no"]


def test_a_certificate_says_what_the_proof_found():
    document = certificate_of(prove(above, 1))
    noisy = {"noise": {"0": "1"}, "data": {"0": "1"}}
    quiet = {"noise": {"0": "-1"}, "data": {"0": "-1"}}
    at_up, at_down = {"moves": ["-1"], "cost": "1/4"}, {"moves": ["1"], "cost": "1/4"}
    events = document.pop("events")
    assert document == {
        "format": "veridp-certificate",
        "version": 3,
        "kind": "alignment",
        "mechanism": "above",
        "arguments": {"scale": "4", "threshold": "0.5"},
        "adjacency": "l1",
        "size": 1,
        "domain": None,
        "data": "real",
        "epsilon": "1/4",
        "polytopes": [{"corners": [["1"], ["-1"]]}],
        "outputs": ["['yes', #]", "['no']"],
        "noises": [{"draw": 0, "kind": "laplace", "scale": "4"}],
    }
    assert events[0] == {
        "output": 0,
        "weight": "1",
        "paths": 1,
        "draws": [0],
        "conditions": [{**noisy, "constant": "-1/2", "relation": ">"}],
        "numbers": [{**noisy, "constant": "0"}],
        "shifts": [{"entries": [0], "at": "corners", "table": [at_up, at_down]}],
    }
    assert events[1]["conditions"] == [{**quiet, "constant": "1/2", "relation": ">="}]
    assert events[1]["shifts"] == [{"entries": [0], "at": "corners", "table": [at_up, {"moves": ["0"], "cost": "0"}]}]


def test_one_draw_that_may_be_of_two_kinds_of_noise_has_two_rows():
    def twice(rng, queries):
        scale = 10 if queries[0] + rng.laplace(scale=20) > 0 else 30
        return queries[1] + rng.laplace(scale=scale)

    document = certificate_of(prove(mechanism(adjacency="l1")(twice), 2))
    assert [(noise["draw"], noise["scale"]) for noise in document["noises"]] == [(0, "20"), (1, "10"), (1, "30")]
    assert [event["draws"] for event in document["events"]] == [[0, 1], [0, 2]]


def test_paths_that_were_merged_are_counted():
    def loop_argmax(rng, queries):
        best, index = None, 0
        for i, query in enumerate(queries):
            noisy = query + rng.laplace(scale=2)
            if best is None or noisy > best:
                best, index = noisy, i
        return index

    document = certificate_of(prove(loop_argmax, 4))
    paths = {document["outputs"][event["output"]]: event["paths"] for event in document["events"]}
    assert paths == {"0": 1, "1": 1, "2": 2, "3": 4}


def test_monotone_neighbours_make_two_polytopes():
    document = certificate_of(prove(catalogue["monotone_svt"], 2))
    assert document["polytopes"] == [{"low": ["0", "0"], "high": ["1", "1"]}, {"low": ["-1", "-1"], "high": ["0", "0"]}]
    assert all(len(event["shifts"]) == 2 for event in document["events"])


def test_the_cost_of_geometric_noise_is_rounded_up_and_its_data_are_whole():
    document = certificate_of(prove(catalogue["geometric"], 2))
    p = Fraction(document["noises"][0]["p"])
    true = -(Decimal(p.denominator - p.numerator) / Decimal(p.denominator)).ln()
    stated = Fraction(document["epsilon"])
    assert document["data"] == "whole"
    assert Decimal(stated.numerator) / Decimal(stated.denominator) > true
    assert float(stated) == pytest.approx(float(true), rel=1e-11)


def test_an_adjacency_of_ones_own_is_written_with_its_corners():
    own = OwnAdjacency(
        "by two", lambda left, right: True, lambda size: [([0.0], [2.0])], lambda size: np.array([[2.0], [-2.0]])
    )
    document = certificate_of(prove(mechanism(adjacency=own)(above.function), 1))
    assert document["adjacency"] == "listed"
    assert document["polytopes"] == [{"corners": [["2"], ["-2"]]}]
    assert document["epsilon"] == "1/2"


def test_the_text_is_the_document_in_lines_that_can_be_read():
    document = certificate_of(prove(catalogue["smart_sum"], 4))
    text = certificate_text(document)
    assert json.loads(text) == document
    assert max(map(len, text.splitlines())) <= 120
    assert any(line.strip().startswith('{"moves": ["-1", "-1",') for line in text.splitlines())


def test_it_is_saved_and_comes_back(tmp_path: Path):
    proof = prove(catalogue["gap_svt"], 2)
    save_certificate(proof, tmp_path / "proof.json")
    document = json.loads((tmp_path / "proof.json").read_text(encoding="utf-8"))
    assert document == certificate_of(proof)  # type: ignore[arg-type]
    assert check(document).verified


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(BadInput, match=r"nowhere.*No such file or directory; give a file that can be written"):
        save_certificate(prove(above, 1), tmp_path / "nowhere" / "proof.json")


def test_where_nothing_is_proved_there_is_no_certificate():
    proof = prove(catalogue["svt5"], 3)
    assert proof.epsilon == math.inf
    with pytest.raises(BadInput, match=r"svt5 .*no alignment found: there is nothing to certify"):
        certificate_of(proof)


def test_a_string_with_the_mark_of_numeric_entries_is_escaped():
    def hashes(rng, queries):
        noisy = queries[0] + rng.laplace()
        return ["#", noisy] if noisy > 0 else "-#"

    proof = prove(hashes, 1)
    document = certificate_of(proof)
    assert document["outputs"] == [r"['\x23', #]", r"'-\x23'"]
    checked = check(document)
    assert checked.verified
    assert spot_check(checked, hashes, 50, 1).verified
    assert not spot_check(checked, lambda rng, data: [hashes(rng, data)], 50, 1).verified
