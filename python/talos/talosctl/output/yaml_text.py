"""YAML as Go writes it: only true and false are booleans, dates and clock times are text."""

import re
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """PyYAML speaks YAML 1.1, where ``10:20`` is a number and ``no`` is false; Go does not."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own attribute


def _resolve(tag: str, pattern: str, first: str) -> None:
    for letter in first:
        rows = _Loader.yaml_implicit_resolvers.setdefault(letter, [])
        rows.append((f"tag:yaml.org,2002:{tag}", re.compile(pattern)))


_resolve("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolve("null", r"^(?:~|null|Null|NULL|)$", "~nN")
_resolve("int", r"^[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)$", "-+0123456789")
_resolve(
    "float", r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[0-9]+[eE][-+]?[0-9]+)$", "-+0123456789."
)
_Loader.yaml_implicit_resolvers[""] = [("tag:yaml.org,2002:null", re.compile(r"^$"))]


def parse_yaml(text: str) -> object:
    """The value of one document."""
    return yaml.load(text, _Loader)  # noqa: S506 - a safe loader


def dump_yaml(value: object) -> str:
    """A document with Go's indent of four."""
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(value, Dumper=dumper, sort_keys=False, indent=4, allow_unicode=True, width=2**30)
