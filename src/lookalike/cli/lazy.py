"""Modules that are imported when one of their names is first used: `lookalike --help` must not load NumPy."""

import importlib
from typing import Any


class Lazy:
    """Stands for a module. For type checkers, write the real import under TYPE_CHECKING."""

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)
