"""The live page, in a browser without a screen."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from veridp.collect import MECHANISMS
from veridp.collect.service.http_client import rehearse
from veridp.collect.service.operations import CONTENT_POLICY, ServiceSettings
from veridp.collect.task import OF_ATTRIBUTES
from veridp.errors import BadInput

ADMIN = "an admin token of the tests"
# All rows at once: the page replaces them every two seconds.
ROWS = """return [...document.querySelectorAll("#estimate tbody tr")].map(
    (row) => [...row.cells].map((cell) => cell.textContent || cell.innerHTML))"""


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


TAKEN = "return document.getElementById('message').textContent"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_person_takes_part_in_a_browser(browser: webdriver.Chrome, server: Any, mechanism: str) -> None:
    """With the JavaScript client against the real server, which judges its commitment and opening as any other's."""
    several = mechanism in OF_ATTRIBUTES
    task = server.new_task(mechanism, **({"items": ("age=17..90", "hours=1..99")} if several else {}))
    (token,) = server.put(task, 1)
    browser.get(f"{server.url}/tasks/{task.name}/join")
    value = "age=39,hours=40" if several else task.items[1] if task.items else "1.5"
    for name, entered in (("token", token), ("value", value)):
        browser.find_element(By.ID, name).send_keys(entered)
    browser.find_element(By.CSS_SELECTOR, "#take-part button").click()
    WebDriverWait(browser, 120).until(lambda _: "Under way" not in browser.execute_script(TAKEN))
    assert browser.execute_script(TAKEN) == "Accepted. It is session 1 of 1 in the signed log."
    browser.find_element(By.CSS_SELECTOR, "#take-part button").click()  # again: the verdict that there was
    WebDriverWait(browser, 120).until(lambda _: "Under way" not in browser.execute_script(TAKEN))
    assert browser.execute_script(TAKEN).startswith("Accepted")
    assert server.status(task)["accepted"] == 1
    kept = browser.execute_script("return JSON.stringify(localStorage)")
    assert "vector" not in kept  # with the verdict, the value is forgotten
    assert "secret" not in kept
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    browser.execute_script("localStorage.clear()")


@pytest.mark.slow
def test_the_browsers_client_says_why_it_does_not_take_part(browser: webdriver.Chrome, server: Any) -> None:
    task, dear = server.new_task(), server.new_task(epsilon=2.5)
    (token,), (other,) = server.put(task, 1), server.put(dear, 1)
    cases = [
        (task, token, "zebra", "not an item"),
        (task, "wrong", task.items[0], "unknown-token"),
        (dear, other, dear.items[0], "too-costly"),
    ]
    for asked, given, value, complaint in cases:
        browser.get(f"{server.url}/tasks/{asked.name}/join")
        for name, entered in (("token", given), ("value", value)):
            browser.find_element(By.ID, name).send_keys(entered)
        browser.find_element(By.CSS_SELECTOR, "#take-part button").click()
        WebDriverWait(browser, 120).until(lambda _: "Under way" not in browser.execute_script(TAKEN))
        assert complaint in browser.execute_script(TAKEN)
    assert server.status(task)["pending_invited"] == 0
    browser.get_log("browser")  # the refused request is in it
    browser.execute_script("localStorage.clear()")


def test_pages_elsewhere_take_part_only_if_they_are_allowed(serving: Any, server: Any, tmp_path: Any) -> None:
    open_to = serving(f"sqlite:///{tmp_path}/collect.db", "--allow-origin", "https://example.org")
    task = open_to.new_task()
    open_to.put(task)
    address, asked = f"/tasks/{task.name}", {"Access-Control-Request-Method": "POST"}
    for origin, allowed in (("https://example.org", True), ("https://example.com", False)):
        answer = httpx.get(open_to.url + address, headers={"Origin": origin})
        assert ("access-control-allow-origin" in answer.headers) is allowed
        before = httpx.options(f"{open_to.url}{address}/commit", headers={"Origin": origin, **asked})
        assert (before.status_code == 200) is allowed
    put = {"Origin": "https://example.org", "Access-Control-Request-Method": "PUT"}
    assert httpx.options(open_to.url + address, headers=put).status_code == 400
    assert (
        "access-control-allow-origin"
        not in httpx.get(f"{server.url}/healthz", headers={"Origin": "https://e.org"}).headers
    )
    with pytest.raises(BadInput, match="not an origin"):
        ServiceSettings("sqlite:///x.db", ADMIN, origins=("https://example.org/page",))
