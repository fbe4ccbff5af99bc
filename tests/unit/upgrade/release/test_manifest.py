"""Manifests of releases: what is accepted, what is refused, what may replace what."""

import itertools
import json
import random
from typing import Any

import pytest

from talos.config.read.loader import load
from talos.system.errors import UserError
from talos.upgrade.release.features import find_used, list_features
from talos.upgrade.release.manifest import (
    check_commit_time,
    check_release,
    find_oldest,
    find_version,
    format_release,
    is_older,
    parse_commit_time,
    parse_release,
)

from .releases import make_document, parse

FILE = {"name": "vmlinuz", "size": 5, "sha256": "0" * 64}


def test_a_manifest_keeps_everything() -> None:
    release = parse()
    assert parse_release(format_release(release)) == release
    assert release.size == sum(file["size"] for file in make_document()["files"])
    files = make_document()["files"]
    assert format_release(parse(files=files[::-1])) == format_release(parse(files=files)), "builds are equal"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": "1.15"}, "is no version"),
        ({"version": "v1.15.1000000"}, "version: 'v1.15.1000000' is no version"),
        ({"version": "v1.15.0-beta.1000000"}, "is no version"),
        ({"version": "v1.15.0\n"}, "is not a word"),
        ({"minimum_version": "1.14"}, "minimum_version: '1.14' is no version"),
        ({"commit": "a b"}, "commit: 'a b' is not a word"),
        ({"commit": "a" * 65}, "commit: 'a{65}' is not a word"),
        ({"architecture": 7}, "architecture: '7' is not a word"),
        ({"files": []}, "lacks vmlinuz, initramfs, cmdline"),
        ({"files": {}}, "files is no list"),
        ({"files": [FILE] * 65}, "files is no list of at most 64"),
        ({"files": [FILE, FILE]}, "names a file twice"),
        ({"files": [FILE | {"name": "../vmlinuz"}]}, "is no name of a file"),
        ({"files": [FILE | {"name": ".."}]}, "is no name of a file"),
        ({"files": [FILE | {"name": "/vmlinuz"}]}, "is no name of a file"),
        ({"files": [FILE | {"size": 0}]}, "0 is no size"),
        ({"files": [FILE | {"size": -1}]}, "-1 is no size"),
        ({"files": [FILE | {"size": True}]}, "True is no size"),
        ({"files": [FILE | {"size": "5"}]}, "5 is no size"),
        ({"files": [FILE | {"size": (1 << 30) + 1}]}, "vmlinuz: 1073741825 is no size from 1 to 1073741824"),
        ({"files": [FILE | {"sha256": "f" * 63}]}, "is not 64 hexadecimal digits"),
        ({"files": [FILE | {"sha256": "F" * 64}]}, "is not 64 hexadecimal digits"),
        ({"files": [FILE | {"sha256": 0}]}, "is not 64 hexadecimal digits"),
        ({"files": [FILE | {"mode": 7}]}, "a file needs exactly the fields"),
        ({"files": [[*FILE]]}, "a file needs exactly the fields"),
        ({"files": [FILE | {"name": "/" * 9999}]}, "is no name of a file"),
        ({"files": [FILE | {"size": 10**999}]}, "is no size"),
        ({"commit": "a" * 9999}, "is not a word"),
        ({"surprise": 1}, "needs exactly the fields"),
        ({"features": "all"}, "features is no list"),
        ({"features": ["a"] * 513}, "features is no list of at most 512"),
        ({"features": [7]}, "features: '7' is not a word"),
    ],
)
def test_a_wrong_manifest_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        parse(**changes)
    assert len(str(caught.value)) < 200, "whatever the manifest has"


def test_a_manifest_may_be_as_large_as_this() -> None:
    files = [FILE, FILE | {"name": "initramfs", "size": 1}, FILE | {"name": "cmdline", "size": 1 << 30}]
    files += [FILE | {"name": f"{number:064}"} for number in range(61)]
    release = parse(files=files, features=["a"] * 512, commit="a" * 64)
    assert (len(release.files), len(release.features), release.commit) == (64, 512, "a" * 64)
    assert (release.files["initramfs"].size, release.files["cmdline"].size) == (1, 1 << 30)
    assert parse_release(VALID.ljust(65536)) == parse()


def test_one_signed_program_starts_without_other_files() -> None:
    assert [*parse(files=[FILE | {"name": "vmlinuz.efi"}]).files] == ["vmlinuz.efi"]


VALID = json.dumps(make_document()).encode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is no JSON"),
        (b"[]", "needs exactly the fields"),
        (b"\xff", "is no JSON"),
        (b"[" * 60000, "is no JSON"),
        (b'{"version": "v1.15.0", ' + VALID[1:], "a key appears twice"),
        (VALID.ljust(65537), "has 65537 bytes, at most 65536 are read"),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(UserError, match=f"release manifest: .*{text}"):
        parse_release(data)


def test_altered_bytes_never_end_in_another_error() -> None:
    chance = random.Random(7)
    data = json.dumps(make_document()).encode()
    for _ in range(3000):
        altered = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            altered[chance.randrange(len(altered))] = chance.randrange(256)
        try:
            parse_release(bytes(altered))
        except UserError:
            continue


