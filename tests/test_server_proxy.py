"""The service behind nginx and Caddy, with the files of docs/proxy: requests they must block or pass on."""

import contextlib
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from PIL import Image

from lookalike import Collection
from lookalike.server.settings import Budget
from serving import WRITE, add_token, copy_shelf, error, quick, running
from waiting import TIMEOUT_S, until

FILES = Path(__file__).parents[1] / "docs/proxy"
PROXIES = ("nginx", "caddy")
NAME = "photos.example.org"
UNPACKED = f"{sys.prefix}/proxies/usr"
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", f"{UNPACKED}/sbin", f"{UNPACKED}/bin"])
"""Search path for both programs. Debian's nginx is not in the PATH of users; `make .venv/proxies` unpacks both."""
SHORT = {
    "nginx": {
        "client_header_timeout 10s": "client_header_timeout 1s",
        "send_timeout 30s": "send_timeout 1s",
        "keepalive_timeout 30s": "keepalive_timeout 1s",
    },
    "caddy": {
        "read_header 10s": "read_header 1s",
        "read_body 10m": "read_body 1s",
        "write 15m": "write 2s",
        "idle 30s": "idle 1s",
    },
}
"""Shorter timeouts for tests that wait for one."""

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 768; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""
"""The configuration around a site in Debian's /etc/nginx/nginx.conf, adapted for a user without root rights."""


@dataclass
class Proxy:
    """A running proxy and its clients."""

    port: int
    process: "subprocess.Popen[bytes]"

    def client(self, scheme="http", address="127.0.0.1"):
        """An HTTP client with this address."""
        transport = httpx.HTTPTransport(local_address=address, verify=False)
        url = f"{scheme}://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=WRITE, timeout=TIMEOUT_S, transport=transport)

    def connect(self):
        """A plain socket connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    @contextlib.contextmanager
    def connections(self, n):
        """Several plain socket connections."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.connect()) for _ in range(n)]

    def has(self, connection):
        """Whether the proxy still has the connection open."""
        port, others = connection.getsockname()[1], psutil.Process(self.process.pid).net_connections("tcp")
        return any(other.raddr and other.raddr[1] == port for other in others)


