"""An archive that has moved on, from end to end: the fetcher itself, apt, Nix and an archive on loopback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, override

import pytest
from tests.unit.fetch.debs import publish

PKGS = Path(__file__).parents[3] / "pkgs"
ROOTS = """
[groups]
[debian]
suite = "trixie"
components = ["main"]
[debian.roots.bootstrap]
packages = ["busybox-static"]
[debian.roots.app]
packages = ["app"]
[wheels]
python = "3.13"
[wheels.sets]
build = {}
client = {}
dev = {}
envoy = {}
image = {}
site = {}
[go]
toolchain = "1.0"
[go.sets]
"""
FLAKE = """{
  outputs = _: {
    packages.x86_64-linux =
      let make = name: text: derivation { inherit name; builder = text; system = "x86_64-linux"; };
      in { app = make "app" (builtins.readFile ./pkgs/locks/debian.json); other = make "other" "/bin/sh"; };
  };
}"""
PROGRAMS = ("git", "nix-store", "nix-hash")
FIRST = {"busybox-static": ("1", ""), "app": ("1", "libapp1"), "libapp1": ("1", "")}
SECOND = {"busybox-static": ("1", ""), "app": ("2", "libapp2"), "libapp2": ("2", "")}
"""A newer app, with another dependency."""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("apt-get"), reason="there is no apt on this machine"),
]


class Handler(SimpleHTTPRequestHandler):
    @override
    def do_GET(self) -> None:
        """Answer apt with the file itself: times of files, in seconds, can't distinguish two publications."""
        del self.headers["If-Modified-Since"]
        super().do_GET()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep pytest's output clean."""


@dataclass(kw_only=True)
class Checkout:
    """A repository with locks of three packages, and the archive that they are from."""

    folder: Path
    archive: Path
    uri: str

    def fetch(self, *words: str, store: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the fetcher with a store of its own."""
        path = self.folder.parent / store
        usual = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        mirror = {"DEBIAN_MIRROR": f"[trusted=yes] {self.uri}/debian"}
        config = {"NIX_CONFIG": f"experimental-features = nix-command\nbuild-users-group =\nstore = {path}"}
        return subprocess.run(
            [sys.executable, "-B", str(self.folder / "pkgs/fetch"), *words],
            env=usual | mirror | config | env,
            text=True,
            capture_output=True,
            check=False,
        )

    def build(self, root: str, *, store: str) -> subprocess.CompletedProcess[str]:
        """Build the inputs of a root as the flake names them: in a store of its own, without a network."""
        path = self.folder.parent / store
        shutil.copyfile(PKGS / "inputs.nix", self.folder / "pkgs/inputs.nix")
        inputs = f"(import {self.folder}/pkgs/inputs.nix).debs.{root}"
        config = f"sandbox = false\nbuild-users-group =\nsubstituters =\nstore = {path}"
        return subprocess.run(
            ["unshare", "--net", "nix-build", "--no-out-link", "--expr", inputs],
            env={**os.environ, "NIX_CONFIG": config},
            text=True,
            errors="replace",
            capture_output=True,
            check=False,
        )

    def lock(self) -> dict[str, Any]:
        """Read the lock."""
        return json.loads((self.folder / "pkgs/locks/debian.json").read_text())

    def versions(self) -> dict[str, str]:
        """Return what is locked."""
        return {name: entry["version"] for name, entry in self.lock()["packages"].items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("served")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def checkout(served: tuple[Path, str], tmp_path: Path) -> Checkout:
    """A commit whose lock is of the archive's first day, which a snapshot has; by now it has moved on."""
    folder, uri = served
    root = tmp_path / "checkout"
    shutil.copytree(PKGS / "fetch", root / "pkgs/fetch", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "pkgs/locks").mkdir()
    (root / "flake.nix").write_text(FLAKE)
    (root / "pkgs/roots.toml").write_text(ROOTS)
    (root / "pkgs/locks/go.json").write_text('{"modules": {}, "sets": {"toolchain": []}}')
    for name in ("image", "client", "build", "dev", "site", "envoy"):
        (root / f"pkgs/locks/wheels-{name}.txt").touch()
    (root / "pkgs/locks/debian.json").write_text('{"packages": {}, "roots": {}}')
    made = Checkout(folder=root, archive=folder / "debian", uri=uri)
    publish(made.archive, "trixie", FIRST)
    done = made.fetch("lock", "debian", store="first")
    assert done.returncode == 0, done.stderr
    shutil.copytree(made.archive, folder / "then/debian" / made.lock()["snapshot"], dirs_exist_ok=True)
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "pkgs", "flake.nix"], [*identity, "commit", "-q", "-m", "locks"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    publish(made.archive, "trixie", SECOND)
    return made


def test_newer_versions_are_resolved_and_shown_first_and_last(checkout: Checkout) -> None:
    done = checkout.fetch(store="second")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "fetch: the archive no longer has 2 of the locked packages: app 1, libapp1 1" in lines
    table = [line.split() for line in lines if line.startswith("  ")]
    assert table == [
        ["PACKAGE", "LOCKED", "NOW"],
        ["app", "1", "2"],
        ["libapp1", "1", "-"],
        ["libapp2", "-", "2"],
    ]
    assert lines[-1].startswith(
        "fetch: WARNING: the locks are not the commit's: app 1 -> 2, libapp1 1 -> -, libapp2"
    )
    assert checkout.versions() == {"busybox-static": "1", "app": "2", "libapp2": "2"}
    again = checkout.fetch(store="second").stderr.splitlines()
    assert again[0] == again[-1] == lines[-1]


def test_locked_refuses_and_names_the_remedies(checkout: Checkout) -> None:
    done = checkout.fetch(store="second", LOCKED="1")
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if "LOCKED=1" in line]
    for remedy in ("app 1", "DEBIAN_SNAPSHOT", "FETCH_MIRROR", "make locks"):
        assert remedy in error
    assert checkout.versions() == {"busybox-static": "1", "app": "1", "libapp1": "1"}


