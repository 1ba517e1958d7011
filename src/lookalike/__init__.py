"""Lookalike: an image search engine that learns what you mean.

Each public name is imported when it is first used, so `import lookalike` loads nothing heavy.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
