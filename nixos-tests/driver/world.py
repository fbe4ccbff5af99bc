"""A test while it runs: its machines, what they share, and an end that leaves nothing behind."""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from driver.accelerator import Accelerator
from driver.arguments import API_PORT
from driver.assets import Assets
from driver.boot_server import BootServer
from driver.configs import ENDPOINT, Cluster
from driver.discovery import Discovery
from driver.disks import make_iso
from driver.failure import VmTestError
from driver.hub import Forward, Hub
from driver.kms import KeyService
from driver.machine import Machine, MachineContext
from driver.node import Node
from driver.programs import Programs
from driver.releases import Releases
from driver.retry import TimeoutScale
from driver.siderolink import LinkService
from driver.web import WebServer


def free_port() -> int:
    """A port on loopback that is free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def make_show(began: float) -> Callable[[str], None]:
    """Print lines with the seconds since the test began."""

    def show(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.1f}  {line}\n")
        sys.stdout.flush()

    return show


class World(Mapping[str, Machine]):
    """The machines by name, and everything else that a test script works with."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        *,
        programs: Programs,
        assets: Assets,
        accelerator: Accelerator,
        folder: Path,
        talosctl: Path,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        """Make the machines, all of them off. ``ports`` on loopback are chosen freely when not given."""
        self.programs, self.assets, self.folder, self.talosctl = programs, assets, folder, talosctl
        self.accelerator = accelerator
        self.show = make_show(time.monotonic())
        self.timeout_scale = TimeoutScale(factor=accelerator.factor)
        around = MachineContext(
            programs=programs,
            assets=assets,
            accelerator=accelerator,
            timeout_scale=self.timeout_scale,
            folder=folder,
            talosctl=talosctl,
            show=self.show,
        )
        self.saved: Path | None = None
        """What is kept of this test when it has passed; :func:`driver.saved.save` makes it."""
        self._hub: Hub | None = None
        self._web: WebServer | None = None
        self._discovery: Discovery | None = None
        self._kms: KeyService | None = None
        self._siderolink: LinkService | None = None
        self._boot_server: BootServer | None = None
        self._machines = {
            name: Machine(
                name,
                node,
                around,
                index=index,
                ports={
                    API_PORT: (ports or {}).get(name) or free_port(),
                    **{port: free_port() for port in node.ports},
                },
            )
            for index, (name, node) in enumerate(nodes.items(), start=1)
        }
        if lan := [name for name, node in nodes.items() if node.lan or node.address]:
            self._hub = Hub(programs, folder, lan, self._make_forwards())
            for name, path in self._hub.sockets.items():
                self._machines[name].lan = path

    def _make_forwards(self) -> list[Forward]:
        return [
            Forward(port=port, address=machine.node.address, target=target)
            for machine in self._machines.values()
            if machine.node.address
            for target, port in machine.ports.items()
        ]

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._machines)

    def __len__(self) -> int:
        return len(self._machines)

    @property
    def hub(self) -> Hub:
        """The network that machines share."""
        assert self._hub, "no machine of this test is on a shared network"
        return self._hub

    @property
    def discovery(self) -> str:
        """Our own discovery server's address for machines, started on first use."""
        if self._discovery is None:
            self._discovery = Discovery(self.assets, self.folder, free_port())
        return self._discovery.url

    @property
    def kms(self) -> KeyService:
        """A key management service, which the test starts and stops."""
        if self._kms is None:
            self._kms = KeyService(self.assets, self.folder, free_port())
        return self._kms

    @property
    def siderolink(self) -> LinkService:
        """A management service, which the test starts."""
        if self._siderolink is None:
            self._siderolink = LinkService(self.assets, self.folder, free_port())
        return self._siderolink

    @property
    def boot_server(self) -> BootServer:
        """A boot server, which the test starts."""
        if self._boot_server is None:
            arguments = self.accelerator.arguments
            self._boot_server = BootServer(self.assets, self.folder, free_port(), arguments)
        return self._boot_server

    @property
    def web(self) -> WebServer:
        """A web server that the machines reach, started on first use."""
        if self._web is None:
            self._web = WebServer()
        return self._web

    def releases(self) -> Releases:
        """Releases of a key of the test's own."""
        return Releases(self.assets, self.web, self.folder)

    def cluster(self, name: str = "vm", endpoint: str = ENDPOINT) -> Cluster:
        """Secrets and configs of a cluster: a new one, or that of machines that were restored."""
        return Cluster(self.talosctl, self.folder / f"cluster-{name}", name, endpoint)

    def iso(self, label: str, **files: str) -> Path:
        """An ISO volume; the files' names have their dot written as two underscores."""
        named = {name.replace("__", "."): text for name, text in files.items()}
        return make_iso(self.programs, self.folder, label, named)

    def section(self, title: str) -> None:
        """Log which part of the test begins."""
        self.show(f"=== {title}")

    def check(self) -> None:
        """Fail when a console shows what it must never show."""
        for machine in self._machines.values():
            try:
                machine.console.check()
            except VmTestError as error:
                raise VmTestError(f"{machine.name}: {error}\n{machine.diagnose()}") from error

    def close(self) -> None:
        """Switch everything off."""
        for machine in self._machines.values():
            machine.close()
        for server in (self._hub, self._discovery):
            if server is not None:
                server.close()
        for service in (self._kms, self._siderolink, self._boot_server):
            if service is not None:
                service.stop()
        if self._web is not None:
            self._web.close()
