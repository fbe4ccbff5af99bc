"""Clusters for tests: created from the built image, looked at from outside, always destroyed."""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.subnets import free_subnet

from talos.config.talosconfig.places import save
from talos.provision import provider
from talos.provision.cluster import ClusterInfo, NodeInfo, Role
from talos.provision.configs import ConfigOptions, generate_configs
from talos.provision.local import CreateOptions, create_cluster, destroy_cluster, show_cluster
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.progress import NoProgress
from talos.system.errors import UserError
from talos.system.process import CommandResult, run_command

REPOSITORY = Path(__file__).parents[2]
IMAGE_VARIABLE = "TALOS_IMAGE"
IMAGES_VARIABLE = "TALOS_IMAGES"
# A slow machine may take its time; only what is measured has a tight limit.
NODE_TIMEOUT = 60.0  # seconds
KUBELET = "kubelet"
MIN_POLL_INTERVAL, MAX_POLL_INTERVAL = 0.05, 0.3
"""Seconds between two checks of what is waited for: at first, and when that lasts."""
POLL_SHARE = 0.1
"""Of the wait so far: a call of talosctl is 0.2 s of processor time, which the nodes need to get there."""


def image() -> Path:
    """The image under test."""
    path = Path(os.environ.get(IMAGE_VARIABLE) or REPOSITORY / "build/image.squashfs")
    assert path.exists(), f"there is no image at {path}: make build, or set {IMAGE_VARIABLE}"
    return path.resolve()


def image_archives() -> Path:
    """The OCI archives from which a cluster's mirror serves."""
    path = Path(os.environ.get(IMAGES_VARIABLE) or REPOSITORY / "build/images")
    assert path.exists(), f"there are no images at {path}: make images, or set {IMAGES_VARIABLE}"
    return path.resolve()


def eventually[T](
    what: str, check: Callable[[], T], *, seconds: float = NODE_TIMEOUT, pause: float | None = None
) -> T:
    """Repeat a check until it raises no AssertionError; in the end raise what it raised last.

    ``pause`` are the seconds between two times, which else become more with the wait.
    """
    began = time.monotonic()
    while True:
        try:
            return check()
        except AssertionError as error:
            waited = time.monotonic() - began
            if waited > seconds:
                raise AssertionError(f"not within {seconds:g} s: {what}: {error}") from error
        time.sleep(
            min(max(MIN_POLL_INTERVAL, POLL_SHARE * waited), MAX_POLL_INTERVAL) if pause is None else pause
        )


