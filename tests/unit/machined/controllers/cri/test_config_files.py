"""What containerd reads: the settings of its plugins, and the mirrors of registries."""

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trio

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.containerd.config import find_version, make_folder_name
from talos.machined.containerd.toml import format_toml, merge, parse_toml
from talos.machined.controllers.cri.config_files import CRIConfigFilesController
from talos.machined.controllers.cri.customization import CustomizationConfigController
from talos.machined.controllers.cri.registries import RegistriesConfigController
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
REGISTRIES = """\
version: v1alpha1
machine:
  registries:
    mirrors:
      "*": {endpoints: ["http://10.0.0.1:5000"]}
      docker.io:
        endpoints: ["https://a.example/path", "https://b.example/v2/x"]
        overridePath: true
        skipFallback: true
    config:
      own.example:5000: {auth: {username: u, password: "p\\"\\\\"}, tls: {insecureSkipVerify: true}}
"""
CUSTOM = """\
---
apiVersion: v1alpha1
kind: CRICustomizationConfig
name: mine
content: |
  [plugins."io.containerd.cri.v1.runtime"]
  cdi_spec_dirs = ["/run/two"]
  [plugins."io.containerd.cri.v1.images"]
  pinned_images.sandbox = "mine.example/pause:1"
---
apiVersion: v1alpha1
kind: CRICustomizationConfig
name: old
content: |
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
  runtime_type = "io.containerd.runc.v2"
---
apiVersion: v1alpha1
kind: CRICustomizationConfig
name: wrong
content: "[["
---
apiVersion: v1alpha1
kind: CRIBaseRuntimeSpecConfig
overrides: {process: {rlimits: [{type: RLIMIT_NOFILE, soft: 1024, hard: 1024}]}}
"""
EXTENSION = """\
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "replaced.example/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
cdi_spec_dirs = ["/run/one"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
runtime_type = "io.containerd.runsc.v1"
"""
IMAGES, RUNTIME = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


async def test_files_follow_the_config(tmp_path: Path) -> None:
    state, log, restarts = MemoryState(), Log(write=lambda _: None), list[str]()

    async def restart() -> None:
        restarts.append("cri")

    async def configure(text: str) -> None:
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))

    async def settled(*words: str) -> None:
        def is_written(_: object) -> bool:
            text = (parts / "cri.toml").read_text(encoding="utf-8")
            return all(word in text for word in words)

        await wait_for(state, kinds.ETC_FILE_STATUS, "cri/conf.d/cri.toml", is_written)

    parts, image = tmp_path / "etc/cri/conf.d", tmp_path / "image"
    image.mkdir()
    (image / "10-runsc.part").write_text(EXTENSION, encoding="utf-8")
    (image / "30-wrong.part").write_text(f"[plugins.'{IMAGES}']\nregistry = 1\n", encoding="utf-8")
    await configure(REGISTRIES)
    async with trio.open_nursery() as nursery:
        controllers = [
            RegistriesConfigController(),
            CustomizationConfigController(),
            CRIConfigFilesController(log, restart, restrict_oom_score=True, extensions=image, root=tmp_path),
        ]
        nursery.start_soon(run_controllers, state, controllers)
        await settled("own.example")
        settings = read_toml(parts / "cri.toml")["plugins"]
        assert settings[RUNTIME]["restrict_oom_score_adj"]
        assert settings[IMAGES]["registry"] == {
            "config_path": "/etc/cri/conf.d/hosts",
            "configs": {"own.example:5000": {"auth": {"username": "u", "password": 'p"\\'}}},
        }
        assert stat.S_IMODE((parts / "cri.toml").stat().st_mode) == 0o600
        assert sorted(folder.name for folder in (parts / "hosts").iterdir()) == [
            "_default",
            "docker.io",
            "own.example_5000_",
        ]
        hub = read_toml(parts / "hosts/docker.io/hosts.toml")
        assert list(hub["host"]) == ["https://a.example/path", "https://b.example/v2/x"]
        assert (hub["server"], hub["override_path"]) == ("https://b.example/v2/x", True)
        others = read_toml(parts / "hosts/_default/hosts.toml")
        assert list(others["host"]) == ["http://10.0.0.1:5000/v2"]
        assert "server" not in others
        own = read_toml(parts / "hosts/own.example_5000_/hosts.toml")["host"]
        assert list(own) == ["http://10.0.0.1:5000/v2", "https://own.example:5000/v2"]
        assert own["https://own.example:5000/v2"]["skip_verify"]
        assert restarts == []

        await configure(f"version: v1alpha1\nmachine: {{}}\n{CUSTOM}")
        await settled("mine.example", "base-spec.json")
        settings = read_toml(parts / "cri.toml")["plugins"]
        # The extension's first, then the document's; a piece that does not go with the others is left out.
        assert settings[IMAGES]["pinned_images"]["sandbox"] == "mine.example/pause:1"
        assert (
            settings[RUNTIME]["containerd"]["runtimes"]["runsc"]["runtime_type"] == "io.containerd.runsc.v1"
        )
        assert settings[RUNTIME]["cdi_spec_dirs"] == ["/run/one", "/run/two"]
        assert settings[IMAGES]["registry"] == {"config_path": "/etc/cri/conf.d/hosts"}
        runc = settings[RUNTIME]["containerd"]["runtimes"]["runc"]
        assert runc["base_runtime_spec"] == "/etc/cri/conf.d/base-spec.json"
        old = read_toml(parts / "cri-2.toml")
        assert old["version"] == 2
        assert "crun" in old["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
        spec = json.loads((parts / "base-spec.json").read_text(encoding="utf-8"))
        assert spec["process"]["rlimits"] == [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}]
        assert spec["process"]["cwd"] == "/"
        assert list((parts / "hosts").iterdir()) == []
        assert set(restarts) == {"cri"}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("", 3),
        ("version = 4", 4),
        ('[plugins."io.containerd.grpc.v1.cri"]', 2),
        ('version = 3\n[plugins."io.containerd.grpc.v1.cri"]', 3),
        ('[plugins."io.containerd.grpc.v1.cri"]\n[plugins."io.containerd.cri.v1.runtime"]', 3),
        ("plugins = 1", 3),
    ],
)
def test_a_piece_is_in_the_format_of_its_version(text: str, version: int) -> None:
    assert find_version(parse_toml(text)) == version


@pytest.mark.parametrize("version", ["5", "0", "true", '"3"', "3.0", "[]"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(UserError, match="its version is"):
        find_version(parse_toml(f"version = {version}"))


def test_folders_of_registries() -> None:
    names = ("*", "a.example", "a.example:5000", "[fd00::1]:5000", "../../etc", "")
    assert [make_folder_name(name) for name in names] == [
        "_default",
        "a.example",
        "a.example_5000_",
        "[fd00::1]_5000_",
        "_.._etc",
        "_",
    ]


def test_tables_are_merged_and_lists_appended() -> None:
    assert merge({"a": {"b": [1]}, "c": 1}, {"a": {"b": [2], "d": "x"}, "c": 2}) == {
        "a": {"b": [1, 2], "d": "x"},
        "c": 2,
    }
    with pytest.raises(UserError, match=r"a\.b has another type than before: 'x' in place of \[1\]"):
        merge({"a": {"b": [1]}}, {"a": {"b": "x"}})


def test_what_is_written_is_what_is_read() -> None:
    table = {
        "a": 1,
        "b c": [True, 'x\n"\\\x7f\x1b', 1.5, {"k": "v"}],
        "d": {"e.f": {"g": "ü"}, "h": {}},
    }
    assert tomllib.loads(format_toml(table)) == table
