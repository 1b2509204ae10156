"""Certificates for every size: what is accepted, every kind of tampering and where it is found, and the program."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.prove.tampering import Document, Tampering, at, drop, put, run, tampered

from veridp import catalogue
from veridp.adjacency import adjacency
from veridp.engines.prove import prove, prove_for_every_size, prove_sizes
from veridp.engines.prove.certificate import save_certificate
from veridp.engines.prove.replay import spot_check
from veridp.errors import BadInput, NotInductive
from veridp_check.checker import check, check_file

TENTH = Fraction(1, 10)
LOOPS = {
    "svt1": (catalogue["svt1"], TENTH),
    "svt2": (catalogue["svt2"], TENTH),
    "svt4": (catalogue["svt4"], Fraction(7, 40)),
    "gap_svt": (catalogue["gap_svt"], TENTH),
    "numerical_svt": (catalogue["numerical_svt"], TENTH),
    "adaptive_svt": (catalogue["adaptive_svt"], TENTH),
    "monotone_svt": (catalogue["monotone_svt"], TENTH),
    "partial_sum": (catalogue["partial_sum"], TENTH),
    "smart_sum": (catalogue["smart_sum"], 2 * TENTH),
    "prefix_sum": (replace(catalogue["prefix_sum"], adjacency=adjacency("l1")), TENTH),
}


@cache
def _certified(name: str) -> Document:
    return json.loads(json.dumps(prove_for_every_size(LOOPS[name][0]).certificate))


def certified(name: str) -> Document:
    return copy.deepcopy(_certified(name))


@pytest.mark.parametrize("name", LOOPS)
def test_the_certificate_of_an_induction_is_verified(name):
    checked = check(certified(name))
    assert checked.rejection is None
    assert checked.certificate.epsilon == LOOPS[name][1]
    assert (checked.certificate.size, checked.certificate.scope) == (None, "every size")
    assert [step.name for step in checked.steps] == ["neighbours", "system", "shifts", "costs", "induction", "epsilon"]


@pytest.mark.parametrize("name", LOOPS)
def test_the_program_does_what_its_certificate_says(name):
    chosen = LOOPS[name][0]
    checked = spot_check(check(certified(name)), chosen.bound(), 200, seed=4)
    assert checked.verified
    assert checked.steps[-1].finding.startswith("200 random runs of the program agree")


def test_another_program_is_found_out():
    checked = check(certified("svt1"))
    assert spot_check(checked, catalogue["svt4"].bound(), 50, seed=1).rejection.place == "/steps"
    louder = spot_check(checked, catalogue["svt1"].bind(threshold=5.0).bound(), 200, seed=1)
    assert louder.rejection.place == "/steps"
    longer = spot_check(checked, catalogue["svt1"].bind(cutoff=2).bound(), 50, seed=1)
    assert longer.rejection.place == "/steps"


# -------------------------------------------------------------------------------------------------------- tampering


def entry(document: Document, when: str) -> int:
    return next(k for k, step in enumerate(document["steps"]) if step["when"] == when)


# svt1: step 0 draws the threshold, step 1 accepts, step 2 goes on, step 3 ends. Moves 1 and 2 are of step 1, where the
# query rises or falls.
TAMPERINGS = [
    Tampering("ε lowered", "svt1", put("/epsilon", "1/11"), "/alignments/0/moves/0", "may cost 1/10, above ε = 1/11"),
    Tampering(
        "shift too small",
        "svt1",
        put("/alignments/0/moves/2/moves/0", "1"),
        "/alignments/0/moves/2",
        "it changes condition /steps/1/conditions/0 by -1",
    ),
    Tampering(
        "shift too large", "svt1", put("/alignments/0/moves/2/moves/0", "3"), "/alignments/0/moves/2/cost", "cost 3/40"
    ),
    Tampering("cost lowered", "svt1", put("/alignments/0/moves/2/cost", "1/21"), "/alignments/0/moves/2/cost", "1/20"),
    Tampering(
        "difference lowered",
        "svt1",
        put("/alignments/0/places/0/differences/noisy_threshold", "0"),
        "/alignments/0/moves/0",
        "it makes noisy_threshold differ by 1, but in state 0 in phase 'any' it is said to by 0",
    ),
    Tampering(
        "what is left lowered",
        "svt1",
        put("/alignments/0/places/0/left", "1/30"),
        "/alignments/0/moves/",
        "from state 0 in phase 'any', 1/30 is left, but it takes 1/20",
    ),
    Tampering(
        "what is left below 0",
        "svt1",
        lambda d: put("/alignments/0/places/0/left", "-1")(d),
        "/alignments/0/moves/0",
        "what is left after it is below 0",
    ),
    Tampering(
        "a move left out",
        "svt1",
        drop("/alignments/0/moves/2"),
        "/alignments/0/moves",
        "step 1 in phase 'any', where the query moves by -1, is missing",
    ),
    Tampering(
        "a move twice",
        "svt1",
        lambda d: d["alignments"][0]["moves"].append(d["alignments"][0]["moves"][0]),
        "/alignments/0/moves/6",
        "listed twice",
    ),
    Tampering("a place left out", "svt1", drop("/alignments/0/places/0"), "/alignments/0/places", "state 0 in phase"),
    Tampering(
        "a place twice",
        "svt1",
        lambda d: d["alignments"][0]["places"].append(d["alignments"][0]["places"][0]),
        "/alignments/0/places/1",
        "listed twice",
    ),
    Tampering(
        "a step left out",
        "svt1",
        lambda d: (drop("/steps/3")(d), drop("/alignments/0/moves/5")(d)),
        "/steps",
        "there is none for the end of state 0",
    ),
    Tampering(
        "condition weakened",
        "svt1",
        put("/steps/1/conditions/0/constant", "1"),
        "/steps/2",
        "at the step of state 0: it overlaps event 0",
    ),
    Tampering(
        "condition strengthened",
        "svt1",
        put("/steps/1/conditions/0/constant", "-1"),
        "/steps",
        "at the step of state 0: no event covers",
    ),
    Tampering(
        "update changed",
        "svt1",
        put("/steps/2/updates/noisy_threshold/query", "1"),
        "/alignments/0/moves/",
        "it makes noisy_threshold differ by",
    ),
    Tampering(
        "update of a symbol left out",
        "svt1",
        drop("/steps/2/updates/noisy_threshold"),
        "/steps/2/updates",
        "each symbol of the next state is needed (noisy_threshold)",
    ),
    Tampering(
        "a number released that is kept back",
        "svt1",
        lambda d: (
            d["steps"][1]["output"].append("#"),
            d["steps"][1]["numbers"].append({"noise": {"1": "1"}, "query": "1", "state": {}, "constant": "0"}),
        ),
        "/alignments/0/moves/1",
        "it changes the number /steps/1/numbers/0 by ",
    ),
    Tampering(
        "a number without its mark",
        "gap_svt",
        lambda d: d["steps"][next(k for k, s in enumerate(d["steps"]) if s["numbers"])].update(output=[]),
        "/steps/1/numbers",
        "0 needed, one for each #",
    ),
    Tampering("scale lowered", "svt1", put("/noises/1/scale", "39"), "/alignments/0/moves/", "the moves cost"),
    Tampering(
        "kind that only moves upwards",
        "partial_sum",
        put("/noises/0/kind", "gumbel"),
        "/alignments/0/moves/",
        "gumbel noise must not be moved by -1",
    ),
    Tampering(
        "kind in whole steps",
        "svt1",
        lambda d: d["noises"][1].update(kind="geometric", p="1/2") or d["noises"][1].pop("scale"),
        "/alignments/0/moves/",
        "geometric noise must not be moved by 2",
    ),
    Tampering("adjacency renamed", "svt1", put("/adjacency", "monotone"), "/alignments", "2 needed under monotone"),
    Tampering("adjacency without phases", "svt1", put("/adjacency", "any"), "/adjacency", "no induction"),
    Tampering(
        "adjacency widened",
        "partial_sum",
        put("/adjacency", "linf"),
        "/alignments/0/places/0/phase",
        "linf has no such phase",
    ),
    Tampering(
        "phase renamed", "svt1", put("/alignments/0/places/0/phase", "up"), "/alignments/0/places/0/phase", "no such"
    ),
    Tampering(
        "symbol unknown", "svt1", put("/steps/1/conditions/0/state/x", "1"), "/steps/1/conditions/0/state/x", "x is"
    ),
    Tampering(
        "a query at the start",
        "svt1",
        put("/steps/0/updates/noisy_threshold/query", "1"),
        "/steps/0/updates/noisy_threshold/query",
        "there is no query here",
    ),
    Tampering("a state that is not there", "svt1", put("/steps/2/to", 1), "/steps/2/to", "there is no state 1"),
    Tampering("the end leads on", "svt1", put("/steps/3/to", 0), "/steps/3/to", "null is needed at the end"),
    Tampering("noise of another draw", "svt1", put("/noises/1/draw", 1), "/steps/1/draws/0", "not draw 0"),
    Tampering("field added", "svt1", put("/steps/0/note", "x"), "/steps/0/note", "there is no such field"),
]


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.what)
def test_tampering_is_rejected_at_its_place(tampering):
    tampering.assert_rejected(certified(tampering.name))


# -------------------------------------------------------------------- tampering at random, judged by another means

WAYS = {"linf": [[-1, 1]], "monotone": [[0, 1], [-1, 0]]}


def carries_random_runs(document: Document, rng: np.random.Generator, runs: int = 40) -> bool:
    """Whether runs of the system, on random queries, are carried to random neighbours at ε.

    Two runs are walked side by side, in floats: the second with the queries and the noise moved. They must take the
    same steps and release the same numbers, and the densities of the noise must not differ by more than e^ε.
    """
    ways = WAYS.get(document["adjacency"], [[0]])
    if len(document["alignments"]) != len(ways):
        return False
    for _ in range(runs):
        which = int(rng.integers(len(ways)))
        size = int(rng.integers(0, 7))
        moves = [int(rng.choice(ways[which])) for _ in range(size)]
        phases = ["any" if document["adjacency"] == "linf" else ["up", "down"][which]] * (size + 2)
        if document["adjacency"] == "l1":
            moves, phases = _one_moves(document, size, rng)
        try:
            if not _both_walked(document, document["alignments"][which], moves, phases, rng):
                return False
        except (LookupError, StopIteration):
            return False
    return True


def _one_moves(document: Document, size: int, rng: np.random.Generator) -> tuple[list[int], list[str]]:
    moves = [0] * size
    moved = int(rng.integers(0, size + 1))
    way = int(rng.choice([-1, 1]))
    if moved < size:
        moves[moved] = way
    oldest = 2 * document["period"]
    ages = [
        "before" if k <= moved else f"{'up' if way > 0 else 'down'} {min(k - moved, oldest)}" for k in range(size + 1)
    ]
    return moves, [ages[0], *ages]


def _value(linear: Document, noise: dict[str, float], query: float, state: dict[str, float]) -> float:
    total = float(Fraction(linear["constant"])) + float(Fraction(linear["query"])) * query
    total += sum(float(Fraction(c)) * noise[row] for row, c in linear["noise"].items())
    return total + sum(float(Fraction(c)) * state[name] for name, c in linear["state"].items())


def _both_walked(document, alignment, moves, phases, rng) -> bool:
    laws = {str(row): float(Fraction(noise["scale"])) for row, noise in enumerate(document["noises"])}
    left: dict[str, float] = {}
    right: dict[str, float] = {}
    state, spent = None, 0.0
    for number in range(len(moves) + 2):
        when = "start" if number == 0 else "step" if number <= len(moves) else "end"
        by = moves[number - 1] if when == "step" else 0
        query = float(rng.normal(scale=3)) if when == "step" else 0.0
        noise = {row: float(rng.laplace(scale=scale)) for row, scale in laws.items()}
        ways = [
            (s, step)
            for s, step in enumerate(document["steps"])
            if (step["when"], step["from"]) == (when, state)
            and all(_value(c, noise, query, left) >= 0 for c in step["conditions"])
        ]
        if len(ways) != 1:
            return False
        s, step = ways[0]
        phase = None if state is None else phases[number]
        key = (s, phase, Fraction(by))
        move = next(m for m in alignment["moves"] if (m["step"], m["phase"], Fraction(m["query"])) == key)
        shifts = [float(Fraction(x)) for x in move["moves"]]
        moved = noise | {str(r): noise[str(r)] + x for r, x in zip(step["draws"], shifts, strict=True)}
        spent += sum((abs(moved[str(r)]) - abs(noise[str(r)])) / laws[str(r)] for r in step["draws"])
        for c in step["conditions"]:
            if _value(c, moved, query + by, right) < -1e-9:
                return False
        for n in step["numbers"]:
            if abs(_value(n, noise, query, left) - _value(n, moved, query + by, right)) > 1e-9:
                return False
        left, right = (
            {n: _value(u, some, q, values) for n, u in step["updates"].items()}
            for some, q, values in ((noise, query, left), (moved, query + by, right))
        )
        state = step["to"]
        if state is None:
            break
    return spent <= float(Fraction(document["epsilon"])) + 1e-9


@pytest.mark.parametrize("name", LOOPS)
def test_the_means_by_which_tampering_is_judged_accepts_what_is_true(name):
    assert carries_random_runs(certified(name), np.random.default_rng(3), runs=200)


@pytest.mark.parametrize("pointer", ["/alignments/0/moves/2/moves/0", "/epsilon", "/noises/1/scale"])
def test_the_means_by_which_tampering_is_judged_sees_what_is_false(pointer):
    document = certified("svt1")
    put(pointer, "1/100")(document)
    assert not carries_random_runs(document, np.random.default_rng(3), runs=3000)


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_accepted_after_random_tampering_is_still_true(data):
    document = certified(data.draw(st.sampled_from(["svt1", "gap_svt", "smart_sum", "monotone_svt"])))
    before = copy.deepcopy(document)
    pointer = tampered(document, data.draw)
    if check(document).verified and document != before and all(n["kind"] == "laplace" for n in document["noises"]):
        assert carries_random_runs(document, np.random.default_rng(5)), pointer
        assert Fraction(document["epsilon"]) >= Fraction(before["epsilon"]), pointer


# ----------------------------------------------------------------------------------------------------- its surroundings


def test_names_of_variables_do_not_run_into_each_other():
    """A noisy variable called `query`, or as noise is, is not the query, nor noise."""

    def named(rng, queries):
        query = rng.laplace(scale=20)
        n0 = query + 1
        answers = []
        for each in queries:
            if each + rng.laplace(scale=40) >= n0:
                answers.append(True)
                break
            answers.append(False)
        return answers

    with pytest.raises(NotInductive, match="is determined by other variables"):
        prove_for_every_size(named)

    def renamed(rng, queries):
        n0 = rng.laplace(scale=20)
        answers = []
        for query in queries:
            if query + rng.laplace(scale=40) >= n0:
                answers.append(True)
                break
            answers.append(False)
        return answers

    assert prove_for_every_size(renamed).exact_epsilon == TENTH

    def as_the_query(rng, queries):
        query = rng.laplace(scale=20)
        answers = []
        for each in queries:
            answers.append(each - query + rng.laplace(scale=40))
        return answers

    with pytest.raises(NotInductive):
        prove_for_every_size(as_the_query)
    assert prove(as_the_query, 3).exact_epsilon == Fraction(3, 40)


def test_sizes_with_an_induction_have_its_certificate(tmp_path):
    save_certificate(prove_sizes(catalogue["gap_svt"], 2), tmp_path / "proof.json")
    assert check_file(tmp_path / "proof.json").certificate.scope == "every size"
    with pytest.raises(BadInput, match="no single certificate for several sizes"):
        _ = prove_sizes(catalogue["noisy_max1"], 2).certificate


def test_the_command_writes_the_certificate_for_every_size(monkeypatch, capfd, tmp_path):
    file = tmp_path / "proof.json"
    status, out, _ = run(monkeypatch, capfd, "prove", "svt1", "--sizes", "--size", "2", "--certificate", str(file))
    assert (status, out.splitlines()[-1]) == (0, f"certificate: {file}, for every size")
    status, out, _ = run(monkeypatch, capfd, "check", str(file), "--target", "svt1", "--runs", "50")
    assert status == 0
    assert out.splitlines()[-1] == (
        "verified: svt1(epsilon=0.1, threshold=0.5, cutoff=1) under linf, every size, as described, "
        "is ε-differentially private with ε = 0.1"
    )
    document = json.loads(file.read_text())
    at(document, "/alignments/0/moves/2")["cost"] = "0"
    file.write_text(json.dumps(document))
    status, out, _ = run(monkeypatch, capfd, "check", str(file))
    assert status == 1
    assert f"{file} is rejected at /alignments/0/moves/2/cost: the moves cost 1/20, not 0" in out


def test_without_an_induction_the_command_writes_the_certificate_of_the_size(monkeypatch, capfd, tmp_path):
    file = tmp_path / "proof.json"
    _, out, _ = run(monkeypatch, capfd, "prove", "noisy_max1", "--sizes", "--size", "2", "--certificate", str(file))
    assert out.splitlines()[-1] == f"certificate: {file}, for size 2"
    assert check_file(file).certificate.size == 2