@dataclass(slots=True)
class Cluster:
    """A running cluster and the client's file for it."""

    name: str
    directory: Path
    talosconfig: Path

    @property
    def info(self) -> ClusterInfo:
        """What the provisioner has of it now."""
        return show_cluster(self.name, self.directory)

    @property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """Its nodes, control plane first."""
        return self.info.nodes

    @property
    def addresses(self) -> list[str]:
        """Its nodes' addresses, control plane first."""
        return [str(node.address) for node in self.nodes]

    def command(self, *argv: str) -> list[str]:
        """The argv of a talosctl command on this cluster."""
        return [sys.executable, "-m", "talos.talosctl.main", *argv]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of such a command."""
        return {**os.environ, "TALOSCONFIG": str(self.talosconfig), "PYTHONPATH": os.pathsep.join(sys.path)}

    def talosctl(self, *argv: str, check: bool = True, seconds: float = NODE_TIMEOUT) -> CommandResult:
        """Run talosctl; AssertionError with its whole output when it fails, or has no end in time."""
        try:
            result = run_command(self.command(*argv), env=self.environment, check=False, timeout=seconds)
        except UserError as error:  # a call to a machine that is switched off ends late
            result = CommandResult(returncode=-1, stdout="", stderr=str(error))
        if check:
            output = f"{result.stdout}\n{result.stderr}"
            assert result.returncode == 0, (
                f"talosctl {' '.join(argv)}: exit code {result.returncode}\n{output}"
            )
        return result

    def rows(self, *argv: str) -> list[dict[str, str]]:
        """The rows of a table that talosctl prints, by the titles of its columns."""
        return parse_table(self.talosctl(*argv).stdout)

    def resource(self, *argv: str) -> list[dict[str, object]]:
        """Resources as JSON documents."""
        text = self.talosctl("get", *argv, "-o", "json").stdout
        decoder, found, position = json.JSONDecoder(), list[dict[str, object]](), 0
        while position < len(text.rstrip()):
            value, position = decoder.raw_decode(text, position)
            found.append(value)
            while position < len(text) and text[position].isspace():
                position += 1
        return found

    def services(self, address: str = "") -> dict[str, dict[str, str]]:
        """The table of services of one node, by id."""
        node = address or self.addresses[0]
        return {row["SERVICE"]: row for row in self.rows("-e", node, "-n", node, "services")}

    def processes(self, node: NodeInfo | None = None) -> dict[str, list[int]]:
        """A node's processes as this machine sees them: pids by the first word of their command line."""
        init = (node or self.nodes[0]).pid
        assert init, "the node has no PID 1"
        namespace = Path(f"/proc/{init}/ns/pid").readlink()
        found: dict[str, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if (entry / "ns/pid").readlink() == namespace:
                    argv = (entry / "cmdline").read_bytes().split(b"\0")
                    found.setdefault(Path(argv[0].decode()).name, []).append(int(entry.name))
            except OSError:
                continue
        return found

    def root(self, node: NodeInfo | None = None) -> Path:
        """A node's file system as its PID 1 sees it."""
        return Path(f"/proc/{(node or self.nodes[0]).pid}/root")

    def consoles(self) -> dict[str, str]:
        """What every node wrote to its console."""
        return {node.name: node.console.read_text(encoding="utf-8", errors="replace") for node in self.nodes}

    def bootstrap(self) -> None:
        """Begin etcd on the first control plane node."""
        result = self.talosctl("bootstrap", "-n", self.addresses[0], check=False)
        assert result.returncode == 0 or "AlreadyExists" in result.stderr, result.stderr

    def diagnose(self) -> str:
        """What to look at when a test has failed."""
        parts: list[str] = []
        for node in self.nodes:
            address = str(node.address)
            argv = ("-e", address, "-n", address)
            commands = [("services",), ("logs", "machined", "--tail", "15")]
            if node.role is Role.CONTROL_PLANE:
                commands += [("etcd", "members"), ("etcd", "status"), ("logs", "etcd", "--tail", "15")]
            for command in commands:
                result = self.talosctl(*argv, *command, check=False, seconds=15)
                parts.append(f"--- {node.name}: {' '.join(command)}\n{result.stdout}{result.stderr}")
            console = node.console.read_text(encoding="utf-8", errors="replace").splitlines()[-25:]
            parts.append(f"--- {node.name}: console\n" + "\n".join(console))
        log = (self.info.directory / "launcher.log").read_text(encoding="utf-8").splitlines()[-10:]
        parts.append("--- launcher\n" + "\n".join(log))
        return "\n".join(parts)


@contextmanager
def running_cluster(
    directory: Path,
    *,
    controlplanes: int = 1,
    workers: int = 0,
    system: Path | None = None,
    images: Path | None = None,
    image_cache: Path | None = None,
    stamp: Path | None = None,
    configs: ConfigOptions | None = None,
    bootstrap: bool = True,
) -> Generator[Cluster]:
    """A cluster for as long as the context is open."""
    name = f"t{uuid.uuid4().hex[:8]}"
    talosconfig = directory / "talosconfig"
    chosen = ClusterOptions(
        name=name,
        subnet=free_subnet(),
        controlplanes=controlplanes,
        workers=workers,
        image=system or image(),
        stamp=stamp,
        images=None if image_cache else images or image_archives(),
        image_cache=image_cache,
    )
    options = CreateOptions(directory=directory, talosconfig=str(talosconfig), wait=0)
    cluster = Cluster(name, directory, talosconfig)
    try:
        create_cluster(chosen, configs or ConfigOptions(), options, NoProgress())
        if controlplanes and bootstrap:
            eventually("etcd is bootstrapped", cluster.bootstrap)
        for address in cluster.addresses if bootstrap else ():
            eventually(f"{address} is up", lambda node=address: check_services(cluster, node))
        yield cluster
    finally:
        destroy_cluster(name, directory, NoProgress(), talosconfig=str(talosconfig))


def check_services(cluster: Cluster, address: str, *, without: Collection[str] = ()) -> None:
    """Assert that every service of a node, ``without`` some, is healthy or skipped.

    Only tests of Kubernetes have its images: elsewhere the kubelet waits for its own.
    """
    for name, row in cluster.services(address).items():
        if name in {KUBELET, *without} or row["STATE"] == "Skipped":
            continue
        assert (row["STATE"], row["HEALTH"]) == ("Running", "OK"), f"{name}: {row}"


def parse_table(text: str) -> list[dict[str, str]]:
    """The rows of a table whose columns are separated by three spaces, by title."""
    lines = text.splitlines()
    if not lines:
        return []
    titles = lines[0].split("   ")
    names = [title.strip() for title in titles if title.strip()]
    starts = [lines[0].index(name) for name in names]
    for index in range(1, len(names)):
        starts[index] = lines[0].index(names[index], starts[index - 1] + len(names[index - 1]))
    bounds: Sequence[int | None] = [*starts[1:], None]
    return [
        {name: line[start:end].strip() for name, start, end in zip(names, starts, bounds, strict=True)}
        for line in lines[1:]
        if line.strip()
    ]


@dataclass(frozen=True, slots=True)
class Unconfigured:
    """A node that was started without a machine config; ``config`` is a file with one for it."""

    cluster: Cluster
    address: str
    config: Path

    def insecure(self, *argv: str, check: bool = True) -> CommandResult:
        """Run talosctl without credentials."""
        return self.cluster.talosctl(*argv, "--insecure", "-n", self.address, check=check)

    def secure(self, *argv: str, check: bool = True) -> CommandResult:
        """Run talosctl as the owner."""
        return self.cluster.talosctl("-e", self.address, "-n", self.address, *argv, check=check)

    def console(self) -> str:
        """What the node wrote to its console."""
        return "".join(self.cluster.consoles().values())


@contextmanager
def unconfigured_node(directory: Path) -> Generator[Unconfigured]:
    """One node without a config, for as long as the context is open."""
    name = f"t{uuid.uuid4().hex[:8]}"
    request = make_request(ClusterOptions(name=name, subnet=free_subnet(), workers=0, image=image()))
    generated = generate_configs(request, ConfigOptions())
    talosconfig, config = directory / "talosconfig", directory / "config.yaml"
    save(generated.talosconfig, talosconfig)
    config.write_text(generated.request.nodes[0].config, encoding="utf-8")
    cluster = Cluster(name, directory, talosconfig)
    try:
        provider.create(request, directory, NoProgress())
        node = Unconfigured(cluster, cluster.addresses[0], config)

        def is_there() -> None:
            result = node.insecure("version", check=False)
            assert result.returncode == 0, f"{result.stdout}{result.stderr}\n{node.console()[-3000:]}"

        eventually("the node is in maintenance", is_there)
        yield node
    finally:
        destroy_cluster(name, directory, NoProgress(), talosconfig=str(talosconfig))
