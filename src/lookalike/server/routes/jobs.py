"""Jobs: submit, follow, cancel; upload of files to add.

Responses do not wait for the job, which runs in a separate process. Submitted jobs and files are on disk before the
response is sent, so none is lost if the service is killed.
"""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import StreamingResponse

from lookalike.collection import check_client_fit, format_id, leads_inside
from lookalike.errors import StoreError
from lookalike.server.access import Role
from lookalike.server.job_events import HEADERS, job_json
from lookalike.server.jobs import MAX_ENDED, QUEUES, Job
from lookalike.server.models import (
    AddIn,
    BackupIn,
    FileOut,
    FilesOut,
    FitIn,
    JobIn,
    JobOut,
    JobPath,
    JobsOut,
    file_form,
)
from lookalike.server.problems import Problem, json_response, not_found
from lookalike.server.service import Service, needs_role, person_of, service_of
from lookalike.server.uploads import delete_files, save_files

MAX_FILES = 100
"""Maximum number of files in one request."""
STREAM_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(needs_role("view"))])
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)]


@router.get("/jobs", response_model=JobsOut)
async def list_jobs(request: Request) -> Response:
    """List all jobs, newest first."""
    service = service_of(request)
    visible = service.visible(person_of(request))
    return json_response(
        await service.lanes.run(request, lambda _: JobsOut(jobs=[job_json(job, visible) for job in service.jobs.all()]))
    )


@router.post("/jobs", response_model=JobOut, status_code=202, dependencies=[Depends(needs_role("judge"))])
async def submit(request: Request, asked: JobIn) -> Response:
    """Submit a job. Jobs that change the collection, and backups, need the role manage."""
    service, person = service_of(request), person_of(request)
    role: Role = "manage" if QUEUES[asked.kind] == "write" or isinstance(asked, BackupIn) else "judge"
    if not person.may(role):
        raise Problem(403, f"A job of kind {asked.kind} needs the role {role}; {person.name} has {person.role}.")
    if isinstance(asked, BackupIn) and service.settings.backup_dir is None:
        raise Problem(403, "The service has no directory for backups. Restart serve with --backup-dir DIR.")

    def queue(_: object) -> JobOut:
        arguments = asked.model_dump(exclude={"kind"})
        if isinstance(asked, FitIn) and asked.spec is not None:
            check_client_fit(asked.spec)
        if isinstance(asked, AddIn):
            arguments["folder"] = str(_check_folder(service, asked.folder))
        return job_json(service.jobs.submit(asked.kind, arguments, person.name), service.visible(person))

    return json_response(await service.lanes.run(request, queue), 202)


@router.get("/jobs/{id}", response_model=JobOut)
async def one_job(request: Request, id: JobPath) -> Response:
    """Return one job."""
    service, person = service_of(request), person_of(request)
    return json_response(
        await service.lanes.run(request, lambda _: job_json(_job(service, id), service.visible(person)))
    )


@router.delete("/jobs/{id}", response_model=JobOut, dependencies=[Depends(needs_role("judge"))])
async def cancel(request: Request, id: JobPath) -> Response:
    """Cancel a job. Users can cancel their own jobs; the role manage can cancel any. Committed changes are kept."""
    service, person = service_of(request), person_of(request)
    job = _job(service, id)
    if job.author != person.name and not person.may("manage"):
        raise Problem(403, f"This job belongs to {job.author}. Only its author and the role manage can cancel it.")
    return json_response(
        await service.lanes.run(
            request, lambda _: job_json(service.jobs.cancel(job.id) or job, service.visible(person))
        )
    )


@router.get("/jobs/{id}/events", response_class=StreamingResponse, responses=STREAM_RESPONSES)
async def follow_one(request: Request, id: JobPath, last: LastEvent = None) -> Response:
    """Stream the progress of a job until it ends, as server-sent events."""
    service = service_of(request)
    return _stream(request, last, _job(service, id).id)


@router.get("/events", response_class=StreamingResponse, responses=STREAM_RESPONSES)
async def follow(request: Request, last: LastEvent = None) -> Response:
    """Stream the progress of all jobs as server-sent events, starting with the unfinished ones."""
    return _stream(request, last, None)


@router.post(
    "/uploads/files",
    response_model=FilesOut,
    status_code=202,
    openapi_extra=file_form("files", several=True),
    dependencies=[Depends(needs_role("manage"))],
)
async def add_files(request: Request) -> Response:
    """Upload pictures and submit a job that adds them. All files are on disk before the response, or none is."""
    service, person = service_of(request), person_of(request)
    async with request.form(max_files=MAX_FILES, max_fields=4) as form:
        sent = [file for file in form.getlist("files") if not isinstance(file, str)]
        if not sent:
            raise Problem(422, "Send the pictures in the form field 'files'.", field="files")
        async with service.upload_slots:  # before this, a large file is on disk, not in memory
            files = [(file.filename or "picture", await file.read()) for file in sent]

            def save(_: object) -> FilesOut:
                saved = save_files(service.collection.path, files)
                shown = [
                    FileOut(
                        name=one.name,
                        bytes=one.bytes,
                        item=format_id(one.item),
                        known=service.collection.has([one.item]),
                    )
                    for one in saved
                ]
                try:
                    job = service.jobs.submit("add", {"folder": service.upload_folder, "uploads": True}, person.name)
                except BaseException:
                    delete_files(saved)
                    raise
                return FilesOut(job=job_json(job, service.visible(person)), files=shown)

            return json_response(await service.lanes.run(request, save), 202)


def _job(service: Service, id: str) -> Job:
    found = service.jobs.get(int(id))
    if found is None:
        raise not_found(f"There is no job {id}. Only the last {MAX_ENDED} jobs that have ended are stored.")
    return found


def _stream(request: Request, last: str | None, only: int | None) -> Response:
    service, headers = service_of(request), dict(request.scope["headers"])
    service.events.check()

    def may() -> bool:
        try:
            return service.access.identify(headers) is not None  # removing a token also ends its streams
        except StoreError:  # the next request gets the error
            return False

    since = int(last) if last is not None and last.isascii() and last.isdigit() else None
    return StreamingResponse(
        service.events.stream(service.closing, since, only, may, service.visible(person_of(request))),
        media_type="text/event-stream",
        headers=HEADERS,
    )


def _check_folder(service: Service, text: str) -> Path:
    """Return a folder inside an allowed one, with links resolved. Errors do not reveal whether other folders exist."""
    roots = [str(root) for root in service.settings.roots]
    if not roots:
        raise Problem(403, "No folder is allowed. Restart serve with --root DIR to allow one, or upload files.")
    try:
        folder = Path(text).resolve()
        if not leads_inside(str(folder), roots):
            raise Problem(403, "That folder isn't inside an allowed folder. Restart serve with --root to allow it.")
        exists = folder.is_dir()
    except (OSError, ValueError, RuntimeError):
        exists = False
    if not exists:
        raise Problem(422, "That folder does not exist. Choose another one inside an allowed folder.", field="folder")
    return folder
