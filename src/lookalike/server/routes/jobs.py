"""Jobs: asked for, watched, cancelled; and files that are sent to be added.

In: a folder below a root, files, a space. Out: a job, at once; the work is done by a process of its own. What was
answered is on the disk: nothing of it is lost when the service is killed.
"""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import StreamingResponse

from lookalike.collection import format_id
from lookalike.collection.specs import check_client_fit
from lookalike.errors import StoreError
from lookalike.images.sources import leads_inside
from lookalike.server.access import Role
from lookalike.server.events import HEADERS, describe
from lookalike.server.incoming import Incoming, keep, take_back
from lookalike.server.job_models import AddIn, BackupIn, FilesOut, FitIn, JobIn, JobOut, JobPath, JobsOut
from lookalike.server.jobs import LANES
from lookalike.server.ledger import Job
from lookalike.server.models import form
from lookalike.server.problems import Problem, missing, reply
from lookalike.server.served import Served, needs, person, served

MOST_FILES = 100
"""Files in one request."""

STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(needs("view"))])
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)]


@router.get("/jobs", response_model=JobsOut)
async def list_jobs(request: Request) -> Response:
    """Every job that is known, the newest first."""
    here, visible = served(request), served(request).visible(person(request))
    return reply(await here.work.run(request, lambda _: {"jobs": [describe(job, visible) for job in here.jobs.all()]}))


@router.post("/jobs", response_model=JobOut, status_code=202, dependencies=[Depends(needs("judge"))])
async def ask(request: Request, asked: JobIn) -> Response:
    """Ask for a job. Jobs that change the collection, and backups, need the role manage."""
    here, who = served(request), person(request)
    role: Role = "manage" if LANES[asked.kind] == "write" or isinstance(asked, BackupIn) else "judge"
    if not who.may(role):
        raise Problem(403, f"A job of the kind {asked.kind} needs the role {role}; {who.name} has {who.role}.")

    if isinstance(asked, BackupIn) and here.settings.backup_dir is None:
        raise Problem(403, "This service has no directory for backups. Start it with --backup-dir DIR.")

    def submit(_: object) -> dict[str, Any]:
        arguments = asked.model_dump(exclude={"kind"})
        if isinstance(asked, FitIn) and asked.spec is not None:
            check_client_fit(asked.spec)
        if isinstance(asked, AddIn):
            arguments["folder"] = str(_check_folder(here, asked.folder))
        return describe(here.jobs.submit(asked.kind, arguments, who.name), here.visible(who))

    return reply(await here.work.run(request, submit), 202)


@router.get("/jobs/{id}", response_model=JobOut)
async def one_job(request: Request, id: JobPath) -> Response:
    """One job."""
    here, who = served(request), person(request)
    return reply(await here.work.run(request, lambda _: describe(_job(here, id), here.visible(who))))


@router.delete("/jobs/{id}", response_model=JobOut, dependencies=[Depends(needs("judge"))])
async def cancel(request: Request, id: JobPath) -> Response:
    """Cancel a job, one's own or, with the role manage, anybody's. What it has committed stays."""
    here, who = served(request), person(request)
    job = _job(here, id)
    if job.author != who.name and not who.may("manage"):
        raise Problem(403, f"This job is {job.author}'s. Ask whoever manages the collection.")
    return reply(await here.work.run(request, lambda _: describe(here.jobs.cancel(job.id) or job, here.visible(who))))


@router.get("/jobs/{id}/events", response_class=StreamingResponse, responses=STREAM)
async def follow_one(request: Request, id: JobPath, last: LastEvent = None) -> Response:
    """How a job gets on, until it ends, as server-sent events."""
    here = served(request)
    return _stream(request, last, _job(here, id).id)


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def follow(request: Request, last: LastEvent = None) -> Response:
    """How all jobs get on, as server-sent events; first those that are not over."""
    return _stream(request, last, None)


@router.post(
    "/uploads/files",
    response_model=FilesOut,
    status_code=202,
    openapi_extra=form("files", several=True),
    dependencies=[Depends(needs("manage"))],
)
async def add_files(request: Request) -> Response:
    """Pictures to be added for good. All are on the disk when this is answered, or none; a job adds them."""
    here, who = served(request), person(request)
    async with request.form(max_files=MOST_FILES, max_fields=4) as sent_form:
        sent = [file for file in sent_form.getlist("files") if not isinstance(file, str)]
        if not sent:
            raise Problem(422, "Send pictures as the form's field 'files'.", field="files")
        async with here.uploading:  # until then, what is large is a file
            files = [(file.filename or "picture", await file.read()) for file in sent]

            def take(_: object) -> dict[str, Any]:
                kept = keep(here.collection.path, files)
                known = [here.collection.has([one.item]) for one in kept]
                try:
                    job = here.jobs.submit("add", {"folder": here.sent, "uploads": True}, who.name)
                except BaseException:
                    take_back(kept)
                    raise
                return {"job": describe(job, here.visible(who)), "files": list(map(_file, kept, known))}

            return reply(await here.work.run(request, take), 202)


def _file(kept: Incoming, known: bool) -> dict[str, Any]:
    return {"name": kept.name, "bytes": kept.bytes, "item": format_id(kept.item), "known": known}


def _job(here: Served, id: str) -> Job:
    found = here.jobs.get(int(id))
    if found is None:
        raise missing(f"There is no job {id}, or it was long ago.")
    return found


def _stream(request: Request, last: str | None, only: int | None) -> Response:
    here, headers = served(request), dict(request.scope["headers"])
    here.events.check()

    def may() -> bool:
        try:
            return here.access.identify(headers) is not None  # a token that was removed ends its streams, too
        except StoreError:  # the next request gets the error
            return False

    since = int(last) if last is not None and last.isascii() and last.isdigit() else None
    return StreamingResponse(
        here.events.stream(here.closing, since, only, may, here.visible(person(request))),
        media_type="text/event-stream",
        headers=HEADERS,
    )


def _check_folder(here: Served, text: str) -> Path:
    """A folder below a root, links followed. What is not below one is not told whether it exists."""
    roots = [str(root) for root in here.settings.roots]
    if not roots:
        raise Problem(403, "No folders may be added from. Start the service with --root DIR, or send files.")
    try:
        folder = Path(text).resolve()
        if not leads_inside(str(folder), roots):
            raise Problem(403, "This folder is not below one that may be added from; see the collection's roots.")
        there = folder.is_dir()
    except (OSError, ValueError, RuntimeError):
        there = False
    if not there:
        raise Problem(422, "There is no such folder below the roots.", field="folder")
    return folder
