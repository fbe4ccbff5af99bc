"""A supervisor with one container as its service, in a node's pid namespace. Prints one JSON object.

Arguments: the port of a registry on this machine, the name of a scenario, and the image.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.machined.containerd import client, pipes
from talos.machined.containerd.archive import import_archive
from talos.machined.containerd.client import PODS, SYSTEM, Containerd
from talos.machined.containerd.spec import ContainerSpec, Mount
from talos.machined.containerd.store import find_image
from talos.machined.logs.store import LogStore
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.events import EventLog
from talos.machined.platform.platform import ContainerPlatform
from talos.machined.services.processes import ProcessRunner
from talos.machined.services.reaper import Reaper
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.spec import RunContainer, ServiceContext, ServiceSpec
from talos.machined.services.supervisor import Supervisor
from talos.process.run import Daemon, host
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.rpc.channel import open_channel
from talos.system.cgroups import NoGroups
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline

NODE = "/proc/1/root"
SOCKET = f"{NODE}{client.CRI_SOCKET}"
GROUP = "podruntime/sample"
PYTHON = "/usr/bin/python3.13"
pipes.FOLDER = Path(f"{NODE}{pipes.FOLDER}")


def make_spec(image: str, script: str) -> ContainerSpec:
    """A container that runs a script with the node's interpreter, and has a file of its image."""
    folders = ("/usr", "/lib", "/lib64", "/talos")
    return ContainerSpec(
        image=image,
        argv=(PYTHON, "-I", "-S", "-c", script),
        environment={"GREETING": "hello"},
        uid=60,
        gid=60,
        mounts=tuple(
            Mount(source=folder, target=folder) for folder in folders if Path(NODE + folder).is_dir()
        ),
    )


class Bench:
    """A supervisor with one service ``sample``."""

    def __init__(self, daemon: Daemon, port: int, image: str) -> None:
        self.daemon, self.logs, self.state = daemon, LogStore(), MemoryState()
        self.port, self.image = port, image

        async def make(_context: ServiceContext) -> ContainerSpec:
            return make_spec(image, SCRIPT)

        connect = partial(open_channel, daemon)
        service = ServiceSpec(id="sample", start=RunContainer(make=make, socket=SOCKET), group=GROUP)
        reaper = Reaper()
        context = RunnerContext(
            reaper=reaper,
            zygote=cast("Any", None),
            logs=self.logs,
            groups=NoGroups(),
            service=ServiceContext(
                platform=ContainerPlatform(arguments=parse_cmdline(""), handover=Path("/nonexistent")),
                state=self.state,
                connect=connect,
                etcd=EtcdControl(),
                processes=ProcessRunner(reaper, self.logs),
            ),
            connect=connect,
            log=daemon.log,
        )
        self.supervisor = Supervisor([replace(service, stop_timeout=5.0)], context, EventLog(), self.state)

    async def configure(self) -> None:
        """Have the one registry serve every image."""
        endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{self.port}")
        mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
        spec = RegistriesConfigSpec(registry_mirrors={"*": mirror})
        await put(self.state, *ids.REGISTRY_CONFIG, spec)

    async def read_log(self) -> str:
        async with self.logs.read("sample") as chunks:
            return b"".join([chunk async for chunk in chunks]).decode()

    async def messages(self) -> list[str]:
        return [event.message for event in self.supervisor.get("sample").events]


async def until(predicate: Callable[[], bool], seconds: float = 30) -> None:
    with trio.fail_after(seconds):
        while not predicate():  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.02)


SCRIPT = """
import _signal, os, sys, time
_signal.signal(_signal.SIGTERM, lambda *_: os._exit(0))
print(os.environ["GREETING"], os.getuid(), os.getpid(), open("/sample/file").read(), flush=True)
print("on stderr", file=sys.stderr, flush=True)
try:
    open("/sample/file", "w")
except OSError as error:
    print("read-only", error.errno, flush=True)
while True:
    time.sleep(0.1)
"""


async def lifecycle(bench: Bench) -> dict[str, Any]:
    """Pulled, run, killed and back, its containerd replaced, stopped; nothing is left."""
    result: dict[str, Any] = {}
    supervisor = bench.supervisor
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        first = supervisor.get("sample").pid
        result["group"] = await trio.Path(f"/proc/{first}/cgroup").read_text(encoding="ascii")
        while "read-only" not in await bench.read_log():  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.02)
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.get("sample").pid not in (0, first))
        second = supervisor.get("sample").pid
        result["replaced"] = replaced = kill_containerd()
        await until(lambda: is_serving(replaced))
        result["survived"] = supervisor.get("sample").pid == second
        await supervisor.stop_all()
        result["state"] = supervisor.get("sample").state.value
        result["messages"] = await bench.messages()
        result["log"] = await bench.read_log()
        async with open_channel(bench.daemon, SOCKET) as transport:
            containerd = Containerd(transport, SYSTEM)
            result["image"] = await find_image(containerd, bench.image) is not None
            result["left"] = await list_left(containerd)
        nursery.cancel_scope.cancel()
    return result


