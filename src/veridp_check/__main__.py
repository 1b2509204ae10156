"""`python -m veridp_check CERTIFICATE...`: exit status 1 if one is rejected, 2 if one is not a certificate, else 0."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from veridp_check import CheckResult, NotACertificate, check_file

REJECTED, NOT_CHECKED = 1, 2


def main(files: Sequence[str]) -> int:
    """Print a verdict on each file."""
    if not files or files[0] in ("-h", "--help"):
        sys.stdout.write("usage: python -m veridp_check CERTIFICATE...\n")
        return 0 if files else NOT_CHECKED
    status = 0
    for file in files:
        try:
            checked = check_file(file)
        except NotACertificate as error:
            sys.stderr.write(f"veridp_check: {error}\n")
            status = status or NOT_CHECKED
            continue
        if checked.rejection is not None:
            words = f"rejected at {checked.rejection.place}: {checked.rejection.reason}"
            status = REJECTED
        else:
            words = f"verified: {_claim(checked)}"
        sys.stdout.write(printable(f"{file}: {words}") + "\n")
    return status


def _claim(checked: CheckResult) -> str:
    stated = checked.certificate
    return f"{stated.mechanism} under {stated.adjacency}, {stated.scope}: {stated.privacy}" if stated else ""


def printable(line: str) -> str:
    """The line with what cannot be printed escaped: a certificate must not write lines or colours of its own."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
