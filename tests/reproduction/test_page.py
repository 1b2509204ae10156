"""The page, drawn from the committed results: complete, in two languages, and without faults in a browser."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from reproduction.__main__ import main
from reproduction.registry import ARTEFACTS
from selenium import webdriver

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


@pytest.fixture(scope="module", params=["quick", "full"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that CI has just made, or that of committed results."""
    if request.param == "quick" and "REPRODUCTION_PAGE" in os.environ:
        return Path(os.environ["REPRODUCTION_PAGE"]).resolve() / "page.html"
    folder = tmp_path_factory.mktemp("page") / "again"
    main(["--results", str(RESULTS / request.param), "--output", str(folder)])
    return folder / "page.html"


def test_every_artefact_is_on_the_page_with_a_sentence_on_whether_it_agrees(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    sections = dict(re.findall(r'<section><h3 id="([^"]+)">(.*?)</section>', text, re.DOTALL))
    assert list(sections) == list(ARTEFACTS)
    for name, section in sections.items():
        assert 'class="finding"' in section, name
        assert f'href="#{name}"' in text
        assert "<svg" in section or "<table" in section, name
    assert len(re.findall('lang="en"', text)) == len(re.findall('lang="ja"', text)) + 1  # that of the page itself
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert re.search(r"make reproduce(?: FULL=1)?</code>, seed \d+; veridp \d", text)


def test_no_id_is_referenced_that_another_plot_defines(made: Path) -> None:
    """Clip paths and markers are referenced by id, and ids are shared by all plots of the page."""
    plots = re.findall(r"<svg.*?</svg>", made.read_text(encoding="utf-8"), re.DOTALL)
    owners: dict[str, int] = {}
    for place, plot in enumerate(plots):
        for used in set(re.findall(r'(?:url\(#|href="#)([\w-]+)', plot)):
            assert f'id="{used}"' in plot
            assert owners.setdefault(used, place) == place


def test_a_browser_shows_it_on_a_phone_and_on_a_desk_in_both_languages(browser: webdriver.Chrome, made: Path) -> None:
    widths = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    for width in (390, 1400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for language, title in (("en", "The sources, reproduced"), ("ja", "出典の再現")):
            browser.get(f"{made.as_uri()}#{language}")
            browser.refresh()
            if browser.execute_script("return document.documentElement.dataset.language") != language:
                browser.execute_script("document.getElementById('language').click()")
            assert browser.execute_script("return document.querySelector('h1').innerText") == title
            needed, there = browser.execute_script(widths)
            assert needed <= there <= width
    assert browser.execute_script("return document.querySelectorAll('figure svg').length") >= 20
    assert [entry["message"] for entry in browser.get_log("browser")] == []  # type: ignore[no-untyped-call]
