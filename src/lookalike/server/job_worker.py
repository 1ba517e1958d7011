"""The process of a job: opens the collection, runs the job, and reports progress.

It reads one line of JSON from standard input: the collection, the folders that links may lead into, the address of a
cluster, the kind of job and its arguments. It writes lines of JSON to standard output: {"stage", "done", "total"} for
progress, and at the end {"result", "message"} or {"error"}, with a "trace" for an unexpected exception. When the
service ends, standard input closes, and this process ends, too. The store survives a kill.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from lookalike.cluster import connected
from lookalike.collection import (
    CORES,
    Changed,
    Collection,
    Report,
    check_client_fit,
    describe_types,
    leads_inside,
    parse_id,
)
from lookalike.errors import InputError, LookalikeError
from lookalike.server.settings import job_threads
from lookalike.server.uploads import FOLDER, hide_removed, show_removed
from lookalike.system import lower_priority
from lookalike.text import many
from lookalike.types import Progress

WORKERS = job_threads(CORES)
"""Number of processes that read pictures for a job."""
NICE = 19
"""Niceness of jobs (the lowest priority)."""
REPORT_S = 0.1
"""Minimum interval between two messages about the same stage."""
LOCK_WAIT_S = 24 * 3_600.0
"""How long a job waits for another writer, such as a command. Users can cancel a waiting job."""
MAX_SKIPPED = 100
"""Maximum number of skipped files that are stored with their reasons."""


def main() -> None:
    """Run one job, at low priority."""
    lower_priority(NICE)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # all other output goes to standard error
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_die_with_service, daemon=True).start()
    try:
        with (
            connected(order["cluster"]) as cluster,
            Collection(
                order["collection"], wait_s=LOCK_WAIT_S, within=order["within"], cluster=cluster, device=order["device"]
            ) as collection,
        ):
            result, message = KINDS[order["kind"]](collection, order["arguments"], _reporter(out))
    except LookalikeError as error:
        _send(out, {"error": {"kind": type(error).__name__, "message": str(error)}})
        return
    except Exception as error:  # noqa: BLE001 — a bug, so another attempt would fail, too
        kind = type(error).__name__
        message = f"{kind}: {error}. This is a bug in Lookalike. The log of the service has the traceback."
        _send(out, {"error": {"kind": kind, "message": message}, "trace": traceback.format_exc()})
        return
    _send(out, {"result": result, "message": message})


def _add(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    folder = arguments["folder"]
    if arguments.get("uploads"):  # the collection may have been moved
        folder = os.path.realpath(collection.path / FOLDER)
    elif not leads_inside(folder, arguments["roots"]):  # checked again: a link may have changed since the request
        raise InputError(f"{folder} isn't inside an allowed folder. Restart serve with --root {folder} to allow it.")
    return _report(collection.add(folder, progress=progress, workers=WORKERS))


def _refresh(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    return _report(collection.refresh(progress=progress, workers=WORKERS))


def _remove(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    present = [
        number for item in arguments["items"] if (number := parse_id(item)) is not None and collection.has([number])
    ]
    paths = [path for item in collection.get(present).values() for path in item.paths]
    removed = collection.remove(*present, author=arguments.get("author")) if present else Changed(0)
    hide_removed(collection.path, paths)
    return {
        "removed": int(removed),
        "action": removed.action,
    }, f"Removed {many(removed, 'picture')} from the collection. Files are kept."


def _undo(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    number = int(arguments["action"])
    show_removed(collection.path, collection.removed_paths(number))
    restored = collection.undo(number, author=arguments.get("author"), progress=progress, workers=WORKERS)
    left = collection.action(number).count - restored
    lost = f" {many(left, 'picture')} could not be brought back: the files are missing." if left > 0 else ""
    message = f"Brought {many(restored, 'picture')} back.{lost}"
    return {"restored": int(restored), "action": restored.action}, message


def _fit(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    spec = arguments.get("spec")
    if spec:
        check_client_fit(spec)  # checked again: an older version or another program may have stored the job
    fitted = collection.fit(*([spec] if spec else []), progress=progress)
    summary = ", ".join(f"{name} on {many(rows, 'picture')}" for name, rows in fitted.items())
    return {"fitted": fitted}, f"Fitted {summary}." if fitted else "Nothing to fit."


def _map(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    drawn = collection.map(arguments.get("space"), progress=progress)
    return {"space": drawn.space, "points": len(drawn.ids)}, f"The map shows {many(len(drawn.ids), 'picture')}."


def _duplicates(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    groups = collection.duplicates(arguments["tier"], space=arguments.get("space"), progress=progress)
    message = f"Found {many(len(groups), 'group')} of duplicates." if groups else "No duplicates found."
    return {"tier": arguments["tier"], "groups": len(groups)}, message


def _classify(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    predicted = collection.classes.predict(progress=progress)
    made = many(sum(predicted.classes.values()), "suggestion")
    unmatched = f"{many(predicted.none, 'picture')} {'matches' if predicted.none == 1 else 'match'} no class"
    return {"predicted": predicted.classes, "none": predicted.none}, f"{made} made; {unmatched}."


def _evaluate(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    found = collection.classes.evaluate(progress=progress)
    tested, of = many(found.pictures, "labelled picture"), many(found.classes, "class", "classes")
    return found.to_json(), f"The class is predicted correctly for {100 * found.accuracy:.0f} % of {tested} in {of}."


def _backup(collection: Collection, arguments: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str]:
    if "target" not in arguments:  # the service was restarted without the option after the job was submitted
        raise InputError("The service has no directory for backups. Restart serve with --backup-dir DIR.")
    report = collection.backup(arguments["target"], progress)
    summary = f"{many(report.copied, 'file')} copied, {report.skipped:,} unchanged, all verified."
    return asdict(report), summary


KINDS: dict[str, Callable[[Collection, dict[str, Any], Progress], tuple[dict[str, Any], str]]] = {
    "add": _add,
    "refresh": _refresh,
    "remove": _remove,
    "undo": _undo,
    "fit": _fit,
    "map": _map,
    "duplicates": _duplicates,
    "classify": _classify,
    "evaluate": _evaluate,
    "backup": _backup,
}


def _report(report: Report) -> tuple[dict[str, Any], str]:
    result = asdict(report)
    skipped = dict(list(report.skipped.items())[:MAX_SKIPPED])
    result["skipped"], result["n_skipped"] = skipped, len(report.skipped)
    del result["known_skipped"]  # the service lists all skipped files
    counts = {
        "added": report.added,
        "already in the collection": report.copied,
        "changed": report.changed,
        "missing": report.gone,
        "skipped": len(report.skipped),
        "skipped as before": len(report.known_skipped),
    }
    message = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "added") + "."
    return result, f"{message} {describe_types(report.other_types)}".strip()


def _reporter(out: TextIO) -> Progress:
    reported: dict[str, float] = {}

    def progress(stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - reported.get(stage, -REPORT_S) >= REPORT_S or done == total:
            reported[stage] = now
            _send(out, {"stage": stage, "done": done, "total": total})

    return progress


def _send(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")  # JSON escapes undecodable names


def _die_with_service() -> None:
    """End this process when standard input closes."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
