"""Access control: tokens, roles and cookies, over HTTP and on the command line."""

import json
import re
import secrets
import socket
import stat
import string
import tracemalloc

import pytest
from itsdangerous import TimestampSigner

from lookalike import cli
from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.server import access as module
from lookalike.server.access import Access, Entry, Person, cookie_serializer, salvage
from lookalike.server.app import ROUTERS
from lookalike.server.http_server import bind, check_tokens, url
from lookalike.server.settings import Settings
from serving import add_token, copy_shelf, error, running

OPEN = {"/healthz", "/api/v1/login", "/api/v1/logout"}


@pytest.fixture
def own(shelf, tmp_path):
    return copy_shelf(shelf, tmp_path)


def headers(**given):
    return {name.encode(): value.encode() for name, value in given.items()}


def test_a_token_is_stored_as_a_hash_in_a_file_that_only_its_owner_can_read(tmp_path):
    access = Access(tmp_path)
    token = access.add("anna", "judge")
    text = access.path.read_text()
    assert token not in text
    assert token.removeprefix("lk_") not in text
    assert stat.S_IMODE(access.path.stat().st_mode) == 0o600
    assert Access(tmp_path).check(token) == Person("anna", "judge")
    for wrong in ("", token[:-1], token + "x", token.upper(), "lk_", "\udc80"):
        assert access.check(wrong) is None
    assert not list(tmp_path.glob("*.part"))


def test_a_token_identifies_its_person_until_it_is_removed(tmp_path):
    access, other = Access(tmp_path), Access(tmp_path)
    tokens = {name: access.add(name, role) for name, role in (("anna", "view"), ("bert", "manage"))}
    assert other.identify(headers(authorization=f"Bearer {tokens['bert']}")) == Person("bert", "manage")
    assert other.identify(headers(authorization=f"bearer  {tokens['anna']} ")) == Person("anna", "view")
    assert other.identify(headers(authorization=f"Basic {tokens['anna']}")) is None
    assert other.identify({}) is None
    with pytest.raises(InputError, match="already has a token"):
        access.add("anna", "judge")
    access.remove("anna")
    assert other.identify(headers(authorization=f"Bearer {tokens['anna']}")) is None
    with pytest.raises(UnknownNameError):
        access.remove("anna")
    for name in ("", " ", "a\nb", "x" * 101, "ä"):
        with pytest.raises(InputError, match="name"):
            access.add(name, "view")
    with pytest.raises(InputError, match="role"):
        access.add("carl", "owner")


def test_a_cookie_is_signed_expires_and_is_invalid_without_its_token(tmp_path, monkeypatch):
    access = Access(tmp_path)
    token = access.add("anna", "judge")
    access.add("bert", "manage")
    start = 1_900_000_000
    monkeypatch.setattr(module.time, "time", lambda: start + 0.9)
    cookie = access.make_cookie(Person("anna", "judge"))
    assert token not in cookie
    assert access.identify(headers(cookie=f"a=b; lookalike={cookie}")) == Person("anna", "judge")
    name, identity, signed_at, signature = cookie.split(".")
    monkeypatch.setattr(module.time, "time", lambda: start + 1)
    bert, other, later, _ = access.make_cookie(Person("bert", "manage")).split(".")
    forged = [f"{name}.{identity}.{later}.{signature}", f"{name}.{identity}.{signed_at}.{'0' * 43}", "a.b.c.d"]
    forged += [f"{name}.{other}.{signed_at}.{signature}", f"{bert}.{identity}.{signed_at}.{signature}", "...", ""]
    forged += [f"{name}.{identity}.²³.{signature}", f"{name}.{identity}.{'9' * 40}.{signature}", f"{name}.{identity}.é"]
    for wrong in forged:
        assert access.identify({b"cookie": f"lookalike={wrong}".encode("latin-1")}) is None
    for now in (start - 3_600, start + module.COOKIE_S):  # also if the clock was set back
        monkeypatch.setattr(module.time, "time", lambda now=now: now)
        assert access.identify(headers(cookie=f"lookalike={cookie}")) == Person("anna", "judge")
    monkeypatch.setattr(module.time, "time", lambda: start + module.COOKIE_S + 1)
    assert access.identify(headers(cookie=f"lookalike={cookie}")) is None
    monkeypatch.undo()
    access.remove("anna")
    access.add("anna", "manage")
    assert access.identify(headers(cookie=f"lookalike={cookie}")) is None


