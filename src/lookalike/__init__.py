"""Lookalike: an image search engine that learns what you mean."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookalike.collection import Collection as Collection
    from lookalike.engine.examples import Crop as Crop
    from lookalike.images.read import read as read
    from lookalike.registry import create as create
    from lookalike.store.items import Filter as Filter
    from lookalike.store.models import load as load
    from lookalike.store.models import save as save

__version__ = "0.1.0"

_HOMES = {
    "Collection": "lookalike.collection",
    "Crop": "lookalike.engine.examples",
    "Filter": "lookalike.store.items",
    "create": "lookalike.registry",
    "load": "lookalike.store.models",
    "read": "lookalike.images.read",
    "save": "lookalike.store.models",
}

__all__ = ["Collection", "Crop", "Filter", "__version__", "create", "load", "read", "save"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import lookalike` itself loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lookalike' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
