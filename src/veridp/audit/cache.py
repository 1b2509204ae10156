"""Verdicts that are kept, so that an audit of an unchanged mechanism costs nothing.

An entry is a file whose name is the digest of everything that a finished verdict depends on: the code and what it
reads, the settings of the audit, the libraries. Files appear whole or not at all, so processes may share a folder.
What is read is not trusted: its digest must agree, and it can hold nothing but veridp's own values and NumPy's arrays.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veridp.audit.audit import ALPHA, as_stated, audit
from veridp.audit.code_digest import NoDigest, mechanism_digest
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Mechanism
from veridp.verdict import Verdict

VARIABLE, OFF = "VERIDP_CACHE", "off"
MAX_ENTRIES = 2_000  # in a folder: the oldest ones go
MAGIC = b"veridp-cache 1\n"
SUFFIX = ".verdict"
# What an entry may be made of: classes of these modules, none of which does anything when it is made, and others.
VALUES = ("veridp.claim", "veridp.verdict", "veridp.notions", "veridp.conversions", "veridp.adjacency",
          "veridp.kernel.", "veridp.sampling.", "veridp.numerics.", "veridp.engines.")  # fmt: skip
OTHERS = {
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"), ("fractions", "Fraction"),
    ("decimal", "Decimal"), ("collections", "OrderedDict"), ("builtins", "set"), ("builtins", "frozenset"),
    ("builtins", "complex"), ("builtins", "range"), ("builtins", "slice"), ("builtins", "bytearray"),
}  # fmt: skip
Tell = Callable[[str], None]


def cache_folder() -> Path | None:
    """Where verdicts are kept: the folder that VERIDP_CACHE names, or one for caches of this user; None where `off`."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == OFF else Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "veridp" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "veridp"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "veridp"


def cached_audit(
    mechanism: Any,
    *claim: Any,
    tell: Tell,
    seconds: float,
    time: float | None = None,
    progress: Any = None,
    alpha: float = ALPHA,
    seed: int = 0,
    black_box: bool = False,
    **stated: Any,
) -> Verdict:
    """The verdict from the cache, or that of an audit with the same arguments, which is then kept.

    `time` is the budget that the user stated, if loading used a part of it. A verdict that was cut short is not kept.
    `tell` gets a line where a verdict cannot be kept, or an entry is not used.
    """
    bound, folder = as_stated(mechanism, *claim, **stated), cache_folder()
    options: dict[str, Any] = {"alpha": alpha, "seed": seed, "black_box": black_box}
    cache = None if folder is None else VerdictCache(folder, tell)
    key = ""
    if cache is not None:
        try:
            key = verdict_key(bound, {"seconds": time or seconds, **options})
        except NoDigest as reason:
            tell(f"{bound.name} is not cached: {reason}")
        if key and (found := cache.get(key, bound)) is not None:
            return found
    verdict = audit(bound, seconds=seconds, progress=progress, **options)
    if cache is not None and key and verdict.finished:
        cache.put(key, verdict)
    return verdict


def verdict_key(mechanism: Mechanism, options: Mapping[str, object]) -> str:
    """The digest of all that a finished verdict on the mechanism depends on; NoDigest if some of it may go unseen."""
    stated = {field.name: getattr(mechanism, field.name) for field in fields(mechanism) if field.name != "function"}
    stated["assumed"] = sorted(mechanism.assumed)
    return mechanism_digest(mechanism.function, {**stated, **options})


@dataclass(frozen=True)
class CacheEntry:
    """A file of the cache: when its verdict was made, of what, and how large it is."""

    file: Path
    made: str
    about: str
    bytes: int


