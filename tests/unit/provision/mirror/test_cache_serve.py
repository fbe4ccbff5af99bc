"""``talosctl image cache-cert-gen`` and ``cache-serve``: what they write fits what they serve."""

import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.registry import Store, running_registry

from talos.config.documents.cri.registry_mirror import RegistryMirrorConfig
from talos.config.documents.security.trusted_roots import TrustedRootsConfig
from talos.config.read.loader import load
from talos.talosctl.cli.exit import Exit
from talos.talosctl.main import run

APP = "team/app:1"


@contextmanager
def serving(folder: Path, *arguments: str) -> Generator[None]:
    """The command, from its line that it serves until it is interrupted."""
    argv = [sys.executable, "-m", "talos.talosctl.main", "image", "cache-serve", "--image-cache-path=cache"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [*argv, *arguments], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "Ctrl+C ends it" in line:
                break
        else:
            raise AssertionError("it has ended")
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(REAL_TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_nodes_with_the_patches_read_a_cache_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    store = Store()
    store.add_image(APP, {"a": b"1"})
    with running_registry(store) as registry:
        host = f"127.0.0.1:{registry.port}"
        create = ["image", "cache-create", "--layout=flat", "--cosign-signatures=false"]
        assert run([*create, "--images", f"{host}/{APP}", "--image-cache-path", "cache"]) == 0
    assert run(["image", "cache-cert-gen", "--advertised-address", "127.0.0.1"]) == 0
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    flags = ["--address=127.0.0.1:0", "--tls-cert-file=tls.crt", "--tls-key-file=tls.key"]
    with serving(tmp_path, *flags, f"--mirror={host}"):
        (mirror,) = load((tmp_path / "image-cache-mirrors-patch.yaml").read_text()).documents
        (roots,) = load((tmp_path / "image-cache-patch.yaml").read_text()).documents
        assert isinstance(mirror, RegistryMirrorConfig)
        assert isinstance(roots, TrustedRootsConfig)
        assert mirror.name == host
        assert mirror.endpoints is not None
        url = f"{mirror.endpoints[0].url}/v2/team/app/manifests/1?ns={host}"
        trusting = ssl.create_default_context(cadata=roots.certificates)
        with urllib.request.urlopen(url, context=trusting) as reply:
            assert reply.headers["Docker-Content-Digest"] == store.tags["team/app", "1"]
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(url, context=ssl.create_default_context())


def test_an_address_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["image", "cache-cert-gen"]) == Exit.USAGE
    assert "--advertised-address" in capsys.readouterr().err
    assert run(["image", "cache-cert-gen", "--advertised-address", "example.org"]) == Exit.USAGE
    assert not [*tmp_path.iterdir()]