@pytest.mark.parametrize("name", ["x" * 100, "~" * 100, "a.b", 'Anna B.; c="d", %41\\'])
def test_every_name_fits_into_a_cookie(tmp_path, name):
    access = Access(tmp_path)
    access.add(name, "view")
    cookie = access.make_cookie(Person(name, "view"))
    assert re.fullmatch(r"[!#-+\--:<-\[\]-~]+", cookie)  # RFC 6265
    assert access.identify(headers(cookie=f"a=b; lookalike={cookie}; c=d")) == Person(name, "view")
    assert access.forged_name(headers(cookie=f"lookalike={cookie[:-5]}AAAAA")) == name


def test_a_cookie_of_another_release_does_not_count_as_forged(tmp_path):
    access = Access(tmp_path)
    access.add("anna", "view")
    old = headers(cookie=f"lookalike=YW5uYQ.{'0' * 32}.1900000000.{'0' * 64}")
    assert access.identify(old) is None
    assert access.forged_name(old) is None


def test_hostile_cookies_are_rejected_cheaply_even_if_the_owner_of_a_token_signs_them(tmp_path):
    class Late(TimestampSigner):
        def get_timestamp(self):
            return 2**63

    access = Access(tmp_path)
    access.add("anna", "view")
    access.add("anna.", "view")
    entry, dotted = access.entries()
    own, late = cookie_serializer(entry), cookie_serializer(entry)
    late.signer = Late
    ids = ["", None, 7, {"a": 1}, ["x"] * 100, secrets.token_urlsafe(15), secrets.token_urlsafe(17)]
    bomb = "x" * 30_000_000
    signed = [own.dumps(identity) for identity in ids] + [late.dumps(secrets.token_urlsafe(16))]
    signed += [serializer.dumps(bomb) for serializer in (own, cookie_serializer(dotted))]
    forged = [cookie_serializer(Entry("anna", "view", "0" * 64, 0.0)).dumps(identity) for identity in (*ids, bomb)]
    values = [f"anna.{value}" for value in signed + forged]
    values += ["\0", "anna.\0", "é" * 60_000, "anna." * 12_000, "." * 60_000, "%" * 60_000, "A" * 60_000]
    assert max(map(len, values)) <= 64 * 2**10  # the limit of the server
    tracemalloc.start()
    try:
        for value in values:
            given = {b"cookie": f"lookalike={value}".encode("latin-1")}
            assert access.identify(given) is None
            assert access.forged_name(given) in (None, "anna")
            access.log_out(value)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "logouts").exists()
    access.log_out(f"anna.{own.dumps('../../../../etc/passwd')}")
    (marker,) = (tmp_path / "logouts").iterdir()
    assert re.fullmatch(r"\d+-[\w-]{32}", marker.name)


def test_logging_out_revokes_one_cookie_in_all_processes(tmp_path, monkeypatch):
    access, other = Access(tmp_path), Access(tmp_path)
    anna = Person("anna", access.add("anna", "view") and "view")
    start = 1_900_000_000
    monkeypatch.setattr(module.time, "time", lambda: start)
    phone, laptop = (access.make_cookie(anna) for _ in range(2))
    letters = f"{string.ascii_letters}{string.digits}-_"
    spellings = [phone[:-1] + letter for letter in letters]  # base64 ignores the last two bits
    spellings = [one for one in spellings if access.identify(headers(cookie=f"lookalike={one}")) == anna]
    assert len(spellings) == 4
    access.log_out(phone)
    access.log_out("not.a.cookie")
    for process in (access, other, Access(tmp_path)):
        for spelling in spellings:
            assert process.identify(headers(cookie=f"lookalike={spelling}")) is None
        assert process.forged_name(headers(cookie=f"lookalike={phone}")) is None
        assert process.identify(headers(cookie=f"lookalike={laptop}")) == anna
    (marker,) = (tmp_path / "logouts").iterdir()
    monkeypatch.setattr(module.time, "time", lambda: start + module.COOKIE_S)
    access.log_out(access.make_cookie(anna))
    assert marker.exists()
    monkeypatch.setattr(module.time, "time", lambda: start + module.COOKIE_S + 1)
    access.log_out(access.make_cookie(anna))  # this also removes expired files
    ends = sorted(int(file.name.split("-")[0]) for file in (tmp_path / "logouts").iterdir())
    assert ends == [start + 2 * module.COOKIE_S, start + 2 * module.COOKIE_S + 1]


def test_a_logout_that_cannot_be_saved_still_counts_in_this_process(tmp_path, caplog):
    access = Access(tmp_path)
    anna = Person("anna", access.add("anna", "view") and "view")
    cookie = access.make_cookie(anna)
    (tmp_path / "logouts").write_text("a file in the way")
    access.log_out(cookie)
    assert access.identify(headers(cookie=f"lookalike={cookie}")) is None
    assert "Cannot save a logout" in caplog.text


