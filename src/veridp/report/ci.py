"""Verdicts for machines that watch a project: JUnit XML, and SARIF 2.1.0 with the user's file and line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from veridp.claim import Remark, Standing, Verdict, data_text, with_assumptions
from veridp.report.audit import Audited

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
REFUTED, OPEN, PROVED, FAILED = "VDP001", "VDP002", "VDP003", "VDP900"
RULES = {
    REFUTED: ("PrivacyClaimRefuted", "The mechanism does not keep the privacy that it claims.", "error"),
    OPEN: ("PrivacyClaimNotProved", "Nothing above the privacy claim was found, but it is not proved.", "note"),
    PROVED: ("PrivacyClaimProved", "The privacy claim is proved for the stated neighbours and size.", "none"),
    FAILED: ("MechanismNotJudged", "The mechanism could not be judged.", "warning"),
}
RULE_OF = {Standing.REFUTED: REFUTED, Standing.NOT_REFUTED: OPEN, Standing.PROVED: PROVED}
KIND = {REFUTED: "fail", OPEN: "open", PROVED: "pass", FAILED: "review"}


def junit(results: Sequence[Audited]) -> str:
    """A test case for each target: a failure where it is refuted, an error where it could not be judged."""
    failures = sum(_rule(one) == REFUTED for one in results)
    errors = sum(_rule(one) == FAILED for one in results)
    seconds = sum(one.verdict.seconds for one in results if one.verdict is not None)
    attributes = {"tests": len(results), "failures": failures, "errors": errors, "time": f"{seconds:.3f}"}
    suite = ElementTree.Element(
        "testsuite", {"name": "veridp", **{key: str(value) for key, value in attributes.items()}}
    )
    for one in results:
        took = 0.0 if one.verdict is None else one.verdict.seconds
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "veridp", "name": one.target, "time": f"{took:.3f}"}
        )
        if _rule(one) == REFUTED:
            ElementTree.SubElement(case, "failure", {"type": REFUTED, "message": _message(one)}).text = _details(one)
        elif _rule(one) == FAILED:
            ElementTree.SubElement(case, "error", {"type": FAILED, "message": one.reason})
        else:
            ElementTree.SubElement(case, "system-out").text = _message(one)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def sarif(results: Sequence[Audited], version: str) -> dict[str, Any]:
    """A SARIF log with a result for each target; rule ids stay the same from version to version."""
    rules = [
        {
            "id": rule,
            "name": name,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        for rule, (name, text, level) in RULES.items()
    ]
    driver = {"name": "veridp", "version": version, "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [*map(_result, results)]}],
    }


def _result(one: Audited) -> dict[str, Any]:
    rule = _rule(one)
    document: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "kind": KIND[rule],
        "level": RULES[rule][2] if KIND[rule] == "fail" else "none",
        "message": {"text": _message(one)},
        "partialFingerprints": {"veridpTarget/v1": f"{rule}:{one.target}"},
    }
    place = _place(one)
    if place.file:
        location = {"artifactLocation": {"uri": _uri(place.file)}, "region": {"startLine": max(place.line, 1)}}
        document["locations"] = [{"physicalLocation": location}]
    return document


def _place(one: Audited) -> Remark:
    """The line to show: the first thing to look at, or where the mechanism begins."""
    remarks = () if one.verdict is None else one.verdict.look_at
    return next((remark for remark in remarks if remark.file), Remark("", one.file, one.line))


def _uri(file: str) -> str:
    """The path from here, as these logs want it, where the file is below this folder."""
    relative = os.path.relpath(file)
    return (file if relative.startswith("..") else relative).replace(os.sep, "/")


def _rule(one: Audited) -> str:
    return FAILED if one.verdict is None else RULE_OF[one.verdict.standing]


def _message(one: Audited) -> str:
    verdict = one.verdict
    if verdict is None:
        return one.reason
    look = f" First look at: {verdict.look_at[0].sentence}." if verdict.look_at else ""
    epsilon = verdict.epsilon.statement("ε")
    known = f"{verdict.mechanism}: {verdict.claim} is {verdict.standing.value}, {epsilon} ({verdict.how}"
    caveats = "".join(f" {caveat[0].upper()}{caveat[1:]}." for caveat in verdict.caveats)
    return f"{with_assumptions(known, verdict.assumed)}).{caveats}{look}"


def _details(one: Audited) -> str:
    verdict: Verdict | None = one.verdict
    if verdict is None or verdict.witness is None:
        return ""
    witness = verdict.witness
    inputs = f"left = {data_text(witness.left)}\nright = {data_text(witness.right)}"
    return f"{inputs}\nevent: {witness.event}\n\n{verdict.snippet}\n"
