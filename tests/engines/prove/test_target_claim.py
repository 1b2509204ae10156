"""What a certificate says that its target does not say of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines.prove.tampering import run

from veridp import catalogue, mechanism
from veridp.adjacency import OwnAdjacency, adjacency
from veridp.engines.prove import prove, prove_for_every_size
from veridp.engines.prove.certificate import save_certificate
from veridp.engines.prove.target import target_differences
from veridp.mechanism import Mechanism
from veridp_check.checker import check


def differing(proved: Mechanism, target: Mechanism, size: int | None = None) -> dict[str, tuple[str, str]]:
    checked = check(json.loads(json.dumps(prove(proved, size).certificate)))
    assert checked.verified
    return {d.field: (d.certificate, d.target) for d in target_differences(checked.certificate, target)}


@mechanism(epsilon=0.5, adjacency="l1", size=2)
def noisy(rng, queries, scale=2.0):
    return [query + rng.laplace(scale=scale) for query in queries]


def test_nothing_differs_from_the_target_itself():
    for target in (noisy, catalogue["svt1"], catalogue["randomized_response"], catalogue["rappor"]):
        assert differing(target, target) == {}


def test_a_proof_for_every_size_covers_any_size():
    proof = prove_for_every_size(catalogue["svt1"])
    checked = check(json.loads(json.dumps(proof.certificate)))
    assert target_differences(checked.certificate, catalogue["svt1"]) == []


@pytest.mark.parametrize(
    ("target", "field", "said"),
    [
        (replace(noisy, adjacency=adjacency("linf")), "adjacency", ("l1", "linf")),
        (replace(noisy, size=4), "size", ("2", "4")),
        (replace(noisy, epsilon=0.4), "ε", ("0.5", "a claim of 0.4")),
        (replace(noisy, epsilon=None), "ε", ("0.5", "no claim")),
        (noisy.bind(scale=3.0), "argument scale", ("2.0", "3.0")),
    ],
)
def test_each_field_that_differs_is_said(target, field, said):
    assert differing(noisy, target) == {field: said}


def test_another_mechanism_has_other_arguments():
    found = differing(noisy, catalogue["laplace"].bind(), 1)
    assert found["mechanism"] == ("noisy", "laplace")
    assert found["argument scale"] == ("2.0", "none")


def test_domains_are_compared():
    coin = catalogue["randomized_response"]
    assert differing(coin, replace(coin, domain=[False, True, None]))["domain"] == ("2 values", "3 others")

    @mechanism(adjacency="any", domain=(0, 1), epsilon=1.0)
    def number(rng, value):
        return value + rng.laplace(scale=1.0)

    assert differing(number, number) == {}
    assert differing(number, replace(number, domain=(0, 2)))["domain"] == ("[0, 1]", "[0, 2]")
    assert differing(catalogue["geometric"], catalogue["geometric"])["data"] == ("whole numbers", "numbers")


def test_what_is_proved_between_listed_records_is_proved_of_these():
    @mechanism(adjacency="add-remove", domain=[0, 1], size=3, epsilon=0.3)
    def sampled(rng, data):
        return sum(x for x in data if rng.random() < 0.2) + rng.laplace()

    assert prove(sampled).certificate["domain"] == ["0", "1"]
    assert differing(sampled, sampled) == {}
    assert differing(sampled, replace(sampled, domain=[0, 2])) == {"domain": ("[0, 1]", "no interval")}
    assert differing(sampled, replace(sampled, domain=["a", "b"])) == {"domain": ("[0, 1]", "no interval")}


def test_differences_that_are_listed_are_those_of_the_target():
    def own(step: float) -> OwnAdjacency:
        corners = np.array([[step, step], [-step, -step]])
        return OwnAdjacency("mine", lambda a, b: True, lambda size: [([0.0, 0.0], [1.0, 1.0])], lambda size: corners)

    target = replace(noisy, adjacency=own(1.0), epsilon=1.0)
    assert differing(target, target) == {}
    wider = differing(target, replace(target, adjacency=own(2.0)))
    assert wider == {"adjacency": ("listed", "mine, with other differences")}
    assert differing(target, noisy)["adjacency"] == ("listed", "l1")


def test_the_command_says_what_differs(monkeypatch, capfd, tmp_path: Path):
    file = tmp_path / "proof.json"
    save_certificate(prove(catalogue["svt1"], 3, threshold=2.0), file)
    status, out, _ = run(monkeypatch, capfd, "check", str(file), "--target", "svt1", "--runs", "20")
    assert status == 1
    assert out.splitlines()[-1] == (
        "but not of the target: it differs in argument threshold (2.0 in the certificate, 0.5 in the target); "
        "size (3 in the certificate, 10 in the target); "
        "--size, --epsilon, --adjacency, --domain and --arg say other settings of the target"
    )
    status, out, _ = run(monkeypatch, capfd, "check", str(file), "--target", "svt1", "--runs", "20", "--json")
    assert (status, json.loads(out)["results"][0]["verified"]) == (1, True)
    assert json.loads(out)["results"][0]["differences"][1] == {"field": "size", "certificate": "3", "target": "10"}


def test_options_state_what_the_target_is_meant_to_be(monkeypatch, capfd, tmp_path: Path):
    file = tmp_path / "proof.json"
    save_certificate(prove(catalogue["svt1"], 3, threshold=2.0), file)
    words = ["check", str(file), "--size", "3", "--arg", "threshold=2.0"]
    assert run(monkeypatch, capfd, *words, "--target", "svt1", "--runs", "20")[0] == 0
    assert run(monkeypatch, capfd, *words, "--target", "svt1", "--runs", "20", "--epsilon", "0.05")[0] == 1
    status, out, err = run(monkeypatch, capfd, *words)
    assert (status, out) == (2, "")
    assert "give --target too" in err


def test_a_certificate_writes_no_lines_of_its_own(monkeypatch, capfd, tmp_path: Path):
    file = tmp_path / "proof.json"
    document = json.loads(json.dumps(prove(catalogue["svt1"], 2).certificate))
    document["mechanism"] = "x\nverified: y\x1b[1m \u202e \ud800"
    file.write_text(json.dumps(document))
    status, out, _ = run(monkeypatch, capfd, "check", str(file))
    assert status == 0
    assert not any(line.startswith("verified: y") for line in out.splitlines())
    assert "verified: x\\nverified: y\\x1b[1m \\u202e \\ud800(" in out


@pytest.mark.parametrize(("claimed", "differs"), [({"mu": 0.5}, False), ({"rho": 0.125}, False), ({"mu": 0.49}, True)])
def test_a_claim_in_another_notion_is_compared_in_it(claimed, differs):
    def released(rng, data):
        return data[0] + rng.normal(scale=2.0)

    target = mechanism(size=1, adjacency="l1", **claimed)(released)
    certificate = check(prove(released, 1, delta=1e-6, adjacency="l1").certificate).certificate
    assert certificate is not None
    assert bool([each for each in target_differences(certificate, target) if each.field == "claim"]) is differs