@dataclass(frozen=True)
class VerdictCache:
    """A folder of verdicts by their keys; `tell` gets a line for each entry that cannot be used."""

    folder: Path
    tell: Tell

    def get(self, key: str, mechanism: Mechanism) -> Verdict | None:
        """The verdict of this key, as one about this mechanism; None where there is none that can be used."""
        file = self._file(key)
        try:
            content = file.read_bytes()
        except OSError:
            return None
        try:
            header, body = _opened(content)
            if header["key"] != key:
                raise ValueError("it belongs to another mechanism")
            unpickler = _Unpickler(io.BytesIO(body), mechanism)
            verdict, results, size = unpickler.load()
            if not isinstance(verdict, Verdict) or not verdict.finished:
                raise ValueError("it holds no finished verdict")
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, ImportError, VeridpError) as error:
            self.tell(f"{file} is ignored: {error}")
            return None
        except pickle.UnpicklingError as error:
            self.tell(f"{file} is ignored: {error}")
            return None
        return replace(verdict, subject=replace(mechanism, size=size), results=results, cached=str(header["made"]))

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep the verdict, if it can be read back."""
        subject = verdict.subject
        if not isinstance(subject, Mechanism):
            return
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        for results in (dict(verdict.results), {}):  # without results of engines where they hold what is not ours
            try:
                body = _pickled((verdict, results, subject.size), subject)
                _Unpickler(io.BytesIO(body), subject).load()
                break
            except Exception as error:  # whatever pickling runs into: it is not kept
                reason = error
        else:
            self.tell(f"{verdict.mechanism} is not cached: {reason}")
            return
        header = {"key": key, "made": made, "about": str(verdict), "sha256": hashlib.sha256(body).hexdigest()}
        try:
            self._write(self._file(key), MAGIC + json.dumps(header).encode() + b"\n" + body)
            self._prune()
        except OSError as error:
            self.tell(f"{self.folder}: {error.strerror}; nothing is cached; name another folder in {VARIABLE}")

    def entries(self) -> list[CacheEntry]:
        """What the folder holds, the newest first."""
        found = []
        for file in sorted(self._files(), key=_age, reverse=True):
            with contextlib.suppress(OSError, ValueError, KeyError):
                header, _ = _opened(file.read_bytes())
                found.append(CacheEntry(file, str(header["made"]), str(header["about"]), file.stat().st_size))
        return found

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        files = list(self._files())
        try:
            for file in files:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"{error.filename}: {error.strerror}; remove the folder yourself") from None
        return len(files)

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def _files(self) -> Iterator[Path]:
        return self.folder.glob(f"??/*{SUFFIX}")

    def _write(self, file: Path, content: bytes) -> None:
        """Write a file that others see whole or not at all; only this user can write into a folder made here."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _prune(self) -> None:
        files = sorted(self._files(), key=_age, reverse=True)
        for file in files[MAX_ENTRIES:]:
            file.unlink(missing_ok=True)


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # another process removed it
        return 0.0


# ------------------------------------------------------------------------------------------------------------ a file


def _opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the body; ValueError where they are not what was written."""
    if not content.startswith(MAGIC):
        raise ValueError("it is not an entry of this version")
    head, _, body = content[len(MAGIC) :].partition(b"\n")
    header = json.loads(head)
    if not isinstance(header, dict) or hashlib.sha256(body).hexdigest() != header.get("sha256"):
        raise ValueError("it is damaged")
    return header, body


def _pickled(value: object, subject: Mechanism) -> bytes:
    """The value, without the mechanism: a reader has it."""
    buffer = io.BytesIO()
    _Pickler(buffer, subject).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Writes the size that stands for the subject at that size."""

    def __init__(self, stream: io.BytesIO, subject: Mechanism) -> None:
        super().__init__(stream, 5)
        self.subject = subject

    def persistent_id(self, part: Any) -> int | None:
        if not isinstance(part, Mechanism):
            return None
        if replace(part, size=self.subject.size) != self.subject:
            raise pickle.PicklingError("it holds another mechanism")
        return part.size


class _Unpickler(pickle.Unpickler):
    """Reads veridp's values and NumPy's arrays, and calls nothing else."""

    def __init__(self, stream: io.BytesIO, mechanism: Mechanism) -> None:
        super().__init__(stream)
        self.mechanism = mechanism

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in OTHERS and not module.startswith(VALUES):
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not one of veridp's values")
        found = functools.reduce(getattr, name.split("."), _module(module))
        if module.startswith("veridp.") and not (isinstance(found, type) and found.__module__.startswith("veridp.")):
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not a value")
        return found

    def persistent_load(self, size: Any) -> Mechanism:
        return replace(self.mechanism, size=size)


def _module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]
