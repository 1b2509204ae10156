"""veridp: how private is this, really?"""

from veridp.catalogue import catalogue
from veridp.mechanism import Mechanism, mechanism
from veridp.program.affine import unknown, unknowns
from veridp.program.explore import explore
from veridp.program.outputs import Outputs
from veridp.program.sample import sample
from veridp.program.tally import tally

__all__ = ["Mechanism", "Outputs", "catalogue", "explore", "mechanism", "sample", "tally", "unknown", "unknowns"]
