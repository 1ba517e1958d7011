"""Sources at URLs: a loopback HTTP server and moto's S3 server stand in for other machines."""

import functools
import http.server
import io
import os
import shutil
import socket
import sys
import threading

import pytest
from PIL import Image

from lookalike import Collection, Filter, cli
from lookalike.errors import ImageError, InputError, SourceError
from lookalike.images import sources, urls
from lookalike.images.files import Limits
from serving import copy_shelf, running

pytestmark = pytest.mark.usefixtures("read_here")


REQUESTS, PLANNED = [], []


class Site(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, with ETags; records requests, and answers with the statuses in PLANNED first."""

    def do_GET(self):
        self.answer()

    def do_HEAD(self):
        self.answer()

    def answer(self):
        REQUESTS.append((self.command, self.path))
        if PLANNED:
            self.send_response(PLANNED.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif "redirected" in self.path:
            self.send_response(302)
            self.send_header("Location", self.path.partition("?to=")[2] or self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.startswith("/endless"):
            self.send_response(200)
            self.end_headers()
            while self.command == "GET":
                self.wfile.write(bytes(2**16))
        elif self.command == "HEAD":
            super().do_HEAD()
        else:
            super().do_GET()

    def end_headers(self):
        path = self.translate_path(self.path)
        if os.path.isfile(path):
            self.send_header("ETag", f'"{os.stat(path).st_mtime_ns}"')
        super().end_headers()

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            self.close_connection = True


@pytest.fixture
def web(tmp_path, pictures):
    """A web server for the folder `tmp_path / "web"`, which has three pictures and a list of them."""
    folder = tmp_path / "web"
    folder.mkdir()
    for name, file in zip(["a.jpg", "b.jpg", "c.jpg"], sorted(pictures.rglob("*.jpg")), strict=False):
        shutil.copy(file, folder / name)
    (folder / "list.txt").write_text("a.jpg\nb.jpg\n")
    REQUESTS.clear()
    PLANNED.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=folder))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.folder, server.address = folder, f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()
    urls.reset()


@pytest.fixture(scope="module")
def s3():
    """The address of an S3 server in memory."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3, pictures, monkeypatch):
    """The file system of the S3 server, with six pictures in the bucket `photos`."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    system = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    system.mkdir("photos")
    for number, file in enumerate(sorted(pictures.rglob("*.jpg"))[:6]):
        system.pipe(f"photos/{'trip/' if number < 3 else ''}{number}.jpg", file.read_bytes())
    system.pipe("photos/notes.md", b"not a picture")
    system.pipe("photos/.hidden.jpg", b"hidden")
    yield system
    system.rm("photos", recursive=True)
    urls.reset()


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def reads():
    return [path for command, path in REQUESTS if command == "GET" and ".jpg" in path]


def test_a_bucket_is_added_and_searched_like_a_folder(bucket, collection):
    report = collection.add("s3://photos/", recipes="color")
    assert (report.added, report.other_types, report.skipped) == (6, {".md": 1}, {})
    assert collection.sources() == ["s3://photos"]
    found = collection.search("s3://photos/trip/1.jpg", k=1)[0]
    assert (found.path, round(found.score, 6)) == ("s3://photos/trip/1.jpg", 0)
    assert collection.relative_paths()(found.path) == "photos/trip/1.jpg"
    assert [folder.path for folder in collection.folders()] == ["photos"]
    assert collection.read(found.id) == bucket.cat_file("photos/trip/1.jpg")
    assert collection.verify(pictures=True) == []


def test_a_refresh_of_a_bucket_finds_new_changed_moved_and_missing_pictures(bucket, collection, pictures):
    collection.add("s3://photos", recipes="color")
    assert collection.refresh().known == 6
    others = sorted(pictures.rglob("*.jpg"))[6:8]
    bucket.pipe("photos/new.jpg", others[0].read_bytes())
    bucket.pipe("photos/3.jpg", others[1].read_bytes())
    bucket.mv("photos/4.jpg", "photos/trip/four.jpg")
    bucket.rm("photos/5.jpg")
    report = collection.refresh()
    assert (report.added, report.changed, report.moved, report.gone, report.known) == (1, 1, 1, 1, 3)
    assert len(collection) == 6


def test_a_missing_bucket_or_prefix_keeps_its_pictures(bucket, collection):
    collection.add("s3://photos/trip", recipes="color")
    bucket.rm("photos/trip", recursive=True)
    report = collection.refresh()
    assert report.gone == 0
    assert len(collection) == 3
    assert report.notes == [
        "s3://photos/trip does not exist. Its pictures were kept. To remove them, run: lookalike remove"
        " s3://photos/trip"
    ]


@pytest.mark.usefixtures("reading_processes")
def test_worker_processes_read_pictures_at_urls(web, bucket, collection):
    report = collection.add("s3://photos", f"{web.address}/c.jpg", recipes="color", workers=1)
    assert (report.added + report.copied, report.skipped) == (7, {})


def test_unchanged_pictures_are_not_downloaded_again(web, collection):
    assert collection.add(f"{web.address}/list.txt", f"{web.address}/c.jpg", recipes="color").added == 3
    assert sorted(reads()) == ["/a.jpg", "/b.jpg", "/c.jpg"]
    REQUESTS.clear()
    assert collection.refresh().known == 3
    assert reads() == []
    shutil.copy(web.folder / "c.jpg", web.folder / "a.jpg")
    report = collection.refresh()
    assert (report.changed, report.known) == (1, 2)
    assert reads() == ["/a.jpg"]


def test_a_refresh_of_a_folder_contacts_no_host(web, collection, tmp_path, pictures):
    folder = tmp_path / "photos"
    shutil.copytree(next(pictures.iterdir()), folder)
    stages = []
    collection.add(f"{web.address}/a.jpg", folder, recipes="color", progress=lambda stage, *_: stages.append(stage))
    assert stages[0] == "connecting"
    reports = collection.watch()
    next(reports)
    REQUESTS.clear()
    shutil.copy(web.folder / "b.jpg", folder / "new.jpg")
    assert next(reports).added == 1
    reports.close()
    assert collection.refresh(folder).added == 0
    assert REQUESTS == []


def test_a_url_is_an_example_on_the_command_line(web, tmp_path, capsys):
    path = str(tmp_path / "own.lookalike")
    assert cli.run(["-c", path, "add", f"{web.address}/list.txt", "--recipe", "color"]) == 0
    capsys.readouterr()
    assert cli.run(["-c", path, "search", f"{web.address}/b.jpg", "-k", "1"]) == 0
    assert capsys.readouterr().out.split() == ["0.0000", f"{web.address}/b.jpg"]


def test_a_redirect_that_leads_nowhere_is_an_error_and_the_host_is_asked_again(web, collection):
    with pytest.raises(SourceError, match="redirects too often, or to a URL that is not"):
        collection.add(f"{web.address}/endlessly/redirected.jpg")
    with pytest.raises(SourceError, match="redirects too often, or to a URL that is not"):
        collection.add(f"{web.address}/redirected.jpg?to=file:///etc/passwd")
    assert urls.find(f"{web.address}/a.jpg") is not None  # the host is asked again


def test_a_picture_that_was_deleted_from_a_server_is_removed(web, collection):
    collection.add(f"{web.address}/list.txt", recipes="color")
    (web.folder / "b.jpg").unlink()
    report = collection.refresh()
    assert (report.gone, len(collection), report.skipped) == (1, 1, {})


def test_a_server_that_does_not_answer_keeps_its_pictures(web, collection, tmp_path):
    local = tmp_path / "local.txt"
    local.write_text(f"{web.address}/c.jpg\n")
    collection.add(f"{web.address}/list.txt", local, recipes="color")
    web.shutdown()
    web.server_close()
    report = collection.refresh()
    assert (report.gone, len(collection)) == (0, 3)
    assert "does not answer" in report.notes[0]
    assert "Its pictures were kept." in report.notes[0]
    assert "does not answer" in report.skipped[f"{web.address}/c.jpg"]
    with pytest.raises(ImageError, match="does not answer"):
        collection.read(collection.page(limit=1).items[0])


def test_a_listing_that_fails_keeps_pictures(web, collection, monkeypatch, bucket):
    collection.add("s3://photos", recipes="color")

    def fail(url):
        yield next(walk(url))
        raise SourceError("the connection was lost")

    walk = urls.walk
    monkeypatch.setattr(urls, "walk", fail)
    report = collection.refresh()
    assert (report.gone, len(collection)) == (0, 6)
    assert report.skipped == {"s3://photos": "the connection was lost"}
    monkeypatch.undo()


def test_an_unreachable_url_is_an_error_that_changes_nothing(collection):
    address = f"http://127.0.0.1:{closed_port()}/a.jpg"
    with pytest.raises(SourceError, match="does not answer"):
        collection.add(address)
    assert collection.sources() == []
    urls.reset()


def test_a_missing_file_at_a_url_is_an_error(web, collection):
    with pytest.raises(SourceError, match=r"nothing\.jpg does not exist"):
        collection.add(f"{web.address}/nothing.jpg")


def test_a_busy_server_is_asked_again(web, monkeypatch):
    monkeypatch.setattr(urls, "PAUSE_S", 0)
    PLANNED.extend([503] * 2)
    assert urls.find(f"{web.address}/a.jpg").size > 0
    PLANNED.extend([503] * 8)
    with pytest.raises(SourceError, match="answered with status 503"):
        urls.find(f"{web.address}/a.jpg")


def test_a_download_stops_at_the_limit(web):
    with pytest.raises(ImageError, match="the limit is 100000"):
        urls.read(f"{web.address}/endless.jpg", Limits(max_bytes=100_000))


def test_a_file_without_a_size_is_skipped(web, collection):
    report = collection.add(f"{web.address}/endless.jpg", f"{web.address}/a.jpg", recipes="color")
    assert report.skipped == {f"{web.address}/endless.jpg": "the server does not send its size"}
    assert report.added == 1


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "file:// URLs are not supported"),
        ("memory://a.jpg", "memory:// URLs are not supported"),
        ("https://me:secret@host/a.jpg", "user name or a password"),
        ("zip://a.jpg::https://host/a.zip", "Chained URLs"),
        ("https://", "must name a host"),
    ],
)
def test_urls_that_cannot_be_sources_are_rejected(url, reason, collection):
    with pytest.raises(InputError, match=reason) as raised:
        collection.add(url)
    assert "secret" not in str(raised.value)


def test_archives_and_unknown_protocols_are_errors(web, collection):
    with pytest.raises(SourceError, match="download it"):
        collection.add(f"{web.address}/old.zip")
    with pytest.raises(SourceError, match="protocol is not supported"):
        collection.add("nonsense://bucket")


def test_names_in_a_list_can_have_spaces_and_umlauts(web, collection):
    shutil.copy(web.folder / "a.jpg", web.folder / "schöne Bilder.jpg")
    (web.folder / "names.txt").write_text("schöne Bilder.jpg\n", encoding="utf-8")
    report = collection.add(f"{web.address}/names.txt", recipes="color")
    assert (report.added, report.skipped) == (1, {})


def test_without_the_extra_the_error_names_it(collection, monkeypatch):
    urls.reset()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(SourceError, match=r"pip install 'lookalike\[urls\]'"):
        collection.add("s3://photos")


def test_a_list_at_a_url_cannot_name_other_protocols(web, collection):
    (web.folder / "bad.txt").write_text("a.jpg\ns3://private/secret.jpg\n")
    report = collection.add(f"{web.address}/bad.txt", f"{web.address}/c.jpg", recipes="color")
    assert list(report.skipped.values()) == ["a list at a http:// URL cannot contain 's3://private/secret.jpg'"]


def test_passwords_in_lists_are_neither_stored_nor_shown(web, collection, tmp_path):
    (tmp_path / "list.txt").write_text(f"http://me:secret@127.0.0.1/a.jpg\n{web.address}/a.jpg\n")
    report = collection.add(tmp_path / "list.txt", recipes="color")
    assert list(report.skipped) == ["http://127.0.0.1/a.jpg"]
    assert "secret" not in str(collection.skipped())


def test_the_query_of_a_signed_url_is_not_part_of_the_relative_path(web, collection):
    collection.add(f"{web.address}/a.jpg?signature=secret", recipes="color")
    item = collection.page(limit=1).items[0]
    assert collection.relative_paths()(item.paths[0]) == "a.jpg"


def test_the_service_shows_pictures_at_urls_but_does_not_add_urls(web, shelf, tmp_path):
    path = copy_shelf(shelf, tmp_path)
    Image.new("RGB", (64, 64), "red").save(web.folder / "red.jpg")
    with Collection(path) as collection:
        collection.add(f"{web.address}/red.jpg")
        (item,) = collection.page(Filter(path=f"{web.address}/*")).items
    with running(path, roots=(tmp_path,)) as service:
        assert service.client.get(f"/api/v1/items/{item.id:016x}/thumbnail").headers["content-type"] == "image/jpeg"
        assert service.client.get(f"/api/v1/items/{item.id:016x}/image").status_code == 200
        REQUESTS.clear()
        for url in (f"{web.address}/c.jpg", f"{web.address}/list.txt"):
            answer = service.client.post("/api/v1/jobs", json={"kind": "add", "folder": url})
            assert answer.status_code in (403, 422), answer.text
        answer = service.client.post("/api/v1/search", json={"positive": [{"id": f"{web.address}/c.jpg"}]})
        assert answer.status_code == 422
        assert REQUESTS == []


def test_links_of_a_service_cannot_lead_to_other_urls():
    assert sources.leads_inside("s3://photos/a.jpg", ["/photos", "s3://photos"])
    assert not sources.leads_inside("s3://photos-2/a.jpg", ["/photos", "s3://photos"])
    assert not sources.leads_inside("http://127.0.0.1/a.jpg", ["/"])


def test_paths_on_standard_input_are_added_and_refreshed(tmp_path, pictures, monkeypatch, capsys):
    files = [shutil.copy(file, tmp_path) for file in sorted(pictures.rglob("*.jpg"))[:3]]
    line = tmp_path / "with\nnewline.jpg"
    shutil.move(files[0], line)

    def run(data, *words):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return cli.run(["-c", str(tmp_path / "own.lookalike"), *words])

    assert run(os.fsencode(line) + b"\0", "add", "-", "--recipe", "color") == 0
    assert run("\n".join(files[1:]).encode(), "add", "-") == 0
    with Collection(tmp_path / "own.lookalike") as collection:
        assert collection.sources() == [str(line), *files[1:]]
        os.utime(files[1], (1, 1))
        assert collection.refresh().known == 3
    assert run(b"\n", "-c", str(tmp_path / "new.lookalike"), "add", "-") == 2
    assert "no paths on standard input" in capsys.readouterr().err
    assert not (tmp_path / "new.lookalike").exists()
