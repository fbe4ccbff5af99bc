"""The process from which daemons are forked.

PID 1 forks it before its event loops run, which do not survive a fork. It imports the
daemons' modules once, so a daemon starts in milliseconds and shares that memory with the
others. On request it forks twice, which makes PID 1 the daemon's parent. Its loop is one
thread without an event loop; PID 1's end is in :mod:`talos.machined.services.zygote_client`.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import ssl
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from talos.machined.platform.handover import is_container
from talos.process.daemons import APID, DAEMONS, RUN
from talos.process.listener import LISTENER_FD
from talos.process.privileges import Privileges, drop_privileges, enter_sandbox
from talos.process.ready import READY_FD
from talos.startup.bundle import open_bundles
from talos.system import kernel
from talos.system.memory import keep_objects, number_versions
from talos.system.sandbox import NO_PATHS, Paths

MAX_REQUEST = 16 * 1024
"""Bytes of one request on the socket between PID 1 and the zygote."""
MAX_DESCRIPTORS = 3
"""Of one request: the daemon's output, its readiness pipe, and its listening socket, if it has one."""
PID_FORMAT = "i"
ZYGOTE_FD = 3
"""The file descriptor of the socket in a restarted zygote."""
WARM_UP_MODULE = "talos.startup.warm_up"
TLS_MODULE = APID.module
SOCKET_DIRECTORIES = (RUN, "/run")
"""Where the node's sockets are; daemons see no other files there."""
ARENAS = 2
"""malloc arenas of a daemon; by default each thread has one."""
FAILED_TO_START = 70
"""Exit code of a daemon that failed before its main function; EX_SOFTWARE of sysexits.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """A daemon to start.

    ``paths`` are directories that it sees writable, all else is read-only, and those that it reads beside
    what every daemon does; ``sockets`` are the directories of the sockets that it connects to; ``families``
    are the address families of its sockets.
    """

    module: str
    title: str
    uid: int
    gid: int
    capabilities: tuple[int, ...] = ()
    paths: Paths = NO_PATHS
    sockets: tuple[str, ...] = ()
    families: tuple[int, ...] = ()
    environment: Mapping[str, str]

    def encode(self) -> bytes:
        """Encode it for the socket."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"environment": dict(self.environment), "paths": asdict(self.paths)}
        return json.dumps(values).encode()


def parse_request(data: bytes) -> ForkRequest:
    """A request from the socket."""
    values: dict[str, Any] = json.loads(data)
    for name in ("capabilities", "sockets", "families"):
        values[name] = tuple(values[name])
    values["paths"] = Paths(**{name: tuple(paths) for name, paths in values["paths"].items()})
    return ForkRequest(**values)


def fork_zygote(first: Sequence[str] = ()) -> tuple[socket.socket, int]:
    """Fork the zygote: the socket to it, and its pid. Only before event loops run.

    ``first`` are modules to load before all others; daemons of these are forked as soon as theirs is there.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            run_zygote(theirs, parent, first)
        except BaseException:  # noqa: BLE001 - a fork never returns into its parent's code
            traceback.print_exc()
            os._exit(FAILED_TO_START)
    theirs.close()
    return ours, pid


def main() -> None:
    """A zygote in an interpreter of its own, after the first one was lost."""
    run_zygote(socket.socket(fileno=ZYGOTE_FD), os.getppid())


def run_zygote(requests: socket.socket, parent: int, first: Sequence[str] = ()) -> NoReturn:
    """Serve requests until PID 1 closes the socket."""
    os.setsid()  # not to receive signals of a terminal or process group
    gc.disable()  # daemons enable it
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    kernel.set_process_title("zygote")
    names = (*first, *find_modules(), "encodings.idna")
    steps: list[Callable[[], None]] = [partial(import_module, name) for name in names]
    steps.insert(max(1, len(first)), run_ahead)
    steps.append(number_versions)
    while True:
        # Import ahead while there is no request.
        if steps and not select.select([requests], [], [], 0)[0]:
            steps.pop(0)()
            continue
        data, fds, _flags, _address = socket.recv_fds(requests, MAX_REQUEST, MAX_DESCRIPTORS)
        if not data:
            os._exit(0)
        request = parse_request(data)
        # What is written after a fork is no longer shared with the daemon: all but the first get everything.
        while steps and request.module not in first:
            steps.pop(0)()
        import_module(request.module)
        pid = _fork_twice(request, fds, requests, parent)
        for fd in fds:
            os.close(fd)
        requests.send(struct.pack(PID_FORMAT, pid))


def find_modules() -> list[str]:
    """The modules of this node's daemons, in the order in which a booting node starts them."""
    has_devices = not is_container()
    return [daemon.module for daemon in DAEMONS if has_devices or not daemon.needs_devices]


