"""`lookalike mcp`, as a process, with the client of the package mcp."""

import base64
import io
import os
import re
import sys

import anyio
import pytest
from mcp import Client, StdioServerParameters
from PIL import Image

from lookalike import Collection
from serving import copy_shelf
from waiting import TIMEOUT_S


@pytest.fixture
def own(tmp_path):
    """The path of an empty collection; for `call`."""
    return tmp_path / "own.lookalike"


@pytest.fixture
def ask(shelf, tmp_path):
    """A function that runs an async function of a client of a new server; returns the path of the collection."""
    path = copy_shelf(shelf, tmp_path)

    def run(use, *options):
        async def connect():
            command = ["-m", "lookalike", "-c", str(path), "mcp", *options]
            server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
            with anyio.fail_after(TIMEOUT_S):
                async with Client(server) as client:
                    await use(client)

        anyio.run(connect)
        return path

    return run


def value(answer):
    """Return the structured content of a successful answer."""
    assert not answer.is_error, answer.content
    found = answer.structured_content
    return found["result"] if set(found) == {"result"} else found


def reason(answer):
    """Return the message of a failed answer, which is one line."""
    assert answer.is_error
    (part,) = answer.content
    assert "\n" not in part.text
    return part.text


def test_by_default_the_tools_only_read(ask):
    async def use(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "similar", "show", "classify", "classes", "stats", "sessions"}
        assert all(tool.annotations.read_only_hint and len(tool.description) > 20 for tool in tools.values())
        assert all(
            "description" in field for tool in tools.values() for field in tool.input_schema["properties"].values()
        )
        assert value(await client.call_tool("stats"))["items"] == 60
        found = value(await client.call_tool("search", {"words": "beach", "k": 3}))
        assert [one["labels"] for one in found] == [["beach"]] * 3
        near = value(await client.call_tool("similar", {"id": found[0]["id"], "k": 4}))
        assert len(near) == 4
        assert found[0]["id"] not in [one["id"] for one in near]
        again = value(await client.call_tool("search", {"pictures": [found[0]["path"]], "label": "beach", "k": 1}))
        assert (again[0]["id"], again[0]["score"]) == (found[0]["id"], 0)
        about, image = (await client.call_tool("show", {"id": found[0]["id"], "side": 100})).content
        assert "labels: beach" in about.text
        assert image.mime_type == "image/jpeg"
        assert max(Image.open(io.BytesIO(base64.b64decode(image.data))).size) == 100
        (classified,) = value(await client.call_tool("classify", {"pictures": [found[0]["id"]]}))
        assert classified["nearest"] == "beach"
        assert {"name": "beach", "pictures": 5, "suggested": 0} in value(await client.call_tool("classes"))
        assert value(await client.call_tool("sessions")) == []
        assert "URLs are not allowed" in reason(
            await client.call_tool("search", {"pictures": ["http://127.0.0.1/a.jpg"]})
        )
        assert "is a folder" in reason(await client.call_tool("classify", {"pictures": ["/"]}))
        folder = found[0]["path"].rpartition("/")[0]
        inside = value(await client.call_tool("search", {"words": "beach", "folder": folder}))
        assert {one["path"].rpartition("/")[0] for one in inside} == {folder}
        assert "No picture with the id" in reason(await client.call_tool("show", {"id": "0" * 16}))
        assert "less than or equal to 100" in reason(await client.call_tool("search", {"words": "beach", "k": 1000}))
        assert "No label named 'nothing'" in reason(
            await client.call_tool("search", {"words": "beach", "label": "nothing"})
        )
        assert re.search("Unknown tool", reason(await client.call_tool("label", {"name": "x", "ids": []})))

    ask(use)


def test_without_the_extra_the_error_names_it(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "lookalike.cli.mcp_server", None)
    code, _, errors = call("mcp")
    assert (code, errors.count("\n")) == (2, 1)
    assert "pip install 'lookalike[mcp]'" in errors


def test_changes_are_offered_on_request_and_record_their_author(ask):
    async def use(client):
        first = value(await client.call_tool("search", {"words": "beach", "k": 2}))
        ids = [one["id"] for one in first]
        started = value(await client.call_tool("start_session", {"pictures": ids[:1], "name": "my beaches"}))
        assert started["round"] == 1
        questions = [one["id"] for one in started["questions"]]
        marks = {"session": started["session"], "relevant": ids[1:], "irrelevant": questions[-1:]}
        marked = value(await client.call_tool("mark", marks))
        assert (marked["round"], marked["found"]) == (2, 2)
        assert value(await client.call_tool("finish_session", {"session": started["session"]})) == {
            "label": "my beaches",
            "labelled": 2,
        }
        assert value(await client.call_tool("label", {"name": "blue", "ids": ids})) == {"label": "blue", "labelled": 2}
        assert "session" in reason(await client.call_tool("mark", {"session": "nothing", "relevant": ids})).lower()

    with Collection(ask(use, "--allow-changes", "--author", "robot")) as collection:
        assert collection.label_counts()["my beaches"] == 2
        assert {member.author for member in collection.classes.show("blue").members} == {"robot"}
        collection.undo()
        assert "blue" not in collection.label_counts()
