"""veridp: how private is this, really?"""

from typing import TYPE_CHECKING, Any

from veridp.catalogue import catalogue
from veridp.mechanism import Mechanism, adapters, mechanism
from veridp.program.affine import unknown, unknowns
from veridp.program.explore import explore
from veridp.program.outputs import Outputs
from veridp.program.sample import sample
from veridp.program.tally import tally

__all__ = [
    "Mechanism",
    "Outputs",
    "accounting",
    "adapters",
    "audit",
    "catalogue",
    "check",
    "exact",
    "explore",
    "finder",
    "local",
    "mechanism",
    "prove",
    "sample",
    "sniper",
    "statdp",
    "tally",
    "unknown",
    "unknowns",
]

if TYPE_CHECKING:
    from veridp import accounting, exact, finder, local, sniper, statdp
    from veridp.audit import audit, check
    from veridp.prove import prove
else:
    ENGINES = (
        "accounting",
        "audit",
        "exact",
        "finder",
        "local",
        "prove",
        "sniper",
        "statdp",
    )  # imported when first asked for: their numerics take longer to import than all the rest

    def __getattr__(name: str) -> Any:
        import importlib

        if name == "check":
            return importlib.import_module("veridp.audit").check
        if name not in ENGINES:
            raise AttributeError(f"module 'veridp' has no attribute {name!r}")
        return importlib.import_module(f"veridp.{name}")
