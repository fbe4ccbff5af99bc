"""``talosctl plan`` and ``talosctl apply --plan`` of two workers behind one port."""

import json
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.disks.preview.machine import make_document, make_found
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import NetIP
from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.cosi.state_pb2 import GetRequest, GetResponse, ListRequest, ListResponse
from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.definitions.runtime_pb2 import MachineStatusStatus
from talos.api.machine import machine_pb2 as machine
from talos.disks.preview.copies import FoundDevices
from talos.fleet import calls
from talos.resource import kinds
from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.parse import parse
from talos.talosctl.plan.execute import make_argv
from talos.talosctl.plan.model import ClusterPlan, NodePlan, Subject, parse_plan
from talos.talosctl.tree import ROOT

ONE, TWO = "10.0.0.2", "10.0.0.3"
CONFIG = "version: v1alpha1\nmachine:\n    type: worker\n    token: abcdef.0123456789abcdef\n"
NEW = f"{CONFIG.replace('abcdef.', 'fedcba.')}    certSANs:\n        - api.example.org\n"
APPLY = "/machine.MachineService/ApplyConfiguration"


class Workers:
    """Two nodes with a config each."""

    def __init__(self, node: FakeNode) -> None:
        self.configs = {ONE: CONFIG, TWO: CONFIG}
        self.refused = ""
        self.found = FoundDevices()
        self.boot_seconds = 0
        self.applied: list[str] = []
        info = machine.Version(version=machine.VersionInfo(tag="v1.15.0", arch="amd64"))
        node.on("/machine.MachineService/Version", Empty, machine.VersionResponse(messages=[info]))
        node.on("/machine.MachineService/ServiceList", Empty, machine.ServiceListResponse())
        node.on("/cosi.resource.State/List", ListRequest, self._list, stream=True)
        node.on("/cosi.resource.State/Get", GetRequest, self._get)
        node.on(APPLY, machine.ApplyConfigurationRequest, self._apply)

    def _list(self, request: ListRequest, metadata: Mapping[str, str]) -> Sequence[Message]:
        members = [
            MemberSpec(hostname=f"w{name[-1]}", addresses=[NetIP(ip=IPv4Address(name).packed)])
            for name in self.configs
        ]
        node = metadata.get("node", "")
        specs: Mapping[str, Sequence[Message]] = {
            kinds.MEMBER.type: members,
            kinds.META_LOAD.type: [kinds.META_LOAD.spec(done=True)],
            kinds.HOSTNAME_STATUS.type: [kinds.HOSTNAME_STATUS.spec(hostname=f"w{node[-1:]}")],
            kinds.MACHINE_STATUS.type: [
                kinds.MACHINE_STATUS.spec(
                    stage=RuntimeMachineStage.MACHINE_STAGE_RUNNING, status=MachineStatusStatus(ready=True)
                )
            ],
        }
        found: Mapping[str, Mapping[str, Message]] = {
            kinds.DISCOVERED_VOLUME.type: {volume.id: volume.spec for volume in self.found.volumes},
            kinds.DISK.type: self.found.disks,
        }
        listed = {str(number): spec for number, spec in enumerate(specs.get(request.type, ()))}
        rows = found.get(request.type, listed).items()
        return [ListResponse(resource=self._make_resource(name, spec)) for name, spec in rows]

    def _make_resource(self, name: str, spec: Message) -> Resource:
        created, updated = Timestamp(seconds=100), Timestamp(seconds=100 + self.boot_seconds)
        metadata = Metadata(id=name, created=created, updated=updated)
        return Resource(metadata=metadata, spec=Spec(proto_spec=spec.SerializeToString()))

    def _get(self, request: GetRequest, metadata: Mapping[str, str]) -> Message:
        del request
        text = json.dumps(self.configs[metadata["node"]]) + "\n"
        return GetResponse(resource=Resource(spec=Spec(yaml_spec=text)))

    def _apply(
        self, request: machine.ApplyConfigurationRequest, metadata: Mapping[str, str]
    ) -> Message | GRPCError:
        node = metadata["node"]
        if node == self.refused:
            return GRPCError(Status.INVALID_ARGUMENT, "machine.type: no")
        if not request.dry_run:
            self.configs[node] = request.data.decode()
            self.applied.append(node)
        assert request.mode == request.AUTO
        answer = machine.ApplyConfiguration(
            mode=request.NO_REBOOT, mode_details="done", warnings=["old field"]
        )
        return machine.ApplyConfigurationResponse(messages=[answer])


