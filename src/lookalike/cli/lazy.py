"""Imports that are delayed until a name of the module is used, so that `lookalike --help` does not load NumPy."""

import importlib
from typing import Any


class Lazy:
    """Proxy for a module. For type checkers, put the real import under TYPE_CHECKING."""

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)
