"""Pictures at URLs: find, list and read files that fsspec can reach, such as s3://bucket/photos and https://host/a.jpg.

Only these functions contact other machines, and only for URLs that the user gave: as a source, as an example, or in a
list. fsspec and the packages of its protocols come with the extra `urls`. Credentials come from the environment and
from the configuration files of these packages, never from a URL, because URLs are stored and shown.

A request has a timeout. It is repeated if the server is busy. A host that did not answer is not asked again for
DOWN_S, so that one broken host delays a list or the page only once.
"""

import datetime
import email.utils
import hashlib
import posixpath
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from lookalike.errors import ImageError, InputError, LookalikeError, MissingError, SourceError
from lookalike.images.files import LIMITS, Limits

T = TypeVar("T")

CONNECT_S, READ_S, TOTAL_S = 5.0, 20.0, 60.0
"""Timeouts: to connect, between two parts of a response, and of an HTTP request as a whole."""

ATTEMPTS, PAUSE_S = 3, 0.5
"""Requests to a busy server, and the pause before the second one; the pause doubles."""

DOWN_S = 10.0
"""Seconds for which a host that did not answer is not asked again."""

LIST_LIMITS = Limits(max_bytes=64 * 2**20)
"""Limits of a list of URLs."""

BUSY = frozenset((429, 500, 502, 503, 504))
"""HTTP statuses after which another request can succeed."""

_HTTP = ("http", "https")
_WITH_EXTRA = ("http://", "https://", "s3://", "s3a://")
_LOCAL = ("file", "local", "memory")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ALLOWED = "%/:?#[]@!$&'()*+,;=~"
"""The characters of an HTTP URL that are sent unchanged, besides letters and digits."""

_TIMES = ("LastModified", "last_modified", "Last-Modified", "mtime", "modified", "updated")
_ETAGS = ("ETag", "etag", "md5Hash", "content_md5", "Content-MD5", "sha")
"""The names by which file systems of fsspec give the time of the last change, and a digest of the content."""

_down: dict[str, float] = {}  # host → the time until which it is not asked again
_lock = threading.Lock()


class Found(NamedTuple):
    """A file or a folder at a URL. `size` is None if the server does not send it."""

    url: str
    size: int | None
    mtime_ns: int  # time of the last change; the digits below a second come from the ETag
    is_folder: bool


class UnreachableError(SourceError):
    """A host that does not answer."""


