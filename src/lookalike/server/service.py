"""The state that all handlers share: the collection, access control, lanes, caches and jobs.

The methods of `Service` block, so they run in the threads of `lanes`; the event loop calls only `has`. The functions at
the end are for routes: the service and the user of a request, the role check, ids and texts.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from starlette.requests import Request

from lookalike.collection import (
    Collection,
    Crop,
    Cutoff,
    Item,
    Meaning,
    Result,
    StoredPrediction,
    check_target,
    format_id,
    parse_id,
)
from lookalike.errors import DamagedError, FormatError, ImageError, LookalikeError
from lookalike.server.access import Access, Person, Role, Visible
from lookalike.server.job_events import JobEvents
from lookalike.server.jobs import Jobs
from lookalike.server.lanes import Lanes
from lookalike.server.metrics import Metrics
from lookalike.server.models import CutoffOut, ExampleIn, ItemOut, MeaningOut, PredictionOut, ResultOut
from lookalike.server.problems import Problem, not_found, token_needed
from lookalike.server.rate_limits import RateLimiter
from lookalike.server.selections import Selections
from lookalike.server.settings import Settings
from lookalike.server.thumbnails import LargePictures, ThumbnailCache, is_large, shrink
from lookalike.server.uploads import FOLDER, Upload, Uploads
from lookalike.types import Box


class Service:
    """The state of a running service for one collection."""

    def __init__(self, collection: Collection, settings: Settings, access: Access):
        self.collection = collection
        self.settings = settings
        self.access = access
        self.upload_folder = os.path.realpath(collection.path / FOLDER)  # files that clients uploaded to add
        self.closing = threading.Event()  # set at shutdown: event streams end
        self.metrics = Metrics()
        self.rates = RateLimiter(settings.rates)
        self.lanes = Lanes(settings.budget, self.metrics)
        self.uploads = Uploads(collection.path, settings.budget)
        self.selections = Selections()
        self.zip_slots = asyncio.Semaphore(settings.budget.concurrent_zips)
        self.upload_slots = asyncio.Semaphore(settings.budget.concurrent_uploads)
        self.thumbnails = ThumbnailCache(settings.budget.thumbnail_bytes)
        self._large = LargePictures()
        if settings.backup_dir is not None:
            check_target(collection.path, settings.backup_dir)
        sources = [*collection.real_sources(), self.upload_folder]
        self.jobs = Jobs(
            collection.path, settings.roots, sources, settings.backup_dir, settings.cluster, settings.device
        )
        self.events = JobEvents(self.jobs)
        self.metrics.gauges |= {
            "uploads": lambda: len(self.uploads),
            "thumbnail_bytes": lambda: self.thumbnails.n_bytes,
            "thumbnail_hits": lambda: self.thumbnails.hits,
            "thumbnail_misses": lambda: self.thumbnails.misses,
            "jobs_queued": lambda: self.jobs.counts()["queued"],
            "jobs_running": lambda: self.jobs.counts()["running"],
            "event_streams": lambda: self.events.open,
        }

    def close(self) -> None:
        """Reject further work, and end the processes."""
        self.closing.set()
        self.lanes.close()
        self.uploads.close()
        self._large.close()
        self.jobs.close()

    def warm(self) -> None:
        """Load the data and code that the first search, round and upload need."""
        for load in (self.collection.warm_up, self._search_once, self._search_words_once, self.uploads.warm):
            with contextlib.suppress(LookalikeError):  # the request that needs it gets the error
                if not self.closing.is_set():
                    load()

    def has(self, id: str) -> bool:
        """Whether an item is in the collection. This is one query, fast enough for the event loop."""
        number = parse_id(id)
        return number is not None and self.collection.has([number])

    def item(self, id: str) -> Item:
        """Return an item; raise Problem 404 if it does not exist."""
        number = parse_id(id)
        found = {} if number is None else self.collection.get([number])
        if number is None or number not in found:
            raise not_found(f"There is no picture with the id {id} in the collection.")
        return found[number]

    def read(self, item: Item) -> bytes:
        """Return the bytes of an item's file; raise Problem 404 if the file is missing or has changed."""
        try:
            return self.collection.read(item)
        except ImageError as error:
            raise not_found(str(error)) from None

    def thumbnail(self, item: Item, side: int) -> bytes:
        """Return a thumbnail, from the cache if another request has just created it."""
        key = format_id(item.id), side
        data = self.thumbnails.peek(key)
        if data is None:
            data = self.picture(item, side)
            self.thumbnails.put(key, data)
        return data

    def picture(self, item: Item, side: int, box: Box | None = None) -> bytes:
        """Return a picture, or its part in the box, as JPEG."""
        try:
            return (self._large.shrink if is_large(item) else shrink)(self.read(item), side, box)
        except ImageError as error:
            raise not_found(f"Item {format_id(item.id)} cannot be shown: {error}.") from None

    def upload(self, id: str) -> Upload:
        """Return an upload; raise Problem 404 if it is unknown or was deleted."""
        found = self.uploads.get(id)
        if found is None:
            raise not_found("This upload was deleted to make room for newer ones. Send the picture again.")
        return found

    def examples(self, given: Sequence[ExampleIn], field: str) -> list[Any]:
        """Return the examples of a request for `Collection`. Text from clients is never used as a path."""
        return [self._example(example, f"{field}.{place}") for place, example in enumerate(given)]

    def visible(self, person: Person) -> Visible:
        """Return the object that hides paths and messages that a user may not see."""
        return Visible(self.collection, person)

    def items_json(self, items: Iterable[Item], person: Person) -> list[ItemOut]:
        """Return items as JSON that a user may see, in the same order."""
        listed, shown = list(items), self.visible(person).path
        ids = [item.id for item in listed]
        labels: dict[int, list[str]] = {}
        predicted: dict[int, StoredPrediction] = {}
        with contextlib.suppress(DamagedError, FormatError):  # search works without labels
            labels, predicted = self.collection.labels(ids), self.collection.predictions(ids)
        return [_item_json(item, labels.get(item.id, []), predicted.get(item.id), shown) for item in listed]

    def items_by_id(self, ids: Sequence[int], person: Person) -> dict[int, ItemOut]:
        """Return the items with these ids, as JSON that a user may see. Unknown ids are skipped."""
        items = self.collection.get(ids)
        return dict(zip(items, self.items_json(items.values(), person), strict=True))

    def results_json(self, results: Sequence[Result], person: Person) -> list[ResultOut]:
        """Return results as JSON that a user may see."""
        items = self.items_json((result.item for result in results if result.item is not None), person)
        return [
            ResultOut(
                item=item,
                score=round(result.score, 6),
                likely=None if result.likely is None else round(result.likely, 4),
                box=None if result.box is None else list(result.box),
            )
            for result, item in zip(results, items, strict=True)
        ]

    def cutoff_json(self, cutoff: Cutoff | None) -> CutoffOut | None:
        """Return where results end, as JSON."""
        if cutoff is None:
            return None
        return CutoffOut(inside=cutoff.inside, of=cutoff.of, score=cutoff.score, summary=cutoff.summary)

    def meanings_json(self, meanings: Sequence[Meaning]) -> list[MeaningOut]:
        """Return what a search understood by words, as JSON."""
        return [
            MeaningOut(
                text=meaning.text,
                known=meaning.is_known,
                summary=valid_text(meaning.summary),
                suggestions=meaning.suggestions,
            )
            for meaning in meanings
        ]

    def default_space(self) -> str:
        """Return the name of the default space."""
        return self.collection.space().name

    def _search_once(self) -> None:
        """Search for one picture in every space, to load indexes and models."""
        first = self.collection.page(limit=1).items
        for space in self.collection.spaces if first else ():
            if not self.closing.is_set():
                self.collection.search(first[0].id, k=1, space=space.name)

    def _search_words_once(self) -> None:
        """Search by words, to load the table of words and the kinds of pictures."""
        self.collection.search(words="animal", k=1)

    def _example(self, example: ExampleIn, field: str) -> Any:
        if (example.id is None) == (example.upload is None):
            raise Problem(422, "An example must have either an id or an upload.", field=field)
        if example.id is not None:
            picture: Any = parse_id(example.id)
        else:
            upload = self.upload(str(example.upload))
            picture = upload.item if self.collection.has([upload.item]) else upload.pixels
        if example.box is None:
            return picture
        left, top, right, bottom = example.box
        if not (left < right and top < bottom):
            raise Problem(
                422, "A box must be left, top, right, bottom, with left < right and top < bottom.", field=field
            )
        return Crop(picture, example.box)


