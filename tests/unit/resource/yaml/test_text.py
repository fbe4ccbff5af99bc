"""The style of YAML: tests/data/yaml/texts.json has what upstream's encoder writes for a text."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from talos.resource.yaml.text import to_yaml

_YAML: Any = yaml  # its annotations are partial
ROWS: list[list[str]] = json.loads((Path(__file__).parents[3] / "data/yaml/texts.json").read_text("utf-8"))


def read(text: str) -> Any:
    return _YAML.safe_load(text)


@pytest.mark.parametrize("row", ROWS, ids=[repr(row[0][:20]) for row in ROWS])
def test_text(row: list[str]) -> None:
    """Each row has the text, how it stands as a value, and as an item where that differs."""
    text, value, item = row[0], row[1], row[-1]
    assert to_yaml({"k": text}) == f"k: {value}\n"
    assert to_yaml({"k": [text, "x"]}) == f"k:\n    - {item}\n    - x\n"
    assert read(to_yaml({"k": [text, {"k": text}]})) == {"k": [text, {"k": text}]}


@pytest.mark.parametrize(
    "text", ["\u2028", "a\u2029b", "\n a", " \n", "a" * 200, "a: b\nc", "\ta\nb", "=", "2001-13-14"]
)
def test_what_other_readers_would_take_amiss_is_quoted(text: str) -> None:
    written = to_yaml({text: {"k": text}})
    assert read(written) == {text: {"k": text}}
    assert "? " not in written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "null\n"),
        (True, "true\n"),
        (-5, "-5\n"),
        (1.0, "1\n"),
        (0.1, "0.1\n"),
        (1e300, "1e+300\n"),
        (float("inf"), ".inf\n"),
        (float("nan"), ".nan\n"),
        ("a\nb\n", "|\n    a\n    b\n"),
        ({}, "{}\n"),
        ([], "[]\n"),
        ({"a": {}, "b": [], "c": {"d": {"e": 1}}}, "a: {}\nb: []\nc:\n    d:\n        e: 1\n"),
        (
            {"a": [{"b": 1, "c": {"d": 2}}, [1, [2]]]},
            "a:\n    - b: 1\n      c:\n        d: 2\n    - - 1\n      - - 2\n",
        ),
        ({"a": [{"b": "x\ny\n"}]}, "a:\n    - b: |\n        x\n        y\n"),
    ],
)
def test_shape(value: Any, written: str) -> None:
    assert to_yaml(value) == written