def is_url(path: object) -> bool:
    """Whether a source or a path is a URL.

    >>> is_url("s3://bucket/a.jpg"), is_url("/photos/a.jpg"), is_url("https:/a.jpg")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


def check(url: str) -> str:
    """Return a URL as it is stored. Raises InputError for a URL that cannot be a source.

    >>> check("S3://bucket/photos/"), check("https://host/my cat%20.jpg")
    ('s3://bucket/photos', 'https://host/my%20cat%20.jpg')
    """
    match = _URL.match(url)
    assert match is not None, "the caller has checked it"
    protocol, rest = match[1].lower(), url[match.end() :]
    if protocol in _LOCAL:
        raise InputError(f"{protocol}:// URLs are not supported. Give the path of the file or folder.")
    if "::" in rest and is_url(rest.rpartition("::")[2]):
        raise InputError(f"Chained URLs are not supported. Got {url!r:.200}.")
    if "@" in rest.partition("/")[0]:
        raise InputError(
            "A URL must not contain a user name or a password, because it is stored. Give credentials in the"
            " environment or in a configuration file, for example in ~/.aws/credentials."
        )
    if not rest.strip("/") or "\0" in rest:
        raise InputError(f"A URL must name a host or a bucket. Got {url!r:.200}.")
    if protocol in _HTTP:
        rest = urllib.parse.quote(rest, safe=_ALLOWED)
    return f"{protocol}://{rest.rstrip('/')}"


def without_login(url: str) -> str:
    """Return a URL without the user name and the password that it contains.

    >>> without_login("https://me:secret@host/a.jpg")
    'https://host/a.jpg'
    """
    return re.sub("(?<=://)[^/@]*@", "", url)


def find(url: str) -> Found | None:
    """Return the file or folder at a URL, None if there is none. Raises SourceError with the reason on failure."""
    return _request(url, lambda: _found(url, _system(url).info(_path(url))))


def walk(url: str) -> Iterator[Found]:
    """Yield the files in a folder, folder by folder, sorted by name. Raises SourceError with the reason on failure."""
    folders = [url]
    while folders:
        folder = folders.pop()
        listed = _request(folder, lambda folder=folder: _system(folder).ls(_path(folder), detail=True)) or []  # type: ignore[misc]
        below = [_found(f"{folder}/{_name(entry)}", entry) for entry in listed if _name(entry)[:1] not in ("", ".")]
        below = sorted((one for one in below if one.url != folder), key=lambda one: (one.url, one.is_folder))
        folders += [one.url for one in reversed(below) if one.is_folder]
        yield from (one for one in below if not one.is_folder)


def read(url: str, limits: Limits = LIMITS) -> bytes:
    """Return the bytes of a file. Raises ImageError with the reason if they cannot be read."""
    try:
        data = _request(url, lambda: _download(url, limits.max_bytes + 1))
    except LookalikeError as error:
        raise ImageError(str(error)) from None
    if data is None:
        raise ImageError("it no longer exists")
    limits.check_bytes(len(data))
    return data


def read_list(url: str) -> list[str]:
    """Return the URLs in a list at a URL. Lines that are not URLs are relative to the folder of the list.

    Raises SourceError for a line with a URL of another protocol, which could name a file that only this user can read.
    """
    try:
        text = read(url, LIST_LIMITS).decode("utf-8-sig", "surrogateescape")
    except ImageError as error:
        raise SourceError(str(error)) from None
    own = _URL.match(url)
    assert own is not None
    allowed = _HTTP if own[1] in _HTTP else (own[1],)
    listed = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _URL.match(line)
        if match is not None and match[1].lower() not in allowed:
            raise SourceError(f"a list at a {own[1]}:// URL cannot contain {line!r:.100}")
        listed.append(check(line if match else posixpath.join(posixpath.dirname(url), line.lstrip("/"))))
    return listed


def reset() -> None:
    """Close all connections, read credentials again, and ask hosts again that did not answer."""
    _open_system.cache_clear()
    with _lock:
        _down.clear()


def _request(url: str, send: Callable[[], T]) -> T | None:
    """Return the result of a request, None if the file does not exist. Raises SourceError with the reason."""
    host = "/".join(url.split("/")[:3])
    with _lock:
        if _down.get(host, 0.0) > time.monotonic():
            raise UnreachableError(f"{host} does not answer")
    for attempt in range(ATTEMPTS):
        try:
            return send()
        except LookalikeError:
            raise
        except Exception as error:  # each protocol has its own errors
            status = _status(error)
            if status in BUSY and attempt < ATTEMPTS - 1:
                time.sleep(PAUSE_S * 2**attempt)
                continue
            if status in (404, 410) or (isinstance(error, FileNotFoundError) and error.__cause__ is None):
                return None
            raise _describe(error, status, host) from error
    raise AssertionError("the last attempt returns or raises")


def _describe(error: Exception, status: int | None, host: str) -> LookalikeError:
    if isinstance(error, PermissionError) or status in (401, 403):
        return SourceError("permission denied; give credentials in the environment or in a configuration file")
    if "Redirect" in type(error.__cause__ or error).__name__:  # of aiohttp
        return SourceError(f"{host} redirects too often, or to a URL that is not http(s)")
    if status is not None:
        return SourceError(f"{host} answered with status {status}")
    if isinstance(error, ValueError | NotImplementedError | TypeError):
        return SourceError(f"it cannot be read ({_line(error)})")
    if type(error).__name__ == "NoCredentialsError":
        return SourceError("no credentials were found; give them in the environment or in a configuration file")
    with _lock:
        _down[host] = time.monotonic() + DOWN_S
    return UnreachableError(f"{host} does not answer ({_line(error.__cause__ or error)})")


def _line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


def _status(error: BaseException) -> int | None:
    """Return the HTTP status in an error or in its cause, None if there is none."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        found = getattr(one, "status", None)
        if isinstance(response, dict):  # of botocore
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(found, int):
            return found
    return None


