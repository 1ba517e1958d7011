"""Who may do what: people, their tokens and their roles.

In: COLLECTION/access.json, and the headers of a request. Out: a `Person`, or None. Of a token only its SHA-256 is kept:
32 random bytes need no slow hash. A browser is given a cookie that is signed with that hash, so that it ends when the
token is removed, and never holds the token itself.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from lookalike.errors import DamagedError, InputError, UnknownNameError
from lookalike.store.whole import whole

Role: TypeAlias = Literal["view", "judge", "manage"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""

FILE = "access.json"
COOKIE = "lookalike"
COOKIE_S = 30 * 24 * 3_600
PREFIX = "lk_"
MAX_NAME = 100

_COOKIE = re.compile(r"[A-Za-z0-9_-]{1,200}\.([0-9]{1,12})\.([0-9a-f]{64})")
_FORWARDED = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")
"""What a proxy adds: then whoever asks is not on this machine, whatever their address says."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the service."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether their role covers this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a token."""

    name: str
    role: Role
    sha256: str
    added_at: float


class Access:
    """The tokens of a collection. The file is looked at for every request: what is removed ends at once.

    Parameters
    ----------
    folder : the collection's directory.
    owner : who everybody is while there are no tokens; None where a token is needed.
    """

    def __init__(self, folder: Path, owner: str | None = None):
        self.path = folder / FILE
        self._owner = None if owner is None else Person(owner, "manage")
        self._stamp: tuple[int, int, int] | None = None
        self._entries: list[Entry] = []

    def entries(self) -> list[Entry]:
        """The tokens there are, as the file has them now."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._entries = None, []
            return []
        stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if stamp != self._stamp:
            self._entries, self._stamp = self._load(), stamp
        return self._entries

    def add(self, name: str, role: Role) -> str:
        """A new token for somebody; the only time that it is seen."""
        name = _check_name(name)
        if role not in ROLES:
            raise UnknownNameError("role", role, ROLES)
        if any(entry.name == name for entry in self.entries()):
            raise InputError(f"{name!r} has a token. Remove it first: lookalike token remove {name}")
        token = PREFIX + secrets.token_urlsafe(32)
        self._save([*self.entries(), Entry(name, role, _digest(token), time.time())])
        return token

    def remove(self, name: str) -> None:
        """A token that counts no more, from the next request on."""
        known = [entry.name for entry in self.entries()]
        if name not in known:
            raise UnknownNameError("token", name, known)
        self._save([entry for entry in self.entries() if entry.name != name])

    def identify(self, headers: Mapping[bytes, bytes]) -> Person | None:
        """Who makes a request; None where that is not said, or is wrong."""
        entries = self.entries()
        if not entries:
            return None if any(name in headers for name in _FORWARDED) else self._owner
        given = headers.get(b"authorization", b"")
        if given:
            scheme, _, token = given.partition(b" ")
            return self.check(token.strip().decode("latin-1")) if scheme.lower() == b"bearer" else None
        return self._check_cookie(_cookie(headers.get(b"cookie", b"")), entries)

    def check(self, token: str) -> Person | None:
        """Whose token this is."""
        digest, found = _digest(token), None
        for entry in self.entries():
            if hmac.compare_digest(entry.sha256, digest):
                found = Person(entry.name, entry.role)
        return found

    def make_cookie(self, person: Person) -> str:
        """What a browser shows instead of a token, for a month."""
        entry = next(entry for entry in self.entries() if entry.name == person.name)
        until = int(time.time()) + COOKIE_S
        name = base64.urlsafe_b64encode(entry.name.encode()).decode().rstrip("=")
        return f"{name}.{until}.{_sign(entry, until)}"

    def _check_cookie(self, cookie: str, entries: list[Entry]) -> Person | None:
        match = _COOKIE.fullmatch(cookie)
        if match is None or int(match[1]) < time.time():
            return None
        for entry in entries:
            if hmac.compare_digest(_sign(entry, int(match[1])), match[2]):
                return Person(entry.name, entry.role)
        return None

    def _load(self) -> list[Entry]:
        try:
            rows = json.loads(self.path.read_bytes())["tokens"]
            entries = [Entry(row["name"], row["role"], row["sha256"], float(row["added_at"])) for row in rows]
            if any(entry.role not in ROLES or len(entry.sha256) != 64 for entry in entries):
                raise ValueError("an unknown role, or no digest")
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Nobody is let in by a file that cannot be understood.
            raise DamagedError(f"{self.path} is damaged: {error}. Remove it and make new tokens.") from None
        return entries

    def _save(self, entries: list[Entry]) -> None:
        rows: list[dict[str, Any]] = [
            {"name": entry.name, "role": entry.role, "sha256": entry.sha256, "added_at": entry.added_at}
            for entry in entries
        ]
        with whole(self.path) as part:
            part.touch(0o600)
            part.write_text(json.dumps({"version": 1, "tokens": rows}, indent=1))


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable() or not name.isascii():
        raise InputError(f"A person's name must be 1 to {MAX_NAME} plain characters. Got {name!r:.80}.")
    return name


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _sign(entry: Entry, until: int) -> str:
    return hmac.new(bytes.fromhex(entry.sha256), f"{entry.name}.{until}".encode(), "sha256").hexdigest()


def _cookie(header: bytes) -> str:
    """The value of our cookie in a header of several."""
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
