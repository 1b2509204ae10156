"""Evidence bundles: a zip file with verdicts, certificates, witnesses, code and versions, that can be checked again.

What a check of the bundle alone shows: that its files are those that were written (as far as its manifest can be
trusted: keep its digest elsewhere), that every proof is accepted by the independent checker and covers the claim, and
that the probabilities of every witness break the claim. With the code at hand, it also shows that the code is the same
and that an exact witness still breaks the claim.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veridp.claim import MAKERS, Claim, Interval, RenyiLower, Witness
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Mechanism
from veridp.notions import ApproximateBound
from veridp.report.audit import Audited
from veridp.report.exhibits import source_of
from veridp.verdict import Standing, Verdict
from veridp_check import Stated, check

FORMAT, VERSION = "veridp-bundle", 1
MANIFEST, RESULTS, PAGE = "manifest.json", "results.json", "report.html"
CERTIFICATE, WITNESS, CODE = "certificate.json", "witness.py", "code.py"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the date of every file: the same results make the same bundle
MAX_BYTES = 1 << 30  # of all files of a bundle that is read
PROVING_SECONDS = 120.0
EVERY_SIZE = "of every size"  # how the scope of such a proof ends


def digest(data: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


# ------------------------------------------------------------------------------------------------------------- writing


def bundle_of(results: Sequence[Audited], results_json: str, page: str | None) -> bytes:
    """The bundle of these results, with the document that `--json` prints and the page, if there is one."""
    contents = {RESULTS: results_json.encode()} | ({} if page is None else {PAGE: page.encode()})
    targets = []
    for place, one in enumerate(results):
        files = _files_of(one.verdict) if one.verdict is not None else {}
        contents |= {f"{place}/{name}": text.encode() for name, text in files.items()}
        code = files.get(CODE)
        targets.append({"target": one.target, "code": None if code is None else digest(code.encode())})
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "targets": targets,
        "files": {name: digest(data) for name, data in sorted(contents.items())},
    }
    contents[MANIFEST] = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in sorted(contents.items()):
            bundle.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _files_of(verdict: Verdict) -> dict[str, str]:
    """The certificate, the lines that show the witness, and the code, as far as there are any."""
    files = {WITNESS: verdict.snippet + "\n"} if verdict.snippet else {}
    mechanism = verdict.subject
    if isinstance(mechanism, Mechanism):
        files |= _code_of(mechanism)
        if verdict.standing is Standing.PROVED:
            files[CERTIFICATE] = _certificate(mechanism, verdict)
    return files


def _code_of(mechanism: Mechanism) -> dict[str, str]:
    source = source_of(mechanism, "")
    return {} if source is None else {CODE: "\n".join(source.lines) + "\n"}


def _certificate(mechanism: Mechanism, verdict: Verdict) -> str:
    """The certificate of the proof that the verdict rests on, found anew."""
    from veridp.engines.prove import prove, prove_for_every_size
    from veridp.engines.prove.certificate import certificate_text

    if verdict.scope.endswith(EVERY_SIZE):
        return certificate_text(prove_for_every_size(mechanism).certificate)
    proof = prove(mechanism, seconds=PROVING_SECONDS)
    if verdict.claim.notion is not None and not verdict.claim.covers_proof(proof):
        proof = prove(mechanism, delta=0.0, seconds=PROVING_SECONDS)
    return certificate_text(proof.certificate)


# ------------------------------------------------------------------------------------------------------------ checking


@dataclass(frozen=True)
class BundleCheck:
    """One thing that was looked at: what it is about, whether it holds, and what was found."""

    about: str
    holds: bool
    finding: str

    def __str__(self) -> str:
        return f"{'ok   ' if self.holds else 'WRONG'} {self.about}: {self.finding}"


def check_bundle(file: Path, code: Mapping[str, Mechanism] | None = None) -> list[BundleCheck]:
    """What a bundle shows, one thing at a time; with the mechanisms by target, also whether their code still does.

    BadInput where the file is not a bundle.
    """
    contents = _read(file)
    manifest = _json(file, contents.get(MANIFEST, b""))
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        raise BadInput(f"{file} is not a bundle of version {VERSION}; give a file that veridp audit --bundle wrote")
    checks = [_check_files(contents, manifest)]
    if not checks[0].holds:
        return checks
    document = _json(file, contents[RESULTS])
    targets, results = manifest.get("targets", []), document.get("results", [])
    names = [one.get("target") for one in targets]
    if not names or names != [one.get("target") for one in results]:
        return [*checks, BundleCheck("targets", False, "the manifest and the results name different ones")]
    for place, (entry, result) in enumerate(zip(targets, results, strict=True)):
        files = {name.partition("/")[2]: data for name, data in contents.items() if name.startswith(f"{place}/")}
        checks.append(_check_result(result, files))
        if code is not None and entry["target"] in code:
            checks += _check_code(code[entry["target"]], entry, result)
    return checks


def bundled_targets(file: Path) -> list[str]:
    """The targets that have a verdict and code in the bundle."""
    manifest = _json(file, _read(file).get(MANIFEST, b""))
    targets = manifest.get("targets", []) if isinstance(manifest, dict) else []
    return [str(entry["target"]) for entry in targets if entry["code"] is not None]


def _read(file: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(file) as bundle:
            if sum(one.file_size for one in bundle.infolist()) > MAX_BYTES:
                raise BadInput(f"{file} unpacks to more than {MAX_BYTES >> 20} MiB; that is no bundle")
            return {one.filename: bundle.read(one) for one in bundle.infolist()}
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give a file that veridp audit --bundle wrote") from None
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise BadInput(f"{file} is not a bundle ({error}); give a file that veridp audit --bundle wrote") from None


def _json(file: Path, data: bytes) -> Any:
    def number_of(entry: dict[str, Any]) -> Any:
        return math.copysign(math.inf, entry["infinite"]) if set(entry) == {"infinite"} else entry

    try:
        return json.loads(data, object_hook=number_of)
    except ValueError as error:
        raise BadInput(f"{file} is not a bundle ({error}); give a file that veridp audit --bundle wrote") from None


def _check_files(contents: Mapping[str, bytes], manifest: Mapping[str, Any]) -> BundleCheck:
    listed = manifest.get("files")
    found = {name: digest(data) for name, data in contents.items() if name != MANIFEST}
    if not isinstance(listed, dict) or RESULTS not in listed:
        return BundleCheck("files", False, "the manifest lists none")
    changed = sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name))
    if changed:
        return BundleCheck("files", False, f"not those of the manifest: {', '.join(changed)}")
    return BundleCheck("files", True, f"{len(found)} as the manifest says; its SHA-256 is {digest(contents[MANIFEST])}")


def _check_result(result: Mapping[str, Any], files: Mapping[str, bytes]) -> BundleCheck:
    """Whether what is in the bundle shows the standing that the result has."""
    about, standing = str(result.get("target")), result.get("standing")
    try:
        if standing == Standing.PROVED.value:
            return _check_certificate(about, _claim(result), result, files.get(CERTIFICATE))
        if standing == Standing.REFUTED.value:
            return _check_witness(about, _claim(result), result["witness"])
    except (VeridpError, KeyError, TypeError, ValueError, AttributeError) as error:
        return BundleCheck(about, False, f"{standing}, but the result cannot be read ({error})")
    return BundleCheck(about, True, f"{standing}: it claims nothing that could be checked")


def _claim(result: Mapping[str, Any]) -> Claim:
    stated = result["claim"]
    for keyword, make in MAKERS.items():
        if keyword in stated.get("notion", {}):
            return Claim.of(make(stated["notion"][keyword]))
    return Claim(float(stated["epsilon"]), float(stated["delta"]))


def _check_certificate(about: str, claim: Claim, result: Mapping[str, Any], data: bytes | None) -> BundleCheck:
    if data is None:
        return BundleCheck(about, False, "proved, but there is no certificate")
    checked = check(json.loads(data))
    stated = checked.certificate
    if checked.rejection is not None or stated is None:
        return BundleCheck(about, False, f"the certificate is rejected: {checked.rejection}")
    if str(result["mechanism"]).partition("(")[0] != stated.mechanism:
        return BundleCheck(about, False, f"the certificate speaks of {stated.mechanism}, not of {result['mechanism']}")
    epsilon, delta = math.nextafter(float(stated.epsilon), math.inf), float(stated.delta)
    notions = {"rho": stated.rho, "mu": stated.mu}
    in_notion = None if claim.notion is None else notions.get(claim.notion.keyword)
    covered = claim.covers_proof(ApproximateBound(epsilon, delta))
    if not covered and claim.notion is not None and in_notion is not None:
        covered = claim.covers_bound(MAKERS[claim.notion.keyword](float(in_notion)))
    if not covered:
        return BundleCheck(about, False, f"the certificate proves {stated.privacy}, which is not {claim}")
    wider = _claims_more(str(result["scope"]), stated)
    if wider:
        return BundleCheck(about, False, f"the result is {wider}, but the certificate for {stated.scope}")
    proof = f"{stated.privacy}, {stated.scope} under {stated.adjacency}"
    return BundleCheck(about, True, f"proved: the certificate is accepted ({proof}), and covers {claim}")


def _claims_more(scope: str, stated: Stated) -> str:
    """For which neighbours the result is said to hold, where the certificate does not speak of these."""
    relation = scope.partition("under ")[2]
    if relation and not relation.startswith(stated.adjacency):
        return f"for neighbours under {relation}"
    return "of every size" if scope.endswith(EVERY_SIZE) and stated.size is not None else ""


def _check_witness(about: str, claim: Claim, found: Mapping[str, Any]) -> BundleCheck:
    left, right = (Interval(*found[f"{side}_probability"]) for side in ("left", "right"))
    others = tuple((float(above), float(below)) for above, below in found.get("other_events", ()))
    divergence = RenyiLower(**found["divergence"]) if found.get("divergence") else None
    witness = Witness(
        found["left"],
        found["right"],
        found["event"],
        left,
        right,
        found["confidence"],
        divergence=divergence,
        others=others,
    )
    sure = "exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:g}"
    if "divergence" in found and not witness.refutes(claim):
        return BundleCheck(
            about, True, "refuted by a divergence between the inputs, which needs the code to be checked"
        )
    if not witness.refutes(claim):
        return BundleCheck(about, False, f"the probabilities {left} and {right} do not break {claim}")
    shown = f"the probabilities {left} and {right}" if divergence is None else str(divergence)
    return BundleCheck(about, True, f"refuted {sure}: {shown} against {claim}")


def _check_code(mechanism: Mechanism, entry: Mapping[str, Any], result: Mapping[str, Any]) -> list[BundleCheck]:
    """Whether the code is that of the bundle; and whether an exact witness still breaks the claim with it."""
    from veridp.engines.exact import compare

    about = f"{entry['target']} (code)"
    code = _code_of(mechanism).get(CODE)
    if code is None or digest(code.encode()) != entry["code"]:
        return [BundleCheck(about, False, "it is not the code that was audited")]
    same = BundleCheck(about, True, "the function is the one that was audited")
    found = result.get("witness")
    if result.get("standing") != Standing.REFUTED.value or found is None or found["confidence"] < 1:
        return [same]
    try:
        bound = mechanism.bind(**found["arguments"])
        comparison = compare(bound, found["left"], found["right"], seconds=PROVING_SECONDS)
        holds = comparison.refutes(_claim(result))
    except VeridpError as error:
        return [same, BundleCheck(about, False, f"its witness could not be compared: {error}")]
    return [same, BundleCheck(about, holds, f"computed anew between the two inputs, ε = {comparison.epsilon:.6g}")]
