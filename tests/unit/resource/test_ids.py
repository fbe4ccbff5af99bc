"""The table of well-known resources."""

from collections.abc import Mapping
from typing import cast

from talos.resource import ids
from talos.resource.kind import is_kind


def test_each_resource_has_one_name() -> None:
    found: Mapping[str, tuple[object, str]] = {
        name: cast("tuple[object, str]", value)
        for name, value in vars(ids).items()
        if isinstance(value, tuple) and not name.startswith("_")
    }
    assert len(found) > 30
    kinds = [(kind.type, name) for kind, name in found.values() if is_kind(kind)]
    assert len(set(kinds)) == len(kinds) == len(found)
