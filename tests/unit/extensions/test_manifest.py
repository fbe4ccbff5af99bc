"""Manifests of extensions, the list of an image's layers, and ranges of versions."""

from dataclasses import replace

import pytest

from talos.extensions.manifest import (
    Extension,
    Layer,
    format_layers,
    is_compatible,
    parse_layers,
    parse_manifest,
)
from talos.system.errors import UserError

EXTENSION = Extension(
    name="agent", version="1:2.3~b4", author="A: B", description="Two\nlines.", talos=">= v1.15.0"
)
MANIFEST = """
version: v1alpha1
metadata: {name: agent, version: "1.0", author: me, description: it,
  compatibility: {talos: {version: ">= v1.0.0"}}}
"""


def test_layers_survive_their_file() -> None:
    layers = (
        Layer(image="000.agent.sqsh", extension=EXTENSION),
        Layer(image="001.other.sqsh", extension=replace(EXTENSION, name="other", talos="")),
    )
    assert parse_layers(format_layers(layers)) == layers
    assert parse_layers("") == ()


def test_a_manifest() -> None:
    assert parse_manifest(MANIFEST, "agent").talos == ">= v1.0.0"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("v1alpha1", "v2", "agent: its schema is 'v2', not v1alpha1"),
        ("name: agent", "name: ../agent", "is no name of lower-case letters"),
        ('"1.0"', "1.0", "agent: version is no text (quote what looks like a number)"),
        (", author: me", "", "agent: author is no text"),
        ("author: me", "autor: me", "agent: unknown field 'autor'"),
        (">= v1.0.0", "newer", "compatibility: 'newer' is no range such as '>= v1.15.0'"),
        ("metadata: {", "metadata: [", "agent: is no YAML"),
        ("version: v1alpha1\nmetadata: {", "- {", "agent: the fields version, metadata are expected"),
    ],
)
def test_a_manifest_that_is_none(old: str, new: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_manifest(MANIFEST.replace(old, new), "agent")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("range", "fits"),
    [
        ("", True),
        (">= v1.15.0", True),
        (">= 1.15.0, < 1.16", True),
        (">=1.14.0 <1.15.0", False),
        ("< 1.0.0 || >= v1.15.0-alpha.1", True),
        ("!= 1.15.0", False),
        ("v1.15.0", True),
        ("> 1.15", False),
    ],
)
def test_a_range_of_versions(range: str, fits: bool) -> None:
    assert is_compatible(replace(EXTENSION, talos=range), "v1.15.0-alpha.0") is fits
    assert is_compatible(replace(EXTENSION, talos=range), "work tree")
