"""The CA of three nodes is rotated there and back again while a client calls all of them without a pause."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from tests.harness.cluster import Cluster

from talos.api.machine.machine_pb2 import VersionResponse
from talos.api.rpc import RpcError
from talos.client.endpoint import parse_endpoint
from talos.client.session import open_session
from talos.client.target import Target
from talos.config.talosconfig.text import parse_talosconfig
from talos.system.errors import UserError


def read_target(path: Path) -> Target:
    context = parse_talosconfig(path.read_bytes(), source=str(path)).current
    endpoints = tuple(map(parse_endpoint, context.endpoints))
    return Target(endpoints=endpoints, nodes=(), ca=context.ca, crt=context.crt, key=context.key)


@dataclass
class Caller:
    """Calls every node, directly and through another one, freshly connected, with any file that works."""

    files: list[Path]
    routes: list[tuple[str, str]]
    stopping: threading.Event = field(default_factory=threading.Event)
    calls: int = 0
    failures: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        while not self.stopping.is_set():
            for endpoint, node in self.routes:
                self.calls += 1
                errors = asyncio.run(self._call(endpoint, node))
                if errors:
                    self.failures.append(f"{node} through {endpoint}: {'; '.join(errors)}")

    async def _call(self, endpoint: str, node: str) -> list[str]:
        errors: list[str] = []
        for file in reversed(self.files):
            if not file.exists():
                continue
            target = replace(read_target(file), endpoints=(parse_endpoint(endpoint),))
            routed = "" if node == endpoint else node
            try:
                async with open_session(target) as session:
                    path = "/machine.MachineService/Version"
                    await session.unary(routed, path, Empty(), VersionResponse, timeout=10)
            except (RpcError, UserError) as error:
                errors.append(f"{file.name}: {error}")
            else:
                return []
        return errors


@contextmanager
def calling(files: list[Path], addresses: list[str]) -> Generator[Caller]:
    first, second, worker = addresses
    routes = [(address, address) for address in addresses] + [
        (first, second),
        (second, worker),
        (first, worker),
    ]
    caller = Caller(files, routes)
    thread = threading.Thread(target=caller.run)
    thread.start()
    try:
        yield caller
    finally:
        caller.stopping.set()
        thread.join()


def test_the_api_is_reachable_at_every_moment(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.addresses[0]
    old = cluster.talosconfig
    shown = cluster.talosctl("-n", first, "rotate-ca", "--kubernetes=false")
    assert "skipped (dry-run)" in shown.stdout
    assert "PRIVATE KEY" not in shown.stdout
    for number in (1, 2):
        new = tmp_path / f"talosconfig-{number}"
        argv = ("-n", first, "rotate-ca", "--kubernetes=false", "--dry-run=false", "--with-docs=false")
        with calling([old, new], cluster.addresses) as caller:
            result = cluster.talosctl(
                "--talosconfig", str(old), *argv, "--with-examples=false", "--output", str(new), seconds=180
            )
        assert not caller.failures, f"{caller.failures[:5]}\n{result.stdout}"
        assert caller.calls >= 2 * len(caller.routes)
        refused = cluster.talosctl("--talosconfig", str(old), "-n", first, "version", check=False)
        assert refused.returncode
        assert "its CA was rotated" in refused.stderr or "not signed by the CA" in refused.stderr
        assert cluster.talosctl("--talosconfig", str(new), "-n", ",".join(cluster.addresses), "version")
        old = new
    cluster.talosconfig.write_bytes(old.read_bytes())
