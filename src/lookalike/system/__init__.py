"""Calls to the operating system that are not the same everywhere. Only this package imports modules such as `fcntl`.

    posix      the same on Linux and macOS: locks, signals, processes, terminals
    linux      cores, memory, hints about files
    macos      the same functions as `linux`; not tested yet

Windows needs a file with the functions of `posix` and `linux`.
"""

import sys

if sys.platform == "win32":
    raise ImportError("Lookalike does not run on Windows. Use it in the Windows Subsystem for Linux.")

from lookalike.system.posix import (
    IGNORE_SIGNALS,
    OWN_GROUP,
    READ_FLAGS,
    block_interrupts,
    children_seconds,
    describe_end,
    inherit,
    is_mounted_read_only,
    kill,
    limit_time,
    lower_priority,
    ran_out_of_time,
    read_at,
    read_key,
    sync_folder,
    try_lock,
    wait_for_lock,
    was_killed,
    write_at,
)

if sys.platform == "darwin":
    from lookalike.system.macos import (
        boot_id,
        count_cores,
        drop_cached,
        installed_bytes,
        limit_memory,
        peak_bytes,
        processor,
        reserve,
        reset_peak,
        sync_file,
        usable_cores,
        use_cores,
    )
else:
    from lookalike.system.linux import (
        boot_id,
        count_cores,
        drop_cached,
        installed_bytes,
        limit_memory,
        peak_bytes,
        processor,
        reserve,
        reset_peak,
        sync_file,
        usable_cores,
        use_cores,
    )

__all__ = [
    "IGNORE_SIGNALS",
    "OWN_GROUP",
    "READ_FLAGS",
    "block_interrupts",
    "boot_id",
    "children_seconds",
    "count_cores",
    "describe_end",
    "drop_cached",
    "inherit",
    "installed_bytes",
    "is_mounted_read_only",
    "kill",
    "limit_memory",
    "limit_time",
    "lower_priority",
    "peak_bytes",
    "processor",
    "ran_out_of_time",
    "read_at",
    "read_key",
    "reserve",
    "reset_peak",
    "sync_file",
    "sync_folder",
    "try_lock",
    "usable_cores",
    "use_cores",
    "wait_for_lock",
    "was_killed",
    "write_at",
]
