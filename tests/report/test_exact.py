"""Pictures of comparisons: the curves are the densities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.report import exact as plot


class Axes:
    """Keeps what is drawn."""

    def __init__(self) -> None:
        self.drawn: dict[str, tuple[Any, Any, str]] = {}

    def plot(self, x: Any, y: Any, style: str, *, label: str) -> None:
        self.drawn[label] = np.asarray(x), np.asarray(y), style

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def drawn(mechanism: str, left: list[float], right: list[float]) -> dict[str, tuple[Any, Any, str]]:
    comparison = veridp.exact.compare(veridp.catalogue[mechanism], left, right)
    line = plot.only_line(comparison.loss)
    assert line is not None
    axes = Axes()
    plot._draw_densities(axes, line)
    return axes.drawn


def test_curves_are_the_densities_on_a_fine_grid() -> None:
    for label, centre in (("left", 1.0), ("right", 0.0)):
        places, heights, style = drawn("laplace", [1.0], [0.0])[label]
        assert heights == pytest.approx(np.exp(-np.abs(places - centre) / 10) / 20, rel=1e-9)  # of scale 10
        assert np.diff(places).max() < (places[-1] - places[0]) / 900  # no long straight lines between points
        assert np.abs(places - centre).min() < 1e-9  # the peak is drawn
        assert heights.min() < 2e-3 * heights.max()  # and so are the tails
        assert style in ("-", "--")


def test_whole_numbers_are_marks() -> None:
    places, heights, style = drawn("geometric", [1], [0])["left"]
    alpha = np.exp(-0.1)
    assert style == "o"
    assert places.tolist() == np.round(places).tolist()
    assert heights == pytest.approx((1 - alpha) / (1 + alpha) * alpha ** np.abs(places - 1), rel=1e-9)


def test_a_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    comparison = veridp.exact.compare(veridp.catalogue["laplace"], [1.0], [0.0])
    plot.plot_comparison(comparison, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")
