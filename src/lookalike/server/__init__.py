"""The HTTP service of a collection and its page.

Start with `http_server.serve`, which runs `app.create_app` with uvicorn. A request passes, in this order,

- `http_server`: uvicorn and its limits for connections,
- `request_checks`: host, origin, credentials (`access`), rate (`rate_limits`), size and time,
- `static_files`: the files of the page, in the folder static,
- `routes`: one module for each noun of the API; `models` defines the JSON of every request and response,
- `service`: the state that all handlers share. A handler runs in a thread of `lanes`.

Errors become JSON in `problems`. Pictures are sent by `thumbnails`, received by `uploads`. Long work is queued in
`jobs`, run by a process of `job_worker` and followed by clients through `job_events`.
`maintenance` verifies and repairs the files that only the service uses; `settings` has all limits, `metrics` the
counters for Prometheus.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
