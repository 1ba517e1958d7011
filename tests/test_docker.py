"""The Dockerfile and compose.yaml: their users, paths and ports match, and the health check works."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from lookalike import Collection, cli
from serving import running

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
SERVICE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["lookalike"]
VOLUMES = dict(reversed(re.sub(r":ro$", "", volume).rsplit(":", 1)) for volume in SERVICE["volumes"])


def instructions(name):
    """The arguments of all instructions of one name."""
    return [line.partition(" ")[2] for line in LINES if line.split(" ")[0] == name]


def variable(name):
    return re.search(rf"\b{name}=(\S+)", instructions("ENV")[0])[1]


def test_the_copied_files_exist_and_are_sent_to_the_builder():
    ignored = (ROOT / ".dockerignore").read_text().split()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    copied = [name for line in instructions("COPY") if "--from" not in line for name in line.split()[:-1]]
    assert "src" in copied
    for name in copied:
        assert (ROOT / name).exists()
        assert any(fnmatch(name, pattern) for pattern in sent), name
    assert [name for name in sent if name not in copied] == []


def test_the_process_is_not_root_and_can_change_only_the_collection():
    (user,) = instructions("USER")
    assert int(user) >= 1000
    assert f"--uid {user} " in instructions("RUN")[1]
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["tmpfs"] == ["/tmp"]
    assert [volume for volume in SERVICE["volumes"] if not volume.endswith(":ro")] == ["collection:/data"]
    assert instructions("VOLUME") == ["/data"]
    assert variable("LOOKALIKE_COLLECTION").startswith("/data/")
    assert variable("NUMBA_CACHE_DIR").startswith("/tmp/")


def test_only_this_machine_can_connect_and_only_pictures_of_the_mounted_folder_can_be_added():
    (port,) = instructions("EXPOSE")
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"]
    words = json.loads(instructions("CMD")[0])
    assert words[words.index("--root") + 1] in VOLUMES
    assert "--port" not in words


def test_the_command_of_the_image_is_valid(tmp_path, monkeypatch, capsys):
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["lookalike"]
    monkeypatch.setenv("LOOKALIKE_COLLECTION", str(tmp_path / "missing.lookalike"))
    words = json.loads(instructions("CMD")[0])
    assert cli.run([str(tmp_path) if word in VOLUMES else word for word in words]) == 2
    assert "No collection" in capsys.readouterr().err


def test_the_health_check_succeeds_only_while_the_service_runs(tmp_path):
    (check,) = instructions("HEALTHCHECK")
    program, *words = json.loads(check[check.index("[") :])
    assert program == "python"
    assert f":{instructions('EXPOSE')[0]}/healthz" in words[-1]
    Collection(tmp_path / "photos.lookalike", create=True).close()
    with running(tmp_path / "photos.lookalike") as service:
        command = [sys.executable, *(word.replace("8321", str(service.port)) for word in words)]
        assert subprocess.run(command, check=False).returncode == 0
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


@pytest.mark.parametrize("file", ["compose.yaml", ".github/workflows/ci.yml"])
def test_files_for_other_programs_are_valid_yaml(file):
    assert yaml.safe_load((ROOT / file).read_text())
