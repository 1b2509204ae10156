"""The one-by-one reading: the function as it is, called once for each output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veridp.errors import BadOutput, VeridpError
from veridp.kernel.identity import failed, output_of
from veridp.sampling.encode import encode, encode_array
from veridp.sampling.outputs import Outputs


def scalar_outputs(function: Callable[[Any, Any], Any], data: object, rng: np.random.Generator, count: int) -> Outputs:
    """`count` outputs of the function, one after the other from one generator; a run that raises has an output too."""
    return encode([output_of(function, rng, data) for _ in range(count)])


def vectorised_outputs(
    function: Callable[[Any, Any, int], Any], data: object, rng: np.random.Generator, count: int
) -> Outputs:
    """`count` outputs from the author's own function of `(rng, data, count)`.

    It returns an array whose first axis counts the outputs, or a sequence of outputs, or Outputs.
    """
    try:
        returned = function(rng, data, count)
    except VeridpError:
        raise
    except (Exception, SystemExit) as error:  # of which of the outputs, nobody can say
        raise failed(error) from error
    scalar = isinstance(returned, np.ndarray) and returned.ndim == 0
    if scalar or not isinstance(returned, np.ndarray | list | tuple | Outputs):
        raise BadOutput(
            f"its vectorised function returned {type(returned).__name__}; "
            f"return an array whose first axis counts the outputs, or a list of outputs"
        )
    if len(returned) != count:
        raise BadOutput(f"its vectorised function returned {len(returned)} outputs where {count} were asked for")
    if isinstance(returned, Outputs):
        return returned
    return encode_array(returned) if isinstance(returned, np.ndarray) else encode(returned)
