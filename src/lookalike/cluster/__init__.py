"""The same collection on many machines, with dask.distributed (`pip install lookalike[cluster]`).

    connection      `Cluster`: the executor of a collection; connects to a scheduler
    describing      extract the features of pictures on the workers
    shards          search parts of the stored rows on the workers
    processes       start a scheduler and workers, join a machine, report the state

Workers store nothing. They read pictures and stored rows, and return vectors and results; only the process that opened
the collection writes.
"""

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import lazy_loader

from lookalike.errors import MissingError

if TYPE_CHECKING:
    from lookalike.cluster.connection import Cluster

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ and find_spec("distributed") is None:
        raise MissingError("A cluster needs dask.distributed. Install it with: pip install 'lookalike[cluster]'")
    return _load(name)


def connected(address: str | None) -> "AbstractContextManager[Cluster | None]":
    """Connect to the cluster at an address; without one, the context is None, which means this machine."""
    if address is None:
        return nullcontext()
    from lookalike.cluster import Cluster

    return Cluster(address)