@pytest.fixture
def workers(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(calls, "POLL_INTERVAL", 0.02)
    return Workers(node)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Another config for one of them, the one that it has for the other."""
    path = tmp_path / "configs"
    path.mkdir()
    (path / "w2.yaml").write_text(NEW)
    (path / "worker.yaml").write_text(CONFIG)
    return path


def make_plan(talosctl: Client, folder: Path) -> Path:
    result = talosctl("plan", "--file", str(folder), "--output", "json")
    assert result.code == Exit.CHANGES, result.err
    path = folder.parent / "plan.json"
    path.write_text(result.out)
    return path


def test_changes_are_shown_without_secrets(talosctl: Client, workers: Workers, folder: Path) -> None:
    result = talosctl("plan", "--file", str(folder))
    assert result.code == Exit.CHANGES, result.err
    assert f"1. {ONE} (w2), worker: changes without a reboot\n   WARNING: old field\n" in result.out
    assert "+        - api.example.org\n" in result.out
    assert "0123456789" not in result.out
    assert f"2. {TWO} (w3), worker: nothing\n" in result.out
    assert result.out.endswith("1 of 2 nodes to change, without a reboot\n")
    assert not workers.applied


def test_a_plan_is_carried_out_once(talosctl: Client, workers: Workers, folder: Path) -> None:
    path = make_plan(talosctl, folder)
    assert "0123456789" not in path.read_text()
    result = talosctl("apply", "--plan", str(path))
    assert (result.code, workers.applied) == (Exit.DONE, [ONE]), result.err
    assert f"{ONE}: done\n" in result.err
    assert talosctl("plan", "--file", str(folder)).code == Exit.DONE
    again = talosctl("apply", "--plan", str(path))
    assert (again.code, workers.applied) == (Exit.REFUSED, [ONE])
    assert f"{ONE} (w2) has another config since the plan was made; nothing has been changed" in again.err


def test_a_node_or_a_file_that_changed_is_refused(talosctl: Client, workers: Workers, folder: Path) -> None:
    path = make_plan(talosctl, folder)
    workers.configs[TWO] += "debug: true\n"
    result = talosctl("apply", "--plan", str(path))
    assert result.code == Exit.REFUSED
    assert f"{TWO} (w3) has another config" in result.err
    workers.configs[TWO] = CONFIG
    (folder / "w2.yaml").write_text(NEW + "debug: true\n")
    result = talosctl("apply", "--plan", str(path))
    assert result.code == Exit.REFUSED
    assert "w2.yaml: it was changed since the plan was made" in result.err
    assert not workers.applied


def test_disks_are_drawn_before_and_after(talosctl: Client, workers: Workers, folder: Path) -> None:
    workers.found = make_found()
    selector = "{diskSelector: {match: 'disk.dev_path == \"/dev/vdb\"'}, minSize: 1GiB, maxSize: 4GiB}"
    (folder / "w2.yaml").write_text(f"{CONFIG}---\n{make_document('UserVolumeConfig', 'db', selector)}")
    result = talosctl("plan", "--file", str(folder))
    assert result.code == Exit.CHANGES, result.err
    assert (
        "   /dev/vdb, 10 GiB   TODAY    AFTER\n"
        "   1 u-db             -        4 GiB xfs   new: UserVolumeConfig db\n"
        "   free               10 GiB   6 GiB\n"
    ) in result.out
    for form in ("json", "yaml"):
        result = talosctl("plan", "--file", str(folder), "--output", form)
        (disk,) = yaml.safe_load(result.out)["nodes"][0]["disks"]
        (part,) = disk["after"]["parts"]
        assert (part["label"], part["size"], disk["before"]["parts"]) == ("u-db", 4 << 30, [])


def test_a_dry_run_draws_disks_too(talosctl: Client, workers: Workers, tmp_path: Path) -> None:
    workers.found = make_found()
    selector = "{diskSelector: {match: 'disk.dev_path == \"/dev/vdb\"'}, minSize: 1GiB, maxSize: 4GiB}"
    path, other = tmp_path / "volume.yaml", tmp_path / "other.yaml"
    path.write_text(f"{CONFIG}---\n{make_document('UserVolumeConfig', 'db', selector)}")
    other.write_text(NEW)
    result = talosctl("apply-config", "--file", str(path), "-n", ONE, "--dry-run")
    assert result.code == Exit.DONE, result.err
    assert (
        "done\n"
        "/dev/vdb, 10 GiB   TODAY    AFTER\n"
        "1 u-db             -        4 GiB xfs   new: UserVolumeConfig db\n"
        "free               10 GiB   6 GiB\n"
    ) in result.err
    for argv in ((str(other), "--dry-run"), (str(path),)):
        assert "TODAY" not in talosctl("apply-config", "-n", TWO, "--file", *argv).err
    assert workers.applied == [TWO]


def test_what_can_not_be_made_is_a_warning(talosctl: Client, workers: Workers, folder: Path) -> None:
    workers.found = make_found()
    selector = "{diskSelector: {match: 'disk.transport == \"nvme\"'}}"
    (folder / "w2.yaml").write_text(f"{CONFIG}---\n{make_document('UserVolumeConfig', 'db', selector)}")
    result = talosctl("plan", "--file", str(folder))
    assert "   WARNING: UserVolumeConfig db provisioning.diskSelector.match: no disk matches" in result.out


def test_a_plan_in_yaml_is_carried_out(talosctl: Client, workers: Workers, folder: Path) -> None:
    path = folder.parent / "plan.yaml"
    path.write_text(talosctl("plan", "--file", str(folder), "-o", "yaml").out)
    result = talosctl("apply", "--plan", str(path))
    assert (result.code, workers.applied) == (Exit.DONE, [ONE]), result.err


def test_order_and_time_of_configs(talosctl: Client, workers: Workers, folder: Path) -> None:
    (folder / "worker.yaml").write_text(NEW)
    result = talosctl("plan", "--file", str(folder))
    assert "   time: about 3s; at most 5m0s\n" in result.out
    assert f"in this order: {ONE} (w2); {TWO} (w3)\ntime: about 6s; at most 10m0s\n" in result.out


def test_order_and_time_of_a_release(talosctl: Client, workers: Workers) -> None:
    argv = ("plan", "--image", "registry.test/installer:v1.15.1", "--parallel", "2")
    unknown = "not known: the pull of the release, its firmware"
    result = talosctl(*argv)
    assert f"   time: {unknown}, its boot; at most 1h1m0s\n" in result.out
    workers.boot_seconds = 42
    result = talosctl(*argv)
    known = "about 42s (its boot, as long as the last one)"
    assert f"   time: {known}, beside what is {unknown}; at most 1h1m0s\n" in result.out
    assert f"in this order: {ONE} (w2) and {TWO} (w3)\n" in result.out
    document = json.loads(talosctl(*argv, "-o", "json").out)
    assert document["order"] == [[ONE, TWO]]
    assert document["expected"]["knownSeconds"] == document["nodes"][0]["expected"]["knownSeconds"] == 42
    one_down = json.loads(talosctl(*argv, "--max-unavailable", "1", "-o", "json").out)
    assert one_down["order"] == [[ONE], [TWO]]
    assert one_down["expected"]["knownSeconds"] == 84
    workers.boot_seconds = 1_000_000
    assert "its boot; at most" in talosctl(*argv).out


def test_a_part_that_needs_a_reboot_is_named(talosctl: Client, workers: Workers, folder: Path) -> None:
    (folder / "w2.yaml").write_text(f"{CONFIG}    features:\n        diskQuotaSupport: true\n")
    result = talosctl("plan", "--file", str(folder))
    assert "changes, in part at the next reboot\n" in result.out
    assert "machine.features.diskQuotaSupport takes effect after a reboot\n" in result.out
    assert result.out.endswith("1 of 2 nodes to change, for 1 with a reboot\n")


def test_what_a_node_does_not_take_makes_no_plan(talosctl: Client, workers: Workers, folder: Path) -> None:
    workers.refused = ONE
    result = talosctl("plan", "--file", str(folder), "--output", "json")
    assert (result.code, result.out) == (Exit.REFUSED, "")
    assert f"error: {ONE}: rpc error: code = InvalidArgument desc = machine.type: no" in result.err


@pytest.mark.parametrize(
    ("name", "text"),
    [("w9.yaml", "no node has this name: w9.yaml"), ("", "has no config (a file for each node or role")],
)
def test_files_that_belong_to_no_node(
    talosctl: Client, workers: Workers, folder: Path, name: str, text: str
) -> None:
    if name:
        (folder / name).write_text(CONFIG)
    else:
        for path in folder.iterdir():
            path.unlink()
    result = talosctl("plan", "--file", str(folder))
    assert result.code == Exit.FAILED
    assert text in result.err


def test_a_release_for_those_that_do_not_run_it(talosctl: Client, workers: Workers) -> None:
    argv = ("plan", "--image", "registry.test/installer:v1.15.1", "--parallel", "2")
    result = talosctl(*argv)
    assert result.code == Exit.CHANGES, result.err
    assert f"1. {ONE} (w2), worker: changes and reboots\n   v1.15.0 -> v1.15.1\n" in result.out
    assert "WARNING: which pods move is not known: " in result.err
    result = talosctl(*argv, "-o", "json")
    plan = parse_plan(result.out.encode(), "plan")
    assert (plan.subject, plan.parallel, len(plan.changed)) == (Subject.RELEASE, 2, 2)
    assert talosctl("plan", "--image", "registry.test/installer:v1.15.0").code == Exit.DONE


def test_a_release_names_the_checks_that_decide_about_its_trial(talosctl: Client, workers: Workers) -> None:
    check = "---\napiVersion: v1alpha1\nkind: TrialCheckConfig\nname:"
    checks = f"{check} shop\nhttp: {{url: 'http://127.0.0.1:8080/ready'}}\n"
    checks += f"{check} disks\ntcp: {{endpoint: '10.0.0.5:3260'}}\n{check} node\ncel: |\n  node.node_ready\n"
    workers.configs[ONE] += checks
    argv = ("plan", "--image", "registry.test/installer:v1.15.1")
    lines = ['"shop": http://127.0.0.1:8080/ready', '"disks": 10.0.0.5:3260', '"node": node.node_ready']
    result = talosctl(*argv)
    shown = "".join(f"   trial check {line}\n" for line in lines)
    assert f"v1.15.0 -> v1.15.1\n{shown}   time: " in result.out, result.out + result.err
    plan = parse_plan(talosctl(*argv, "-o", "json").out.encode(), "plan")
    assert [list(node.checks) for node in plan.nodes] == [lines, []]
    workers.configs[ONE] = "kind: ["
    result = talosctl(*argv)
    assert result.code == Exit.CHANGES
    assert f"WARNING: {ONE}: which checks decide about the trial is not known: " in result.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "format is no int"),
        ("[1", "is no plan"),
        ("[" * 100_000, "is no plan"),
        ('{"format": 2}', "format 2 is not 1"),
        ('{"format": 1, "subject": "moon"}', "'moon' is not a valid Subject"),
    ],
)
def test_what_is_no_plan(talosctl: Client, tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = talosctl("apply", "--plan", str(path))
    assert result.code == Exit.FAILED
    assert reason in result.err
    assert "Traceback" not in result.err


def test_nothing_to_plan_is_a_mistake(talosctl: Client) -> None:
    result = talosctl("plan")
    assert (result.code, result.err) == (
        Exit.USAGE,
        "error: --file, --image, --kubernetes: name one of them\n",
    )
    assert talosctl("apply", "--plan", "x", "--mode", "try").code == Exit.USAGE


def test_a_plan_of_kubernetes_is_its_upgrade() -> None:
    rows = {"10.0.0.4": "worker", "10.0.0.5": "controlplane"}
    nodes = [NodePlan(node=node, role=role, is_changed=True) for node, role in rows.items()]
    plan = ClusterPlan(subject=Subject.KUBERNETES, nodes=nodes, version="1.37.1")
    flags = parse(ROOT, ["apply", "--plan", "x", "-e", "10.0.0.5,10.0.0.6", "--context", "test"]).flags
    invocation = parse(ROOT, make_argv(flags, plan))
    assert invocation.path == ("talosctl", "upgrade-k8s")
    assert invocation.flags.text("to") == "1.37.1"
    assert invocation.flags.texts("nodes") == ("10.0.0.5",)
    assert invocation.flags.texts("endpoints") == ("10.0.0.5", "10.0.0.6")
    assert invocation.flags.text("context") == "test"
