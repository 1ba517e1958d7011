"""Access control: tokens, roles, cookies, and the paths that a user may see.

COLLECTION/access.json stores the SHA-256 of each token; 32 random bytes need no slow hash. A browser gets a cookie that
itsdangerous signs with this hash, so removing the token invalidates the cookie. The cookie does not contain the token.
A logout creates an empty file, COLLECTION/logouts/UNTIL-ID, which exists until the cookie would have expired. Each
logout has its own file, so processes do not overwrite each other's entries.

Only the role manage sees absolute paths; other roles see paths relative to their source. Every path and every error
message that the service sends passes through `Visible` or `visible_text`.
"""

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote

from itsdangerous import BadData, URLSafeTimedSerializer

from lookalike.atomic_files import atomic_write, write_errors
from lookalike.collection import Collection
from lookalike.errors import DamagedError, InputError, StoreError, UnknownNameError

log = logging.getLogger("lookalike.server")

Role: TypeAlias = Literal["view", "judge", "manage"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each role includes the roles before it."""

FILE = "access.json"
LOGOUTS = "logouts"
"""Folder with one file per revoked cookie that has not expired."""
COOKIE = "lookalike"
COOKIE_S = 30 * 24 * 3_600
PREFIX = "lk_"
MAX_NAME = 100
LAST_TIME = 253_402_300_800
"""POSIX seconds at the end of the year 9999, the last time that can be printed as a date."""

_COOKIE = re.compile(r"(?P<name>[\w.~%-]{1,300})\.(?P<signed>(?P<id>[\w-]{32})\.[\w-]{1,11}\.[\w-]{43})", re.ASCII)
"""The user's name, which selects the key to verify with, and a random id in base64 that itsdangerous has signed.

A compressed id, which itsdangerous would expand, starts with a dot and does not match.
"""
HIDDEN = "The details contain paths on this machine, which only users with the role manage can see."

_ABSOLUTE = re.compile(r"(?<![\w./])/(?=[^\s/])|(?<![\w./:])//")
"""Start of an absolute path in a text: a slash after no name and before a name, or two slashes."""
_FORWARDED = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")
"""Headers that a proxy adds. The client may then be on another machine, even if the address is local."""


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the service."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the user's role includes this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class Entry:
    """A token as access.json stores it."""

    name: str
    role: Role
    sha256: str
    added_at: float


class Access:
    """The tokens of a collection. The file is read again when it has changed, so changes take effect immediately.

    Parameters
    ----------
    folder : Directory of the collection.
    owner : Name of all clients while no tokens exist; None: a token is required.
    """

    def __init__(self, folder: Path, owner: str | None = None):
        self.path = folder / FILE
        self._owner = None if owner is None else Person(owner, "manage")
        self._stamp: tuple[int, int, int] | None = None
        self._entries: list[Entry] = []
        self._logouts = folder / LOGOUTS
        self._logged_out: set[str] = set()  # markers of the cookies that this process has revoked

    def entries(self) -> list[Entry]:
        """Return the current tokens. Raises DamagedError if the file cannot be read."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._entries = None, []
            return []
        except OSError as error:
            raise _damaged(self.path, str(error.strerror), []) from None
        stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if stamp != self._stamp:
            self._entries, self._stamp = self._load(), stamp
        return self._entries

    def add(self, name: str, role: Role) -> str:
        """Create a token for a user and return it. Only its hash is stored."""
        name = _check_name(name)
        if role not in ROLES:
            raise UnknownNameError("role", role, ROLES)
        if any(entry.name == name for entry in self.entries()):
            raise InputError(f"{name!r} already has a token. Remove it first: lookalike token remove {name}")
        token = PREFIX + secrets.token_urlsafe(32)
        self.save([*self.entries(), Entry(name, role, _digest(token), time.time())])
        return token

    def remove(self, name: str) -> None:
        """Remove a user's token. The service rejects it starting with the next request."""
        known = [entry.name for entry in self.entries()]
        if name not in known:
            raise UnknownNameError("token", name, known)
        self.save([entry for entry in self.entries() if entry.name != name])

    def save(self, entries: list[Entry]) -> None:
        """Write these tokens to the file, instead of its previous content."""
        with atomic_write(self.path) as part:
            part.touch(0o600)
            part.write_text(json.dumps({"version": 1, "tokens": [asdict(entry) for entry in entries]}, indent=1))

    def identify(self, headers: Mapping[bytes, bytes]) -> Person | None:
        """Return the user who sent a request; None if the credentials are missing or wrong.

        If there is a bearer token, the cookie is ignored. Other authorization schemes are ignored, too, because a proxy
        may use them.
        """
        entries = self.entries()
        if not entries:
            return None if any(name in headers for name in _FORWARDED) else self._owner
        token = bearer_token(headers)
        return self._check_cookie(session_cookie(headers)) if token is None else self.check(token)

    def check(self, token: str) -> Person | None:
        """Return the user with this token; None if it is unknown."""
        digest, found = _digest(token), None
        for entry in self.entries():
            if hmac.compare_digest(entry.sha256, digest):
                found = Person(entry.name, entry.role)
        return found

    def forged_name(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the user named by a cookie with a wrong signature; None for all other requests.

        An expired or revoked cookie has a valid signature, so it is not an attempt to guess one.
        """
        match = _COOKIE.fullmatch(session_cookie(headers)) if bearer_token(headers) is None else None
        return unquote(match["name"]) if match is not None and self._verify(match[0]) is None else None

    def make_cookie(self, person: Person) -> str:
        """Return a new cookie for a browser, valid for 30 days: name, random id, time and signature."""
        entry = next(entry for entry in self.entries() if entry.name == person.name)
        return f"{quote(entry.name, safe='')}.{cookie_serializer(entry).dumps(secrets.token_urlsafe(16))}"

    def log_out(self, cookie: str) -> None:
        """Revoke a cookie in every process that serves the collection, even after a restart.

        If the disk is full or read-only, only this process rejects the cookie, and logs a warning.
        """
        verified = self._verify(cookie)
        if verified is None or self._has_ended(verified[1]):
            return
        (_, marker), now = verified, time.time()
        self._logged_out -= {old for old in list(self._logged_out) if _expired(old, now)}
        self._logged_out.add(marker)
        try:
            with write_errors(self._logouts):
                self._logouts.mkdir(exist_ok=True)
                for old in os.listdir(self._logouts):
                    if _expired(old, now):
                        (self._logouts / old).unlink(missing_ok=True)
            with atomic_write(self._logouts / marker) as part:
                part.touch(0o600)
        except StoreError as error:
            log.warning(
                "Cannot save a logout. After a restart, the service will accept the logged-out cookie again. %s", error
            )

    def _check_cookie(self, cookie: str) -> Person | None:
        verified = self._verify(cookie)
        if verified is None or self._has_ended(verified[1]):
            return None
        return Person(verified[0].name, verified[0].role)

    def _has_ended(self, marker: str) -> bool:
        """Whether the cookie with this marker has expired or was revoked."""
        return _expired(marker, time.time()) or marker in self._logged_out or os.path.exists(self._logouts / marker)

    def _verify(self, cookie: str) -> tuple[Entry, str] | None:
        """Return the token that signed a cookie, and the cookie's marker, UNTIL-ID; None if the signature is wrong."""
        match = _COOKIE.fullmatch(cookie)
        name = None if match is None else unquote(match["name"])
        entry = next((entry for entry in self.entries() if entry.name == name), None)
        if match is None or entry is None:
            return None
        try:  # without max_age, which would also reject cookies from the future: the clock may have been set back
            _, signed_at = cookie_serializer(entry).loads(match["signed"], return_timestamp=True)
        except (BadData, ValueError, OverflowError, OSError):  # the owner of a token can sign a time that is not a date
            return None
        return entry, f"{int(signed_at.timestamp()) + COOKIE_S}-{match['id']}"

    def _load(self) -> list[Entry]:
        entries, problems = _read(self.path)
        if problems:  # reject all tokens
            raise _damaged(self.path, problems[0], entries)
        return entries


def salvage(path: Path) -> tuple[list[Entry], int]:
    """Return the valid tokens of a damaged access.json, and the number of invalid ones; 1 if the list is missing."""
    entries, problems = _read(path)
    return entries, len(problems)


def cookie_serializer(entry: Entry) -> URLSafeTimedSerializer:
    """Return the object that signs and verifies the cookies of a user."""
    options = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
    return URLSafeTimedSerializer(bytes.fromhex(entry.sha256), salt="lookalike.cookie", signer_kwargs=options)


class Visible:
    """Converter of paths and messages to the form that a user may see. One per request: sources are read once."""

    def __init__(self, collection: Collection, person: Person):
        self._collection = collection
        self._person = person

    @cached_property
    def path(self) -> Callable[[str], str]:
        """A function that returns the visible form of a path."""
        return str if self._person.may("manage") else self._collection.relative_paths()

    def text(self, text: str) -> str:
        """Return the visible form of a message."""
        return visible_text(text, self._person)

    def texts(self, value: Any) -> Any:
        """Return a JSON value with the visible form of all its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.texts(part) for name, part in value.items()}
        return [self.texts(part) for part in value] if isinstance(value, list) else value


def visible_text(text: str, person: Person | None, instead: str = HIDDEN) -> str:
    """Return a text, or `instead` if it contains an absolute path that the user may not see.

    `person` is None for a client without a valid token. The whole text is replaced, because file names can contain
    spaces and quotes, so the end of a path cannot be found.
    """
    if person is not None and person.may("manage"):
        return text
    return instead if _ABSOLUTE.search(text) else text


def bearer_token(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the token of `Authorization: Bearer TOKEN`, possibly empty; None without such a header."""
    scheme, _, token = headers.get(b"authorization", b"").strip().partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else None


def session_cookie(headers: Mapping[bytes, bytes]) -> str:
    """Return the value of our cookie in a request; empty if there is none."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _read(path: Path) -> tuple[list[Entry], list[str]]:
    """Return the valid tokens of a file, and the reason why each other token is invalid."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError, RecursionError) as error:
        return [], [f"it cannot be read as JSON ({type(error).__name__}: {error})"]
    if not isinstance(value, dict) or not isinstance(value.get("tokens"), list):
        return [], ['it must be an object with a list "tokens"']
    entries: list[Entry] = []
    problems: list[str] = []
    for place, row in enumerate(value["tokens"]):
        try:
            entry = _entry(row)
            if any(entry.name == other.name or entry.sha256 == other.sha256 for other in entries):
                raise InputError(f"{entry.name!r} already has a token, or another user has the same token")
            entries.append(entry)
        except InputError as error:
            problems.append(f"token {place}: {str(error).rstrip('.')}")
    return entries, problems


def _entry(row: Any) -> Entry:
    """Check an entry of access.json. Raises InputError if a value is invalid."""
    if not isinstance(row, dict):
        raise InputError(f"it must be an object; got {row!r:.40}")
    name, role, sha256, added_at = (row.get(key) for key in ("name", "role", "sha256", "added_at"))
    if not isinstance(name, str):
        raise InputError(f"name must be text; got {name!r:.40}")
    if role not in ROLES:
        raise InputError(f"role must be one of {', '.join(ROLES)}; got {role!r:.40}")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise InputError("sha256 must be 64 hexadecimal digits")
    if isinstance(added_at, bool) or not isinstance(added_at, int | float) or not 0 <= added_at < LAST_TIME:
        raise InputError(f"added_at must be POSIX seconds; got {added_at!r:.40}")
    return Entry(_check_name(name), role, sha256, float(added_at))


def _damaged(path: Path, problem: str, valid: list[Entry]) -> DamagedError:
    # Without the file, all clients on this machine have the role manage, so only the user may delete it.
    remedy = (
        "Run: lookalike repair"
        if valid
        else "It has no valid token. Restore it: lookalike repair --from BACKUP. Or delete it and create new tokens:"
        f" rm {path}"
    )
    return DamagedError(f"{path} is damaged: {problem}. All tokens are rejected until it is repaired. {remedy}")


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable() or not name.isascii():
        raise InputError(f"A user name must have 1 to {MAX_NAME} printable ASCII characters. Got {name!r:.80}.")
    return name


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _expired(marker: str, now: float) -> bool:
    until = marker.lstrip(".").partition("-")[0]  # a killed process may leave ".UNTIL-ID….part"
    return until.isdecimal() and int(until) < now
