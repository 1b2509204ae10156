"""`veridp audit --watch`: audits again when a file of the project is saved.

Every round is a process of its own, which loads all files afresh; the cache lets it pay for what changed alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from veridp.cli.output import remark
from veridp.kernel.symbols import count_text
from veridp.project import sources_of_target

POLL_SECONDS = 0.3
INTERRUPTED = 130
Stamp = tuple[int, int]


def watch(words: Sequence[str], targets: Sequence[str], settings: Path | None) -> int:
    """Run `veridp` with these words now and whenever a file changes that it loaded or that a target names.

    It ends with Ctrl-C; the status is that of the last round that was not interrupted.
    """
    status, loaded = 0, set[Path]() if settings is None else {settings}
    with tempfile.TemporaryDirectory() as folder:
        list_of_files = Path(folder) / "loaded"
        try:
            while True:
                before = _stamps(loaded, targets)
                ended = _round([*words, "--loaded", str(list_of_files)])
                if ended is None:
                    return status
                status = ended
                if list_of_files.exists():
                    loaded |= {Path(line) for line in list_of_files.read_text(encoding="utf-8").splitlines()}
                before = {**_stamps(loaded - before.keys(), ()), **before}
                remark(f"watching {count_text(len(before), 'file')}; Ctrl-C ends")
                remark(f"changed: {', '.join(map(str, _wait_for_change(before, loaded, targets)))}")
        except KeyboardInterrupt:
            return status


def _round(words: Sequence[str]) -> int | None:
    """The status of `veridp` with these words; None where it was interrupted, after it has shown what it had."""
    with subprocess.Popen([sys.executable, "-m", "veridp", *words]) as process:  # noqa: S603 - veridp itself
        try:
            status = process.wait()
        except KeyboardInterrupt:  # which the process got too
            process.wait()
            return None
    return None if status == INTERRUPTED else status


def _wait_for_change(before: dict[Path, Stamp], loaded: Iterable[Path], targets: Sequence[str]) -> list[Path]:
    """The files that are not as they were, once there are some."""
    while True:
        now = _stamps(loaded, targets)
        changed = [file for file in sorted({*before, *now}) if before.get(file) != now.get(file)]
        if changed:
            return changed
        time.sleep(POLL_SECONDS)


def _stamps(files: Iterable[Path], targets: Sequence[str]) -> dict[Path, Stamp]:
    """Of these files and those that the targets name: when each was changed, and its size."""
    found: dict[Path, Stamp] = {}
    for file in {*files, *(file.resolve() for target in targets for file in sources_of_target(target))}:
        try:
            about = file.stat()
        except OSError:  # it is gone, or being replaced
            continue
        found[file] = about.st_mtime_ns, about.st_size
    return found
