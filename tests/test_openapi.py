"""The OpenAPI document in the manual: up to date, with valid examples, and linked."""

import json
import runpy
from pathlib import Path

import pytest

from lookalike.server import models

ROOT = Path(__file__).parents[1]
WRITER = runpy.run_path(str(ROOT / "docs-build" / "openapi.py"))
DOCUMENT = json.loads(WRITER["FILE"].read_text())  # creating it takes a second
SCHEMAS = DOCUMENT["components"]["schemas"]
EXAMPLES = [(name, example) for name, schema in SCHEMAS.items() for example in schema.get("examples", ())]


def test_the_openapi_document_in_the_manual_is_up_to_date():
    assert WRITER["FILE"].read_text() == WRITER["document"](), "run: python docs-build/openapi.py"
    assert "](openapi.json)" in (ROOT / "docs" / "server.md").read_text()


def test_every_body_of_a_request_has_an_example():
    bodies = [
        body["content"]["application/json"]["schema"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        if "application/json" in (body := operation.get("requestBody", {"content": {}}))["content"]
    ]
    names = {
        option["$ref"].rpartition("/")[2]
        for schema in bodies
        for option in schema.get("oneOf", schema.get("anyOf", [schema]))
        if "$ref" in option
    }
    assert len(names) > 10
    assert [name for name in sorted(names) if not SCHEMAS[name].get("examples")] == []


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_the_examples_are_valid(name, example):
    getattr(models, name).model_validate(example)