GOOD = {"name": "anna", "role": "view", "sha256": "0" * 64, "added_at": 1.5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "{",
        "[" * 100_000,
        "{}",
        "[]",
        "7",
        '{"tokens": {}}',
        '{"tokens": "abc"}',
        *(
            json.dumps({"tokens": [GOOD, GOOD | {"name": "bert", "sha256": "1" * 64} | wrong]})
            for wrong in (
                {"name": 7},
                {"name": None},
                {"name": ""},
                {"name": "b\n"},
                {"name": "\ud800"},
                {"name": "anna"},
                {"role": "god"},
                {"role": ["view"]},
                {"sha256": "x" * 64},
                {"sha256": "0" * 63},
                {"sha256": list("0" * 64)},
                {"sha256": "0" * 64},
                {"added_at": None},
                {"added_at": "1"},
                {"added_at": True},
                {"added_at": float("nan")},
                {"added_at": float("inf")},
                {"added_at": 10**400},
                {"added_at": -1},
            )
        ),
        *(json.dumps({"tokens": [GOOD, wrong]}) for wrong in (7, None, "abc", [], {})),
    ],
)
def test_no_token_of_a_damaged_file_is_accepted_but_its_valid_tokens_can_be_salvaged(tmp_path, text):
    path = tmp_path / "access.json"
    path.write_text(text)
    entries, lost = salvage(path)
    with pytest.raises(DamagedError, match=r"lookalike repair$" if entries else r"lookalike repair --from BACKUP\."):
        Access(tmp_path, "owner").identify({})
    assert lost == 1
    assert entries == ([Entry(**GOOD)] if "anna" in text else [])
    Access(tmp_path).save(entries)
    assert Access(tmp_path).entries() == entries
    assert salvage(path) == (entries, 0)


def test_a_folder_named_access_json_counts_as_damage(tmp_path):
    (tmp_path / "access.json").mkdir()
    with pytest.raises(DamagedError, match="lookalike repair --from BACKUP"):
        Access(tmp_path, "owner").identify({})
    assert salvage(tmp_path / "none.json") == ([], 0)


