"""Pickles for other processes: functions of scripts, notebooks and files that nobody can import go along by value."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import cloudpickle

_lock = threading.Lock()


def packed(value: object) -> bytes:
    """The value as bytes that a fresh process with the same sys.path can unpickle."""
    with _lock:  # the list of modules to pickle by value is global
        local = [module for module in _outside_modules() if not _importable(module)]
        for module in local:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(value)
        finally:
            for module in local:
                cloudpickle.unregister_pickle_by_value(module)
    return data


def _outside_modules() -> list[ModuleType]:
    """The modules that belong neither to Python nor to an installed package."""
    installed = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib")})
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(module, ModuleType) and file and not file.startswith(installed):
            found.append(module)
    return [module for module in found if sys.modules.get(module.__name__) is module]


def _importable(module: ModuleType) -> bool:
    """Whether importing its name along sys.path would find the file that it came from."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.__name__.split(".")
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return spec is not None and spec.origin == module.__file__
