"""What commands print, and their exit statuses: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import rich.progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from veridp.budget import Progress
from veridp.errors import BadInput, MechanismFailed
from veridp.kernel.site import raised_at

# -------------------------------------------------------------------------------------------------------------- status
# The exit statuses of all commands; docs/audit.md says for each command what they mean.


HOLDS = 0  # nothing speaks against what was asked about
FAILS = 1  # a claim is refuted, a budget exceeded, a certificate rejected, a report refused
NOT_JUDGED = 2  # there is no answer; one line on stderr says why


# -------------------------------------------------------------------------------------------------------------- output
# What commands show: results on stdout, everything else on stderr.


UNBOUNDED = 1_000_000  # columns
JSON_VERSION = 1  # of the documents that --json prints: raised when a field changes its meaning or goes


def accept_any_text() -> None:
    """Let streams that cannot write a character write `?` in its place, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def show(result: RenderableType) -> None:
    """Print a result for people: lines are folded to the width of a terminal; a pipe has none.

    A text is printed as it stands: an output such as [#, #] is no markup.
    """
    console = Console(emoji=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
    console.print(result, markup=not isinstance(result, str))


def show_json(command: str, *results: Mapping[str, object], file: Path | None = None) -> None:
    """Print the results of a command, or write them to the file, as the document that `veridp schema` describes.

    Each result names its target.
    """
    text = json_text(command, *results)
    if file is None:
        sys.stdout.write(text)
    else:
        write_report(file, text)


def json_text(command: str, *results: Mapping[str, object]) -> str:
    """The results of a command as the text of that document."""
    return _json({"version": JSON_VERSION, "command": command, "results": results})


def print_json(document: object) -> None:
    """Print plain data as JSON: an infinity as {"infinite": 1} or {"infinite": -1}, NaN as null."""
    sys.stdout.write(_json(document))


def _json(document: object) -> str:
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value in the words of JSON; what has none is shown as text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else {"infinite": 1 if value > 0 else -1}
    return value if isinstance(value, str | int | float | None) else str(value)


def write_report(path: Path, content: str | Iterable[bytes]) -> None:
    """Write a report, as text or in pieces, with the folders that lead to it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            with path.open("wb") as out:
                out.writelines(content)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give a file that can be written") from None


def write_result_page(path: Path | None, target: str, result: object) -> None:
    """Write the page of an engine's result, if a file is given for it."""
    if path is None:
        return
    from veridp.report.notebook import result_page

    with user_code(), status_line(f"drawing {path}"):
        text = result_page(result, target)
    write_report(path, text)


def complain(message: str) -> None:
    """Print why there is no result, in one line whatever the message holds."""
    line = " ".join(f"veridp: {message}".split())
    Console(stderr=True, emoji=False).print(line, style="bold red", markup=False, highlight=False, soft_wrap=True)


def remark(message: str) -> None:
    """Print a line on stderr that is no fault."""
    Console(stderr=True, emoji=False).print(message, style="dim", markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress_bar(name: str) -> Iterator[Progress]:
    """A function that shows, on stderr, what is being done, how much of it is done, and the best ε so far."""
    console = Console(stderr=True, emoji=False)
    if not console.is_terminal:  # nobody watches, and the bar would leave an empty line behind
        yield lambda stage, share, best: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with rich.progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{name}: exploring", total=1.0)

        def update(stage: str, share: float, best: float) -> None:
            known = f", ε >= {best:.6g}" if best > 0 else ""
            bar.update(task, description=f"{name}: {stage}{known}", completed=min(share, 1.0))

        yield update


@contextlib.contextmanager
def status_line(text: str) -> Iterator[Callable[[str], None]]:
    """A function that changes the line on stderr that shows what is being done, where somebody may be looking."""
    console = Console(stderr=True, emoji=False)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(text) as status:
        yield lambda text: status.update(text)


@contextlib.contextmanager
def user_code() -> Iterator[None]:
    """Let user code run: what it prints goes to stderr, by whatever means, and its `sys.exit` does not end veridp."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise MechanismFailed(f"{raised_at(error.__traceback__)}: the mechanism ended the program: {error!r}") from None
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
