"""Machines of a cluster with Kubernetes: control planes and workers, and a service whose pods are on them."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml
from driver import clusters
from driver.arguments import mac
from driver.client import at
from driver.clock import CLOCK
from driver.clusters import (
    ADDRESSES,
    CALL_TIMEOUT,
    MEMBERS,
    SLOW_MEMBERS,
    Intervals,
    Members,
    install_all,
    start_formed,
    switch_off,
    write_address_argument,
    write_network,
)
from driver.etcd import HTTP_PORT
from driver.fleet import Fleet
from driver.kubernetes_api import API_SERVER_PORT, KubernetesApi, open_api
from driver.machine import Machine
from driver.requests import fetch, requesting
from driver.saved import restore
from driver.scenarios import DISK, UPGRADE_TIMEOUT, fix_kernel, read_version
from driver.world import World

FORMED = "base-kubernetes"
"""The asset with the machines of one cluster."""
CONTROL_PLANES = 1
"""Machines of the control plane: one or three, as two members of etcd have none to spare."""
PLACES = {**dict([*ADDRESSES.items()][:CONTROL_PLANES]), "worker": "10.0.2.12"}
"""The address of each machine, by name."""
CODE_CACHE = 768
"""MiB: the programs of Kubernetes are large."""
NODE_PORT = 30080
"""Where the service is at each machine."""
MACHINES = {
    name: replace(
        MEMBERS["one"],
        address=address,
        code_cache=CODE_CACHE,
        processors=2 if name in ADDRESSES else 1,
        memory=3072 if name in ADDRESSES else 2048,
        ports=(HTTP_PORT, API_SERVER_PORT, NODE_PORT) if name in ADDRESSES else (NODE_PORT,),
    )
    for name, address in PLACES.items()
}
"""The machines of a test."""
FORM_TIMEOUT = 2400  # seconds
"""From power on until every node is ready, and from there until it is again after a change."""
READY_INTERVAL = 10.0
"""Seconds between two questions whether a node is ready: an emulated processor has work with each."""
INTERVALS = Intervals(sample=15.0, calls=(8.0, 12.0))
"""A connection by TLS each four seconds took a quarter of a machine that has Kubernetes to start."""
MAX_GAP = clusters.MAX_GAP if CONTROL_PLANES > 1 else UPGRADE_TIMEOUT
"""Seconds without an acknowledged write: one member of etcd takes none while its machine is down."""
MAX_SILENCE = 60.0
"""Seconds without an answer of the service."""
REQUEST_INTERVAL = 2.0
"""Seconds between two requests of the service's client."""
ANSWER_TIMEOUT = 8.0
"""Seconds for an answer, after which the next machine is called."""
REPLICAS = 2
"""Pods of the service, each on a machine of its own."""

