"""A read-only or full disk: the service rejects writes with a reason and continues to answer reads."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest

from serving import copy_shelf, error, running


@pytest.fixture
def disk(tmp_path):
    """A separate small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=6m", "small", folder]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a disk is not permitted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def picture() -> bytes:
    """Return an encoded picture that cannot be compressed."""
    pixels = np.random.default_rng(0).integers(0, 256, (100, 100, 3), np.uint8)
    return cv2.imencode(".png", pixels)[1].tobytes()


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


def check_reading(service):
    """Check that reading works in any state of the disk; return an item."""
    items = service.get("/items")["items"]
    found = service.post("/search", {"examples": [{"id": items[0]["id"]}], "k": 3})
    assert len(found["results"]) == 3
    assert service.client.get(f"/api/v1/items/{items[0]['id']}/thumbnail").status_code == 200
    assert service.get("/collection")["items"] == 60
    return items[0]["id"]


def test_a_service_on_a_read_only_disk_rejects_writes_and_answers_reads(shelf, disk):
    own = copy_shelf(shelf, disk)
    remount(disk, "ro")
    with running(own) as service:
        item = check_reading(service)
        for path, body in (
            ("/sessions", {"examples": [{"id": item}]}),
            ("/classes/add", {"name": "x", "items": [item]}),
        ):
            assert "is not writable" in error(service.client.post(f"/api/v1{path}", json=body), 403, "read-only")
        error(service.client.post("/api/v1/jobs", json={"kind": "refresh"}), 403, "read-only")
        sent = service.upload(picture()).json()["upload"]  # in memory
        assert service.client.get(f"/api/v1/uploads/{sent}/thumbnail").status_code == 200
        check_reading(service)
    remount(disk, "rw")


def test_a_service_on_a_full_disk_rejects_writes_until_there_is_space(shelf, disk):
    own = copy_shelf(shelf, disk)
    with running(own) as service:
        item = check_reading(service)
        session = service.post("/sessions", {"examples": [{"id": item}]}, status=201)["id"]
        with (disk / "rest").open("wb", buffering=0) as rest, contextlib.suppress(OSError):
            while True:
                rest.write(bytes(2**16))
        statuses = set()
        for number in range(60):  # some fit into space that SQLite has allocated
            answer = service.client.post("/api/v1/classes/add", json={"name": "x" * 900 + str(number), "items": [item]})
            statuses.add(answer.status_code)
            if answer.status_code != 200:
                assert "full" in error(answer, 507, "full")
                break
        assert 507 in statuses
        assert "full" in error(service.upload(picture()), 507, "full")
        check_reading(service)
        (disk / "rest").unlink()
        assert service.post(f"/sessions/{session}/marks", {"skip": [item]})["skipped"] == [item]
        assert service.upload(picture()).status_code == 200
