"""The folder of `nix run .#airgap`: what it has, and a cluster of its images in a network without a route."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from tests.harness.cluster import REPOSITORY
from tests.harness.kubernetes import Kubernetes, running_kubernetes

from talos.system.process import run_command

FOLDER = REPOSITORY / "build/airgap"
FILES = {"README.md", "SHA256SUMS", "discovery", "images", "kubectl", "netboot", "talos.iso", "talosctl"}
HEAD = 4 << 20
"""Bytes of an ISO in which its folders are named."""


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    """A cluster on a host that reaches nothing but its own nodes."""
    with Path("/proc/self/ns/net").open("rb") as before:
        os.unshare(os.CLONE_NEWNET)
        try:
            with IPRoute() as route:
                route.link("set", index=1, state="up")
                assert not [*route.get_default_routes()]
            with running_kubernetes(
                tmp_path, controlplanes=1, workers=1, images=FOLDER / "images"
            ) as running:
                yield running
        finally:
            os.setns(before.fileno(), os.CLONE_NEWNET)


def test_a_cluster_comes_up_from_the_images(kubernetes: Kubernetes) -> None:
    command = kubernetes.command("get", "nodes", "--output=name")
    names = run_command([str(FOLDER / "kubectl"), *command[1:]]).stdout.split()
    assert len(names) == 2, names


def test_the_folder_is_whole(tmp_path: Path) -> None:
    assert {path.name for path in FOLDER.iterdir()} == FILES
    run_command(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=FOLDER)
    with (FOLDER / "talos.iso").open("rb") as iso:
        assert b"imagecache" in iso.read(HEAD)
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert "Client" in run_command([str(FOLDER / "talosctl"), "version", "--client"], env=home).stdout
    assert "--addr" in run_command([str(FOLDER / "discovery"), "--help"], env=home).stdout
