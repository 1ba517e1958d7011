"""Attacks on the service: each is rejected with the common error shape and logged, and the service continues."""

import asyncio
import contextlib
import io
import json
import logging
import math
import secrets
import socket
import time

import httpx
import psutil
import pytest

from lookalike import Collection
from lookalike.server import access as access_module
from lookalike.server import job_events, request_checks
from lookalike.server.access import Access, Entry, Person, cookie_serializer
from lookalike.server.app import create_app
from lookalike.server.problems import Problem
from lookalike.server.rate_limits import CLIENTS, RateLimiter, network
from lookalike.server.settings import Rates, Settings
from serving import add_token, copy_shelf, error, quick, running
from waiting import TIMEOUT_S, until

JSON = b"Content-Type: application/json\r\n"
POST = b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nX-Lookalike: 1\r\n"
SECRET = "root:x:0:0"
TRAVERSALS = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "/etc/passwd",
    "....//....//etc/passwd",
    "..\\..\\etc\\passwd",
    "%00/etc/passwd",
    "file:///etc/passwd",
    "static/../../settings.py",
    "%c0%ae%c0%ae/etc/passwd",
)


@pytest.fixture(scope="module")
def service(shelf, tmp_path_factory):
    with running(copy_shelf(shelf, tmp_path_factory.mktemp("attacked"))) as running_service:
        yield running_service


def forged_cookie(name):
    """A cookie that is valid except for its signature."""
    wrong_key = cookie_serializer(Entry(name, "view", "0" * 64, 0.0))
    return f"{name}.{wrong_key.dumps(secrets.token_urlsafe(16))}"


@pytest.fixture(scope="module")
def item(service):
    return service.get("/items", params={"limit": 1})["items"][0]["id"]


@pytest.fixture(autouse=True)
def alive(service):
    yield
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert service.get("/collection")["items"] == 60


def raw(service, request, wait=TIMEOUT_S):
    """Send invalid bytes; return everything received until the service has answered or closed the connection."""
    with service.connect() as connection:
        connection.settimeout(wait)
        connection.sendall(request)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
                if b"\r\n\r\n" in answer and b"content-length: 0" not in answer and answer.endswith(b"}"):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def statuses(connection):
    """Status codes of all responses until the service closes the connection."""
    answers = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            answers += part
    return [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]]


def sockets(service):
    """The connections of the service, on its side."""
    return [one for one in psutil.Process().net_connections("tcp") if one.laddr[1] == service.port]


