import contextlib

from .connection import Cluster as Cluster
from .processes import Status as Status
from .processes import WorkerStatus as WorkerStatus
from .processes import run_worker as run_worker
from .processes import start as start
from .processes import started as started
from .processes import status as status

def connected(address: str | None) -> contextlib.AbstractContextManager[Cluster | None]: ...
