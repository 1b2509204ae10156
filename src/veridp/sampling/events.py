"""Events: sets of outputs. Each engine has its own kind; all print as a sentence and can be evaluated on outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.sampling.encode import encode
from veridp.sampling.outputs import Outputs


class OutputEvent(ABC):
    """A set of outputs, such as a witness names."""

    @abstractmethod
    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""

    @abstractmethod
    def __str__(self) -> str:
        """A sentence about the output, which is true where it belongs to the event."""

    def holds(self, output: Any) -> bool:
        """Whether an output, as a mechanism returns it, belongs to the event."""
        return bool(self(encode([output]))[0])

    def count(self, outputs: Outputs) -> int:
        """How many of the outputs belong to it."""
        return int(np.count_nonzero(self(outputs)))
