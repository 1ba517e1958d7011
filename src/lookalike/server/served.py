"""What all handlers share: the collection, its people, threads, uploads; and how things of it look in JSON.

In: a collection and settings. Out: `Served`, one for an application. Its verbs block, and are called by threads of
`work`; `has` alone is for the event loop.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from starlette.requests import Request

from lookalike.collection import Collection, Crop, Item, Result, StoredPrediction, format_id, parse_id
from lookalike.errors import DamagedError, FormatError, ImageError, LookalikeError
from lookalike.server.access import Access, Person, Role
from lookalike.server.courtesy import Courtesy
from lookalike.server.events import Events
from lookalike.server.incoming import FOLDER
from lookalike.server.jobs import Jobs
from lookalike.server.large import PIXELS, Large
from lookalike.server.metrics import Metrics
from lookalike.server.models import ExampleIn
from lookalike.server.problems import Problem, missing
from lookalike.server.rates import Limiter
from lookalike.server.settings import Settings
from lookalike.server.thumbnails import Kept, shrink
from lookalike.server.uploads import Upload, Uploads
from lookalike.server.visible_paths import Visible
from lookalike.server.work import Stop, Work
from lookalike.store.backup import check_target
from lookalike.types import Box


class Served:
    """A collection that is served."""

    def __init__(self, collection: Collection, settings: Settings, access: Access):
        self.sent = os.path.realpath(collection.path / FOLDER)  # pictures that clients sent to be added
        self.collection = collection
        self.settings = settings
        self.access = access
        self.closing = threading.Event()  # set when the service is asked to end: streams end then
        self.metrics = Metrics()
        self.rates = Limiter(settings.rates)
        self._large = Large()
        self.work = Work(settings.budget, self.metrics)
        self.uploads = Uploads(settings.budget)
        self.uploading = asyncio.Semaphore(settings.budget.uploading)
        self.thumbnails = Kept(settings.budget.thumbnail_bytes)
        if settings.backup_dir is not None:
            check_target(collection.path, settings.backup_dir)
        sources = [*collection.real_sources(), self.sent]
        self.jobs = Jobs(collection.path, settings.roots, sources, settings.backup_dir)
        self.courtesy = Courtesy(self.jobs)
        self.events = Events(self.jobs)
        self.metrics.gauges |= {
            "uploads": lambda: len(self.uploads),
            "thumbnail_bytes": lambda: self.thumbnails.bytes,
            "thumbnail_hits": lambda: self.thumbnails.hits,
            "thumbnail_misses": lambda: self.thumbnails.misses,
            "jobs_queued": lambda: self.jobs.counts()["queued"],
            "jobs_running": lambda: self.jobs.counts()["running"],
            "event_streams": lambda: self.events.open,
        }

    def close(self) -> None:
        """Begin nothing more, and end the processes."""
        self.closing.set()
        self.work.close()
        self.uploads.close()
        self._large.close()
        self.courtesy.close()
        self.jobs.close()

    def has(self, id: str) -> bool:
        """Whether an item is in the collection: one look at an index, quick enough for the event loop."""
        number = parse_id(id)
        return number is not None and self.collection.has([number])

    def item(self, id: str) -> Item:
        """One item; 404 where there is none."""
        number = parse_id(id)
        found = {} if number is None else self.collection.get([number])
        if number is None or number not in found:
            raise missing(f"No picture with the id {id} in the collection.")
        return found[number]

    def read(self, item: Item) -> bytes:
        """The bytes of an item's file; 404 where no file holds them now."""
        try:
            return self.collection.read(item)
        except ImageError as error:
            raise missing(str(error)) from None

    def thumbnail(self, id: str, side: int, stop: Stop) -> bytes:
        """A small copy, from the file, unless somebody else who waited for it has made it; then it is in memory."""
        item = self.item(id)
        data = self.thumbnails.peek((id, side))
        if data is None:
            data = self.picture(item, side, stop)
            self.thumbnails.put((id, side), data)
        return data

    def picture(self, item: Item, side: int, stop: Stop, box: Box | None = None) -> bytes:
        """A copy of a picture or of a part of it, as JPEG; a large one in a lane of its own."""
        large = item.width * item.height > PIXELS
        if large:
            stop.go("large")
        try:
            return (self._large.shrink if large else shrink)(self.read(item), side, box)
        except ImageError as error:
            raise missing(f"Item {format_id(item.id)} cannot be shown: {error}.") from None

    def upload(self, id: str) -> Upload:
        """What somebody has uploaded; 404 where it is not kept any more."""
        found = self.uploads.get(id)
        if found is None:
            raise missing("This upload is not kept any more. Send the picture again.")
        return found

    def keep(self, data: bytes) -> tuple[Upload, str | None]:
        """An upload, decoded and kept; and its id where the collection has the same file."""
        made = self.uploads.add(data)
        return made, format_id(made.item) if self.collection.has([made.item]) else None

    def examples(self, given: Sequence[ExampleIn], field: str) -> list[Any]:
        """What the collection takes as examples. No client's word is ever taken for a path."""
        return [self._example(example, f"{field}.{place}") for place, example in enumerate(given)]

    def visible(self, who: Person) -> Visible:
        """The paths and messages that a person may see."""
        return Visible(self.collection, who)

    def describe(self, items: Iterable[Item], who: Person) -> list[dict[str, Any]]:
        """Items as JSON that a person may see, in this order."""
        listed, shown = list(items), self.visible(who).path
        ids = [item.id for item in listed]
        labels: dict[int, list[str]] = {}
        predicted: dict[int, StoredPrediction] = {}
        with contextlib.suppress(DamagedError, FormatError):  # search works without labels
            labels, predicted = self.collection.labels(ids), self.collection.predictions(ids)
        return [_item(item, labels.get(item.id, []), predicted.get(item.id), shown) for item in listed]

    def described(self, ids: Sequence[int], who: Person) -> dict[int, dict[str, Any]]:
        """Those of the ids that are items, as JSON that a person may see."""
        items = self.collection.get(ids)
        return dict(zip(items, self.describe(items.values(), who), strict=True))

    def found(self, results: Sequence[Result], who: Person) -> list[dict[str, Any]]:
        """Results as JSON that a person may see, with the items that the search has read."""
        described = self.describe((result.item for result in results if result.item is not None), who)
        return [
            {
                "item": item,
                "score": round(result.score, 6),
                "box": None if result.box is None else list(result.box),
            }
            for result, item in zip(results, described, strict=True)
        ]

    def first_space(self) -> str:
        """The space that is searched where nobody names one."""
        return self.collection.space().name

    def warm(self) -> None:
        """Load what the first search, the first round and the first upload would have to wait for."""
        for load in (self.collection.warm_up, self._search_once, self.uploads.warm):
            with contextlib.suppress(LookalikeError):  # whoever asks for it is told what is wrong
                if not self.closing.is_set():
                    load()

    def _search_once(self) -> None:
        """Find a picture in every space."""
        first = self.collection.page(limit=1).items
        for space in self.collection.spaces if first else ():
            if not self.closing.is_set():
                self.collection.search(first[0].id, k=1, space=space.name)

    def _example(self, example: ExampleIn, field: str) -> Any:
        if (example.id is None) == (example.upload is None):
            raise Problem(422, "An example is an id or an upload, one of the two.", field=field)
        if example.id is not None:
            picture: Any = parse_id(example.id)
        else:
            upload = self.upload(str(example.upload))
            picture = upload.item if self.collection.has([upload.item]) else upload.pixels
        if example.box is None:
            return picture
        left, top, right, bottom = example.box
        if not (left < right and top < bottom):
            raise Problem(422, "A box is left, top, right, bottom: left before right, top before bottom.", field=field)
        return Crop(picture, example.box)


