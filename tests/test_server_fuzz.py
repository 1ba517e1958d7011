"""The API, fuzzed from its OpenAPI document: responses to valid and almost valid requests match the document."""

import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lookalike.server.jobs import Jobs
from serving import WRITE, copy_shelf, running
from waiting import TIMEOUT_S

EXAMPLES = 8
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def service(shelf, tmp_path_factory):
    def spawn(_):
        raise OSError(0, "no processes here")  # submitted jobs fail immediately

    with (
        pytest.MonkeyPatch.context() as patch,
        running(copy_shelf(shelf, tmp_path_factory.mktemp("fuzzed"))) as running_service,
    ):
        patch.setattr(Jobs, "_spawn", spawn)
        yield running_service


@pytest.fixture(scope="module")
def schema(service):
    return schemathesis.openapi.from_dict(service.client.get("/api/v1/openapi.json").json())


def operations():
    """Return path and method of every operation in the manual's document; `test_openapi.py` compares it with ours."""
    document = json.loads((Path(__file__).parents[1] / "docs" / "openapi.json").read_text())
    return [
        (path, method.upper())
        for path, methods in document["paths"].items()
        for method in methods
        if not path.endswith("/events")  # a stream does not end
    ]


@pytest.mark.parametrize(("path", "method"), operations())
def test_responses_match_the_openapi_document(service, schema, path, method):
    operation = schema[path][method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def fuzz(case):
        answer = case.call(base_url=str(service.client.base_url), headers=WRITE, timeout=TIMEOUT_S)
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}

    fuzz()
