"""Runs the engines in order, each with its budget, and combines their results into a verdict."""

import sys
from types import ModuleType
from typing import Any

from veridp.audit.audit import audit
from veridp.audit.check import check
from veridp.audit.many import audit_all
from veridp.verdict import Verdict

__all__ = ["audit", "audit_all", "check"]


class _Callable(ModuleType):
    """`veridp.audit` is this package, and can be called as the function of that name."""

    def __call__(self, *arguments: Any, **named: Any) -> Verdict:
        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
