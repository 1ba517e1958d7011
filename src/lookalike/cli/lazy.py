"""Modules that cost time to import, imported when one of their names is first used.

In: a module's name. Out: something that stands for it. `lookalike --help` must not pay for NumPy.
"""

import importlib
from typing import Any


class Lazy:
    """Stands for a module; for type checkers the real import stands beside it under TYPE_CHECKING."""

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)
