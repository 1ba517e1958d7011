"""Write the OpenAPI document of the service to docs/openapi.json.

Run it after changing a route or a model of the service: python docs-build/openapi.py
"""

import json
from pathlib import Path

from lookalike.server.app import create_api

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"


def document() -> str:
    """Return the document as JSON."""
    return json.dumps(create_api().openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(document())