@pytest.mark.parametrize(
    ("version", "running", "force", "text"),
    [
        ("v1.15.0", "v1.14.3", False, ""),
        ("v1.15.0", "v1.15.0", False, ""),
        ("v1.15.0", "v1.15.0-rc.1", False, ""),
        ("v1.15.0-rc.2", "v1.15.0-beta.11", False, ""),
        ("v1.15.0-rc.1", "v1.15.0", False, "is older than the running v1.15.0; force allows it"),
        ("v1.15.0-rc.1", "v1.15.0", True, ""),
        ("v1.16.1", "v1.14.0", False, "minor versions are skipped; force allows it"),
        ("v1.16.1", "v1.14.0", True, ""),
        ("v2.15.0", "v1.15.0", False, "minor versions are skipped; force allows it"),
        ("v1.15.0", "v1.13.9", True, "can replace v1.14.0 or newer, not v1.13.9"),
        ("v1.15.0", "unknown", False, ""),
    ],
)
def test_what_may_replace_what(version: str, running: str, force: bool, text: str) -> None:
    release = parse(version=version)
    problems = check_release(release, version=running, architecture="amd64", force=force)
    assert (text in "; ".join(problems)) if text else problems == []


def test_versions_have_an_order() -> None:
    versions = ["v1.9.10", "v1.15.0-alpha.9", "v1.15.0-beta.0", "v1.15.0-beta.10", "v1.15.0-rc.0"]
    versions += ["v1.15.0", "v1.15.1", "v1.16.0", "v2.0.0"]
    for older, newer in itertools.pairwise(versions):
        assert (is_older(older, newer), is_older(newer, older), is_older(newer, newer)) == (
            True,
            False,
            False,
        )
        assert not is_older("unknown", newer)
        assert not is_older(newer, "unknown")


@pytest.mark.parametrize(
    ("version", "oldest"), [("v1.15.3-rc.1", "v1.14.0"), ("v1.1.0", "v1.0.0"), ("v2.0.1", "v2.0.0")]
)
def test_a_release_replaces_the_minor_version_before(version: str, oldest: str) -> None:
    assert find_oldest(version) == oldest


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("registry.example/os/installer:v1.15.0", "v1.15.0"),
        ("installer:v1.15.0-beta.1@sha256:0123", "v1.15.0-beta.1"),
        ("registry.example:5000/os/installer", ""),
        ("v1.15.0:5000/installer", ""),
        ("installer:latest", ""),
    ],
)
def test_a_tag_may_be_a_version(reference: str, version: str) -> None:
    assert find_version(reference) == version


def test_another_architecture_is_refused() -> None:
    problems = check_release(parse(architecture="arm64"), version="v1.15.0", architecture="amd64", force=True)
    assert problems == ["the release is for arm64, this machine is amd64"]


def test_a_release_that_lacks_what_is_in_use_is_refused() -> None:
    used = ["ab-slots", "config.VRFConfig", "extension.qemu-guest-agent"]
    problems = check_release(parse(), version="v1.15.0", architecture="amd64", features=used)
    assert problems == [
        (
            "the release v1.15.0 lacks what this machine uses: "
            "config.VRFConfig, extension.qemu-guest-agent; force allows it"
        )
    ]
    assert not check_release(parse(), version="v1.15.0", architecture="amd64", features=used, force=True)


def test_features_have_an_order_so_that_builds_are_equal() -> None:
    extensions = [feature for feature in list_features(["b", "c", "a", "b"]) if "extension." in feature]
    assert extensions == ["extension.a", "extension.b", "extension.c"]
    first, *kinds = list_features()
    assert first == "ab-slots"
    assert kinds == sorted(set(kinds))


def test_what_a_config_puts_to_use() -> None:
    text = """\
apiVersion: v1alpha1
kind: HostnameConfig
hostname: node-1
---
apiVersion: v1alpha1
kind: ContainerConfig
name: a
"""
    # The second has no effect yet, so no release can lack it.
    used = find_used(load(text.encode()), ["qemu-guest-agent"])
    assert used == ("ab-slots", "config.HostnameConfig", "extension.qemu-guest-agent")
    assert find_used(None) == ("ab-slots",)
    assert set(used) <= set(list_features(["qemu-guest-agent"]))
    assert set(used) - set(list_features()) == {"extension.qemu-guest-agent"}


@pytest.mark.parametrize(
    ("built", "version", "force", "problem"),
    [
        (1_763_900_000, "v1.15.0", False, ""),
        (1_763_900_001, "v1.15.0", False, ""),
        (1_763_899_999, "v1.15.0", False, "a build of 2025-11-23 12:13:19 UTC, the running v1.15.0 is of"),
        (1_763_899_999, "v1.15.0", True, ""),
        (0, "v1.15.0", False, "a build without a time"),
        (0, "v1.15.1", False, ""),
    ],
)
def test_of_two_builds_of_a_version_the_older_one_is_refused(
    built: int, version: str, problem: str, *, force: bool
) -> None:
    release = parse(version=version)
    found = check_commit_time(release, built, version="v1.15.0", running=1_763_900_000, force=force)
    assert (problem in "; ".join(found), len(found)) == (True, int(bool(problem)))
    assert check_commit_time(release, built, version="v1.15.0", running=0) == []


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1763900000\n", 1_763_900_000),
        ("9" * 11, 99_999_999_999),
        ("9" * 12, 0),
        ("", 0),
        ("-5", 0),
        ("\u0663", 0),
    ],
)
def test_a_commits_time(text: str, time: int) -> None:
    assert parse_commit_time(text) == time
