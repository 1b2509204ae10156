"""Mechanisms from what is not a plain function: objects of other libraries, batched functions, and commands.

Each adapter returns a Mechanism. What the library itself says (its claim, its neighbours, its domain) is taken over
where it can be known; every adapter lets you say it yourself by the options of `veridp.mechanism`. No library is
imported here.
"""

from veridp.mechanism.adapters.aggregations import is_pure_ldp, pipelinedp, pure_ldp, pydp, smartnoise
from veridp.mechanism.adapters.diffprivlib_objects import diffprivlib, is_diffprivlib
from veridp.mechanism.adapters.foreign import Command, batched, command, unseeded
from veridp.mechanism.adapters.opendp_measurements import is_opendp, opendp
from veridp.mechanism.adapters.training import jax_privacy, opacus
from veridp.mechanism.adapters.tumult_measurements import tumult

__all__ = [
    "Command",
    "batched",
    "command",
    "diffprivlib",
    "is_diffprivlib",
    "is_opendp",
    "is_pure_ldp",
    "jax_privacy",
    "opacus",
    "opendp",
    "pipelinedp",
    "pure_ldp",
    "pydp",
    "smartnoise",
    "tumult",
    "unseeded",
]
