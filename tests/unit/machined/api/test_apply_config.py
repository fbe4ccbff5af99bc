"""ApplyConfiguration: what is checked, kept, put in force and taken back."""

import base64
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from ipaddress import ip_interface
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from google.protobuf.duration_pb2 import Duration

from talos.api.addresses import make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import AddressSpecSpec, AddressStatusSpec, OperatorSpecSpec
from talos.api.durations import format_duration
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, RpcError
from talos.config.model import Config
from talos.config.read.loader import load
from talos.machined.api import apply_config, machine_warnings
from talos.machined.api.apply_config import check_machine_type
from talos.machined.node.config_store import get_config, publish_config
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.system.errors import UserError

Mode = pb.ApplyConfigurationRequest

CA = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem
FIRST = b"""\
version: v1alpha1
machine:
  type: worker # a comment
  token: abcdef.0123456789abcdef
  sysctls:
    net.ipv4.ip_forward: "1"
  features: {hostDNS: {enabled: true, forwardKubeDNSToHost: true}}
  ca:
    crt: CA
cluster:
  clusterName: demo
  id: 8XuV9TZHW08DOk3bVxQjH9ih_TBKjnh-j44tsCLSBzo=
  secret: 8XuV9TZHW08DOk3bVxQjH9ih/TBKjnh+j44tsCLSBzo=
""".replace(b"CA", base64.b64encode(CA.crt))
SECOND = FIRST.replace(b'"1"', b'"0"')
THIRD = FIRST.replace(b'"1"', b'"2"')
PCI_DRIVER = b"""\
---
apiVersion: v1alpha1
kind: PCIDriverRebindConfig
name: 0000:00:04.0
targetDriver: vfio-pci
"""


def request(data: bytes, mode: Any = Mode.AUTO, **more: Any) -> pb.ApplyConfigurationRequest:
    return pb.ApplyConfigurationRequest(data=data, mode=mode, **more)


@pytest.fixture
def apply(caller: Any) -> Callable[..., Any]:
    """One handler for all calls of a test: it remembers the trial."""
    handler = caller.handler("ApplyConfiguration")

    async def call(*args: Any, metadata: Mapping[str, tuple[str, ...]] | None = None, **more: Any) -> Any:
        reply = await handler(request(*args, **more), make_call(metadata or {}))
        return reply.messages[0]

    return call


def make_call(metadata: Mapping[str, tuple[str, ...]]) -> Call:
    return Call(method="ApplyConfiguration", metadata=metadata, deadline=inf, peer="unix:")


def on_disk(caller: Any) -> bytes | None:
    file: Path = caller.node.ports.state_dir / "config.yaml"
    return file.read_bytes() if file.exists() else None


async def in_force(caller: Any) -> bytes | None:
    return await get_config(caller.node.state, ids.MACHINE_CONFIG)


async def persistent(caller: Any) -> bytes | None:
    return await get_config(caller.node.state, ids.MACHINE_CONFIG_PERSISTENT)


