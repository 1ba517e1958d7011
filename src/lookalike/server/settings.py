"""How the service is set up: where it listens, what it may read, and how much of anything it allows.

In: words of the command line. Out: `Settings`, which every part of the service is given. Nothing here is read from the
environment or from the collection.
"""

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from lookalike.errors import InputError

PORT = 8321


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of anything there is for clients. Bytes, seconds and counts."""

    json_bytes: int = 2 * 2**20  # of a request that is no upload
    upload_bytes: int = 64 * 2**20
    upload_pixels: int = 100_000_000
    upload_s: float = 20.0  # to decode one
    kept_bytes: int = 256 * 2**20  # pixels of uploads that are kept to search with
    kept_s: float = 3_600.0
    uploading: int = 4  # uploads that are held in memory at a time; others wait on the disk
    thumbnail_bytes: int = 128 * 2**20
    image_bytes: int = 16 * 2**20  # originals above that are sent as a smaller JPEG
    readers: int = 4  # threads for what has none of its own: more of them would only wait for Python's lock
    waiting: int = 256  # requests that may wait for one
    request_s: float = 60.0  # until a request is answered
    header_s: float = 10.0  # until a request's head is there
    idle_s: float = 10.0  # between two parts of a request's body
    least_rate: int = 20_000  # bytes a second of a body, after a start of `idle_s`
    send_s: float = 30.0  # until a client takes what it is sent
    connections: int = 512


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests that one client may make: so many a second on average, and so many at once."""

    work: tuple[float, int] = (100.0, 400)  # searches, rounds, uploads: what computes
    look: tuple[float, int] = (3_000.0, 6_000)  # everything else
    login: tuple[float, int] = (0.2, 10)  # wrong tokens and cookies, from an address or for a person

    @classmethod
    def trusting(cls) -> "Rates":
        """For a machine's own people: a guard against accidents only."""
        return cls(work=(5_000.0, 10_000), look=(50_000.0, 100_000))


@dataclass(frozen=True, slots=True)
class Settings:
    """What the service is told when it starts.

    Parameters
    ----------
    host, port : where it listens; port 0 is any free one.
    names : further names that clients may call this machine by, such as a proxy's.
    roots : folders below which pictures may be added by clients; resolved here, once: a link that is swapped later
        moves none of them.
    backup_dir : the only directory in which jobs may make a backup; None: backup jobs are rejected.
    budget, rates : how much of anything there is.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    backup_dir: Path | None = None
    budget: Budget = field(default_factory=Budget)
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InputError(f"port must be between 0 and 65535. Got {self.port}.")
        for root in self.roots:
            if not root.is_dir():
                raise InputError(f"A root must be a folder. Got {root}.")
        object.__setattr__(self, "roots", tuple(root.resolve() for root in self.roots))
        object.__setattr__(self, "backup_dir", self.backup_dir and self.backup_dir.resolve())

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def knows(self, name: str) -> bool:
        """Whether a request may call us so.

        A page of another site whose name was made to lead here (DNS rebinding) calls us by that name. An address is
        nobody's name, so addresses are safe; on loopback only its own.
        """
        if name in ("localhost", *self.names):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            own = socket.gethostname().lower()  # without asking a name server: strangers would have us ask often
            return not self.local and name in (own, f"{own}.local")
        return address.is_loopback or not self.local
