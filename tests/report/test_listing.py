"""The catalogue as a list and paths as a tree, in words and as data."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from veridp.catalogue import catalogue
from veridp.kernel.explore import explore
from veridp.report.listing import entries, listing, markdown, path_lines, path_tree


def noisy_choice(rng: Any, data: Any) -> Any:
    if rng.choice([True, False], p=[0.25, 0.75]):
        return "[b]none[/b]"
    return data[0] + rng.laplace(scale=2) > 1


def text_of(rendered: Any, width: int = 100) -> str:
    console = Console(width=width, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(rendered)
    return captured.get()


def test_a_line_for_each_mechanism() -> None:
    rows = entries({name: catalogue[name] for name in ("laplace", "svt4", "gaussian")})
    lines = str(listing(rows, 70)).splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["✓", "laplace"], ["✗", "svt4"], ["✓", "gaussian"]]
    assert max(map(len, lines[:4])) <= 70
    assert lines[4] == "3 mechanisms: ✓ 2 keep their claim, ✗ 1 do not"
    assert [row.as_dict()["keeps_claim"] for row in rows] == [True, False, True]
    assert rows[0].as_dict()["claim"] == {"epsilon": 0.1, "delta": 0.0}


def test_the_page_escapes_what_ends_a_cell() -> None:
    (row,) = entries({"or": catalogue["laplace"]})
    page = markdown([type(row)(**{**vars(row), "summary": "a | b"})])
    assert page.splitlines()[-1].endswith(r"| a \| b |")
    assert len({line.replace(r"\|", "").count("|") for line in page.splitlines()[4:]}) == 1


def test_the_tree_has_the_forks_draws_and_outputs() -> None:
    paths = explore(noisy_choice, [0.5])
    text = text_of(path_tree("noisy_choice", paths, 2))
    assert "… and 1 more paths" in text
    text = text_of(path_tree("noisy_choice", paths, 9))
    assert "'[b]none[/b]'" in text
    assert "probability 0.25" in text
    assert "n0 ~ laplace(scale=2)" in text
    assert "more paths" not in text


def test_paths_as_data() -> None:
    lines = {str(line["output"]): line for line in path_lines(explore(noisy_choice, [0.5]))}
    assert lines["'[b]none[/b]'"]["weight"] == 0.25
    assert lines["True"]["conditions"] == ["n0 > 0.5"]
    assert [noise["distribution"] for noise in lines["False"]["noise"]] == ["laplace(scale=2)"]  # type: ignore[attr-defined]