async def test_the_first_config_is_kept_and_put_in_force(caller: Any, apply: Any) -> None:
    message = await apply(FIRST, Mode.REBOOT)
    assert (message.mode, message.mode_details) == (
        Mode.NO_REBOOT,
        "Applied configuration without a reboot",
    )
    assert on_disk(caller) == await in_force(caller) == await persistent(caller) == FIRST
    stored = await caller.node.state.get(*ids.MACHINE_CONFIG)
    assert stored.metadata.annotations == {"talos.dev/yaml-spec": "1"}
    [file] = caller.node.ports.state_dir.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_config_that_cuts_the_caller_off_says_so(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    status = AddressStatusSpec(link_name="eth0")
    await put(caller.node.state, kinds.ADDRESS_STATUS, "eth0/10.5.0.2/24", status)
    blocked = FIRST + b"---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"
    metadata = {"talos-caller": ("10.5.0.1",), "talos-reached": ("10.5.0.2",)}
    message = await apply(blocked, dry_run=True, metadata=metadata)
    [warning] = [text for text in message.warnings if "closes the API to 10.5.0.1" in text]
    assert "50000" in warning
    assert not [text for text in (await apply(FIRST, metadata=metadata)).warnings if "API" in text]


@pytest.mark.parametrize(
    ("layer", "cuts_off"),
    [
        (enums_pb2.CONFIG_PLATFORM, False),
        (enums_pb2.CONFIG_CMDLINE, False),
        (enums_pb2.CONFIG_OPERATOR, True),
        (enums_pb2.CONFIG_MACHINE_CONFIGURATION, True),
    ],
)
@pytest.mark.parametrize("has_server", [False, True])
async def test_an_address_from_elsewhere_than_the_config_stays(
    caller: Any, apply: Any, layer: enums_pb2.NetworkConfigLayer, *, has_server: bool, cuts_off: bool
) -> None:
    await apply(FIRST)
    state = caller.node.state
    await put(state, kinds.ADDRESS_STATUS, "eth0/10.5.0.2/24", AddressStatusSpec(link_name="eth0"))
    if has_server:
        dhcp = OperatorSpecSpec(link_name="eth0", operator=enums_pb2.OPERATOR_DHCP4, config_layer=layer)
        await put(state, kinds.OPERATOR_SPEC, "a", dhcp, namespace=ids.NETWORK_CONFIG)
    else:
        address = AddressSpecSpec(
            link_name="eth0", address=make_prefix(ip_interface("10.5.0.2/24")), config_layer=layer
        )
        await put(state, kinds.ADDRESS_SPEC, "a", address, namespace=ids.NETWORK_CONFIG)
    changed = FIRST + b"---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtu: 1400\n"
    metadata = {"talos-caller": ("10.5.0.1",), "talos-reached": ("10.5.0.2",)}
    message = await apply(changed, dry_run=True, metadata=metadata)
    assert any("is not an address of eth0" in text for text in message.warnings) is cuts_off


async def test_auto_replaces_it(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    assert (await apply(SECOND)).mode == Mode.NO_REBOOT
    assert on_disk(caller) == await in_force(caller) == SECOND


async def test_staged_waits_for_the_reboot(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    message = await apply(SECOND, Mode.STAGED)
    assert message.mode_details == "Staged configuration to be applied after the next reboot"
    assert on_disk(caller) == await persistent(caller) == SECOND
    assert await in_force(caller) == FIRST


async def test_dry_run_shows_the_change_and_makes_none(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    message = await apply(SECOND, dry_run=True)
    assert message.mode_details.startswith(
        "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n"
    )
    assert '-    net.ipv4.ip_forward: "1"' in message.mode_details.replace("        ", "    ")
    assert on_disk(caller) == await in_force(caller) == FIRST
    same = await apply(FIRST.replace(b" # a comment", b""), dry_run=True)
    assert same.mode_details.endswith("No changes.")


async def test_try_reverts_by_itself(caller: Any, apply: Any, autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    await apply(FIRST)
    message = await apply(SECOND, Mode.TRY)
    assert message.mode_details == (
        "The config is applied in 'try' mode and will be automatically reverted back in 1m0s"
    )
    assert (await in_force(caller), on_disk(caller), await persistent(caller)) == (SECOND, FIRST, FIRST)
    await trio.sleep(59)
    assert await in_force(caller) == SECOND
    await trio.sleep(2)
    assert await in_force(caller) == FIRST


async def test_a_revert_that_fails_is_repeated(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock
    attempts: list[float] = []

    async def fail(*_: object) -> None:
        attempts.append(trio.current_time())
        raise OSError("no memory")

    await apply(FIRST)
    await apply(SECOND, Mode.TRY)
    with monkeypatch.context() as broken:
        broken.setattr(apply_config, "publish_config", fail)
        await trio.sleep(65)
    assert [round(later - first) for first, later in pairwise(attempts)] == [1, 2]
    assert await in_force(caller) == SECOND
    await trio.sleep(10)
    assert await in_force(caller) == FIRST


async def test_a_trial_may_be_of_any_length(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    reply = await apply(SECOND, Mode.TRY, dry_run=True, try_mode_timeout=Duration(seconds=2**62))
    assert "automatically reverted" in reply.mode_details
    assert await in_force(caller) == FIRST


async def test_a_real_change_ends_a_revert_that_fails(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock

    async def fail(*_: object) -> None:
        raise OSError("no memory")

    await apply(FIRST)
    await apply(SECOND, Mode.TRY)
    with monkeypatch.context() as broken:
        broken.setattr(apply_config, "publish_config", fail)
        await trio.sleep(61)
    await apply(THIRD)
    await trio.sleep(200)
    assert await in_force(caller) == THIRD


async def test_a_second_trial_goes_back_to_what_was_before_the_first(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await apply(FIRST)
    await apply(SECOND, Mode.TRY, try_mode_timeout=Duration(seconds=10))
    await trio.sleep(5)
    await apply(THIRD, Mode.TRY, try_mode_timeout=Duration(seconds=20))
    await trio.sleep(15)
    assert await in_force(caller) == THIRD
    await trio.sleep(10)
    assert await in_force(caller) == FIRST


async def test_a_real_change_ends_the_trial(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await apply(FIRST)
    await apply(SECOND, Mode.TRY)
    await apply(THIRD)
    await trio.sleep(100)
    assert await in_force(caller) == THIRD


async def test_dry_run_leaves_the_trial_alone(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await apply(FIRST)
    await apply(SECOND, Mode.TRY)
    await apply(THIRD, dry_run=True)
    await trio.sleep(100)
    assert await in_force(caller) == FIRST


async def test_all_mistakes_are_listed_and_change_nothing(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    bad = FIRST + b"nonsense: 1\nmachine2: {}\n"
    with pytest.raises(UserError) as caught:
        await apply(bad)
    assert "nonsense" in str(caught.value)
    assert "machine2" in str(caught.value)
    assert on_disk(caller) == await in_force(caller) == FIRST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\x01\x02",
        b"- a\n",
        b"a: &a [*a]\n",
        b"version: v1alpha1\nversion: v1alpha1\n",
        bytes(9 << 20),
    ],
)
async def test_garbage_is_refused(apply: Any, data: bytes) -> None:
    with pytest.raises(UserError):
        await apply(data)


async def test_a_running_machine_wants_its_main_document(caller: Any, apply: Any) -> None:
    await apply(FIRST)
    with pytest.raises(UserError) as caught:
        await apply(b"apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n")
    assert "doesn't contain v1alpha1 config" in str(caught.value)
    assert await in_force(caller) == FIRST


async def test_in_maintenance_a_part_of_a_config_configures_the_network_and_is_kept(
    caller: Any, apply: Any
) -> None:
    part = b"apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n"
    await apply(part)
    assert on_disk(caller) == await persistent(caller) == part
    assert await in_force(caller) is None
    assert await get_config(caller.node.state, ids.MACHINE_CONFIG_MAINTENANCE) == part


@pytest.mark.parametrize(
    ("mode", "running", "code"),
    [
        (Mode.TRY, False, Code.FAILED_PRECONDITION),
        (99, True, Code.INVALID_ARGUMENT),
    ],
)
async def test_modes_that_can_not_be(apply: Any, mode: Any, running: bool, code: Code) -> None:
    if running:
        await apply(FIRST)
    with pytest.raises(RpcError) as caught:
        await apply(SECOND, mode)
    assert caught.value.code is code


async def test_a_reboot_puts_the_config_in_force(
    caller: Any, apply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    async def begin_reboot(node: object) -> str:
        assert node is caller.node
        begun.append("reboot")
        return "actor"

    monkeypatch.setattr(apply_config, "begin_reboot", begin_reboot)
    assert (await apply(FIRST, Mode.REBOOT)).mode == Mode.NO_REBOOT
    assert (await apply(SECOND, Mode.REBOOT, dry_run=True)).mode == Mode.REBOOT
    assert not begun
    reply = await apply(SECOND, Mode.REBOOT)
    assert (reply.mode, reply.mode_details) == (Mode.REBOOT, "Applied configuration with a reboot")
    assert begun == ["reboot"]
    assert on_disk(caller) == await persistent(caller) == SECOND
    assert await in_force(caller) == FIRST


async def test_a_reboot_that_is_refused_says_that_the_config_is_kept(
    caller: Any, apply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin_reboot(node: object) -> str:
        del node
        raise RpcError(Code.FAILED_PRECONDITION, "etcd has no quorum")

    monkeypatch.setattr(apply_config, "begin_reboot", begin_reboot)
    await apply(FIRST)
    with pytest.raises(RpcError, match=r"is kept for the next boot.*: etcd has no quorum") as refused:
        await apply(SECOND, Mode.REBOOT)
    assert refused.value.code is Code.FAILED_PRECONDITION
    assert on_disk(caller) == await persistent(caller) == SECOND


async def test_in_maintenance_the_network_can_be_tried(
    caller: Any, apply: Any, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    state, part = caller.node.state, b"apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: %s\n"
    assert (await apply(part % b"a", Mode.TRY)).mode == Mode.TRY
    assert await get_config(state, ids.MACHINE_CONFIG_MAINTENANCE) == part % b"a"
    await trio.sleep(61)
    assert await get_config(state, ids.MACHINE_CONFIG_MAINTENANCE) is None
    assert on_disk(caller) is None
    await apply(part % b"b")
    await apply(part % b"c", Mode.TRY)
    await trio.sleep(61)
    assert await get_config(state, ids.MACHINE_CONFIG_MAINTENANCE) == part % b"b"


async def test_one_at_a_time(apply: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[RpcError] = []
    entered = trio.Event()
    go_on = trio.Event()
    real = apply_config.in_thread

    async def slow(function: Any, *args: Any, **more: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await real(function, *args, **more)

    monkeypatch.setattr(apply_config, "in_thread", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(apply, FIRST)
        await entered.wait()
        with pytest.raises(RpcError) as error:
            await apply(SECOND)
        caught.append(error.value)
        go_on.set()
    assert caught[0].code is Code.FAILED_PRECONDITION
    assert caught[0].message == "another apply configuration is already in progress"
    await apply(SECOND)


async def test_a_full_disk_loses_nothing(caller: Any, apply: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await apply(FIRST)

    def fail(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RpcError) as caught:
        await apply(SECOND)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert on_disk(caller) == await in_force(caller) == FIRST
    assert len(list(caller.node.ports.state_dir.iterdir())) == 1


async def test_a_config_in_force_that_no_longer_loads_is_not_in_the_way(caller: Any, apply: Any) -> None:
    await publish_config(caller.node.state, ids.MACHINE_CONFIG, b"version: v1alpha1\ngone: 1\n")
    await apply(FIRST)
    assert await in_force(caller) == FIRST


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=30), "30s"),
        (timedelta(minutes=1), "1m0s"),
        (timedelta(hours=1, seconds=1.5), "1h0m1.5s"),
        (timedelta(milliseconds=500), "500ms"),
    ],
)
def test_durations_read_as_in_go(duration: timedelta, text: str) -> None:
    assert format_duration(duration.total_seconds()) == text


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        ("controlplane", "worker", True),
        ("worker", "controlplane", True),
        ("init", "worker", True),
        ("init", "controlplane", False),
        ("worker", "worker", False),
    ],
)
def test_a_machine_keeps_its_type(before: str, after: str, *, is_refused: bool) -> None:
    def make(kind: str) -> Config:
        return load(f"version: v1alpha1\nmachine: {{type: {kind}}}\n")

    with pytest.raises(UserError, match="reset") if is_refused else nullcontext():
        check_machine_type(make(before), make(after))
    check_machine_type(None, make(after))


async def test_a_driver_without_an_iommu_is_a_warning(
    caller: Any, metal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_warnings, "IOMMUS", tmp_path / "iommu")
    call = make_call({})

    async def warnings(caller: Any) -> str:
        handler = caller.handler("ApplyConfiguration")
        reply = await handler(request(FIRST + PCI_DRIVER, Mode.NO_REBOOT, dry_run=True), call)
        return " ".join(reply.messages[0].warnings)

    await publish_config(caller.node.state, ids.MACHINE_CONFIG, FIRST)
    assert "IOMMU is not enabled" in await warnings(metal)
    assert "IOMMU" not in await warnings(caller), "a container has no devices"
    (tmp_path / "iommu/dmar0").mkdir(parents=True)
    assert "IOMMU" not in await warnings(metal)
