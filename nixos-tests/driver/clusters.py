"""Three control plane machines, the members of one etcd: formed once, and restored by each test.

They have nothing of Kubernetes: whether their cluster holds, etcd alone shows. One network leads from
machine to machine and to the test, where their discovery server and their registry are.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from driver.arguments import HOST, mac
from driver.availability import sampling
from driver.bootstrap import begin_etcd, check_etcd
from driver.client import check_tls
from driver.client_certificate import make_context
from driver.clock import CLOCK
from driver.configs import NO_KUBERNETES, Cluster
from driver.etcd import HTTP_PORT, Member
from driver.failure import VmTestError
from driver.fleet import Fleet
from driver.machine import Machine
from driver.node import Node
from driver.releases import Releases
from driver.saved import restore
from driver.scenarios import DISK, INSTALLED, UPGRADED, fix_kernel, install_new, patch, read_version
from driver.workload import read_at_all_members, running_clients
from driver.world import World

FORMED = "base-cluster"
"""The asset with three machines of one cluster."""
ADDRESSES = {"one": "10.0.2.9", "two": "10.0.2.10", "three": "10.0.2.11"}
"""Others than QEMU's network gives by DHCP: a machine has one of those until it has read its config."""
MEMBERS = {
    name: replace(UPGRADED, boot="bios", hands_over_kernel=False, address=address, ports=(HTTP_PORT,))
    for name, address in ADDRESSES.items()
}
"""The machines of a test of a cluster: they start from their disks."""
FORM_TIMEOUT = 600  # seconds
"""From power on until a cluster of three is formed, and from there until it is healthy after a change."""
CALL_TIMEOUT = 15.0
"""Seconds for a call, on emulated processors that others need, too."""
HEALTH_INTERVAL = 3.0
"""Seconds between two questions whether a machine is healthy."""
MAX_GAP = 60.0
"""Seconds without an acknowledged write: an election, and a client's way to another member."""
SEED = 3
"""Of the order in which clients write and read."""

NETWORK = """\
apiVersion: v1alpha1
kind: HostnameConfig
hostname: NAME
auto: "off"
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan
selector: {match: 'mac(link.permanent_addr) == "MAC"'}
---
apiVersion: v1alpha1
kind: LinkConfig
name: lan
addresses: [{address: ADDRESS/24}]
routes: [{gateway: GATEWAY}]
---
apiVersion: v1alpha1
kind: TimeSyncConfig
enabled: false
"""
DISCOVERY = """\
apiVersion: v1alpha1
kind: DiscoveryServiceConfig
name: default
endpoint: URL
"""
SLOW_MEMBERS = {"heartbeat-interval": "500", "election-timeout": "5000"}
"""Milliseconds; with a tenth and one second an emulated processor that waits for its host loses elections."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between what a test does to observe a cluster: an emulated processor has work with each."""

    sample: float = 4.0
    """Between two checks of all machines."""
    calls: tuple[float, float] = (1.5, 3.0)
    """Between two calls of a client of etcd, at least and at most."""


INTERVALS = Intervals()
"""With nothing of Kubernetes on the machines."""


