"""What the process of a job does: opens the collection, calls the verb, tells how far it is.

In: `python -m lookalike.server.worker`, with one line of JSON on standard input: the collection, the folders that links
may lead into, the kind of job, its arguments. Out: lines of JSON on standard output: {"stage", "done", "total"} now and
then, and at the end {"result", "message"} or {"error"}, with a "trace" where it is none of ours. When standard input
closes, the service has died, and so does this process, standing still or not: the store survives.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from lookalike.collection import Collection, Report, parse_id
from lookalike.collection.specs import check_client_fit
from lookalike.errors import InputError, LookalikeError
from lookalike.images.sources import leads_inside
from lookalike.server.incoming import FOLDER, put_away
from lookalike.server.threads import JOB_NICE
from lookalike.text import many
from lookalike.types import Progress

EVERY_S = 0.1
"""Between two messages about the same stage."""

WAIT_S = 24 * 3_600.0
"""For another writer, such as a command line: whoever does not want to wait cancels the job."""

PARENT_DEATH = 1
"""The option of Linux's `prctl` for the signal that a process gets when its parent dies."""

SKIPPED = 100
"""Files that could not be read, of which the reasons are kept."""


def main() -> None:
    """Do one job, as a guest on the machine: those who search come first."""
    os.nice(JOB_NICE)
    _be_continued()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes elsewhere
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_die_with_service, daemon=True).start()
    try:
        with Collection(order["collection"], wait_s=WAIT_S, within=order["within"]) as collection:
            result, message = KINDS[order["kind"]](collection, order["arguments"], _tell(out))
    except LookalikeError as error:
        _send(out, {"error": {"kind": type(error).__name__, "message": str(error)}})
        return
    except Exception as error:  # noqa: BLE001 — a fault of ours: it would only happen again
        kind = type(error).__name__
        message = f"{kind}: {error}. This is a fault of Lookalike: the service's log says where."
        _send(out, {"error": {"kind": kind, "message": message}, "trace": traceback.format_exc()})
        return
    _send(out, {"result": result, "message": message})


def _add(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    folder = arguments["folder"]
    if arguments.get("uploads"):  # wherever the collection is by now
        folder = os.path.realpath(collection.path / FOLDER)
    elif not leads_inside(folder, arguments["roots"]):  # once more: since it was asked for, it may have been moved
        raise InputError(f"{folder} is not below a folder that may be added from.")
    return _report(collection.add(folder, progress=progress))


def _refresh(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    return _report(collection.refresh(progress=progress))


def _remove(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    there = [
        number for item in arguments["items"] if (number := parse_id(item)) is not None and collection.has([number])
    ]
    paths = [path for item in collection.get(there).values() for path in item.paths]
    removed = collection.remove(*there) if there else 0
    put_away(collection.path, paths)
    return {"removed": removed}, f"{removed:,} taken out of the collection. Their files stay where they are."


def _fit(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    spec = arguments.get("spec")
    if spec:
        check_client_fit(spec)  # again: an older version or another program may have written the file of the job
    fitted = collection.fit(*([spec] if spec else []), progress=progress)
    told = ", ".join(f"{name} on {many(rows, 'picture')}" for name, rows in fitted.items())
    return {"fitted": fitted}, f"Fitted {told}." if fitted else "Nothing to fit."


def _map(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    drawn = collection.map(arguments.get("space"), progress=progress)
    return {"space": drawn.space, "points": len(drawn.ids)}, f"Drew {many(len(drawn.ids), 'picture')}."


def _duplicates(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    groups = collection.duplicates(arguments["tier"], space=arguments.get("space"), progress=progress)
    return {"tier": arguments["tier"], "groups": len(groups)}, f"{many(len(groups), 'group')}."


def _classify(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    predicted = collection.classes.predict(progress=progress)
    counts = predicted.classes
    return {
        "predicted": counts,
        "none": predicted.none,
    }, f"{sum(counts.values()):,} predicted, {predicted.none:,} none."


def _backup(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    if "target" not in arguments:  # the service was restarted without the option after the job was submitted
        raise InputError("The service has no directory for backups. Start it with --backup-dir DIR.")
    report = collection.backup(arguments["target"], progress)
    told = f"{many(report.copied, 'file')} copied, {report.skipped:,} unchanged, all verified."
    return asdict(report), told


KINDS: dict[str, Callable[[Collection, dict[str, Any], Progress], tuple[dict[str, Any], str]]] = {
    "add": _add,
    "refresh": _refresh,
    "remove": _remove,
    "fit": _fit,
    "map": _map,
    "duplicates": _duplicates,
    "classify": _classify,
    "backup": _backup,
}


def _report(report: Report) -> tuple[dict[str, Any], str]:
    told = asdict(report)
    skipped = dict(list(report.skipped.items())[:SKIPPED])
    told["skipped"], told["n_skipped"] = skipped, len(report.skipped)
    counts = {
        "added": report.added,
        "known already": report.copied,
        "changed": report.changed,
        "gone": report.gone,
        "skipped": len(report.skipped),
    }
    return told, ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "added") + "."


def _tell(out: TextIO) -> Progress:
    said: dict[str, float] = {}

    def progress(stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - said.get(stage, -EVERY_S) >= EVERY_S or done == total:
            said[stage] = now
            _send(out, {"stage": stage, "done": done, "total": total})

    return progress


def _send(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")  # undecodable names are escapes in JSON


def _be_continued() -> None:
    """Whoever is stopped (`courtesy`) when the service dies does not hear of it, and would keep the collection locked.

    Most systems continue, and hang up on, a group of processes that nobody is left to look after. Linux does not where
    its new parent is of the same session, such as the shell that is a container's first process.
    """
    with contextlib.suppress(AttributeError, OSError):  # not Linux
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGCONT)


def _die_with_service() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGCONT)  # those that read pictures end when this process does
    os._exit(1)


if __name__ == "__main__":
    main()
