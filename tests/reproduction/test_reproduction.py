"""The reproduction: all that the sources show is there, what has a closed form is right, and steps are kept."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from reproduction.artefact import Artefact, Effort, Row, Shown, Standing, Text, column, number, where
from reproduction.registry import ARTEFACTS, SOURCES
from reproduction.results import csv_rows, csv_text
from reproduction.steps import Steps, code_digest
from scipy.integrate import quad
from scipy.stats import norm

import reproduction
from reproduction import basics, finder, sniper, statdp
from veridp.local.conclusions import ipa_gain
from veridp.local.study import adult_ages

QUICK = Effort.QUICK
# What the sources show, one by one.
NAMED = {
    "dp-sniper": "sniper-table sniper-guideline-1 sniper-threshold-attack sniper-c-power sniper-float-leak",
    "statdp": "statdp-figure-2 statdp-figure-3 statdp-figure-4 statdp-table-1 statdp-table-2",
    "dp-finder": "finder-figure-6 finder-figure-12 finder-figure-13 finder-figure-14 finder-bounds",
    "dpest": "dpest-report dpest-against-statdp",
    "checkdp": "checkdp-table",
    "local-dp": " ".join(f"local-figure-{number}" for number in range(1, 10))
    + " local-table-1 local-table-2 local-theorems local-example-grr local-example-sr local-example-pm",
    "basics": "basics-laplace basics-neighbours basics-sensitivity basics-post-processing basics-sequential "
    "basics-parallel basics-approximate basics-approximate-theorems",
}
MECHANISMS = {"dp-sniper": 20, "statdp": 33, "dp-finder": 9, "dpest": 21, "checkdp": 16}


def shown(name: str) -> tuple[list[Row], Shown]:
    """The rows of an artefact that costs nothing to measure, as they come back from CSV, and what is shown of them."""
    artefact = ARTEFACTS[name]
    measured = [row for case in artefact.cases(QUICK) for row in artefact.measure(case, QUICK, 0)]
    rows = csv_rows(csv_text(measured))
    return rows, artefact.show(rows)


def standings(name: str) -> list[Standing]:
    return [finding.standing for finding in shown(name)[1].findings]


def test_every_figure_and_table_of_the_sources_is_there() -> None:
    assert {source.name: " ".join(a.name for a in source.artefacts) for source in SOURCES} == NAMED
    steps = {s.name: len({c for a in s.artefacts[:3] for c in a.cases(QUICK) if c != "all"}) for s in SOURCES}
    assert {name: steps[name] for name in MECHANISMS} == MECHANISMS


def test_only_the_public_interface_is_used() -> None:
    """Each module is an example of how to use veridp: no engine's inner modules, no names that begin with _."""
    for file in Path(*reproduction.__path__).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("veridp"):
                assert "engines" not in str(node.module), f"{file.name}:{node.lineno}"
                assert not any(name.name.startswith("_") for name in node.names), f"{file.name}:{node.lineno}"


# --------------------------------------------------------------------------------------------------- closed forms


def test_guideline_1_is_the_published_number_with_the_bracket_put_back() -> None:
    rows, _ = shown("sniper-guideline-1")
    at = where(rows, omega=0.005)[0]
    squared = quad(lambda t: math.exp(-t * t), 0, 1.1630871536766743)[0] * 2 / math.sqrt(math.pi)
    assert squared == pytest.approx(0.9)  # erf⁻¹(0.9) by integration
    assert number(at, "veridp") == pytest.approx(7.92e6 * 1.1630871536766743**2, abs=1)
    assert number(at, "as_printed") == pytest.approx(7.92e6)
    assert standings("sniper-guideline-1") == [Standing.AGREES, Standing.CORRECTED]


def test_a_quarter_of_the_ties_makes_up_one_and_a_half_outputs() -> None:
    assert sniper.threshold([0.9, 0.7, 0.7, *[0.1] * 7], 0.15) == (0.7, 0.25)
    assert sniper.threshold([3.0, 2.0, 1.0, 0.0], 0.5) == (2.0, 1.0)


def test_c_power_of_a_histogram_without_noise_to_speak_of_is_capped_by_the_floor() -> None:
    """Laplace noise of scale 0.1 at distance 1: mass c on one side is at most 1 - 1/(4c e^10) on the other."""
    rows = sniper.measure_power("noisy_hist2", QUICK, 0)
    at = where(rows, c=0.01)[0]
    assert number(at, "power") == pytest.approx(math.log((1 - math.exp(-10) / (4 * 0.01)) / 0.01), abs=1e-3)
    assert number(at, "epsilon") == pytest.approx(10)
    laplace = sniper.measure_power("laplace", QUICK, 0)
    assert all(number(row, "power") == pytest.approx(0.1) for row in laplace if number(row, "c") < 0.45)


def test_widths_are_the_published_ones() -> None:
    rows, view = shown("finder-figure-6")
    radius = math.sqrt(math.log(2 / finder.CONFIDENCE_ALPHA) / 2e7)
    p, q = finder.P, finder.Q
    width = math.log((p + radius) / (q - radius)) - math.log((p - radius) / (q + radius))
    assert number(where(rows, method="Hoeffding, α for each", samples=1e7)[0], "width") == pytest.approx(width)
    assert [finding.standing for finding in view.findings] == [Standing.AGREES, Standing.CORRECTED, Standing.AGREES]


def test_patterns_are_those_of_table_1() -> None:
    assert standings("statdp-table-1") == [Standing.AGREES]