def _download(url: str, max_bytes: int) -> bytes:
    """Return the bytes of a file, at most `max_bytes`; a server can send more than it has announced."""
    system, path = _system(url), _path(url)
    if url.split("://")[0] not in _HTTP:
        return bytes(system.cat_file(path, start=0, end=max_bytes))
    data = bytearray()
    with system.open(path, "rb", block_size=0, size=1) as stream:  # a stream, which does not need the size
        while len(data) < max_bytes and (part := stream.read(min(2**20, max_bytes - len(data)))):
            data += part
    return bytes(data)


def _found(url: str, info: dict[str, Any]) -> Found:
    size = info.get("size")
    is_folder = info.get("type") == "directory"
    return Found(url, None if size is None else int(size), 0 if is_folder else _version(info), is_folder)


def _version(info: dict[str, Any]) -> int:
    """Return a number that changes when a file changes: its time in nanoseconds, with digits of its ETag.

    >>> _version({"Last-Modified": "Thu, 01 Jan 1970 00:00:02 GMT"})
    2000000000
    """
    changed = next((info[name] for name in _TIMES if info.get(name)), None)
    etag = next((info[name] for name in _ETAGS if info.get(name)), None)
    if isinstance(changed, str):
        changed = _parse_time(changed)
    if isinstance(changed, datetime.datetime):
        changed = changed.timestamp()
    seconds = int(changed) if isinstance(changed, int | float) else 0
    if etag is None:
        return int((changed or 0) * 1e9) if isinstance(changed, float) else seconds * 10**9
    digits = hashlib.blake2b(str(etag).removeprefix("W/").strip('"').encode(), digest_size=8).digest()
    return seconds * 10**9 + int.from_bytes(digits) % 10**9


def _parse_time(text: str) -> datetime.datetime | None:
    for parse in (email.utils.parsedate_to_datetime, datetime.datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rstrip("/").rpartition("/")[2]


def _path(url: str) -> str:
    """Return the path of a URL in its file system."""
    return str(_system(url)._strip_protocol(url))


def _system(url: str) -> Any:
    """Return the fsspec file system of a URL. Raises MissingError if a package is not installed."""
    try:
        return _open_system(url.split("://")[0])
    except ImportError as error:
        if url.startswith(_WITH_EXTRA):
            install = "Install it with: pip install 'lookalike[urls]'"
            raise MissingError(f"A package for URLs is missing ({_line(error)}). {install}") from None
        raise MissingError(f"A package for these URLs is missing ({_line(error)}).") from None
    except ValueError as error:
        raise SourceError(f"its protocol is not supported ({_line(error)})") from None


@lru_cache
def _open_system(protocol: str) -> Any:
    import fsspec

    if protocol in _HTTP:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=TOTAL_S, connect=CONNECT_S, sock_read=READ_S)
        return fsspec.filesystem(
            protocol,
            client_kwargs={"timeout": timeout},
            headers={"Accept-Encoding": "identity"},
            encoded=True,
            skip_instance_cache=True,
        )
    if protocol in ("s3", "s3a"):
        limits = {"connect_timeout": CONNECT_S, "read_timeout": READ_S, "retries": {"total_max_attempts": 2}}
        system = fsspec.filesystem(protocol, config_kwargs=limits, use_listings_cache=False, skip_instance_cache=True)
        system.retries = 2
        return system
    return fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True)
