"""`check`: an assertion about a mechanism, for test suites."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from veridp.audit.audit import ALPHA, audit
from veridp.audit.cache import cached_audit
from veridp.claim import data_text
from veridp.errors import VeridpError
from veridp.verdict import Standing, Verdict

SECONDS = 20.0
PLUGIN = "_veridp_pytest"


def check(
    mechanism: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    proved: bool = False,
    seconds: float | None = None,
    alpha: float | None = None,
    **options: Any,
) -> Verdict:
    """The verdict of the audit; an AssertionError with the falsifying example where the claim is refuted.

    The `options` are those of the audit: `size`, `adjacency`, or `rho`, `mu`, `rdp` or `tradeoff` in place of ε and δ.
    With `proved`, a claim that is not proved is an error too. In a pytest run with veridp's plugin, `seconds` and
    `alpha` are those of `--dp-time`, and a part of `--dp-alpha`, unless they are given here; what is unchanged is taken
    from the cache, unless there is `--dp-no-cache`.
    """
    __tracebackhide__ = True  # pytest shows the test that failed, not this function
    share = _session()
    if share is not None:
        seconds = share.seconds if seconds is None else seconds
        alpha = share.next_alpha() if alpha is None else alpha
    limits = {"seconds": SECONDS if seconds is None else seconds, "alpha": ALPHA if alpha is None else alpha}
    judge: Any = audit if share is None or share.notes is None else partial(cached_audit, tell=share.notes.append)
    try:
        verdict: Verdict = judge(mechanism, epsilon, delta, **limits, **options)
    except VeridpError as error:
        raise error.with_traceback(None) from None  # its message says what is wrong, and where in the mechanism
    if share is not None:
        share.record(verdict.alpha, bool(verdict.cached))
    if verdict.standing is Standing.REFUTED:
        raise AssertionError(falsified(verdict))
    if proved and verdict.standing is not Standing.PROVED:
        raise AssertionError(f"{verdict}; a proof is required")
    return verdict


def _claimed(verdict: Verdict) -> str:
    claim = verdict.claim
    return f"{claim.epsilon:g} is claimed" if claim.notion is None else f"{claim} is claimed"


def _session() -> Any:
    """What the plugin, if it is running a test now, allows this check."""
    plugin = sys.modules.get(PLUGIN)
    return None if plugin is None else plugin.CURRENT_SHARE.get()


def falsified(verdict: Verdict) -> str:
    """The falsifying example, small and ready to paste."""
    witness = verdict.witness
    if witness is None:
        return str(verdict)
    ratio = witness.epsilon(verdict.claim.tolerated.delta)
    sure = "exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:g}"
    lines = [
        f"{verdict.mechanism} does not keep {verdict.claim}",
        "",
        "Falsifying example:",
        f"    left  = {data_text(witness.left)}",
        f"    right = {data_text(witness.right)}",
        f"    event: {witness.event}",
        f"    probability {witness.left_probability} on left, {witness.right_probability} on right ({sure})",
        f"    so {verdict.claim.violation(witness) or f'ε >= {ratio.lower:.6g}'} where {_claimed(verdict)}",
        *([f"    {verdict.assumption}"] if verdict.assumed else []),
        *(f"    {caveat}" for caveat in verdict.caveats),
        *(["", f"First look at {verdict.look_at[0]}"] if verdict.look_at else []),
        "",
        "To see it again:",
        *(f"    {line}" for line in verdict.snippet.splitlines()),
    ]
    return "\n".join(lines)
