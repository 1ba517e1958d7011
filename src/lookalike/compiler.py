"""The compiler of the loops over codes and leaves: numba, an optional package because it needs 220 MB.

It takes a second to load, so modules that do not compile anything do not import this one.
"""

from typing import Any

from lookalike.errors import MissingError

try:
    from llvmlite import binding as binding
    from llvmlite import ir as ir
    from numba import config as _config
    from numba import njit as njit
    from numba import types as types
    from numba.core import cgutils as _cgutils
    from numba.extending import intrinsic as intrinsic
except ModuleNotFoundError:
    raise MissingError(
        "Codes, indexes of large collections and benchmarks need the package numba."
        " Install it with: pip install 'lookalike[large]'"
    ) from None

cgutils: Any = _cgutils  # untyped
config: Any = _config
