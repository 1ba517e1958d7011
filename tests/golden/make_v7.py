"""Generated `tests/golden/v7` with catalogue format 7 and judgements format 5.

It has row digests, the digest of a picture's bytes and a quarantined segment. This script documents the content.
Never run it again on the same folder; see make_v1.py.
"""

import sys
from pathlib import Path

import numpy as np

from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.sessions import ExternalExample

IDS = np.array([3, 141, 2**63 - 1])
NAME = "größe \udcff"


def make(folder: Path) -> None:
    """Create three items. The first has no vector, because its segment is quarantined."""
    store = Store(folder, create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
        pendings = [
            store.vectors.write("color()", ids, np.arange(4 * len(ids), dtype=np.float16).reshape(-1, 4))
            for ids in (IDS[:1], IDS[1:])
        ]
        with store.transaction():
            contents = [bytes(range(32)), None, b"\xff" * 32]
            for item, content in zip(IDS, contents, strict=True):
                store.items.add([Item(int(item), [], 100, 640, 480, "jpeg", 1.5e9, None, content)])
            store.items.link([(f"/photos/{item} \udcff.jpg", 100, 1, int(item)) for item in IDS])
            store.items.skip([("/photos/broken.jpg", 5, 1, "truncated")])
            for pending in pendings:
                store.vectors.commit(pending)
        with (folder / "vectors" / pendings[0].file).open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\xff")
        store.vectors.quarantine_damaged("color()")
        with store.transaction():
            store.items.move("/golden/v7")
    said = store.judgements
    said.add_labels([(3, "cat"), (2**63 - 1, NAME)], author="anna", source="csv")
    said.classes.set_parents([("cat", "animal")])
    said.classes.update_settings(reject=0.1)
    said.predictions.add([(7, "cat", 0.75)], space="color()", model="mean 1")
    said.predictions.reject("cat", [7], author="anna")
    said.not_duplicates.add([3, 141], author=NAME)
    outsider = ExternalExample(True, np.array([0.5, 0.25], np.float32), "color()", 9, "/x.jpg")
    session = said.sessions.start(
        "color()", author="ben", name=NAME, marks={3: "relevant"}, external_examples=[outsider]
    )
    said.sessions.show(session, [141], author="ben")
    said.sessions.mark(session, {141: "irrelevant"}, author="ben")
    said.finish(session, NAME)
    store.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
