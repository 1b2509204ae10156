"""The page: what it draws is what the results say, and a real browser shows all of it without the network."""

from __future__ import annotations

import json
import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

import veridp
from veridp.claim import Interval
from veridp.errors import MissingExtra
from veridp.report.audit import Audited
from veridp.report.charts import Chart
from veridp.report.exhibits import Exhibits, verdict_exhibits
from veridp.report.page import audited_html
from veridp.verdict import Standing, Verdict

HOSTILE = "</script><script>document.title='taken over'</script>"
DRAWN = """return [...document.querySelectorAll(".plot")].map((plot) =>
    plot.querySelectorAll(".main-svg .trace, .main-svg .bars .point").length)"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
FIRST_CELLS = 'return [...document.querySelectorAll(".index tbody tr")].map((row) => row.cells[0].textContent)'


@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 10), size=2)
def halved(rng: np.random.Generator, data: Any) -> Any:
    return [value + rng.laplace(scale=0.5) for value in data]


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1], size=1)
def coin(rng: np.random.Generator, data: Any) -> Any:
    honest = rng.random() < math.e / (1 + math.e)
    return [HOSTILE, "no"][int(data[0] if honest else 1 - data[0])]


@pytest.fixture(scope="module")
def refuted() -> Verdict:
    return veridp.audit(halved, seconds=math.inf)


@pytest.fixture(scope="module")
def proved() -> Verdict:
    return veridp.audit(coin, seconds=math.inf)


@pytest.fixture(scope="module")
def sampled() -> Verdict:
    """What an audit by samples alone would say, from few of them."""
    one = halved.stating(size=1)
    test = veridp.statdp.detect(one, test_epsilons=[1.0], samples=4000, selection_samples=1000, seed=1)
    attack = veridp.sniper.search(one, samples=1000, final_samples=4000, seed=1, workers=1, claim=one.claim)
    assert attack.witness is not None
    assert one.claim is not None
    return Verdict(
        Standing.REFUTED,
        one.claim,
        Interval(attack.epsilon_lower, math.inf),
        attack.witness,
        mechanism="halved",
        alpha=0.05,
        smallest_mass=1e-3,
        subject=one,
        results={"statdp": test, "sniper": attack},
    )


@pytest.fixture(scope="module")
def exhibits(refuted: Verdict, proved: Verdict, sampled: Verdict) -> dict[str, Exhibits]:
    verdicts = {"refuted": refuted, "proved": proved, "sampled": sampled}
    return {name: verdict_exhibits(verdict, math.inf) for name, verdict in verdicts.items()}


def series(exhibits: Exhibits, chart: str, place: int) -> tuple[Any, Any]:
    found = exhibits.chart(chart)
    assert isinstance(found, Chart)
    return np.array(found.series[place].x), np.array(found.series[place].y)


def test_exact_charts_are_the_closed_forms(refuted: Verdict, exhibits: dict[str, Exhibits]) -> None:
    """Laplace noise of scale 1/2 on numbers at distance 1: ε = 2."""
    assert refuted.witness is not None
    shown = exhibits["refuted"]
    moved = int(np.argmax(np.abs(np.subtract(refuted.witness.left, refuted.witness.right))))  # type: ignore[call-overload]
    for place, data in enumerate((refuted.witness.left, refuted.witness.right)):
        x, density = series(shown, "density", place)
        assert density == pytest.approx(np.exp(-2 * np.abs(x - data[moved])), rel=1e-9)  # type: ignore[index]
    epsilons, deltas = series(shown, "profile", 0)
    assert deltas == pytest.approx(1 - np.exp((epsilons - 2) / 2), abs=1e-9)
    alphas, betas = series(shown, "tradeoff", 0)
    inner = (alphas > 0) & (alphas < 1)
    a = alphas[inner]
    tests = np.where(a < math.exp(-2) / 2, 1 - math.exp(2) * a, np.where(a <= 0.5, math.exp(-2) / (4 * a), 0.0))
    tests = np.where(a > 0.5, math.exp(-2) * (1 - a), tests)  # Dong, Roth and Su (2022), the curve of Laplace noise
    assert betas[inner] == pytest.approx(tests, abs=1e-9)
    claimed = series(shown, "tradeoff", 1)
    assert claimed[1] == pytest.approx(np.maximum(1 - math.e * claimed[0], (1 - claimed[0]) / math.e), abs=1e-12)
    chart, source = shown.chart("density"), shown.source
    assert chart is not None
    assert source is not None
    (span,) = chart.spans
    assert str(refuted.witness.event).endswith(f"{span[1]:g}" if math.isinf(span[0]) else f"{span[0]:g}")
    (line,) = source.marked  # that of the noise
    assert "rng.laplace" in source.lines[line - source.first]
    assert shown.path_count == 1
    assert shown.missing == ()


def test_bars_are_the_probabilities_of_outputs(proved: Verdict, exhibits: dict[str, Exhibits]) -> None:
    bars = exhibits["proved"].chart("outputs")
    assert bars is not None
    truth = math.e / (1 + math.e)
    assert sorted(bars.series[0].y) == pytest.approx([1 - truth, truth], rel=1e-9)
    assert bars.series[0].y == pytest.approx(bars.series[1].y[::-1], rel=1e-9)
    assert proved.witness is not None
    ((low, high),) = bars.spans  # the output that is the event
    assert bars.places[round((low + high) / 2)] == str(proved.witness.event)


def test_charts_of_samples_show_what_the_engines_returned(sampled: Verdict, exhibits: dict[str, Exhibits]) -> None:
    shown = exhibits["sampled"]
    test, attack = sampled.results["statdp"], sampled.results["sniper"]
    assert isinstance(attack, veridp.sniper.AttackResult)
    assert isinstance(test, veridp.statdp.Detection)
    epsilons, deltas = series(shown, "profile", 0)
    assert list(zip(epsilons, deltas, strict=True)) == [(point.epsilon, point.delta) for point in attack.profile]
    for alpha, beta in zip(*series(shown, "tradeoff", 0), strict=True):
        assert beta >= min(math.exp(-2) / (4 * alpha), 1 - math.exp(2) * alpha) - 1e-9  # no test beats the best one
    levels, values = series(shown, "p-values", 0)
    at_claim = np.interp(1.0, levels, values)
    assert at_claim == pytest.approx(test.p_value, abs=0.02)
    assert values[-1] > 0.5 > values[0]  # grows with ε
    for place in (0, 1):
        x, shares = series(shown, "density", place)
        assert shares.sum() == pytest.approx(1.0, abs=0.02)
        centre = float(x @ shares)
        data: Any = (sampled.witness.left, sampled.witness.right)[place]  # type: ignore[union-attr]
        assert centre == pytest.approx(data[0], abs=0.1)  # of 20,000 draws with standard deviation 0.71, cut at 0.2 %


def test_a_verdict_is_pickled_without_its_mechanism(refuted: Verdict) -> None:
    again = pickle.loads(pickle.dumps(refuted))  # noqa: S301
    assert again == refuted
    assert verdict_exhibits(again).missing == ("the mechanism is not at hand: nothing can be drawn",)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, proved: Verdict) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtra, match=r"pip install 'veridp\[page\]'"):
        audited_html([Audited("coin", proved)])


def test_the_command_writes_the_page(
    run: Callable[..., Any], own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setattr("veridp.report.page.verdict_exhibits", lambda verdict: verdict_exhibits(verdict, math.inf))
    assert run("audit", "laplace", "--html", "report.txt").status == 2
    done = run("audit", "randomized_response", "--time", "300", "--html", "pages/report.html")
    assert done.status == 0
    text = (own_folder / "pages" / "report.html").read_text("utf-8")
    assert len(text) < 2_500_000
    charts = json.loads(text.partition('id="charts">')[2].partition("</script>")[0])
    assert [chart["name"] for chart in charts] == ["outputs", "profile", "tradeoff"]


def test_a_browser_shows_all_of_it(
    browser: webdriver.Chrome,
    tmp_path: Path,
    refuted: Verdict,
    proved: Verdict,
    sampled: Verdict,
    exhibits: dict[str, Exhibits],
) -> None:
    pytest.importorskip("plotly")
    names = ["refuted", HOSTILE, "by samples", "broken"]
    verdicts = [refuted, proved, sampled, None]
    results = [Audited(name, one, "why: <b>no</b>") for name, one in zip(names, verdicts, strict=True)]
    (tmp_path / "many.html").write_text(audited_html(results, [*exhibits.values(), Exhibits()]), encoding="utf-8")
    wait = WebDriverWait(browser, 120)
    for width in (390, 1400):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == 390}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(f"file://{tmp_path}/many.html")
        browser.execute_script('document.querySelectorAll("details").forEach((part) => { part.open = true; })')
        wait.until(lambda found: all(found.execute_script(DRAWN)))
        assert len(browser.execute_script(DRAWN)) == 3 + 3 + 4
        assert browser.execute_script(WIDER) <= 0
        for theme in ("dark", "light"):
            browser.execute_script('document.getElementById("theme").click()')
            assert browser.execute_script("return document.documentElement.dataset.theme") == theme
            wait.until(lambda found: all(found.execute_script(DRAWN)))
    assert "taken over" not in browser.title
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script(FIRST_CELLS) == names
    browser.execute_script('document.querySelector(".index th button").click()')
    assert browser.execute_script(FIRST_CELLS) == sorted(names, key=str.lower)
    browser.execute_script("""document.querySelector('.total[data-kind="proved"]').click()""")
    seen = browser.execute_script(
        'return [...document.querySelectorAll("details.target:not([hidden]) h2")].map((h) => h.textContent)'
    )
    assert seen == [HOSTILE]
    assert [entry["message"] for entry in browser.get_log("browser")] == []


ENGINE_COMMANDS = {
    "exact": (["--left", "[0]", "--right", "[1]"], ["density", "profile", "tradeoff"]),
    "prove": ([], ["profile"]),
    "statdp": (["--samples", "1000", "--selection-samples", "200"], ["p-values"]),
    "pipeline": (["--left", "[0]", "--right", "[1]"], ["profile"]),
}


def test_engines_write_pages_too(
    run: Callable[..., Any], browser: webdriver.Chrome, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setattr("veridp.report.notebook.SECONDS_FOR_A_PAGE", math.inf)
    for command, (words, names) in ENGINE_COMMANDS.items():
        assert run(command, "laplace", *words, "--html", f"{command}.html").status == 0
        text = (own_folder / f"{command}.html").read_text("utf-8")
        charts = json.loads(text.partition('id="charts">')[2].partition("</script>")[0])
        assert [chart["name"] for chart in charts] == names
        browser.get(f"file://{own_folder}/{command}.html")
        WebDriverWait(browser, 120).until(lambda found: all(found.execute_script(DRAWN)))
        assert browser.execute_script(WIDER) <= 0
        assert [entry["message"] for entry in browser.get_log("browser")] == []