async def stopped(bench: Bench) -> dict[str, Any]:
    """Stopped at every moment of its start: it ends, and nothing is left."""
    supervisor = bench.supervisor
    states: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        await supervisor.stop_all()
        for moment in range(16):
            supervisor.start_soon(["sample"])
            await trio.sleep(moment * 0.02)
            with trio.fail_after(30):
                await supervisor.stop_all()
            states.append(supervisor.get("sample").state.value)
        async with open_channel(bench.daemon, SOCKET) as transport:
            left = await list_left(Containerd(transport, SYSTEM))
        nursery.cancel_scope.cancel()
    return {"states": states, "left": left}


async def broken(bench: Bench) -> dict[str, Any]:
    """A pull that fails is the message of the service, on one line; and again and again."""
    supervisor = bench.supervisor
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(
            lambda: any("again" in event.message for event in supervisor.get("sample").events), seconds=120
        )
        result = {"messages": await bench.messages()}
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return result


async def imported(bench: Bench) -> dict[str, Any]:
    """An archive, the fourth argument: imported, damaged, truncated; nothing of the latter is kept."""
    archive = await trio.Path(sys.argv[4]).read_bytes()
    texts: dict[str, str] = {}
    async with open_channel(bench.daemon, SOCKET) as transport:
        containerd = Containerd(transport, SYSTEM)
        for name, data in make_archives(archive).items():
            try:
                texts[name] = " ".join(await import_archive(containerd, cut(data), root="/"))
            except UserError as error:
                texts[name] = str(error)
        found = await find_image(containerd, bench.image)
    return {"texts": texts, "layers": len(found.manifest.layers) if found else 0}


async def loaded(bench: Bench) -> dict[str, Any]:
    """An archive, the fourth argument, is imported for pods."""
    archive = await trio.Path(sys.argv[4]).read_bytes()
    async with open_channel(bench.daemon, SOCKET) as transport:
        return {"names": await import_archive(Containerd(transport, PODS), cut(archive), root="/")}


def make_archives(archive: bytes) -> dict[str, bytes]:
    """The archive and what may become of it."""
    middle = archive.index(b"in the middle")
    return {
        "damaged": archive[:middle] + b"IN" + archive[middle + 2 :],
        "truncated": archive[: middle + 2],
        "compressed": b"\x1f\x8b" + bytes(510),
        "no archive": b"x" * 512,
        "empty": b"",
        "whole": archive,
    }


async def cut(data: bytes) -> AsyncGenerator[bytes]:
    """Chunks of odd sizes."""
    for start in range(0, len(data), 777):
        yield data[start : start + 777]


async def list_left(containerd: Containerd) -> list[str]:
    from talos.api.containerd import containers_pb2, tasks_pb2

    listed = await containerd.call(
        "containers.v1.Containers/List",
        containers_pb2.ListContainersRequest(),
        containers_pb2.ListContainersResponse,
    )
    tasks = await containerd.call(
        "tasks.v1.Tasks/List", tasks_pb2.ListTasksRequest(), tasks_pb2.ListTasksResponse
    )
    names = [container.id for container in listed.containers]
    names += [task.container_id or task.id for task in tasks.tasks]
    return [name for name in names if name == "sample"]


def find_cri() -> int:
    """The pid of the instance for Kubernetes, 0 while there is none."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if b"/etc/cri/containerd.toml" in (entry / "cmdline").read_bytes().split(b"\0"):
                return int(entry.name)
    return 0


def kill_containerd() -> int:
    pid = find_cri()
    os.kill(pid, signal.SIGKILL)
    return pid


def is_serving(old: int) -> bool:
    import socket

    if find_cri() in (0, old):
        return False
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(SOCKET) == 0


SCENARIOS = {
    "lifecycle": lifecycle,
    "broken": broken,
    "stopped": stopped,
    "imported": imported,
    "loaded": loaded,
}


def main() -> None:
    port, name, image = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    scenario = SCENARIOS[name]
    result: dict[str, Any] = {}

    async def run(daemon: Daemon) -> None:
        bench = Bench(daemon, port, image)
        await bench.configure()
        result.update(await scenario(bench))

    asyncio.run(host(run, "test", Log()))
    sys.stdout.write(json.dumps(result))


main()
