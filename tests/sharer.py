"""A process for `test_sharing.py` to kill. It shares or unshares a collection, and kills itself before its n-th change.

The changes are those of the files below the folder that contains the collection.
"""

import os
import signal
from pathlib import Path

from faults import Call, Calls
from lookalike import Collection


def main(where: str, verb: str, folder: str, n: int) -> None:
    def die(call: Call) -> None:
        if call.number > n:
            os.kill(os.getpid(), signal.SIGKILL)

    with Collection(where) as collection, Calls(Path(where).parent, die):
        collection.share(folder) if verb == "share" else collection.unshare()
