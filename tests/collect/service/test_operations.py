"""The live page, in a browser without a screen."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from veridp.collect.service.http_client import rehearse
from veridp.collect.service.operations import CONTENT_POLICY

ADMIN = "an admin token of the tests"
# All rows at once: the page replaces them every two seconds.
ROWS = """return [...document.querySelectorAll("#estimate tbody tr")].map(
    (row) => [...row.cells].map((cell) => cell.textContent || cell.innerHTML))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("chromium-browser")
    if driver is None or chromium is None:
        pytest.skip("there is no chromium here; apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, Service(driver))
    yield found
    found.quit()


def text(browser: webdriver.Chrome, name: str) -> str:
    return browser.find_element(By.ID, name).text


def enter(browser: webdriver.Chrome, token: str) -> None:
    field = browser.find_element(By.ID, "token")
    field.clear()
    field.send_keys(token)
    browser.find_element(By.CSS_SELECTOR, "#enter button").click()


@pytest.mark.slow
def test_the_page_shows_how_the_collection_stands(browser: webdriver.Chrome, server: Any) -> None:
    task = server.new_task(minimum_batch=20, items=("<b>ant</b>", "bee", "cat"))
    tokens = server.put(task, 30)
    asyncio.run(rehearse(server.url, task, ["bee"] * 10, tokens[:10], seed=1))
    wait = WebDriverWait(browser, 60)
    browser.get(f"{server.url}/tasks/{task.name}/live")
    enter(browser, "a wrong token")
    wait.until(lambda b: "admin token" in text(b, "message") and "needs" in text(b, "message"))
    assert text(browser, "accepted") == "–"
    enter(browser, ADMIN)
    wait.until(lambda b: text(b, "accepted").startswith("10 "))
    assert "No estimate: 10 reports" in text(browser, "message")
    assert not browser.find_element(By.ID, "estimate").is_displayed()

    asyncio.run(rehearse(server.url, task, ["bee"] * 20, tokens[10:], seed=2))
    wait.until(lambda b: text(b, "accepted").startswith("30 "))  # it asks again by itself
    assert text(browser, "aborts").startswith("0.00 %")
    rows = browser.execute_script(ROWS)
    expected = server.status(task)["estimate"]
    assert [name for name, *_ in rows] == ["<b>ant</b>", "bee", "cat"]
    for (_, _, value, interval, drawn), column in zip(rows, expected, strict=True):
        assert float(value) == pytest.approx(column["value"], rel=1e-3)
        assert [float(end) for end in interval.split(" to ")] == pytest.approx(
            [column["lower"], column["upper"]], rel=1e-3
        )
        assert '<rect class="value"' in drawn
    complaints = [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]
    assert [c["message"] for c in complaints if "401" not in c["message"]] == []


def test_no_other_page_may_frame_the_live_page() -> None:
    """Where the admin token is typed in, nothing may lie above the form; `default-src` does not cover frames around."""
    policy = dict(part.strip().split(" ", 1) for part in CONTENT_POLICY.split(";"))
    assert policy["frame-ancestors"] == "'none'"
    assert policy["default-src"] == "'none'"