@contextlib.contextmanager
def running_proxy(name, service, folder, changes=None, *, tls=False):
    """Run a proxy with its shipped file, in which only addresses, paths and `changes` are replaced."""
    program = shutil.which(name, path=PATH)
    if program is None:
        pytest.skip(f"{name} is not installed: run make .venv/proxies")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if tls:
        make_certificate(folder)
    write = {"nginx": write_nginx, "caddy": write_caddy}[name]
    arguments = write(folder, port, {**(changes or {}), "127.0.0.1:8321": f"127.0.0.1:{service.port}"}, tls)
    environment = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *arguments], env=environment, stdout=log, stderr=log)
    proxy = Proxy(port, process)
    try:
        until(lambda: accepts(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield proxy
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def write_nginx(folder, port, changes, tls):
    text = (FILES / "nginx.conf").read_text()
    certificate = f"/etc/letsencrypt/live/{NAME}/"
    if tls:
        listen = {"listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;", certificate: f"{folder}/"}
    else:
        listen = {
            "listen 443 ssl;": f"listen 127.0.0.1:{port};",
            f"ssl_certificate {certificate}fullchain.pem;": "",
            f"ssl_certificate_key {certificate}privkey.pem;": "",
        }
    (folder / "site.conf").write_text(replaced(text, {**changes, **listen, "listen [::]:443 ssl;": ""}))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    return ["-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]


def write_caddy(folder, port, changes, tls):
    text = (FILES / "Caddyfile").read_text()
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {"
    certificate = f"\n\ttls {folder}/fullchain.pem {folder}/privkey.pem" if tls else ""
    site = f"{'https://127.0.0.1' if tls else 'http://'}:{port} {{\n\tbind 127.0.0.1{certificate}"
    address = {"{\n\tservers {": options, f"\n{NAME} {{": f"\n{site}"}
    (folder / "Caddyfile").write_text(replaced(text, {**changes, **address}))
    return ["run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]


def replaced(text, changes):
    for old, new in changes.items():
        assert text.count(old) >= 1, f"{old!r} is not in the shipped file"
        text = text.replace(old, new)
    return text


def make_certificate(folder):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 1"
    command += " -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)


def accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture(scope="module")
def shelf_with_large(shelf, tmp_path_factory):
    """A collection with a picture that is larger than the buffers of a connection, and a user."""
    folder = tmp_path_factory.mktemp("proxied")
    own = copy_shelf(shelf, folder)
    Image.frombytes("RGB", (2000, 1500), os.urandom(9_000_000)).save(folder / "large.png", compress_level=1)
    with Collection(own) as collection:
        collection.add(folder / "large.png", workers=1)
    return own


@pytest.fixture(scope="module")
def token(shelf_with_large):
    return add_token(shelf_with_large, "anna", "manage")


@pytest.fixture(scope="module")
def service(shelf_with_large, token):
    with running(shelf_with_large, names=(NAME,)) as service:
        service.client.headers.update(token)
        yield service


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request, service, tmp_path_factory):
    with running_proxy(request.param, service, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture(scope="module", params=PROXIES)
def short(request, service, tmp_path_factory):
    """A proxy with short timeouts."""
    folder = tmp_path_factory.mktemp("short")
    with running_proxy(request.param, service, folder, SHORT[request.param]) as proxy:
        yield proxy


@pytest.fixture
def client(proxy, token):
    with proxy.client() as client:
        client.headers.update(token)
        yield client


def head(method, path, token, *lines):
    """The head of a request with this token."""
    credentials = ["X-Lookalike: 1", f"Authorization: {token['Authorization']}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *credentials, *lines, "", ""]).encode()


def sockets(service):
    """The open connections of the service."""
    return [one for one in psutil.Process().net_connections("tcp") if one.laddr[1] == service.port and one.raddr]


def drip(connections, parts):
    """Send data repeatedly on each connection until the proxy has closed all of them; return its responses."""
    answers, left = dict.fromkeys(connections, b""), dict(zip(connections, parts, strict=True))

    def all_closed():
        for connection, part in list(left.items()):
            try:
                received = connection.recv(2**16)
            except BlockingIOError:
                with contextlib.suppress(OSError):  # if it was closed meanwhile, the next recv shows it
                    connection.send(part)
            except OSError:
                del left[connection]
            else:
                answers[connection] += received
                if not received:
                    del left[connection]
        return not left

    for connection in connections:
        connection.setblocking(False)
    until(all_closed)
    return list(answers.values())


def read_all(connection):
    """Return all bytes until the proxy closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            answer += part
    return answer


def test_requests_uploads_and_pictures_pass(service, client):
    page = client.get("/")
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    item = client.get("/api/v1/items", params={"limit": 1}).json()["items"][0]["id"]
    thumbnail = client.get(f"/api/v1/items/{item}/thumbnail")
    assert thumbnail.content == service.client.get(f"/api/v1/items/{item}/thumbnail").content
    uploaded = client.post("/api/v1/uploads", files={"file": ("a.jpg", thumbnail.content)}).json()
    found = client.post("/api/v1/search", json={"examples": [{"upload": uploaded["upload"]}], "k": 1}).json()
    assert found["results"][0]["item"]["id"] == item
    assert client.get(f"/api/v1/uploads/{uploaded['upload']}/thumbnail").headers["content-type"] == "image/jpeg"


def test_an_upload_of_the_largest_size_passes_and_a_larger_one_gets_a_413(client):
    limit = Budget().upload_bytes
    error(client.post("/api/v1/uploads", files={"file": ("a", bytes(limit))}), 422, "input")  # not a picture
    too_large = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(limit + 2**21)
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    for content in (too_large, iter([too_large])):  # the second is sent in chunks, without its length
        assert client.post("/api/v1/uploads", content=content, headers=form).status_code == 413
    error(client.post("/api/v1/search", content=bytes(Budget().json_bytes + 1)), 413, "too-large")


def test_events_pass_while_the_stream_is_open(client):
    with client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        job = client.post("/api/v1/jobs", json={"kind": "classify"}).json()
        event = next(line for line in lines if line.startswith("data: "))
        assert json.loads(event.removeprefix("data: "))["job"] == job["id"]
    client.delete(f"/api/v1/jobs/{job['id']}")


@pytest.mark.parametrize("name", PROXIES)
def test_a_browser_logs_in_over_tls_with_a_secure_cookie(name, service, token, tmp_path):
    with running_proxy(name, service, tmp_path, tls=True) as proxy, proxy.client("https") as browser:
        assert browser.get("/api/v1/collection").status_code == 401
        origin = {"Origin": f"https://127.0.0.1:{proxy.port}", "Sec-Fetch-Site": "same-origin"}
        body = {"token": token["Authorization"].removeprefix("Bearer ")}
        answer = browser.post("/api/v1/login", json=body, headers=origin)
        assert answer.json() == {"name": "anna", "role": "manage"}
        assert "secure" in answer.headers["set-cookie"].lower().split("; ")
        assert browser.get("/api/v1/collection").json()["me"]["name"] == "anna"
        assert browser.post("/api/v1/logout", headers=origin).status_code == 204
        assert browser.get("/api/v1/collection").status_code == 401
        error(browser.post("/api/v1/login", json=body, headers={"Origin": "https://evil.example"}), 403, "refused")


@pytest.mark.parametrize("name", PROXIES)
def test_without_tokens_no_client_is_trusted_behind_a_proxy(name, shelf, tmp_path):
    with running(shelf) as open_service, running_proxy(name, open_service, tmp_path) as proxy:
        assert open_service.client.get("/api/v1/collection").status_code == 200
        with proxy.client() as client:
            error(client.get("/api/v1/collection"), 401, "token")


def test_the_host_header_reaches_the_service(client):
    assert client.get("/api/v1/items", headers={"Host": NAME}).status_code == 200
    error(client.get("/api/v1/items", headers={"Host": "evil.example"}), 421, "refused")


def test_a_connection_with_a_slow_head_is_closed_and_does_not_delay_other_clients(short):
    with short.connections(20) as slow, short.client() as client:
        for connection in slow[::2]:  # the others send empty lines
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert client.get("/healthz").status_code == 200
        drip(slow, [b"x", b"\r\n"] * 10)


def test_idle_connections_are_closed(short):
    with short.connections(20) as silent:
        for connection in silent[::2]:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(2**16)
        drip(silent, [b""] * 20)


def test_400_idle_connections_do_not_block_clients_or_reach_the_service(service, proxy):
    with proxy.connections(400) as idle, proxy.client() as client:
        for connection in idle[::2]:
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert client.get("/healthz").status_code == 200
        assert len(sockets(service)) < 50


def test_nginx_limits_the_open_requests_of_one_address(service, token, tmp_path):
    limit = int(re.search(r"limit_conn \w+ (\d+);", (FILES / "nginx.conf").read_text())[1])
    with (
        running_proxy("nginx", service, tmp_path) as proxy,
        proxy.connections(limit) as streams,
        proxy.client() as client,
        proxy.client(address="127.0.0.2") as other,
    ):
        for stream in streams:
            stream.sendall(head("GET", "/api/v1/events", token))
        for stream in streams:
            assert b" 200 " in stream.recv(2**16)
        assert client.get("/healthz").status_code == 429
        assert other.get("/healthz").status_code == 200
        streams[0].close()
        until(lambda: client.get("/healthz").status_code == 200)


def test_nginx_limits_the_rate_of_one_address(service, tmp_path):
    changes = {"rate=200r/s": "rate=1r/m", "burst=2000": "burst=5"}
    with (
        running_proxy("nginx", service, tmp_path, changes) as proxy,
        proxy.client() as client,
        proxy.client(address="127.0.0.2") as other,
    ):
        assert [client.get("/healthz").status_code for _ in range(8)] == [200] * 6 + [429] * 2
        assert other.get("/healthz").status_code == 200


@pytest.mark.parametrize("name", PROXIES)
def test_a_connection_with_a_slow_or_missing_body_is_closed(name, shelf_with_large, token, tmp_path):
    long, short, chunked = "Content-Length: 1000000", "Content-Length: 1000", "Transfer-Encoding: chunked"
    parts = [b"", b" ", b"", b" ", b"", b"1\r\n \r\n"]
    with (
        running(shelf_with_large, budget=quick(idle_s=0.5)) as service,
        running_proxy(name, service, tmp_path, SHORT[name]) as proxy,
        proxy.connections(len(parts)) as slow,
    ):
        for connection, length in zip(slow, [long, long, short, short, chunked, chunked], strict=True):
            connection.sendall(head("POST", "/api/v1/search", token, length))
        answers = drip(slow, parts)
        if name == "nginx":  # Caddy can answer before the service
            assert all(b" 408 " in answer for answer in answers)
        until(lambda: not sockets(service))


def test_a_client_that_does_not_read_is_disconnected(service, short, token):
    (large,) = service.get("/items", params={"path": "large.png"})["items"]
    with short.client() as client:
        image = client.get(f"/api/v1/items/{large['id']}/image", headers=token)
        assert len(image.content) == large["bytes"] > 2**23
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", short.port))
        connection.sendall(head("GET", f"/api/v1/items/{large['id']}/image", token))
        until(lambda: short.has(connection))
        until(lambda: not short.has(connection))


INNER = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n"
WITHIN, BEHIND = LENGTH % len(INNER), LENGTH % (5 + len(INNER))  # INNER as the body; INNER after the last chunk
CHUNKED, LAST_CHUNK = b"Transfer-Encoding: chunked\r\n", b"\r\n0\r\n\r\n"
SMUGGLING = {
    "both lengths, the request behind the chunks": BEHIND + CHUNKED + LAST_CHUNK,
    "both lengths, the request in a chunk": LENGTH % 4 + CHUNKED + b"\r\n%x\r\n" % len(INNER),
    "two lengths": LENGTH % 0 + WITHIN + b"\r\n",
    "a list of lengths": b"Content-Length: 0, %d\r\n\r\n" % len(INNER),
    "a folded line": WITHIN + b"X: a\r\n Content-Length: 0\r\n\r\n",
    "a folded encoding": BEHIND + b"Transfer-Encoding:\r\n chunked\r\n" + LAST_CHUNK,
    "a blank before the colon": BEHIND + b"Transfer-Encoding : chunked\r\n" + LAST_CHUNK,
    "a bare line feed": WITHIN + b"X: a\nX: b\r\n\r\n",
    "bare line feeds in chunks": CHUNKED + b"\r\n0\n\n",
}
"""Heads, and the bytes before INNER, that a proxy and the service might interpret differently."""


@pytest.mark.parametrize("attack", SMUGGLING)
def test_a_request_hidden_in_another_never_reaches_the_service(proxy, client, token, attack, caplog):
    caplog.set_level(logging.INFO, "lookalike.server.requests")
    outer = head("POST", "/api/v1/search", token, "Connection: close").removesuffix(b"\r\n")
    with proxy.connect() as connection:
        connection.sendall(outer + SMUGGLING[attack] + INNER + LAST_CHUNK)
        assert re.findall(rb"HTTP/1.1 (\d)\d\d ", read_all(connection)) == [b"4"]
    for _ in range(3):  # on the connections that the proxy keeps open
        assert client.get("/healthz").json() == {"status": "ok"}
    assert "/healthz 200" in caplog.text
    assert "smuggled" not in caplog.text
