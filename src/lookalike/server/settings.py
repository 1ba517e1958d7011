"""The settings of the service: address, allowed folders, limits, and threads of libraries."""

import ipaddress
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from lookalike.errors import InputError

PORT = 8321

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that BLAS and OpenMP libraries read when they load."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of the service: bytes, seconds and counts."""

    json_bytes: int = 2 * 2**20  # body of a request that is not an upload
    upload_bytes: int = 64 * 2**20
    upload_pixels: int = 100_000_000
    upload_s: float = 20.0  # to decode an upload
    upload_cache_bytes: int = 256 * 2**20  # decoded uploads to search with, in memory
    saved_upload_bytes: int = 512 * 2**20  # the same on disk, so that links to them work after a restart
    saved_uploads: int = 1_000
    concurrent_uploads: int = 4  # held in memory; others wait as temporary files
    concurrent_zips: int = 4  # downloads of pictures as zip; each holds one picture in memory
    decoders: int = 2  # threads and processes that decode uploads, so that a slow picture does not block others
    thumbnail_bytes: int = 128 * 2**20
    image_bytes: int = 16 * 2**20  # larger originals are sent as a smaller JPEG
    readers: int = 4  # maximum number of threads of the lane "read"
    waiting: int = 256  # requests that can wait for a thread, per lane
    request_s: float = 60.0  # to process a request
    idle_s: float = 10.0  # between two parts of a request body
    least_rate: int = 20_000  # minimum bytes per second of a body, after the first `idle_s`
    send_s: float = 30.0  # after which a client that does not read its response is disconnected
    connections: int = 512


@dataclass(frozen=True, slots=True)
class Rates:
    """Rate limits per client: requests per second on average, and requests in a burst."""

    work: tuple[float, int] = (100.0, 400)  # requests that compute: searches, rounds, uploads
    read: tuple[float, int] = (3_000.0, 6_000)  # everything else
    login: tuple[float, int] = (0.2, 10)  # wrong tokens and cookies, per address and per user

    @classmethod
    def trusting(cls) -> "Rates":
        """Return limits for clients on the same machine, which only stop runaway scripts."""
        return cls(work=(5_000.0, 10_000), read=(50_000.0, 100_000))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a service.

    Parameters
    ----------
    host, port : Address to listen on; port 0 picks a free one.
    names : Further names that a Host header may contain, such as the name of a proxy.
    roots : Allowed folders: clients may add pictures from these. Links are resolved once, here, so changing a link
        later has no effect.
    backup_dir : The only directory in which jobs may create a backup; None: backup jobs are rejected.
    cluster : Address of the cluster that jobs use; None: this machine.
    device : Device that jobs use: auto, cpu or cuda.
    budget, rates : The limits.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    backup_dir: Path | None = None
    cluster: str | None = None
    device: str = "auto"
    budget: Budget = field(default_factory=Budget)
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InputError(f"The port must be between 0 and 65535. Got {self.port}.")
        for root in self.roots:
            if not root.is_dir():
                raise InputError(f"--root must be an existing folder. Got {root}.")
        object.__setattr__(self, "roots", tuple(root.resolve() for root in self.roots))
        object.__setattr__(self, "backup_dir", self.backup_dir and self.backup_dir.resolve())

    @property
    def local(self) -> bool:
        """Whether only this machine can connect to the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def knows(self, name: str) -> bool:
        """Whether a Host header may contain this name.

        In a DNS rebinding attack, the page of another site sends its own name. IP addresses cannot be rebound, so they
        are accepted; a service on a loopback address accepts only loopback addresses.
        """
        if name in ("localhost", *self.names):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            own = socket.gethostname().lower()  # without a DNS lookup, since clients could trigger many
            return not self.local and name in (own, f"{own}.local")
        return address.is_loopback or not self.local


def limit_blas_threads() -> None:
    """Make libraries that load later use one thread per matrix product, unless the user has set a number.

    The service runs several requests at a time, each on its own core. With one thread per core for each product,
    concurrent searches wait for each other's threads and take five times as long under load.
    """
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")


def job_threads(cores: int) -> int:
    """Return the number of threads, and of reading processes, of a job: half of the cores."""
    return max(1, cores // 2)


def job_environment(cores: int) -> dict[str, str]:
    """Return the environment of a job's process, with limits for the threads of its libraries."""
    return os.environ | dict.fromkeys((*THREAD_VARIABLES, "NUMBA_NUM_THREADS"), str(job_threads(cores)))
