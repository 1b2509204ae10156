"""Verifies certificates of differential privacy, in exact arithmetic, with the standard library alone.

It shares only the format with the search that wrote a certificate, and does not import veridp. What a verified
certificate establishes, and what it does not, is explained in docs/certificates.md. Each kind of certificate has a
reader and a checker, in which the argument for each step stands above the step.

    >>> from veridp_check import check
    >>> check({"format": "veridp-certificate", "version": 3, "kind": "hope"}).rejection.reason
    "one of alignment, bounds, coupling, induction is needed, not 'hope'"
"""

from veridp_check.checker import CheckResult, CheckStep, Rejection, check, check_file
from veridp_check.document import NotACertificate, Stated

__all__ = ["CheckResult", "CheckStep", "NotACertificate", "Rejection", "Stated", "check", "check_file"]
