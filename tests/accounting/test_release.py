"""Release files and the commands: what they print, and errors that name the node."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import veridp
from veridp.accounting import (
    Parallel,
    Sequential,
    line,
    mechanisms,
    parse_release,
    part,
    read_release,
    recording,
    releases_of,
)
from veridp.accounting.release import schema
from veridp.accounting.tree import basic_charge
from veridp.adjacency import adjacency
from veridp.claim import Claim
from veridp.cli import main
from veridp.errors import BadInput, Nondeterministic
from veridp.mechanism import Mechanism, mechanism
from veridp.target import load
from veridp.verdict import Standing

RELEASE = """
release:
  sequential:
    - laplace: {epsilon: 0.1, name: count}
    - repeated: {times: 30, of: {gaussian: {epsilon: 0.2, delta: 1e-8}}}
    - parallel:
        parts:
          north: {claim: {epsilon: 0.2, basis: not refuted, name: median}}
          south: {randomised_response: {epsilon: 0.4, values: 3}}
    - post_processed: {by: rounding, of: {subsampled: {rate: 0.5, of: {laplace: {scale: 2, sensitivity: 1}}}}}
    - mechanism: {target: svt1, arguments: {epsilon: 0.3}}
delta: 1e-6
budget: {epsilon: 4, delta: 1e-6}
"""


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["veridp", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    return int(ended.value.code or 0), printed.out + printed.err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "release.yaml"
    path.write_text(RELEASE)
    return path


def test_a_file_becomes_a_tree(file: Path) -> None:
    found = read_release(file, load)
    assert found.delta == 1e-6
    assert found.budget == Claim(4.0, 1e-6)
    charge = basic_charge(found.release)
    assert charge is not None
    import math

    sampled = math.log1p(0.5 * math.expm1(0.5))
    assert float(charge.epsilon) == pytest.approx(0.1 + 30 * 0.2 + 0.4 + sampled + 0.3)
    assert float(charge.delta) == pytest.approx(3e-7)


def test_yaml_and_json_are_the_same(file: Path, tmp_path: Path) -> None:
    import yaml

    other = tmp_path / "release.json"
    other.write_text(json.dumps(yaml.safe_load(RELEASE)))
    assert basic_charge(read_release(other, load).release) == basic_charge(read_release(file, load).release)


def test_a_mechanism_by_its_exact_losses() -> None:
    node = {"mechanism": {"target": "laplace", "arguments": {"epsilon": 0.5}, "left": [0], "right": [1]}}
    (leaf,) = parse_release({"release": node}, load).release.leaves()
    assert leaf.basis.value == "exact between one pair of inputs"
    assert leaf.pairs.supremum == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "place", "complaint"),
    [
        (("rate: 0.5", "rat: 0.5"), "release.sequential[3].post_processed.of.subsampled", "'rate' is a required"),
        (("rate: 0.5", "rate: 2"), "release.sequential[3].post_processed.of.subsampled.rate", "maximum"),
        (("epsilon: 0.2, basis", "epsilon: x, basis"), "release.sequential[2].parallel.parts.north.claim.epsilon", ""),
        (("not refuted", "hopeful"), "release.sequential[2].parallel.parts.north.claim.basis", "proved, claimed"),
        (("- laplace:", "- laplase:"), "release.sequential[0]", "give one of sequential, parallel"),
        (("target: svt1", "target: svt100"), "release.sequential[4].mechanism", "no mechanism 'svt100'"),
        (("epsilon: 0.3", "epsilom: 0.3"), "release.sequential[4].mechanism", "takes no argument"),
        (("delta: 1e-8", "scale: 3"), "release.sequential[1].repeated.of.gaussian", "needs either scale"),
        (("times: 30", "times: 1.5"), "release.sequential[1].repeated.times", "integer"),
        (("budget: {epsilon: 4", "budget: {epsilom: 4"), "budget", "give epsilon, delta"),
    ],
)
def test_errors_name_the_node(file: Path, change: tuple[str, str], place: str, complaint: str) -> None:
    assert change[0] in RELEASE
    file.write_text(RELEASE.replace(*change))
    with pytest.raises(BadInput) as found:
        read_release(file, load)
    assert f"{file}: {place}: " in str(found.value)
    assert complaint in str(found.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("rate: 0.5", "rate: .nan"), "release.sequential[3].post_processed.of.subsampled: rate must be in"),
        (("budget: {epsilon: 4", "budget: {epsilon: .nan"), "budget: epsilon must be a number >= 0, got nan"),
        (("north:", "1:"), "release.sequential[2].parallel.parts: 1 is not of type 'string'"),
        (("south:", "north:"), "'north' occurs twice"),
    ],
)
def test_what_no_schema_can_tell_is_told_with_its_place(file: Path, change: tuple[str, str], complaint: str) -> None:
    assert change[0] in RELEASE
    file.write_text(RELEASE.replace(*change))
    with pytest.raises(BadInput) as found:
        read_release(file, load)
    assert complaint in str(found.value)


def test_a_node_within_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    file.write_text("release: &whole\n  sequential: [*whole]\n")
    with pytest.raises(BadInput, match="contains itself"):
        read_release(file, load)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_release(tmp_path / "none.yaml", load)
    broken = tmp_path / "broken.yaml"
    broken.write_text("release: [")
    with pytest.raises(BadInput, match="not YAML"):
        read_release(broken, load)
    broken.write_text("just text")
    with pytest.raises(BadInput, match="the file: 'just text' is not of type 'object'"):
        read_release(broken, load)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


# ----------------------------------------------------------------------------------------------------- commands


def test_account_prints_every_method(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, shown = run(["account", str(file), "--second-opinion"], monkeypatch, capfd)
    assert status == 0
    for method in ("basic", "advanced", "zCDP", "RDP", "privacy loss distribution", "dp-accounting", "tightest"):
        assert method in shown
    assert "not refuted: no more is known of median" in shown
    assert "budget (4, 1e-06)-DP: kept" in shown


def test_a_budget_that_is_exceeded_is_status_1(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, shown = run(["account", str(file), "--budget", "0.5", "--json"], monkeypatch, capfd)
    assert status == 1
    (document,) = json.loads(shown)["results"]
    assert document["within_budget"] is False
    assert document["not_refuted"] == ["median"]
    best = [bound for bound in document["bounds"] if bound["tightest"]]
    assert len(best) == 1
    assert best[0]["epsilon"] == min(b["epsilon"] for b in document["bounds"] if isinstance(b["epsilon"], float))


def test_bad_files_are_status_2(file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text(RELEASE.replace("- laplace:", "- laplase:"))
    status, shown = run(["account", str(file)], monkeypatch, capfd)
    assert status == 2
    assert "release.sequential[0]" in shown
    assert run(["account"], monkeypatch, capfd)[0] == 2


def test_the_schema_is_printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    status, shown = run(["account", "--schema"], monkeypatch, capfd)
    assert status == 0
    assert json.loads(shown) == schema()


COMPOSED = """
from veridp.accounting import mechanisms
import veridp

