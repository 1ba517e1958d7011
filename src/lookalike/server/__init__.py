"""The HTTP service of a collection and its web page.

Start with `http_server.serve`, which runs `app.create_app` with uvicorn. A request passes through these modules:

1. `http_server`: uvicorn and its limits for connections.
2. `request_checks`: host, origin, credentials (`access`), rate (`rate_limits`), size and time.
3. `static_files`: the files of the page, in the folder `static`.
4. `routes`: one module per noun of the API. `models` defines the JSON of every request and response.
5. `service`: the state that all handlers share. Handlers run in the threads of `lanes`.

`problems` converts errors to JSON. `thumbnails` sends pictures, `uploads` receives them. `jobs` queues long-running
tasks, `job_worker` runs each in a process, and `job_events` reports their progress to clients. `maintenance` verifies
and repairs the files that only the service uses. `settings` defines all limits, `metrics` the counters for Prometheus.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
