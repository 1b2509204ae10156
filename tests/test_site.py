"""The documentation site builds without a warning, is complete, and loads nothing from anywhere else."""

from __future__ import annotations

import html
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import veridp
from veridp.cli.examples import EXAMPLES

ROOT = Path(__file__).parents[1]
LOADED = re.compile(
    r"""<(?:script|img|iframe|link(?=[^>]*rel="?(?:stylesheet|preconnect|icon)))[^>]*(?:src|href)="?(?:https?:|//)"""
)
WIDTHS = (390, 1400)
LOOKED_AT = ("index", "noisy-mean", "gallery", "commands")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the site needs veridp[site]")
    pytest.importorskip("mkdocstrings", reason="the site needs veridp[site]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_built_and_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert all((site / page).is_file() for page in pages)
    assert not list(site.rglob("*.py"))
    loading = [page.name for page in site.rglob("*.html") if LOADED.search(page.read_text("utf-8"))]
    assert loading == []
    assert LOADED.search('<link rel="stylesheet" href="https://fonts.example/css">')
    assert LOADED.search('<script src="//cdn.example/x.js">')


def test_the_reference_has_every_public_name_and_every_command(site: Path) -> None:
    names = (site / "api.html").read_text("utf-8")
    headings = " ".join(re.findall(r"<h[23].*?</h[23]>", names, re.DOTALL))
    headed = set(re.findall(r"veridp\.[\w.]+", re.sub(r"<[^>]*>", "", headings)))
    assert {f"veridp.{name}" for name in veridp.__all__} <= headed
    for function in (veridp.exact.compare, veridp.statdp.detect, veridp.sniper.search, veridp.check):
        assert f"veridp.{function.__module__.split('.')[-2]}.{function.__name__}" in headed
        assert str(inspect.getdoc(function)).split("\n")[0].split("`")[0][:40] in html.unescape(names)
    commands = re.sub(r"<[^>]*>", "", (site / "commands.html").read_text("utf-8"))
    assert [name for name in EXAMPLES if f"Usage: veridp {name} " not in commands] == []
    assert commands.count("Example: veridp") >= len(EXAMPLES)


def test_links_that_leave_the_site_become_text() -> None:
    hook = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md", abs_src_path=str(ROOT / "docs" / "x.md")))
    text = "[a](../README.md) [b](../docs/idea.md) [c](../missing.md) [d](idea.md)"
    shown = "a (`README.md`) [b](../docs/idea.md) [c](../missing.md) [d](idea.md)"
    assert hook["on_page_markdown"](text, page=page) == shown


def test_pages_fit_narrow_and_wide_screens(site: Path, browser: Any) -> None:
    for width in WIDTHS:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for page in LOOKED_AT:
            browser.get((site / f"{page}.html").as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, (page, width)
            broken = "return [...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
            assert browser.execute_script(broken) == []
    assert [entry["message"] for entry in browser.get_log("browser")] == []