@dataclass(frozen=True, slots=True)
class Members:
    """A cluster that runs, and what a test does with it."""

    world: World
    cluster: Cluster
    releases: Releases
    names: Sequence[str] = tuple(ADDRESSES)

    @property
    def machines(self) -> list[Machine]:
        """All of them, in the order of their names' numbers."""
        return [self.world[name] for name in self.names]

    @property
    def fleet(self) -> Fleet:
        """All of them for one command."""
        return Fleet(self.machines, self.world.folder / "fleet")

    def read_versions(self) -> list[str]:
        """The version that each machine runs, and its slot."""
        return [read_version(machine) for machine in self.machines]

    def open_keys(self) -> dict[str, Member]:
        """A client of each member."""
        context = make_context(self.cluster.secrets, self.world.folder, "etcd")
        timeout = self.world.timeout_scale.seconds(CALL_TIMEOUT)
        return {machine.name: Member(machine.ports[HTTP_PORT], context, timeout) for machine in self.machines}

    def make_config(self, name: str) -> Path:
        """A machine's config: a name and an address of its own, etcd, nothing of Kubernetes."""
        etcd = json.dumps({"cluster": {"etcd": {"extraArgs": SLOW_MEMBERS}}})
        patches = (*fix_kernel(self.world[name]), NO_KUBERNETES, etcd, make_network(name))
        return self.cluster.config(*patches, *self.make_service_patches(), disk=DISK)

    def make_service_patches(self) -> tuple[str, str]:
        """Where this test's discovery server and registry are: each test has them at other ports."""
        return DISCOVERY.replace("URL", self.world.discovery), self.releases.patch

    @contextmanager
    def observed(self, max_gap: float = MAX_GAP, intervals: Intervals = INTERVALS) -> Generator[None]:
        """Clients of every member, and checks of each machine's API, for as long as the context is open.

        Then no acknowledged write may be lost, nor writes have paused for more than ``max_gap`` seconds,
        nor two machines been down.
        """
        timeout = self.world.timeout_scale.seconds(CALL_TIMEOUT)
        machines = self.world.values()
        checks = {machine.name: partial(check_tls, machine.client.port, timeout) for machine in machines}
        with (
            running_clients(self.open_keys(), SEED, intervals.calls, CLOCK.now) as seen,
            sampling(checks, intervals.sample) as samples,
        ):
            yield
            self.wait_until_healthy()
        read_at_all_members(self.open_keys(), seen)
        self.world.show(f"etcd: {seen.describe()}")
        self.world.show(f"APIs: {samples.describe()}")
        problems = seen.find_problems()
        assert not problems, "\n".join(problems[:20])
        assert len(samples.largest_outage()) <= 1, f"down at a time: {', '.join(samples.largest_outage())}"
        limit = self.world.timeout_scale.seconds(max_gap)
        assert seen.longest_gap < limit, f"etcd took no write for {seen.longest_gap:.1f} s"

    def bootstrap(self) -> None:
        """Have the first machine begin etcd, once all have their configs, and wait until all of them vote."""
        for machine in self.machines:
            machine.wait_for_port(FORM_TIMEOUT)
        first = self.machines[0]
        first.wait_until("etcd begins", lambda: begin_etcd(first), FORM_TIMEOUT)
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Wait until every machine finds all of them voting, and its own member healthy."""
        for machine in self.machines:
            machine.wait_until(
                f"{machine.name} is a member of {len(self.names)}",
                partial(check_member, machine, self.names),
                FORM_TIMEOUT,
                pause=HEALTH_INTERVAL,
            )


def read_members(machine: Machine) -> list[list[str]]:
    """The rows of `talosctl etcd members`, as words."""
    return [line.split() for line in machine.client.run("etcd", "members").stdout.splitlines()[1:]]


def check_member(machine: Machine, names: Sequence[str] = tuple(ADDRESSES)) -> None:
    """Assert that a machine's etcd is healthy and has these members, all of them voting."""
    check_etcd(machine)
    rows = read_members(machine)
    found = {(name, row[-1]) for row in rows for name in row if name in ADDRESSES}
    assert found == {(name, "false") for name in names}, f"the members are {rows}"


def find_mac(name: str) -> str:
    """The address of a machine's card."""
    return mac(1 + list(ADDRESSES).index(name))


def make_network(name: str) -> str:
    """The documents of one machine: its name, and its address on the one network."""
    return write_network(name, ADDRESSES[name], find_mac(name))


