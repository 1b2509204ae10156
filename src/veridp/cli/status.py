"""The exit statuses of all commands; docs/audit.md says for each command what they mean."""

from __future__ import annotations

HOLDS = 0  # nothing speaks against what was asked about
FAILS = 1  # a claim is refuted, a budget exceeded, a certificate rejected, a report refused
NOT_JUDGED = 2  # there is no answer; one line on stderr says why
