"""Progress in notebooks: a line below the cell that is updated in place, and gone when the work ends."""

from __future__ import annotations

import functools
import html
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from veridp.budget import Progress
from veridp.budget.child_process import inside

P = ParamSpec("P")
T = TypeVar("T")
SECONDS_BETWEEN_UPDATES = 0.1
BAR = '<progress max="1" value="{0:.3f}" style="width: 16em; vertical-align: middle"></progress> {1}'

_showing = False  # engines that an engine runs show nothing of their own


def shows_progress(engine: Callable[P, T]) -> Callable[P, T]:
    """A decorator: where the engine is given no `progress` and a notebook is running it, the notebook shows some."""

    @functools.wraps(engine)
    def run(*given: P.args, **named: P.kwargs) -> T:
        if named.get("progress") is not None or _showing or not _in_notebook():
            return engine(*given, **named)
        with _line_below_the_cell() as progress:
            named["progress"] = progress
            return engine(*given, **named)

    return run


def _in_notebook() -> bool:
    """Whether a kernel runs this process; a child of it has no line to its page."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") and not inside()


@contextmanager
def _line_below_the_cell() -> Iterator[Progress]:
    global _showing
    ipython: Any = importlib.import_module("IPython.display")  # the kernel has it
    place = ipython.display(ipython.HTML(""), display_id=True)
    last = -SECONDS_BETWEEN_UPDATES

    def update(stage: str, share: float, best: float) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_UPDATES:
            last = time.monotonic()
            known = f"{stage}, ε ≥ {best:.6g}" if best > 0 else stage
            place.update(ipython.HTML(BAR.format(min(max(share, 0.0), 1.0), html.escape(known))))

    _showing = True
    try:
        yield update
    finally:
        _showing = False
        place.update(ipython.HTML(""))