def write_network(name: str, address: str, card: str) -> str:
    """The same for any machine; ``card`` is the address of its card."""
    words = {"NAME": name, "MAC": card, "ADDRESS": address, "GATEWAY": HOST}
    text = NETWORK
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def install_all(world: World) -> None:
    """Each machine begins with the same installed disk: a saved one, else that of the first machine."""
    if restore(world, INSTALLED, machine="node"):
        return
    first, *others = world.values()
    address = make_address_argument(first.name)
    first.node = replace(first.node, boot="pvh", hands_over_kernel=True, arguments=(address,))
    install_new(first, world.cluster(), world.releases())
    first.save(world.folder / "installed")
    for machine in others:
        machine.restore(world.folder / "installed")


def make_address_argument(name: str) -> str:
    """The kernel argument with a machine's address, as long as it has no config."""
    return write_address_argument(ADDRESSES[name])


def write_address_argument(address: str) -> str:
    """The kernel argument with any address."""
    return f"ip={address}::{HOST}:255.255.255.0"


def make_members(world: World) -> Members:
    """The machines, which are off, accept the cluster's client, and the registry has etcd's image."""
    members = Members(world, world.cluster(), world.releases())
    members.releases.offer_archives(world.assets.path("images"))
    for machine in members.machines:
        machine.client.talosconfig = members.cluster.talosconfig
    return members


def form_cluster(world: World) -> Members:
    """Make a cluster of three machines that begin with copies of one installed disk.

    They keep the system of it. What would make them one and the same machine is erased, and each gets
    a config of its own.
    """
    install_all(world)
    members = make_members(world)
    initramfs = members.releases.initramfs()
    for machine in members.machines:
        url = world.web.serve(f"/{machine.name}.yaml", members.make_config(machine.name).read_text())
        machine.initramfs = initramfs
        arguments = (
            f"talos.config={url}",
            make_address_argument(machine.name),
            "talos.experimental.wipe=system:STATE,EPHEMERAL",
        )
        machine.start(node=replace(machine.node, boot="pvh", hands_over_kernel=False, arguments=arguments))
    members.bootstrap()
    return members


def switch_off(machines: Sequence[Machine], seconds: float = FORM_TIMEOUT) -> None:
    """Shut machines down, in this order; each writes what it has to its disk."""
    for machine in machines:
        machine.talosctl("shutdown", "--force", "--wait=false")
    for machine in machines:
        machine.wait_for_off(seconds)


def start_formed(
    members: Members, machines: Sequence[Machine], nodes: Mapping[str, Node], seconds: float = FORM_TIMEOUT
) -> None:
    """Start the machines of a cluster from their disks, with the servers of this test in their configs."""
    for machine in machines:
        machine.start(node=nodes[machine.name])
    patches = members.make_service_patches()
    for machine in machines:
        machine.wait_for_api(seconds=seconds)
        patch(machine, *patches)


def start_cluster(world: World) -> Members:
    """The saved cluster, if the test's assets name it, else a new one; it is healthy."""
    if not restore(world, FORMED):
        switch_off(form_cluster(world).machines)
    members = make_members(world)
    start_formed(members, members.machines, MEMBERS)
    members.wait_until_healthy()
    return members


@contextmanager
def diagnosed_on_failure(world: World) -> Generator[None]:
    """Print what each machine has, should the test fail."""
    try:
        yield
    except Exception:
        for machine in world.values():
            world.show(describe(machine))
        raise


def describe(machine: Machine) -> str:
    """A machine's state, and what it has of its cluster and of its upgrade."""
    parts = [machine.diagnose()]
    commands = (
        ("etcd", "members"),
        ("etcd", "status"),
        ("get", "members"),
        ("get", "diagnostics", "-o", "yaml"),
        ("get", "metakeys", "-o", "yaml"),
        ("logs", "etcd", "--tail", "15"),
    )
    with suppress(VmTestError):
        for command in commands if machine.is_on else ():
            result = machine.client.run(*command, check=False, seconds=CALL_TIMEOUT)
            parts.append(f"--- {machine.name}: {' '.join(command)}\n{result.stdout}{result.stderr}".rstrip())
    return "\n".join(parts)