LIGHT = "---\n".join(
    (
        "apiVersion: v1alpha1\nkind: KubeCoreDNSConfig\nenabled: false\n",
        "apiVersion: v1alpha1\nkind: KubeAuditPolicyConfig\n$patch: delete\n",
    )
)
"""Nothing looks up names, and nothing reads records of calls."""
LEASES = {"leader-elect-lease-duration": "120s", "leader-elect-renew-deadline": "80s"}
"""With 15 s and ten a program that waits for an emulated processor ends, and starts anew."""
SLOW_LEASES = "---\n".join(
    f"apiVersion: v1alpha1\nkind: {kind}\nextraArgs: {json.dumps(LEASES)}\n"
    for kind in ("KubeControllerManagerConfig", "KubeSchedulerConfig")
)
LABELS = {"app": "served"}
EVERYWHERE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
APART = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
POD = {
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 1,
    "tolerations": [EVERYWHERE],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}},
    "containers": [
        {
            "name": "main",
            "image": "docker.io/library/busybox:1.37.0",
            "command": ["sh", "-c", "hostname > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"],
            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "timeoutSeconds": 10},
        }
    ],
}
"""A web server that answers with its pod's name."""
SERVED = (
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "served", "namespace": "default"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": POD},
        },
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "served", "namespace": "default"},
        "spec": {"minAvailable": REPLICAS - 1, "selector": {"matchLabels": LABELS}},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "served", "namespace": "default"},
        "spec": {
            "type": "NodePort",
            "selector": LABELS,
            "ports": [{"port": 80, "targetPort": 8080, "nodePort": NODE_PORT}],
        },
    },
)
"""A deployment of which one pod at a time may be evicted, and the service of its pods."""


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A cluster that runs: the ``members`` of its etcd, and workers."""

    members: Members

    @property
    def world(self) -> World:
        """The test."""
        return self.members.world

    @property
    def machines(self) -> Sequence[Machine]:
        """All of them, the control plane first."""
        return [*self.world.values()]

    @property
    def fleet(self) -> Fleet:
        """All of them for one command, whose way leads over the control plane."""
        return Fleet(self.machines, self.world.folder / "fleet", endpoints=self.members.machines)

    def open_api(self) -> KubernetesApi:
        """A client of the first machine's API server."""
        timeout = self.world.timeout_scale.seconds(CALL_TIMEOUT)
        return open_api(
            self.machines[0].ports[API_SERVER_PORT], self.members.cluster.secrets, self.world.folder, timeout
        )

    def read_versions(self) -> list[str]:
        """The version that each machine runs, and its slot."""
        return [read_version(machine) for machine in self.machines]

    def make_config(self, name: str) -> Path:
        """A machine's config."""
        machine, cluster = self.world[name], self.members.cluster
        place = 1 + [*self.world].index(name)
        patches = [
            *fix_kernel(machine),
            write_network(name, PLACES[name], mac(place)),
            *self.members.make_service_patches(),
        ]
        kind = "worker"
        if name in ADDRESSES:
            kind = "controlplane"
            etcd = json.dumps({"cluster": {"etcd": {"extraArgs": SLOW_MEMBERS}}})
            patches += [etcd, SLOW_LEASES, LIGHT, make_manifest()]
        return cluster.config(*patches, kind=kind, disk=DISK, kubernetes=self._find_version())

    def _find_version(self) -> str:
        """The version of the images that the test serves."""
        (archive,) = self.world.assets.path("images-all").glob("kubelet-*.tar")
        return archive.stem.partition("-")[2]

    def start_new(self, machine: Machine) -> None:
        """Start a machine from an installed disk as one of its own, with its config."""
        url = self.world.web.serve(f"/{machine.name}.yaml", self.make_config(machine.name).read_text())
        machine.initramfs = self.members.releases.initramfs()
        arguments = (
            f"talos.config={url}",
            write_address_argument(machine.node.address),
            "talos.experimental.wipe=system:STATE,EPHEMERAL",
        )
        machine.start(node=replace(machine.node, boot="pvh", hands_over_kernel=False, arguments=arguments))

    def wait_for_node(self, machine: Machine) -> None:
        """Wait until a machine has booted, and its node is ready."""
        what = f"{machine.name} is a node that is ready"
        machine.wait_until(what, partial(check_node, machine), FORM_TIMEOUT, pause=READY_INTERVAL)

    def wait_until_ready(self) -> None:
        """Wait until every machine has booted, its node is ready, and all pods of the service answer."""
        self.members.wait_until_healthy()
        for machine in self.machines:
            self.wait_for_node(machine)
        names = set[str]()

        def find() -> None:
            for server in self._servers().values():
                names.add(server())
            assert len(names) >= REPLICAS, f"only {names} answered"

        self.machines[0].wait_until(
            "all pods of the service answer", find, FORM_TIMEOUT, pause=READY_INTERVAL
        )

    def _servers(self) -> dict[str, partial[str]]:
        timeout = self.world.timeout_scale.seconds(ANSWER_TIMEOUT)
        return {one.name: partial(fetch, one.ports[NODE_PORT], timeout) for one in self.machines}

    def switch_off(self) -> None:
        """Shut all machines down, workers first."""
        switch_off([*reversed(self.machines)], FORM_TIMEOUT)

    @contextmanager
    def observed(self) -> Generator[None]:
        """A client of the service beside those of etcd, for as long as the context is open."""
        with (
            requesting(self._servers(), REQUEST_INTERVAL, CLOCK.now) as answers,
            self.members.observed(MAX_GAP, INTERVALS),
        ):
            yield
            self.wait_until_ready()
        self.world.show(f"service: {answers.describe()}")
        limit = self.world.timeout_scale.seconds(MAX_SILENCE)
        assert answers.longest_gap < limit, f"the service gave no answer for {answers.longest_gap:.1f} s"


def make_manifest() -> str:
    """The document that has the control plane make what is served."""
    inline = {"apiVersion": "v1alpha1", "kind": "KubeInlineManifestConfig", "name": "served"}
    return yaml.safe_dump({**inline, "manifest": yaml.safe_dump_all(SERVED)})


def check_node(machine: Machine) -> None:
    """Assert that a machine lacks nothing, and that Kubernetes finds its node ready and uses it."""
    found = machine.get("machinestatus")
    assert found, "there is no machine status"
    assert at(found[0], "spec.stage") == "running", f"the stage is {at(found[0], 'spec.stage')}"
    missing = at(found[0], "spec.status.unmetConditions")
    assert at(found[0], "spec.status.ready") is True, f"it lacks {missing}"
    nodes = machine.get("nodestatus")
    assert nodes, "it is no node"
    assert at(nodes[0], "spec.nodeReady") is True, "its node is not ready"
    assert not at(nodes[0], "spec.unschedulable"), "its node is cordoned"


def _make(world: World) -> Kubernetes:
    cluster = world.cluster(endpoint=f"https://{PLACES['one']}:6443")
    names = tuple(name for name in world if name in ADDRESSES)
    kubernetes = Kubernetes(Members(world, cluster, world.releases(), names))
    kubernetes.members.releases.offer_archives(world.assets.path("images-all"))
    for machine in kubernetes.machines:
        machine.client.talosconfig = cluster.talosconfig
    return kubernetes


def form_kubernetes(world: World) -> Kubernetes:
    """Make a cluster of machines that begin with copies of one installed disk."""
    install_all(world)
    kubernetes = _make(world)
    control_plane = kubernetes.members.machines
    for machine in control_plane:
        kubernetes.start_new(machine)
    kubernetes.members.bootstrap()
    for machine in control_plane:
        kubernetes.wait_for_node(machine)
    # A kubelet that finds no API server calls it again and again, and takes the processor from it.
    for machine in kubernetes.machines[len(control_plane) :]:
        kubernetes.start_new(machine)
    kubernetes.wait_until_ready()
    return kubernetes


def start_kubernetes(world: World) -> Kubernetes:
    """The saved cluster, if the test's assets name it, else a new one; all nodes are ready."""
    if not restore(world, FORMED):
        form_kubernetes(world).switch_off()
    kubernetes = _make(world)
    start_formed(kubernetes.members, kubernetes.machines, MACHINES, FORM_TIMEOUT)
    kubernetes.wait_until_ready()
    return kubernetes
