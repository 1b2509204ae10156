"""A hook of the site: it completes `commands.md` and `api.md` by what the package says of itself."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

COLUMNS = 100
DOCS = Path(__file__).resolve().parent
BESIDE = {"veridp.claim": ("Claim", "Witness", "Interval"), "veridp.verdict": ("Verdict",)}  # what results are made of


def on_config(_: Any) -> None:
    """Describe the source that mkdocstrings reads, wherever veridp is installed."""
    sys.path.insert(0, str(DOCS.parent / "src"))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page; the two of reference with what is generated below what is written there."""
    generated = {"commands.md": commands, "api.md": public_names}.get(page.file.src_uri)
    return _within_site(markdown, page) if generated is None else f"{markdown}\n{generated()}"


def _within_site(markdown: str, page: Any) -> str:
    """The page with links to files of the repository that are not on the site as text: name and path."""

    def kept(link: re.Match[str]) -> str:
        target = (Path(page.file.abs_src_path).parent / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():  # MkDocs complains of what does not exist
            return link[0]
        return f"{link[1]} (`{target.relative_to(DOCS.parent).as_posix()}`)"

    return re.sub(r"\[([^\]]+)\]\((\.\./[^)#]+)\)", kept, markdown)


# ------------------------------------------------------------------------------------------------------------ commands


def commands() -> str:
    """Every command in the order of `veridp --help`, with its help, which ends with an example."""
    from typer.main import get_command

    from veridp.cli import app

    return "\n".join(_help(name, command) for name, command in _below(get_command(app), ()))


def _below(command: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield (*above, name), inner
        yield from _below(inner, (*above, name))


def _help(name: tuple[str, ...], command: Any) -> str:
    words = " ".join(("veridp", *name))
    with command.make_context(words, [], resilient_parsing=True) as context:
        context.terminal_width = context.max_content_width = COLUMNS
        shown = command.get_help(context)
    return f"{'#' * (1 + len(name))} {words}\n\n```text\n{shown.rstrip()}\n```\n"


# -------------------------------------------------------------------------------------------------------------- Python


def public_names() -> str:
    """A section for `veridp` and for each of its public modules, with a directive of mkdocstrings for every name."""
    import veridp

    own, sections = [], []
    for name in veridp.__all__:
        value = getattr(veridp, name)
        if isinstance(value, ModuleType):
            names = getattr(value, "__all__", None) or _defined(value)
            sections.append(_section(f"veridp.{name}", value, names))
            value = getattr(value, name, None) if callable(value) else None  # `veridp.audit` and `veridp.prove`
        if value is not None:
            own.append(_directive(f"veridp.{name}", value))
    for module, names in BESIDE.items():
        sections.append(_section(module, importlib.import_module(module), names))
    return "\n".join(["## veridp\n", *own, *sections])


def _section(title: str, module: ModuleType, names: Any) -> str:
    summary = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    directives = [_directive(f"{title}.{name}", getattr(module, name)) for name in names]
    return "\n".join([f"## {title}\n", f"{summary}\n", *directives])


def _defined(module: ModuleType) -> list[str]:
    """The public functions and classes that a module without `__all__` defines."""
    return [
        name for name, value in vars(module).items() if not name.startswith("_") and _home(value) == module.__name__
    ]


def _home(value: object) -> str | None:
    return getattr(value, "__module__", None) if hasattr(value, "__qualname__") else None


def _directive(public: str, value: Any) -> str:
    """The object under its public name; mkdocstrings reads it where it is defined."""
    home = _home(value)
    path = value.__name__ if isinstance(value, ModuleType) else f"{home}.{value.__qualname__}" if home else public
    return f"::: {path}\n    options: {{heading: {public}, toc_label: {public.rpartition('.')[2]}}}\n"