def test_a_snapshot_of_the_locks_day_is_taken_before_newer_versions(checkout: Checkout) -> None:
    template = f"{checkout.uri}/then/{{archive}}/{{date}}"
    done = checkout.fetch(store="second", LOCKED="1", DEBIAN_SNAPSHOT=template)
    assert done.returncode == 0, done.stderr
    assert "WARNING: the locks" not in done.stderr
    assert checkout.versions() == {"busybox-static": "1", "app": "1", "libapp1": "1"}


def test_locks_refreshes_on_purpose_with_the_table(checkout: Checkout) -> None:
    done = checkout.fetch("lock", "debian", store="second")
    assert done.returncode == 0, done.stderr
    assert "  app      1       2" in done.stderr.splitlines()
    assert "fetch: the new versions, for the commit:" in done.stderr
    assert done.stderr.splitlines()[-1] == "fetch: 1 of 2 packages of the flake are built anew: app"
    again = checkout.fetch("lock", "debian", store="second")
    assert again.stderr.splitlines()[-1] == "fetch: the locks are as they were"


def test_a_machine_without_clients_fetches_and_a_mirror_needs_no_network(
    checkout: Checkout, tmp_path: Path
) -> None:
    publish(checkout.archive, "trixie", FIRST)
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in PROGRAMS:
        (bare / program).symlink_to(str(shutil.which(program)))
    done = checkout.fetch(store="bare", LOCKED="1", PATH=str(bare))
    assert done.returncode == 0, done.stderr
    assert "fetch: Debian packages 1-3 of 3" in done.stderr

    copied = checkout.fetch("mirror", str(tmp_path / "mirror"), store="bare", LOCKED="1", PATH=str(bare))
    assert copied.returncode == 0, copied.stderr
    assert len(list((tmp_path / "mirror").iterdir())) == 3
    offline = {"FETCH_MIRROR": str(tmp_path / "mirror"), "DEBIAN_MIRROR": "http://127.0.0.1:1/debian"}
    done = checkout.fetch(store="offline", LOCKED="1", PATH=str(bare), **offline)
    assert done.returncode == 0, done.stderr
    assert "all 4 inputs are in the store" in done.stderr
    built = checkout.build("app", store="offline")
    assert built.returncode == 0, built.stderr
    missing = checkout.build("app", store="empty")
    assert "missing input app_1_amd64.deb: run `make fetch`" in missing.stderr
