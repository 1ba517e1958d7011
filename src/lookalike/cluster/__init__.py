"""The same collection on many machines, with dask.distributed (`pip install lookalike[cluster]`).

    connection      `Cluster`: the executor of a collection; connects to a scheduler
    describing      extract the features of pictures on the workers
    shards          search parts of the stored rows on the workers
    processes       start a scheduler and workers, join a machine, report the state

Workers store nothing. They read pictures and stored rows, and return vectors and results; only the process that opened
the collection writes.
"""

from importlib.util import find_spec

import lazy_loader

from lookalike.errors import MissingError

if find_spec("distributed") is None:
    raise MissingError("A cluster needs dask.distributed. Run: pip install 'lookalike[cluster]'")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
