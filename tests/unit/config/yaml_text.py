"""YAML as a reader other than ours takes it."""

from typing import Any

import yaml

_YAML: Any = yaml  # its annotations are partial


def read(text: str) -> Any:
    """One document."""
    return _YAML.safe_load(text)


def read_all(text: str) -> list[Any]:
    """Every document."""
    return list(_YAML.safe_load_all(text))


def write(value: Any) -> str:
    """One document as text."""
    return str(_YAML.safe_dump(value))
