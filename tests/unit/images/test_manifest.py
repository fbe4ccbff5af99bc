"""Manifests, indexes and configs: as they should be, and as an attacker may send them."""

import hashlib
import json
from typing import Any

import pytest

from talos.images.manifest import (
    MAX_LAYERS,
    find_form,
    parse_config,
    parse_index,
    parse_manifest,
)
from talos.system.errors import UserError

DIGEST = f"sha256:{'0' * 64}"
PART: dict[str, Any] = {"digest": DIGEST, "size": 1, "mediaType": "x"}
MANIFEST: dict[str, Any] = {"schemaVersion": 2, "config": PART, "layers": [PART]}


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_manifest() -> None:
    manifest = parse_manifest(encode(MANIFEST), "here")
    assert (manifest.config.digest, len(manifest.layers), manifest.size) == (DIGEST, 1, 2)
    assert find_form(encode(MANIFEST), "", "here") == "manifest"


def test_a_chain_of_layers() -> None:
    """The example of the specification's own words: each name covers all below."""
    config = parse_config(encode({"rootfs": {"diff_ids": [DIGEST, DIGEST]}, "config": None}), "here")
    assert config.chain_ids == (
        DIGEST,
        f"sha256:{hashlib.sha256(f'{DIGEST} {DIGEST}'.encode()).hexdigest()}",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        bytes(5 << 20),
        encode({"schemaVersion": 1}),
        encode({**MANIFEST, "layers": None}),
        encode({**MANIFEST, "layers": [None]}),
        encode({**MANIFEST, "layers": [PART] * (MAX_LAYERS + 1)}),
        encode({**MANIFEST, "config": {**PART, "size": -1}}),
        encode({**MANIFEST, "config": {**PART, "size": 1 << 80}}),
        encode({**MANIFEST, "config": {**PART, "size": "1"}}),
        encode({**MANIFEST, "config": {**PART, "size": True}}),
        encode({**MANIFEST, "config": {**PART, "digest": "sha256:../../etc"}}),
        encode({**MANIFEST, "config": {**PART, "digest": "md5:0"}}),
        encode({**MANIFEST, "config": {**PART, "mediaType": {}}}),
    ],
)
def test_what_is_no_manifest_is_one_line(data: bytes) -> None:
    with pytest.raises(UserError) as caught:
        parse_manifest(data, "image x")
    assert str(caught.value).startswith("image x: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"manifests": {}},
        {"manifests": []},
        {"manifests": [None, 1, {"platform": 1}]},
        {"manifests": [{**PART, "platform": {"os": "linux", "architecture": "s390x"}}]},
        {"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]},
    ],
)
def test_an_index_without_our_image(value: object) -> None:
    with pytest.raises(UserError, match="image x: "):
        parse_index(encode(value), "image x")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"rootfs": {"diff_ids": ["x"]}},
        {"rootfs": {"diff_ids": [DIGEST]}, "config": {"Env": "A=B"}},
        {"rootfs": {"diff_ids": [DIGEST]}, "config": {"Cmd": [1]}},
    ],
)
def test_what_is_no_config(value: object) -> None:
    with pytest.raises(UserError, match="image x: "):
        parse_config(encode(value), "image x")