def test_a_curve_has_risen_where_no_later_p_value_is_small() -> None:
    rows: list[Row] = [{"test_epsilon": e, "p": p} for e, p in ((0.1, 0.0), (0.2, 0.3), (0.3, 0.01), (0.4, 0.9))]
    assert statdp.rise(rows) == 0.4
    assert statdp.rise(rows[:3]) == math.inf
    assert statdp.rise(rows[3:]) == 0.4


def test_the_worked_examples_recompute() -> None:
    grr, view = shown("local-example-grr")
    assert [row["recomputed"] for row in grr] == [2, 15, 1, 16, 6, 16, 4, 10, None, 12]
    assert [finding.standing for finding in view.findings] == [Standing.AGREES, Standing.CORRECTED]
    values = column(grr, "value")
    assert [values.count(value) for value in (0, 1, 2)] == [2, 6, 2]  # ℓ1 = 6, ℓ2 = 2

    sr, view = shown("local-example-sr")
    assert [row["counts"] for row in sr] == ["4, 8", "5, 7", "6, 6", "7, 5", "8, 4"]
    assert view.findings[0].standing is Standing.AGREES

    pm, view = shown("local-example-pm")
    for row, centre in zip(pm, (-1, -0.5, 0, 0.5, 1), strict=True):
        ends = [(math.sqrt(2) * centre + side) / (math.sqrt(2) - 1) for side in (-1, 1)]
        assert [number(row, "low"), number(row, "high")] == pytest.approx(ends, abs=1e-3)
    assert [finding.standing for finding in view.findings] == [Standing.AGREES, Standing.CORRECTED]


def test_theorems_and_protocols_stand_as_computed() -> None:
    rows, _ = shown("local-theorems")
    assert [str(row["theorem"]) for row in rows if not row["holds"]] == ["3.2", "3.3"]
    rows, view = shown("local-table-2")
    assert [row["standing"] for row in rows] == ["robust", "robust", "not robust"]
    assert number(rows[1], "gain") == pytest.approx(0.05 * (90 - 38.58165), abs=1e-4)
    assert [finding.standing for finding in view.findings] == [Standing.AGREES, *[Standing.CORRECTED] * 3]
    assert standings("local-table-1") == [Standing.AGREES]


def test_gains_of_ipa_are_the_known_ones() -> None:
    people = adult_ages()
    gains = [ipa_gain(people, 0.1, theta) for theta in (40.0, 50.0, 60.0, 70.0, 80.0)]
    assert gains == pytest.approx([0.592, 0.471, 0.249, 0.079, 0.019], abs=6e-4)
    assert ipa_gain(people, 0.2, 50.0) == pytest.approx(1.030, abs=6e-4)


def test_the_basics_hold() -> None:
    rows, view = shown("basics-approximate")
    at = where(rows, part="delta", epsilon=0.5)[0]
    assert number(at, "exact") == pytest.approx(
        quad(lambda x: max(0.0, norm.pdf(x) - math.exp(0.5) * norm.pdf(x - 1)), -8, 0)[0], abs=1e-9
    )
    assert number(at, "tail") == pytest.approx(0.5)
    assert [finding.standing for finding in view.findings] == [Standing.AGREES, Standing.CORRECTED]
    for name in ("laplace", "sensitivity", "post-processing", "neighbours"):
        assert standings(f"basics-{name}") == [Standing.AGREES], name
    assert not basics.held([{"theorem": 1.0, "exact": 1.1}])


def test_a_wrong_number_is_not_said_to_agree() -> None:
    rows, _ = shown("local-example-sr")
    broken = [{**row, "counts": "1, 11"} for row in rows]
    assert ARTEFACTS["local-example-sr"].show(broken).findings[0].standing is Standing.DIFFERS
    rows, _ = shown("local-table-2")
    assert all(
        finding.standing is not Standing.CORRECTED
        for finding in ARTEFACTS["local-table-2"]
        .show([{**row, "standing": "semi-robust"} for row in rows])
        .findings[1:3]
    )


# ---------------------------------------------------------------------------------------------------------------- steps

FACTOR = 2.0
calls: list[str] = []


def measured(case: str, effort: Effort, seed: int) -> list[Row]:
    calls.append(case)
    return [{"case": case, "value": FACTOR * seed, "limit": np.inf}]


def empty(rows: Sequence[Row]) -> Shown:
    return Shown(())


def test_a_step_is_measured_once_and_again_if_its_code_or_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.clear()
    artefact = Artefact("a", Text("", ""), Text("", ""), measured, empty, lambda effort: ("one", "two"))
    again = Artefact("b", Text("said", "differently"), Text("", ""), measured, empty, lambda effort: ("two",))
    steps = Steps(tmp_path, QUICK, 3)
    assert [row["value"] for row in steps.measured(artefact).rows] == [6.0, 6.0]
    assert steps.measured(artefact).rows[0]["limit"] == math.inf
    assert steps.measured(again).rows == steps.measured(artefact).rows[1:]
    assert calls == ["one", "two"]
    next(tmp_path.glob("*.json")).unlink()  # as if the run had been interrupted
    Steps(tmp_path, QUICK, 3).measured(artefact)
    assert len(calls) == 3
    Steps(tmp_path, QUICK, 4).measured(again)
    Steps(tmp_path, Effort.FULL, 3).measured(again)
    assert len(calls) == 5
    before = code_digest(sniper.measure_guideline)
    monkeypatch.setattr(sniper, "C", 0.02)
    assert code_digest(sniper.measure_guideline) != before
    assert code_digest(sniper.measure_leak) == code_digest(sniper.measure_leak)
