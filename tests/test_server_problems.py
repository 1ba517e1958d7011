"""Every error has the same JSON shape, and its own status and kind."""

import pytest

from lookalike import errors
from lookalike.server.problems import KINDS
from serving import error, running


@pytest.fixture(scope="module")
def service(shelf):
    with running(shelf) as running_service:
        yield running_service


@pytest.mark.parametrize(
    ("raised", "status", "kind"),
    [
        (errors.InputError("k must be 1."), 422, "input"),
        (errors.UnknownNameError("space", "x", ["y"]), 422, "input"),
        (errors.SpecError("A spec must parse."), 422, "input"),
        (errors.ConflictError("It has changed since."), 409, "conflict"),
        (errors.NoDirectionError("All marks are alike."), 422, "input"),
        (errors.ImageError("This is no picture."), 422, "input"),
        (errors.SourceError("There is no such folder."), 422, "input"),
        (errors.MissingError("Install it with pip."), 501, "missing"),
        (errors.NoCollectionError("There is none any more."), 503, "damaged"),
        (errors.LockedError("Another process is writing."), 409, "busy"),
        (errors.FullError("The disk is full."), 507, "full"),
        (errors.ReadOnlyError("It is not writable."), 403, "read-only"),
        (errors.FormatError("Not written by Lookalike."), 500, "damaged"),
        (errors.DamagedError("A file is missing."), 500, "damaged"),
        (errors.StoreError("It was replaced."), 500, "damaged"),
        (errors.LookalikeError("Something else is wrong."), 500, "broken"),
        (KeyError("secret"), 500, "broken"),
        (MemoryError(), 500, "broken"),
    ],
)
def test_each_error_has_its_status_and_kind(service, monkeypatch, raised, status, kind):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(service.collection, "page", fail)
    answer = service.client.get("/api/v1/items")
    message = error(answer, status, kind)
    if isinstance(raised, errors.LookalikeError):
        assert message == str(raised)
    else:
        assert "secret" not in message
    if kind == "busy":
        assert answer.headers["retry-after"] == "2"


def test_each_error_class_is_listed_and_subclasses_come_first():
    types = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    ours = [value for value in types if not issubclass(value, Warning)]
    for one in ours:
        found = next(kind for kind in KINDS if issubclass(one, kind))
        assert not any(issubclass(kind, found) and kind is not found and issubclass(one, kind) for kind in KINDS)


def test_undecodable_names_give_valid_json(service, monkeypatch):
    item = service.collection.page(limit=1)
    item.items[0].paths[:] = ["/photos/\udcff\n\u202e.jpg"]
    monkeypatch.setattr(service.collection, "page", lambda *_, **__: item)
    shown = service.get("/items")["items"][0]
    assert shown["name"] == "\\udcff\n\u202e.jpg"