@pytest.mark.parametrize("sign", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP"])
def test_a_client_behind_a_proxy_is_not_the_owner(own, sign):
    access = Access(own, "owner")
    assert access.identify(headers(host="localhost")) == Person("owner", "manage")
    assert access.identify({**headers(host="localhost"), sign.lower().encode(): b"1.1 proxy"}) is None


def test_a_damaged_access_file_is_reported_without_its_path(own):
    with running(own) as service:
        (own / "access.json").write_text("{")
        assert str(own) not in error(service.client.get("/api/v1/items"), 500, "damaged")
        (own / "access.json").unlink()
        assert service.client.get("/api/v1/items").status_code == 200


def test_local_clients_have_the_role_manage_until_a_token_exists(own):
    with running(own) as service:
        assert service.get("/collection")["me"]["role"] == "manage"
        mine = add_token(own, "anna", "view")
        assert "needs a valid token" in error(service.client.get("/api/v1/items"), 401, "token")
        error(service.client.get("/metrics"), 401, "token")
        assert service.client.get("/").status_code == 200  # the page is needed to log in
        assert service.get("/collection", headers=mine)["me"] == {"name": "anna", "role": "view"}
        Access(own).remove("anna")
        assert service.get("/collection")["me"]["role"] == "manage"


def test_logging_in_sets_a_cookie_that_scripts_cannot_read_and_logging_out_revokes_it(own):
    token = Access(own).add("anna", "judge")
    with running(own) as service:
        error(service.client.post("/api/v1/login", json={"token": "lk_wrong"}), 401, "token")
        answer = service.client.post("/api/v1/login", json={"token": token})
        assert answer.json() == {"name": "anna", "role": "judge"}
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert token not in cookie
        assert service.get("/collection")["me"]["name"] == "anna"  # httpx keeps cookies, as browsers do
        value = cookie.split(";")[0]
        service.client.post("/api/v1/login", json={"token": token}).raise_for_status()  # another browser
        other = service.client.cookies["lookalike"]
        service.client.cookies.clear()
        service.client.post("/api/v1/logout", headers={"Cookie": value}).raise_for_status()
        error(service.client.get("/api/v1/collection"), 401, "token")
        error(service.client.get("/api/v1/collection", headers={"Cookie": value}), 401, "token")
    with running(own) as service:  # after a restart
        error(service.client.get("/api/v1/collection", headers={"Cookie": value}), 401, "token")
        assert service.get("/collection", headers={"Cookie": f"lookalike={other}"})["me"]["name"] == "anna"


def test_every_route_names_the_role_it_needs(own):
    """A new route without a role fails here."""
    roles = {}
    for router in ROUTERS:
        for route in router.routes:
            needed = [getattr(part.call, "role", None) for part in route.dependant.dependencies]
            for method in route.methods:
                roles[method, route.path] = max((r for r in needed if r), key=module.ROLES.index, default=None)
    assert {path for (_, path), role in roles.items() if role is None} == OPEN
    judging = ("/sessions", "/saved", "/classes/add", "/classes/remove", "/classes/confirm", "/classes/reject")
    managing = ("/classes/rename", "/classes/merge", "/classes/delete")
    for (method, path), role in roles.items():
        if method != "GET" and path.startswith(tuple(f"/api/v1{part}" for part in judging)):
            assert role == "judge", path
        if path in [f"/api/v1{part}" for part in managing]:
            assert role == "manage", path


def test_requests_beyond_a_role_are_rejected(own):
    guest, judge = add_token(own, "guest", "view"), add_token(own, "judge", "judge")
    with running(own) as service:
        items = [item["id"] for item in service.get("/items", headers=guest)["items"]]
        example = {"examples": [{"id": items[0]}]}
        assert service.client.post("/api/v1/search", json=example, headers=guest).status_code == 200
        member = {"name": "x", "items": items[:1]}
        for path, body in (("/sessions", example), ("/classes/add", member), ("/classes/confirm", member)):
            assert "needs the role judge" in error(
                service.client.post(f"/api/v1{path}", json=body, headers=guest), 403, "refused"
            )
        service.post("/classes/add", member, headers=judge)
        for path, body in (
            ("/classes/rename", {"name": "x", "to": "y"}),
            ("/classes/merge", {"names": ["x"], "into": "y"}),
            ("/classes/delete", {"name": "x"}),
        ):
            message = error(service.client.post(f"/api/v1{path}", json=body, headers=judge), 403, "refused")
            assert "needs the role manage; judge has judge" in message
        for role in ("manage", "admin"):  # a client cannot choose its role
            more = {**guest, "X-Role": role, "X-Forwarded-User": "chief"}
            assert service.client.post("/api/v1/classes/delete", json={"name": "x"}, headers=more).status_code == 403
        assert service.get("/collection", headers=guest)["sources"] == []


def test_the_service_listens_on_a_public_address_only_with_a_token(own, tmp_path):
    from lookalike import Collection

    with Collection(own) as collection:
        with pytest.raises(InputError, match=r"lookalike -c .* token add NAME --role manage"):
            check_tokens(collection, Settings(host="0.0.0.0"))
        check_tokens(collection, Settings())
        Access(own).add("anna", "manage")
        check_tokens(collection, Settings(host="0.0.0.0"))
    for host, local in (("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("::", False),
                        ("0.0.0.0", False), ("192.168.1.7", False), ("example.org", False)):  # fmt: skip
        assert Settings(host=host).local is local
    with pytest.raises(InputError, match="port"):
        Settings(port=70_000)
    with pytest.raises(InputError, match="folder"):
        Settings(roots=(tmp_path / "nowhere",))


def test_a_port_in_use_is_reported_in_one_line(own, capsys):
    with bind(Settings(port=0)) as taken:
        port = taken.getsockname()[1]
        assert taken.proto == socket.IPPROTO_TCP  # otherwise, asyncio leaves Nagle's delay on: 40 ms per response
        assert cli.run(["-c", str(own), "serve", "--port", str(port)]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert f"--port {port + 1}" in message
    assert cli.run(["-c", str(own), "serve", "--host", "0.0.0.0"]) == 2
    assert "token add" in capsys.readouterr().err
    with pytest.raises(InputError, match="Cannot listen on 'no such host'"):
        bind(Settings(host="no such host"))
    assert url("::1", 1) == "http://[::1]:1/"


def test_the_command_line_adds_lists_and_removes_tokens(own, capsys):
    where = ["-c", str(own), "token"]
    assert cli.run([*where, "add", "anna", "--role", "judge"]) == 0
    token = capsys.readouterr().out.strip()
    assert Access(own).check(token) == Person("anna", "judge")
    assert cli.run([*where, "list"]) == 0
    listed = capsys.readouterr().out
    assert "anna" in listed
    assert token not in listed
    assert cli.run([*where, "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["role"] == "judge"
    assert cli.run([*where, "remove", "anna", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "anna"}
    assert cli.run([*where, "remove", "anna"]) == 2
    assert cli.run([*where, "list"]) == 0
    assert "No tokens yet" in capsys.readouterr().err
    assert cli.run([*where]) == 0
    assert "Examples" in capsys.readouterr().out


def test_an_unchanged_access_file_is_not_read_again(tmp_path, monkeypatch):
    access = Access(tmp_path)
    token = access.add("anna", "view")
    given = headers(authorization=f"Bearer {token}")
    assert access.identify(given)
    monkeypatch.setattr(Access, "_load", None)
    for _ in range(3):
        assert access.identify(given)