def service_of(request: Request) -> Service:
    """Return the service that a request was sent to."""
    found: Service = request.app.state.service
    return found


def person_of(request: Request) -> Person:
    """Return the user who sent a request; raise Problem 401 without a valid token."""
    found: Person | None = request.scope["state"].get("person")
    if found is None:
        raise token_needed()
    return found


def needs_role(role: Role) -> Any:
    """Return a FastAPI dependency that rejects users without this role."""

    async def check(request: Request) -> Person:
        person = person_of(request)
        if not person.may(role):
            message = f"This request needs the role {role}; {person.name} has {person.role}. Ask for another token."
            raise Problem(403, message)
        return person

    check.role = role  # type: ignore[attr-defined]
    return check


def _item_json(
    item: Item, labels: list[str], predicted: StoredPrediction | None, shown: Callable[[str], str]
) -> ItemOut:
    paths = [valid_text(shown(path)) for path in item.paths]
    first = paths[0] if paths else None
    prediction = None
    if predicted is not None:
        prediction = PredictionOut(label=valid_text(predicted.label), probability=round(predicted.probability, 4))
    return ItemOut(
        id=format_id(item.id),
        path=first,
        paths=paths,
        name=os.path.basename(first.rpartition("::")[2]) if first else format_id(item.id),
        width=item.width,
        height=item.height,
        format=item.format,
        bytes=item.bytes,
        taken=item.taken_at,
        added=item.added_at,
        labels=[valid_text(label) for label in labels],
        predicted=prediction,
    )


def parse_ids(ids: Sequence[str]) -> list[int]:
    """Return ids as integers, which `Collection` cannot mistake for paths."""
    return [number for text in ids if (number := parse_id(text)) is not None]


def valid_text(text: str) -> str:
    """Return a text with undecodable bytes escaped, so that it is valid in JSON."""
    return text.encode("utf-8", "backslashreplace").decode()
