"""`veridp cache`: the verdicts that are kept, and how to be rid of them."""

from __future__ import annotations

from typing import Annotated

import typer

from veridp.cli.options import AsJson
from veridp.cli.output import HOLDS, remark, show, show_json
from veridp.errors import BadInput


def show_cache(
    clear: Annotated[bool, typer.Option("--clear", help="remove all of them")] = False,
    as_json: AsJson = False,
) -> int:
    """List the verdicts that audits of unchanged mechanisms are given; VERIDP_CACHE names their folder, or is `off`."""
    from veridp.audit.cache import OFF, VARIABLE, VerdictCache, cache_folder
    from veridp.kernel.symbols import count_text

    folder = cache_folder()
    if folder is None:
        raise BadInput(f"there is no cache: {VARIABLE} is {OFF}; unset it, or name a folder in it")
    cache = VerdictCache(folder, remark)
    removed = cache.clear() if clear else 0
    entries = cache.entries()
    size = sum(one.bytes for one in entries)
    if as_json:
        found = [{"made": one.made, "about": one.about, "bytes": one.bytes} for one in entries]
        show_json("cache", {"target": str(folder), "removed": removed, "bytes": size, "entries": found})
        return HOLDS
    lines = [f"{one.made}  {one.about}" for one in entries]
    summary = f"{count_text(len(entries), 'verdict')}, {size / 1000:.0f} kB, in {folder}"
    show("\n".join([*lines, f"removed {count_text(removed, 'verdict')} from {folder}" if clear else summary]))
    return HOLDS