def import_module(name: str) -> None:
    """Import a module and freeze all objects, so that the collector does not copy shared pages."""
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a daemon that can't be imported must not affect the others
        sys.stderr.write(f"zygote: {name} can't be imported\n{traceback.format_exc()}")
    if name == TLS_MODULE:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # the first one makes OpenSSL's tables, 2 MiB
    keep_objects(shared=True)


def run_ahead() -> None:
    """Run what all daemons run, and keep what came of it."""
    importlib.import_module(WARM_UP_MODULE).warm_up()
    keep_objects(shared=True)


def _fork_twice(request: ForkRequest, fds: list[int], requests: socket.socket, parent: int) -> int:
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            os.close(reading)
            requests.close()
            _become_daemon(request, fds, writing, parent)
        os._exit(0)
    os.close(writing)
    os.waitpid(middle, 0)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        answer = pipe.read()
    return struct.unpack(PID_FORMAT, answer)[0] if answer else 0


def _become_daemon(request: ForkRequest, fds: list[int], writing: int, parent: int) -> NoReturn:
    code = FAILED_TO_START
    try:
        os.setsid()
        while os.getppid() != parent:  # until the middle process has ended and PID 1 is the parent
            time.sleep(0.0002)
        os.write(writing, struct.pack(PID_FORMAT, os.getpid()))
        os.close(writing)
        output, ready, *listener = fds
        _connect(output)
        kernel.close_inherited((ready, *listener, *open_bundles()))
        kernel.limit_arenas(ARENAS)
        os.environ.clear()
        os.environ.update({**request.environment, READY_FD: str(ready)})
        if listener:
            os.environ[LISTENER_FD] = str(listener[0])
        make_private_view(request.paths.writable, request.sockets)
        drop_privileges(
            request.title,
            Privileges(
                uid=request.uid,
                gid=request.gid,
                capabilities=frozenset(request.capabilities),
            ),
        )
        enter_sandbox(request.families, request.paths)
        code = 1
        main = importlib.import_module(request.module).main
        gc.enable()
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - any error ends the process
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _connect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


def make_private_view(writable: tuple[str, ...], sockets: tuple[str, ...]) -> None:
    """Enter a private mount namespace, read-only except for some directories shared with the host.

    Of the sockets on the node only those in its own directory and in ``sockets`` are there: Landlock
    does not cover connecting, and some belong to programs that serve every client. The system's
    shared memory and message queues of others are out of reach as well.
    """
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    writable = tuple(directory for directory in writable if Path(directory).is_dir())
    hidden = (*writable, *(directory for directory in sockets if Path(directory).is_dir()))
    hidden = tuple(path for path in hidden if path.startswith(tuple(f"{top}/" for top in SOCKET_DIRECTORIES)))
    kept = {path: os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in hidden}
    for directory in writable:
        if directory not in kept:
            kernel.mount(directory, directory, flags=kernel.MS_BIND | kernel.MS_REC)
    for top in filter(os.path.isdir, SOCKET_DIRECTORIES):
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("tmpfs", top, "tmpfs", flags=flags, data="mode=0755,size=64k")
    for directory, descriptor in kept.items():
        Path(directory).mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{descriptor}", directory, flags=kernel.MS_BIND)
        os.close(descriptor)
    kernel.set_read_only("/", read_only=True, recursive=True)
    for directory in writable:
        kernel.set_read_only(directory, read_only=False)


if __name__ == "__main__":
    main()
