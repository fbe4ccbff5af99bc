"""Services of extensions: from the definition to the row of the table and the container."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from talos.api.definitions.network_pb2 import StatusSpec
from talos.api.definitions.runtime_pb2 import (
    EnvironmentSpec,
    ExtensionServiceConfigFile,
    ExtensionServiceConfigSpec,
)
from talos.extensions.service import parse_service
from talos.machined.services.extensions import (
    load_services,
    make_container,
    make_service,
    make_sources,
)
from talos.machined.services.spec import ENVIRONMENT, ApiAction, Restart, ServiceContext
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log

DEFINITION = """
name: agent
depends:
  - service: cri
  - path: {path}
  - network: [addresses, hostname]
container:
  entrypoint: /bin/agent
  environment: [A=definition, B=definition]
  environmentFile: {path}
  mounts: [{{source: /sys, destination: /host/sys}}]
  security: {{writeableSysfs: true, maskedPaths: []}}
restart: never
"""


async def test_a_definition_becomes_a_service(tmp_path: Path) -> None:
    service = make_service(parse_service(DEFINITION.format(path=tmp_path / "env"), "agent.yaml"))
    assert (service.id, service.group, service.oom_score_adj) == (
        "ext-agent",
        "system/extensions/agent",
        -600,
    )
    assert (service.depends, service.restart) == (("containerd", "cri"), Restart.NEVER)
    assert service.actions == {ApiAction.START, ApiAction.STOP, ApiAction.RESTART}
    path, network = service.conditions
    assert path.text == f'file "{tmp_path / "env"}" to exist'
    state = MemoryState()
    (tmp_path / "env").touch()
    await path.wait(state)
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=True, hostname_ready=True))
    await network.wait(state)


MOUNTS = """
name: agent
container:
  entrypoint: /bin/agent
  mounts:
    - {{source: {root}/state/agent, destination: /state, options: [rbind, rw]}}
    - {{source: {root}/file, destination: /file}}
    - {{source: {root}/none, destination: /tmp, type: tmpfs}}
"""


async def test_folders_that_are_mounted_are_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    definition = parse_service(MOUNTS.format(root=tmp_path), "agent.yaml")
    await make_sources(definition)
    await make_sources(definition)
    assert (tmp_path / "state/agent").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "file").read_text() == "x"
    assert not (tmp_path / "none").exists()


async def test_a_folder_that_cant_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    definition = parse_service(MOUNTS.format(root=tmp_path), "agent.yaml")
    with pytest.raises(UserError, match="state/agent: can't be made, to be mounted"):
        await make_sources(definition)


async def test_the_users_config_comes_last(tmp_path: Path) -> None:
    path = tmp_path / "env"
    definition = parse_service(DEFINITION.format(path=path), "agent.yaml")
    state = MemoryState()
    context = cast("ServiceContext", SimpleNamespace(state=state))
    with pytest.raises(UserError, match="env: can't be read"):
        await make_container(definition, context)
    path.write_text("# a comment\n\nA=file\nC=file\n")
    config = ExtensionServiceConfigSpec(
        environment=["B=config"],
        files=[ExtensionServiceConfigFile(content="x", mount_path="/etc/agent.conf")],
    )
    await put(state, kinds.EXTENSION_SERVICE_CONFIG, "agent", config)
    lines = [*(f"{name}={value}" for name, value in ENVIRONMENT.items()), "A=node", "D=node"]
    await put(state, *ids.ENVIRONMENT, EnvironmentSpec(variables=lines))
    spec = await make_container(definition, context)
    assert spec.environment == {"A": "definition", "B": "config", "C": "file", "D": "node"}
    assert spec.rootfs == "/usr/local/lib/containers/agent"
    targets = {mount.target: mount for mount in spec.mounts}
    assert targets["/etc/agent.conf"].source == "/system/config/extensions/agent/etc-agent.conf"
    assert targets["/host/sys"].options == ("rbind", "ro")
    assert "rw" in targets["/sys"].options
    assert spec.masked == ()
    assert spec.read_only


def test_an_unusable_definition_is_left_out(tmp_path: Path) -> None:
    for name, text in (
        ("a", DEFINITION.format(path="/x").replace("cri", "nothing")),
        ("b", "name: ["),
        ("c", DEFINITION.format(path="/x")),
        ("d", DEFINITION.format(path="/x").replace("cri", "ext-agent").replace("name: agent", "name: d")),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
    lines: list[str] = []
    found = load_services(Log(write=lines.append), {"containerd", "cri"}, str(tmp_path))
    assert [service.id for service in found] == ["ext-agent", "ext-d"]
    text = "".join(lines)
    assert "a.yaml: depends on 'nothing', which is no service" in text
    assert "b.yaml: is no YAML" in text
    assert load_services(Log(), set(), "/no/such/folder") == ()
