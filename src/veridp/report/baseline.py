"""A baseline: what is known of a project's mechanisms, so that a gate fails on what is new."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veridp.errors import BadInput
from veridp.report.audit import UNJUDGED, Audited
from veridp.verdict import Standing

VERSION = 1
WORSE = 1e-6  # by which a lower bound may exceed that of the baseline, relatively, and still be the known one


@dataclass(frozen=True)
class KnownResult:
    """What was known of a target when the baseline was written."""

    standing: str
    claim: str = ""
    epsilon_lower: float = 0.0

    @classmethod
    def of(cls, one: Audited) -> KnownResult:
        verdict = one.verdict
        if verdict is None:
            return cls(UNJUDGED)
        return cls(verdict.standing.value, str(verdict.claim), verdict.epsilon.lower)

    def covers(self, one: Audited) -> bool:
        """Whether the result is no worse than this: refuted before too, under the same claim and by as much."""
        now = KnownResult.of(one)
        if now.standing not in (Standing.REFUTED.value, UNJUDGED):
            return True
        if self.standing != now.standing or self.claim != now.claim:
            return False
        return now.epsilon_lower <= self.epsilon_lower * (1 + WORSE)


Baseline = Mapping[str, KnownResult]


def read_baseline(file: Path) -> Baseline:
    """The baseline that the file holds; BadInput where it is none."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}")
        return {target: _read(entry) for target, entry in document["results"].items()}
    except FileNotFoundError:
        raise BadInput(f"{file}: no such baseline; write it first, with --update-baseline") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{file} is no baseline ({error}); write it anew with --update-baseline") from None


def _read(entry: Mapping[str, Any]) -> KnownResult:
    lower = entry.get("epsilon_lower", 0.0)
    bound = math.inf if lower == "inf" else float(lower)
    if not bound >= 0:
        raise ValueError(f"epsilon_lower is {lower!r}")
    return KnownResult(str(entry["standing"]), str(entry.get("claim", "")), bound)


def baseline_text(results: Sequence[Audited]) -> str:
    """The results as a baseline, a line for each that changes, to be kept under version control."""
    entries = {}
    for one in sorted(results, key=lambda one: one.target):
        known = KnownResult.of(one)
        lower: float | str = "inf" if math.isinf(known.epsilon_lower) else known.epsilon_lower
        entries[one.target] = {"standing": known.standing, "claim": known.claim, "epsilon_lower": lower}
    return json.dumps({"version": VERSION, "results": entries}, indent=2, ensure_ascii=False) + "\n"


def new_failures(results: Sequence[Audited], baseline: Baseline) -> list[Audited]:
    """The results that are refuted, or could not be judged, and are not known."""
    return [one for one in results if not (baseline[one.target].covers(one) if one.target in baseline else _fine(one))]


def _fine(one: Audited) -> bool:
    return one.verdict is not None and not one.refuted
