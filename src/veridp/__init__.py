"""veridp: how private is this, really?"""

from veridp.catalogue import catalogue
from veridp.mechanism import Mechanism, mechanism
from veridp.program.affine import unknown, unknowns
from veridp.program.explore import explore

__all__ = ["Mechanism", "catalogue", "explore", "mechanism", "unknown", "unknowns"]