def served(request: Request) -> Served:
    """What the application serves."""
    found: Served = request.app.state.served
    return found


def person(request: Request) -> Person:
    """The person who makes a request."""
    found: Person | None = request.scope["state"].get("person")
    if found is None:
        raise Problem(401, "This needs a token. Log in, or send it as: Authorization: Bearer TOKEN.")
    return found


def needs(role: Role) -> Any:
    """A dependency: whoever asks must have this role."""

    async def check(request: Request) -> Person:
        who = person(request)
        if not who.may(role):
            raise Problem(403, f"This needs the role {role}; {who.name} has {who.role}. Ask whoever runs the service.")
        return who

    check.role = role  # type: ignore[attr-defined]
    return check


def _item(
    item: Item, labels: list[str], predicted: StoredPrediction | None, shown: Callable[[str], str]
) -> dict[str, Any]:
    paths = [valid(shown(path)) for path in item.paths]
    first = paths[0] if paths else None
    return {
        "id": format_id(item.id),
        "path": first,
        "paths": paths,
        "name": os.path.basename(first.rpartition("::")[2]) if first else format_id(item.id),
        "width": item.width,
        "height": item.height,
        "format": item.format,
        "bytes": item.bytes,
        "taken": item.taken_at,
        "added": item.added_at,
        "labels": [valid(label) for label in labels],
        "predicted": None
        if predicted is None
        else {"label": valid(predicted.label), "probability": round(predicted.probability, 4)},
    }


def numbers(ids: Sequence[str]) -> list[int]:
    """Ids as the collection takes them: whole numbers, which nobody can take for paths."""
    return [number for word in ids if (number := parse_id(word)) is not None]


def valid(text: str) -> str:
    """Undecodable bytes of a name as escapes, so that JSON is valid."""
    return text.encode("utf-8", "backslashreplace").decode()