def dropped(connection, data, every_s):
    """Send this repeatedly; return whether the service closes the connection."""
    deadline = time.monotonic() + TIMEOUT_S
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            connection.sendall(data)
            time.sleep(every_s)
    return time.monotonic() < deadline


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_outside(service, item, path):
    places = [
        f"/{path}",
        f"/static/{path}",
        f"/api/v1/items/{path}",
        f"/api/v1/items/{path}/image",
        f"/api/v1/items/{item}/{path}",
        f"/api/v1/uploads/{path}/thumbnail",
        f"/api/v1/sessions/{path}/log",
        f"/api/v1/sessions/0123abcd/why/{path}",
    ]
    for place in places:
        answer = raw(service, f"GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert answer.split(b" ")[1] in (b"400", b"404", b"422"), place
        assert SECRET.encode() not in answer
    for query in ("path", "label", "order", "offset", "min_side"):
        answer = service.client.get("/api/v1/items", params={query: path})
        assert answer.status_code in (200, 422)
        assert SECRET not in answer.text
        assert not json.loads(answer.text).get("total")
    for field in ("id", "upload", "path", "file"):
        error(service.client.post("/api/v1/search", json={"examples": [{field: path}]}), 422, "input")
    for body in ({"examples": [{"id": item}], "space": path}, {"examples": [{"id": item}], "filter": {"label": path}}):
        answer = service.client.post("/api/v1/search", json=body)
        assert answer.status_code in (200, 422)
        assert not answer.json().get("results")
    named = service.client.post("/api/v1/uploads", files={"file": (path, b"not a picture")})
    error(named, 422, "input")
    error(service.client.get("/api/v1/classes/one", params={"name": path}), 404, "missing")


def test_an_upload_above_the_limit_is_rejected_before_it_is_read(shelf):
    with running(shelf, budget=quick(upload_bytes=100_000, json_bytes=1_000)) as service:
        assert "must not exceed 165,536 bytes" in error(service.upload(bytes(200_000)), 413, "too-large")
        error(service.client.post("/api/v1/search", content=b"[" * 2_000), 413, "too-large")

        def drip():
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            for _ in range(40):
                yield bytes(10_000)

        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        error(
            service.client.post("/api/v1/uploads", content=drip(), headers=kind), 413, "too-large"
        )  # without a length, bytes are counted
        for length in (b"-1", b"1e3", b"99999999999999999999", b"5, 6"):
            assert raw(service, POST + b"Content-Length: " + length + b"\r\n\r\n").split(b" ")[1] in (b"400", b"413")


def test_requests_from_pages_of_other_sites_are_rejected(service, item):
    body = {"examples": [{"id": item}]}
    host = f"127.0.0.1:{service.port}"
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{service.port + 1}",
        f"http://{host}.evil.example",
        "x",
    ):
        answer = service.client.post("/api/v1/search", json=body, headers={"Origin": origin})
        assert "other sites" in error(answer, 403, "refused")
        error(service.client.get("/api/v1/items", headers={"Origin": origin}), 403, "refused")
    for site in ("cross-site", "same-site", "anything"):
        error(service.client.get("/api/v1/items", headers={"Sec-Fetch-Site": site}), 403, "refused")
        error(service.client.get("/metrics", headers={"Sec-Fetch-Site": site}), 403, "refused")
    ours = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert service.client.post("/api/v1/search", json=body, headers=ours).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert service.client.get("/", headers=link).status_code == 200  # links from other sites are allowed
    plain = service.client.post("/api/v1/search", json=body, headers={"X-Lookalike": "0"})
    assert "X-Lookalike" in error(plain, 403, "refused")
    form = service.client.post(
        "/api/v1/classes/delete", data={"name": "x"}, headers={"X-Lookalike": "", "Origin": f"http://{host}"}
    )
    error(form, 403, "refused")
    assert "access-control-allow-origin" not in service.client.options("/api/v1/items", headers=ours).headers


def test_unknown_host_names_are_rejected(service):
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "192.168.1.1",
        "",
        "localhost.",
        "[::2]",
        "a:b:c",
    ):
        answer = service.client.get("/api/v1/items", headers={"Host": host})
        assert answer.status_code in (400, 421), host
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:80"):
        assert service.client.get("/api/v1/items", headers={"Host": host}).status_code == 200
    elsewhere = Settings(host="0.0.0.0", names=("photos.example",))
    assert elsewhere.knows("192.168.1.1")
    assert elsewhere.knows("photos.example")
    assert elsewhere.knows(socket.gethostname().lower())
    assert not elsewhere.knows("evil.example")


def test_wrong_tokens_are_limited_and_never_lock_out_valid_ones(shelf, tmp_path, caplog):
    own = copy_shelf(shelf, tmp_path)
    mine = add_token(own, "anna", "judge")
    with running(own, rates=Rates(login=(0.01, 5))) as service, caplog.at_level(logging.WARNING):
        secret = "lk_" + "S" * 40
        wrong = {"Authorization": f"Bearer {secret}"}
        seen = [service.client.get("/api/v1/items", headers=wrong).status_code for _ in range(8)]
        assert seen == [401] * 5 + [429] * 3
        answer = service.client.get("/api/v1/items", headers=wrong)
        assert int(answer.headers["retry-after"]) > 1
        error(answer, 429, "too-many")
        error(service.client.post("/api/v1/login", json={"token": secret}), 429, "too-many")
        assert service.client.get("/api/v1/items", headers=mine).status_code == 200
        token = mine["Authorization"].removeprefix("Bearer ")
        service.post("/login", {"token": token}, headers={"Cookie": forged_cookie("anna")})
        assert service.get("/collection")["me"]["name"] == "anna"  # authenticated by the cookie
    assert "Rejected a request from 127.0.0.1 with status 401" in caplog.text
    assert secret not in caplog.text


