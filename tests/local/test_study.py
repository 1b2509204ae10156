"""The study: its numbers, its page and its tables."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veridp.collect.evaluation import ProtocolStudy, figure_9, played_attacks, session_costs, several_numbers, table_2
from veridp.errors import BadInput
from veridp.local import GRR, BinnedGRR
from veridp.local.conclusions import Agreement, conclusions
from veridp.local.study import LIKELY, People, StudySettings, adult_ages, evaluate
from veridp.report.local import agreement, study_csv, study_page

PROTOCOLS = ProtocolStudy(
    table_2(adult_ages()),
    figure_9(1),
    session_costs(1, ["blake2b"]),
    several_numbers(),
    played_attacks(adult_ages(), 2),
)
FEW = StudySettings(
    epsilons=(1.0, 10.0), levels=(20,), sizes=(20,), few_epsilons=(1.0,), betas=(0.1, 0.5), repetitions=8
)


@pytest.fixture(scope="module")
def study() -> Any:
    return evaluate(adult_ages(), FEW)


@pytest.fixture(scope="module")
def page(study: Any) -> str:
    return study_page(study, PROTOCOLS)


def figure(study: Any, name: str) -> Any:
    return next(figure for figure in study.figures if figure.name == name)


def points(study: Any, name: str, series: str, panel: str) -> dict[float, Any]:
    found = figure(study, name).points
    return {point.x: point for point in found if (point.series, point.panel) == (series, panel)}


def test_the_ages_are_those_of_the_data_set() -> None:
    people = adult_ages()
    assert (len(people.values), people.low, people.high) == (32_561, 17.0, 90.0)
    assert people.mean == pytest.approx(38.58165, abs=5e-6)
    assert len(np.unique(people.values)) == 73
    assert "CC BY 4.0" in people.source


def test_the_most_likely_frequencies_stand_beside_the_unbiased_ones(study: Any) -> None:
    """Where noise is small they are nearly the same; a conclusion names them, and the page shows them."""
    for name, panel, x in (("estimates-by-epsilon", "d = 20", 10.0), ("estimates-by-d", "ε = 1", 20)):
        likely, unbiased = (points(study, name, series, panel)[x] for series in (LIKELY, "GRR"))
        assert abs(likely.mean - unbiased.mean) < 4 * (likely.deviation + unbiased.deviation) / math.sqrt(8)
        assert math.isnan(likely.analytic)
        said = conclusions(figure(study, name), study.people, study.settings)
        told = [each for each in said if "iterative Bayesian update" in each.text.en]
        assert [each.standing for each in told] == [Agreement.NOT_COMPARED]


def test_a_series_looks_the_same_in_every_row_of_its_figure_and_unlike_the_others(page: str) -> None:
    sections = page.split("<h2 ")
    keyed = [re.findall(r"<span style='color:(.*?)'>(.)</span> (.*?)</span>", section) for section in sections]
    assert LIKELY in {name for keys in keyed for *_, name in keys}
    for keys in keyed:
        looks = {name: (colour, sign) for colour, sign, name in keys}
        assert all(looks[name] == (colour, sign) for colour, sign, name in keys)
        assert len(set(looks.values())) == len(looks)


def test_every_figure_of_the_source_study_is_there(study: Any) -> None:
    assert [figure.name for figure in study.figures] == [
        "bins",
        "estimates-by-d-at-least-epsilon",
        "attacked-by-epsilon",
        "estimates-by-epsilon",
        "estimates-by-d",
        "gains-by-epsilon",
        "gains-by-beta",
        "gains-by-theta",
    ]
    assert [figure.number for figure in study.figures] == list(range(1, 9))
    assert study.finished


def test_rounding_hides_little_from_ten_levels_on(study: Any) -> None:
    means = points(study, "bins", "rounded", "")
    assert abs(means[74.0].mean - 38.58165) < 1e-5  # every age is a level
    assert all(abs(point.mean - 38.58) < 0.5 for d, point in means.items() if d >= 10)
    assert abs(means[2.0].mean - 38.58) > 5


def test_measured_values_agree_with_theory(study: Any) -> None:
    """Intervals of eight repetitions; twice their width is more than 4.7 standard errors, a t of 7 degrees exceeds it
    in 0.2 % of points. Of about 80 points, three or more fail with probability 6e-4."""
    agreeing, judged = np.sum([agreement(figure) for figure in study.figures], axis=0)
    assert judged > 60
    assert judged - agreeing <= 2


def test_the_published_numbers_come_out(study: Any) -> None:
    attacked = points(study, "attacked-by-epsilon", "OPA", "unbiased")
    assert attacked[10.0].mean == pytest.approx(48.9, abs=0.3)
    assert attacked[10.0].analytic == pytest.approx(48.89, abs=0.01)
    gains = points(study, "attacked-by-epsilon", "IPA", "unbiased")
    assert gains[10.0].analytic - 38.58165 == pytest.approx(1.030, abs=1e-3)
    clipped = points(study, "attacked-by-epsilon", "nobody", "clipped and normalised")
    assert clipped[1.0].mean > clipped[10.0].mean + 3  # pulled towards the middle, the more so the smaller ε
    by_theta = figure(study, "gains-by-theta").points
    assert {point.x for point in by_theta} == {40, 50, 60, 70, 80}


def test_results_depend_on_the_seed_alone() -> None:
    tiny = StudySettings(
        epsilons=(1.0,), levels=(10,), sizes=(10,), few_epsilons=(1.0,), betas=(0.1,), repetitions=2, seed=3
    )
    people = People.own("column", np.arange(200.0))
    first, again = evaluate(people, tiny), evaluate(people, tiny)
    assert [str(figure.points) for figure in first.figures] == [str(figure.points) for figure in again.figures]


def test_ctrl_c_keeps_the_figures_that_are_finished() -> None:
    def interrupt(stage: str, share: float, best: float) -> None:
        if stage.startswith("Estimates over d"):
            raise KeyboardInterrupt

    stopped = evaluate(People.own("column", np.arange(50.0)), FEW, interrupt)
    assert not stopped.finished
    assert [figure.name for figure in stopped.figures] == ["bins", "estimates-by-epsilon"]
    assert "Stopped early" in study_page(stopped, PROTOCOLS)


def test_the_tables_hold_every_point(study: Any) -> None:
    for one in study.figures:
        rows = list(csv.DictReader(io.StringIO(study_csv(one))))
        assert len(rows) == len(one.points)
        assert float(rows[0]["mean"]) == one.points[0].mean
        assert float(rows[-1][one.x]) == one.points[-1].x
        assert (rows[0]["analytic"] == "") == math.isnan(one.points[0].analytic)


def test_the_page_stands_alone(study: Any, page: str) -> None:
    assert page.count("<svg") == page.count("</svg>") == 22  # a panel each: 1, 3, 2, 3, 3, 3, 3, 3, and figure 9
    assert [f"Figure {number}:" in page for number in range(1, 10)] == [True] * 9
    assert "CC BY 4.0" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("https://doi.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "").replace("https://matplotlib.org", "")
    for piece in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + piece.split("</svg>")[0] + "</svg>")  # noqa: S314  our own
    again = study_page(replace(study, figures=study.figures[2:3]), PROTOCOLS)  # two of its panels, and figure 9
    drawn, kept = (set(re.findall(r"<svg.*?</svg>", one, re.DOTALL)) for one in (again, page))
    assert len(drawn) == 3
    assert drawn < kept


def test_the_error_of_grr_grows_in_proportion_to_d(study: Any) -> None:
    """At ε = 0.1 that of a frequency grows with √d, so that of the mean, a sum of d of them, with d. It is checked."""
    few, many = (BinnedGRR(17, 90, size, 0.1, "nearest") for size in (20, 80))
    values = adult_ages().values
    ratio = math.sqrt(many.mean_variance(1, values) / few.mean_variance(1, values))
    assert ratio == pytest.approx(4, rel=0.05)
    assert math.sqrt(GRR(80, 0.1).variance(1) / GRR(20, 0.1).variance(1)) == pytest.approx(2, rel=0.05)
    shown = figure(study, "estimates-by-d")
    grr = next(point for point in shown.points if point.series == "GRR")
    for factor, standing in ((4.0, Agreement.CORRECTED), (2.0, Agreement.DIFFERS)):
        other = replace(grr, x=4 * grr.x, analytic_deviation=factor * grr.analytic_deviation)
        found = conclusions(replace(shown, points=(*shown.points, other)), study.people, study.settings)
        assert found[1].standing is standing


def test_ones_own_column_brings_its_own_thresholds() -> None:
    people = People.own("column", np.arange(101.0), high=200.0)
    assert (people.low, people.high, people.thetas) == (0.0, 200.0, (50.0, 60.0, 70.0, 80.0, 90.0))
    with pytest.raises(BadInput, match="beyond the range"):
        People.own("column", [1.0, 2.0], low=1.5)
    with pytest.raises(BadInput, match="two values or more"):
        People.own("column", [1.0, 1.0])
    with pytest.raises(BadInput, match="repeat at least twice"):
        StudySettings(repetitions=1)


def test_conclusions_are_drawn_from_the_points(study: Any) -> None:
    """What agrees with the source, and what corrects it; a figure with other numbers is not said to agree."""
    people = study.people
    said = {one.number: conclusions(one, people, study.settings) for one in study.figures}
    found = {number: [str(one.standing) for one in told] for number, told in said.items()}
    agrees, corrects, alone = "agrees", "corrected", "not compared"
    assert [found[1], found[3], found[7]] == [[agrees], [agrees, alone, agrees], [alone, agrees, agrees]]
    assert found[6] == found[8] == [corrects, alone, agrees]
    assert "48.89" in said[3][0].text.en
    assert "48.89" in said[3][0].text.ja
    assert said[8][1].text.en.endswith("40: 0.592, 50: 0.471, 60: 0.249, 70: 0.079, 80: 0.019.")
    attacked = figure(study, "attacked-by-epsilon")
    moved = [replace(point, analytic=point.analytic + 1) for point in attacked.points if point.series != "IPA"]
    other = replace(attacked, points=(*moved, *(point for point in attacked.points if point.series == "IPA")))
    assert conclusions(other, people, study.settings)[0].standing is Agreement.DIFFERS
    for name in ("gains-by-beta", "estimates-by-epsilon"):  # too few places to compare what was published
        one = figure(study, name)
        few = replace(one, points=tuple(replace(point, x=0.1) for point in one.points if point.x == one.points[0].x))
        assert agrees not in {str(told.standing) for told in conclusions(few, people, study.settings)[:-1]}
    own = People.own("column", np.arange(50.0))
    assert conclusions(figure(study, "bins"), own, study.settings) == ()  # nothing was published of other values
