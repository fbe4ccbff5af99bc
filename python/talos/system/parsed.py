"""Parts of a document of JSON or YAML whose form is not known."""

import json
from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """A part of a document, the very one; an empty one when it is none with keys."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def parse_object(text: bytes | str) -> dict[str, Any]:
    """An object in JSON; an empty one for anything else."""
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {}