def test_forged_cookies_are_rate_limited_per_user_name(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    access = Access(own)
    for name in ("anna", "bert"):
        access.add(name, "view")

    def status(cookie, address):
        scope = {
            "type": "http", "method": "GET", "path": "/api/v1/items/0123456789abcdef", "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"cookie", f"lookalike={cookie}".encode())], "client": (address, 1),
        }  # fmt: skip
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request"}

        async def refused(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        checks.app = refused
        asyncio.run(checks(scope, receive, send))
        return sent[0]["status"]

    with Collection(own) as collection:
        checks = create_app(collection, Settings(rates=Rates(login=(0.01, 5))), access)
        seen = [status(forged_cookie("anna"), f"192.0.2.{number}") for number in range(8)]
        assert seen == [401] * 5 + [429] * 3  # each request has a different address
        assert status(forged_cookie("bert"), "192.0.2.7") == 401
        assert status(access.make_cookie(Person("anna", "view")), "192.0.2.7") == 200
        checks.service.close()


def test_rejected_cookies_are_deleted_and_expired_ones_do_not_count_as_attempts(shelf, tmp_path, monkeypatch):
    own = copy_shelf(shelf, tmp_path)
    access = Access(own)
    access.add("anna", "view")
    with monkeypatch.context() as past:
        past.setattr(access_module.time, "time", lambda: 1e9)
        expired = access.make_cookie(Person("anna", "view"))
    with running(own, rates=Rates(login=(0.01, 2))) as service:
        for _ in range(5):
            answer = service.client.get("/api/v1/items", headers={"Cookie": f"lookalike={expired}"})
            error(answer, 401, "token")
            assert "Max-Age=0" in answer.headers["set-cookie"]
        assert "set-cookie" not in service.client.get("/api/v1/items").headers


def test_only_a_valid_bearer_token_replaces_the_header_of_the_page(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    body = {"name": "x", "items": []}

    def ask(**headers):
        with httpx.Client(base_url=f"http://127.0.0.1:{service.port}", trust_env=False) as client:
            return client.post("/api/v1/classes/add", json=body, headers=headers)

    wrong = ("", "x", "Bearer", "Bearer x", "Basic YTpi")
    with running(own) as service:
        for value in wrong:  # without tokens, every client on this machine is the owner
            assert "X-Lookalike" in error(ask(Authorization=value), 403, "refused")
        valid = add_token(own, "anna", "judge")
        assert ask(**valid).status_code == 200
        cookie = f"lookalike={Access(own).make_cookie(Person('anna', 'judge'))}"
        for value in ("", "x", "Basic YTpi"):  # not a token, so the cookie counts and needs the header
            assert "X-Lookalike" in error(ask(Authorization=value, Cookie=cookie), 403, "refused")
            both = {"Authorization": value, "Cookie": cookie, "X-Lookalike": "1"}
            assert ask(**both).status_code == 200
        for value in ("Bearer", "Bearer x"):  # a wrong token is rejected even with a valid cookie
            error(ask(Authorization=value, Cookie=cookie), 401, "token")
        twice = b"POST /api/v1/classes/add HTTP/1.1\r\nHost: localhost\r\nAuthorization: x\r\nAuthorization: %s\r\n\r\n"
        assert raw(service, twice % valid["Authorization"].encode()).split(b" ")[1] == b"400"


def test_too_many_requests_are_slowed_down(shelf):
    with running(shelf, rates=Rates(work=(0.001, 3), read=(0.001, 20))) as service:
        item = service.get("/items")["items"][0]["id"]
        body = {"examples": [{"id": item}], "k": 1}
        started = time.monotonic()
        seen = [service.client.post("/api/v1/search", json=body) for _ in range(5)]
        waited_s = time.monotonic() - started  # the bucket refills meanwhile
        assert [answer.status_code for answer in seen] == [200] * 3 + [429] * 2
        assert "Try again in" in error(seen[-1], 429, "too-many")
        assert math.ceil(1_000 - waited_s) <= int(seen[-1].headers["retry-after"]) <= 1_000
        assert service.client.get("/healthz").status_code == 200


def test_buckets_refill_with_time_and_are_limited_in_number():
    now = [0.0]
    limiter = RateLimiter(Rates(work=(2.0, 3)), clock=lambda: now[0])
    for _ in range(3):
        limiter.check("work", "anna")
    with pytest.raises(Problem, match="Too many"):
        limiter.check("work", "anna")
    limiter.check("work", "bert")
    now[0] += 0.5
    limiter.check("work", "anna")
    assert limiter.take("work", "anna") == pytest.approx(0.5)
    for number in range(CLIENTS + 10):
        limiter.check("read", str(number))
    assert len(limiter) == CLIENTS + 2  # two buckets of the other kind: anna and bert
    assert limiter.take("work", "anna") > 0  # buckets of another kind are not evicted


def test_all_addresses_of_an_ipv6_network_share_a_limit():
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    assert network("::ffff:192.0.2.7") == network("192.0.2.7") == "192.0.2.7"
    assert network("unknown") == "unknown"


def test_headers_cannot_be_injected(service, item):
    for value in ("a\r\nSet-Cookie: x=y", "a\nX: y", "%0d%0aSet-Cookie:%20x=y"):
        answer = raw(
            service,
            f"GET /api/v1/items/{item}/region?box=0,0,1,1&x={value} HTTP/1.1\r\nHost: localhost\r\n"
            "Connection: close\r\n\r\n".encode(),
        )
        assert b"set-cookie" not in answer.lower()
    for name in ("a\r\nb", "a\u2028b", "<script>alert(1)</script>"):
        made = service.post("/classes/add", {"name": name, "items": [item]})
        answer = service.client.get("/api/v1/items", params={"label": name})
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert service.post("/classes/delete", {"name": name})["count"] == made["count"]


def test_log_records_are_single_lines_without_secrets(service, caplog):
    caplog.set_level(logging.INFO, "lookalike.server.requests")
    service.client.get("/api/v1/a%0aFAKE%20line%1b[31m", params={"token": "secret"})
    service.client.get("/api/v1/items", headers={"Authorization": "Bearer secret", "Cookie": "lookalike=secret"})
    assert "secret" not in caplog.text
    lines = [record.getMessage() for record in caplog.records if record.name == "lookalike.server.requests"]
    assert any("FAKE line" in line for line in lines)
    assert not any("\n" in line or "\x1b" in line for line in lines)


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/items HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_invalid_http_gets_an_error_and_is_disconnected(service, request_):
    silent = request_.startswith(b"\x16")  # no answer to TLS is also allowed
    answer = raw(service, request_, wait=1.0 if silent else TIMEOUT_S)
    if answer or not silent:
        assert answer.split(b" ")[1][:1] == b"4"
        if b"application/json" in answer:  # uvicorn answers in plain text if the request does not reach the application
            body = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert body["error"]["kind"] in ("input", "refused", "too-large")
        else:
            assert b"connection: close" in answer.lower()


def test_a_body_with_two_lengths_is_rejected_and_later_requests_are_ignored(service):
    both = POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with service.connect() as connection:
        connection.sendall(both + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert statuses(connection) == [400]


def test_a_connection_with_an_endless_head_is_closed(shelf):
    with running(shelf) as service, service.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert dropped(connection, b"x" * 2**16, 0.0)


def test_the_service_does_not_read_beyond_an_unanswered_request(shelf):
    with running(shelf) as service, service.connect() as connection:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nX: ")
        before, sent = psutil.Process().memory_info().rss, 0
        connection.settimeout(1.0)
        with contextlib.suppress(TimeoutError):  # raised when the buffers on both sides are full
            while sent < 200 * 2**20:
                sent += connection.send(b"x" * 2**16)
        assert sent < 50 * 2**20
        assert psutil.Process().memory_info().rss - before < 20 * 2**20


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
def test_many_pipelined_requests_are_answered_in_order_without_filling_the_log(shelf, offer, caplog):
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with running(shelf) as service, service.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % offer * 1_000 + last)
        assert statuses(connection) == [200] * 1_000 + [404]
        assert service.client.get("/healthz").status_code == 200
    assert caplog.text == ""


def test_a_stream_ends_when_its_client_disconnects_with_another_request_pending(shelf, monkeypatch):
    monkeypatch.setattr(job_events, "HEARTBEAT_S", 0.1)  # a failed write reveals the disconnect
    with running(shelf) as service:
        with service.connect() as connection:
            one = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            connection.sendall((one.format("/api/v1/events") + one.format("/healthz")).encode())
            assert b" 200 " in connection.recv(100)
            assert "lookalike_event_streams 1\n" in service.client.get("/metrics").text
            connection.sendall(b"this is no request\r\n\r\n")
            assert b"HTTP/1.1" not in connection.recv(2**16)  # nothing else is written into the stream
        until(lambda: "lookalike_event_streams 0\n" in service.client.get("/metrics").text)


def test_upgrade_requests_to_another_protocol_are_ignored(service, item):
    body = json.dumps({"examples": [{"id": item}], "k": 1}).encode()
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    for parts in ([body], [body[:5], body[5:]], [b"", body]):  # all, a part or nothing with the head
        with service.connect() as connection:
            head = POST + JSON + offer + b"Content-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + parts[0])
            for part in parts[1:]:
                time.sleep(0.05)
                connection.sendall(part)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert statuses(connection) == [200, 200]
    smuggled = b"GET /api/v1/items?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with service.connect() as connection:
        connection.sendall(POST + offer + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(smuggled))
        time.sleep(0.05)
        connection.sendall(smuggled)
        assert len(statuses(connection)) == 1


def test_trailers_are_not_headers(shelf, caplog):
    chunked = b"Transfer-Encoding: chunked\r\n"
    with running(shelf) as service:
        bare = b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = raw(service, bare + chunked + b"\r\n2\r\n{}\r\n0\r\nX-Lookalike: 1\r\n\r\n")
        assert answer.split(b" ")[1] == b"403"
        before = psutil.Process().memory_info().rss
        with service.connect() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + chunked + b"\r\n0\r\n")
            with contextlib.suppress(OSError):  # the service closes the connection
                for _ in range(200):
                    connection.sendall(b"a:b\r\n" * 10_000)
        assert psutil.Process().memory_info().rss - before < 50 * 2**20  # 10 MB were sent
    assert "Traceback" not in caplog.text


def test_a_few_pipelined_requests_are_answered_in_order(service):
    one = "GET /api/v1/{} HTTP/1.1\r\nHost: localhost\r\nConnection: {}\r\n\r\n"
    kept = [one.format(path, "keep-alive") for path in ("items?limit=1", "nothing", "collection")]
    with service.connect() as connection:
        connection.sendall("".join([*kept, one.format("nowhere", "close")]).encode())
        assert statuses(connection) == [200, 404, 200, 404]


def test_a_connection_with_a_slow_or_missing_body_is_closed(shelf):
    with running(shelf, budget=quick(idle_s=0.5)) as service:
        head = POST + b"Content-Length: 1000\r\n\r\n"
        answer = raw(service, head + b"{")
        assert answer.split(b" ")[1] == b"408"
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["kind"] == "too-slow"
        with service.connect() as connection:  # one byte at a time, each within the read timeout
            connection.sendall(head)
            assert dropped(connection, b" ", 0.05)


def test_a_rejected_upload_that_never_ends_is_cut_off(shelf):
    with running(shelf) as service, service.connect() as connection:
        connection.sendall(POST + b"Content-Length: 9999999999\r\n\r\n")
        assert b" 413 " in connection.recv(1000)
        assert dropped(connection, bytes(1000), 0.02)


def test_a_client_can_finish_sending_a_rejected_upload(shelf, monkeypatch):
    monkeypatch.setattr(request_checks, "LINGER_S", TIMEOUT_S)
    with running(shelf) as service, service.connect() as connection:
        connection.sendall(POST + b"Content-Length: 5000000\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}}"):
            answer += connection.recv(1000)
        assert b" 413 " in answer
        for _ in range(5):
            connection.sendall(bytes(1_000_000))
        assert connection.recv(1000) == b""


def test_connections_above_the_limit_are_rejected(shelf):
    with running(shelf, budget=quick(connections=8)) as service:
        held = [service.connect() for _ in range(8)]
        assert b" 503 " in raw(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for connection in held:
            connection.close()
        until(lambda: service.client.get("/healthz").status_code == 200)


def test_a_client_that_does_not_read_is_disconnected(shelf, tmp_path):
    from PIL import Image

    large = io.BytesIO()
    Image.effect_noise((1500, 1500), 100).convert("RGB").save(large, "PNG")
    (tmp_path / "large.png").write_bytes(large.getvalue())
    with Collection(tmp_path / "c", create=True) as made:
        made.add(tmp_path / "large.png", recipes="color", workers=1)
    with running(tmp_path / "c", budget=quick(send_s=1.0)) as service:
        item = service.get("/items")["items"][0]["id"]
        assert service.client.get(f"/api/v1/items/{item}/image").content == large.getvalue()
        with service.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET /api/v1/items/{item}/image HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            port = connection.getsockname()[1]
            until(lambda: port not in {other.raddr[1] for other in sockets(service) if other.raddr})