@veridp.mechanism(adjacency="add-remove", domain=(0, 5), size=2)
def total(rng, data, *, sensitivity=5.0):
    return mechanisms.laplace(rng, sum(data), epsilon=0.5, sensitivity=sensitivity)
"""


@pytest.mark.slow
def test_a_composed_function_is_one_line(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (own_folder / "composed.py").write_text(COMPOSED)
    given = ["account", "composed.py:total", "--samples", "20000", "--time", "1h"]  # so many runs, however long
    status, shown = run(given, monkeypatch, capfd)
    assert status == 0
    assert shown.startswith("total: ledger 0.5 (basic), exact 0.5, attack >= 0.")
    assert len(shown.strip().split("\n")) == 1
    status, shown = run([*given, "--arg", "sensitivity=1.0", "--no-attack", "--json"], monkeypatch, capfd)
    assert status == 1
    (document,) = json.loads(shown)["results"]
    assert document["exceeded"] is True
    assert document["exact_epsilon"] == pytest.approx(2.5)


def test_a_budget_in_a_file(
    own_folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def budget(*arguments: str) -> tuple[int, str]:
        return run(["budget", *arguments], monkeypatch, capfd)

    assert budget("init", "b.db", "--epsilon", "10", "--delta", "1e-6")[0] == 0
    assert budget("init", "b.db", "--epsilon", "10")[0] == 2
    assert budget("spend", "b.db", "--epsilon", "0.25", "--what", "a count") == (
        0,
        "1. a count: ε = 0.25, δ = 0; left: ε = 9.75, δ = 1e-06\n",
    )
    assert budget("spend", "b.db", "--release", str(file), "--what", "a release")[0] == 0
    status, shown = budget("spend", "b.db", "--epsilon", "9")
    assert status == 1
    assert "costs ε = 9" in shown
    status, shown = budget("show", "b.db", "--json")
    (document,) = json.loads(shown)["results"]
    assert [entry["what"] for entry in document["entries"]] == ["a count", "a release"]
    assert document["spent"]["epsilon"] + document["left"]["epsilon"] == pytest.approx(10.0)
    assert "a count: ε = 0.25" in budget("show", "b.db")[1]
    assert budget("spend", "b.db")[0] == 2
    assert budget("show", "none.db")[0] == 2


# ----------------------------------------------------------------------------------------------------------- recording
# Composed functions: what they call, and the ledger's bound, the exact ε and the attack on one line.


@dataclass(frozen=True)
class Attack:
    """An attack that found this much."""

    epsilon_lower: float
    confidence: float = 0.95


@mechanism(adjacency="l1", size=2)
def two_counts(rng: Any, answers: Any) -> list[Any]:
    """The first answer twice, the second once if the first seems large."""
    first = mechanisms.laplace(rng, answers[0], epsilon=0.1)
    second = mechanisms.laplace(rng, answers[0], epsilon=0.2)
    return [first, second, mechanisms.laplace(rng, answers[1], epsilon=0.4) if first > 0 else 0.0]


def test_every_path_is_a_release() -> None:
    found = releases_of(two_counts, [1.0, 1.0])
    assert found.every
    charges = {float(charge.epsilon) for charge in map(basic_charge, found.releases) if charge is not None}
    assert charges == {0.3, 0.7}
    assert {len(release.parts) for release in found.releases} == {2, 3}


def test_the_line_of_a_sound_composition() -> None:
    found = line(two_counts, attack=lambda target, size, delta: Attack(0.27 + delta))
    assert found.ledger.epsilon == pytest.approx(0.7)
    assert found.exact == pytest.approx(0.4)  # one answer moves: 0.1 + 0.2, or 0.4
    assert not found.exceeded
    assert str(found) == "two_counts: ledger 0.7 (basic), exact 0.4, attack >= 0.27 (95% confidence)"


def test_a_wrong_declared_sensitivity_shows_on_the_line_and_is_refuted_by_audit() -> None:
    """The sum of values up to 5 moves by 5, but noise is drawn for 1."""

    def hasty(rng: Any, data: list[Any]) -> Any:
        return mechanisms.laplace(rng, sum(data), epsilon=0.2, sensitivity=1.0)

    declared = Mechanism(hasty, epsilon=0.2, adjacency=adjacency("add-remove"), domain=(0, 5), size=2)
    found = line(declared)
    assert (found.ledger.epsilon, found.exact) == (pytest.approx(0.2), pytest.approx(1.0))
    assert found.exceeded
    assert "the ledger is wrong" in str(found)
    verdict = veridp.audit(declared, size=2, seconds=600.0)
    assert verdict.standing is Standing.REFUTED


def test_parts_are_recorded_as_parallel() -> None:
    def by_region(rng: Any, data: dict[str, list[Any]]) -> list[Any]:
        counts = [mechanisms.laplace(rng, float(sum(map(len, data.values()))), epsilon=0.1)]
        for name, rows in data.items():
            with part(name):
                counts.append(mechanisms.laplace(rng, float(len(rows)), epsilon=0.3))
                counts.append(mechanisms.geometric(rng, len(rows), epsilon=0.2))
        return counts

    (release,) = releases_of(by_region, {"north": [1], "south": [1, 2]}).releases
    charge = basic_charge(release)
    assert charge is not None
    assert float(charge.epsilon) == 0.6  # 0.1 for all, 0.3 + 0.2 for a part
    _, parts = release.parts
    assert isinstance(parts, Parallel)
    assert list(parts.parts) == ["north", "south"]


def test_parts_that_overlap_are_found_out() -> None:
    @mechanism(adjacency="add-remove", domain=(0.0, 1.0), size=2)
    def overlapping(rng: Any, data: list[Any]) -> list[Any]:
        answers = []
        for name, low, high in (("low", 0.0, 0.7), ("high", 0.0, 1.0)):
            with part(name):
                count = len([value for value in data if low <= value <= high])
                answers.append(mechanisms.laplace(rng, float(count), epsilon=0.3))
        return answers

    found = line(overlapping)
    assert found.ledger.epsilon == pytest.approx(0.3)
    assert found.exact == pytest.approx(0.6)
    assert found.exceeded


def test_normal_noise_is_accounted_at_a_delta() -> None:
    @mechanism(adjacency="l1", size=1)
    def thrice(rng: Any, answers: Any) -> list[Any]:
        return [mechanisms.gaussian(rng, answers, epsilon=0.5, delta=1e-6)[0] for _ in range(3)]

    told: list[float] = []

    def attack(target: Mechanism, size: int, delta: float) -> Attack:
        told.append(delta)
        return Attack(0.0)

    found = line(thrice, delta=1e-5, seconds=600.0, attack=attack)
    assert found.ledger.delta == 1e-5
    assert told == [1e-5]  # an attack at δ = 0 may rightly find more
    assert found.exact is not None
    assert found.exact == pytest.approx(found.ledger.epsilon, rel=2e-2)
    assert found.exact <= found.ledger.epsilon * (1 + 1e-12)
    assert not found.exceeded


def test_what_cannot_be_explored_is_run_and_says_so() -> None:
    @mechanism(adjacency="l1", size=1)
    def measured(rng: Any, answers: Any) -> float:
        return float(len(str(mechanisms.laplace(rng, answers[0], epsilon=0.3))))

    found = line(measured)
    assert not found.every
    assert found.exact is None
    assert "on the runs seen), exact not known, attack not tried" in str(found)


def test_inner_calls_of_a_claimed_mechanism_are_its_own_affair() -> None:
    @mechanism(epsilon=0.25)
    def inner(rng: Any, data: Any) -> Any:
        return mechanisms.laplace(rng, data, epsilon=0.25)

    @mechanism()
    def outer(rng: Any, data: Any) -> Any:
        return inner(rng, data), mechanisms.laplace(rng, data, epsilon=0.5)

    with recording() as recorder:
        outer(np.random.default_rng(0), 1.0)
    assert isinstance(recorder.release, Sequential)
    names = [leaf.name for leaf in recorder.release.leaves()]
    assert names[0] == "inner"
    assert len(names) == 2


def test_an_input_is_needed() -> None:
    with pytest.raises(BadInput, match="at least one"):
        releases_of(two_counts)


def test_state_of_the_function_itself_is_still_seen() -> None:
    runs: list[int] = []

    def remembers(rng: Any, data: Any) -> Any:
        runs.append(1)
        return mechanisms.laplace(rng, data[0], epsilon=0.3) if len(runs) < 3 else data[0]

    with pytest.raises(Nondeterministic, match="keeps state between runs: the variable runs"):
        releases_of(remembers, [0.0])
