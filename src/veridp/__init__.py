"""veridp: how private is this, really?"""

from typing import TYPE_CHECKING, Any

from veridp.adjacency import Rows
from veridp.catalogue import catalogue
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknown, unknowns
from veridp.mechanism import Mechanism, adapters, mechanism
from veridp.sampling.cluster import executor
from veridp.sampling.outputs import Outputs
from veridp.sampling.sample import sample, tally

__all__ = [
    "Mechanism",
    "Outputs",
    "Rows",
    "accounting",
    "adapters",
    "audit",
    "audit_all",
    "catalogue",
    "check",
    "exact",
    "executor",
    "explore",
    "finder",
    "local",
    "mechanism",
    "pipeline",
    "prove",
    "sample",
    "sniper",
    "statdp",
    "tally",
    "unknown",
    "unknowns",
]

if TYPE_CHECKING:
    from veridp import accounting, local
    from veridp.audit import audit, audit_all, check
    from veridp.engines import exact, finder, pipeline, sniper, statdp
    from veridp.engines.prove import prove
else:
    # Imported when first asked for: their numerics take longer to import than all the rest.
    PARTS = ("accounting", "audit", "local")
    ENGINES = ("exact", "finder", "pipeline", "prove", "sniper", "statdp")

    def __getattr__(name: str) -> Any:
        import importlib

        if name in ("audit_all", "check"):
            return getattr(importlib.import_module("veridp.audit"), name)
        if name in ENGINES:
            return importlib.import_module(f"veridp.engines.{name}")
        if name in PARTS:
            return importlib.import_module(f"veridp.{name}")
        raise AttributeError(f"module 'veridp' has no attribute {name!r}")
