"""The process from which daemons are forked, and what runs in the workloads' own namespaces.

PID 1 forks it before its event loops run, which do not survive a fork. It imports the
daemons' modules once, so a daemon starts in milliseconds and shares that memory with the
others. On request it forks twice, which makes PID 1 the new process's parent. Its loop is one
thread without an event loop; PID 1's end is in :mod:`talos.machined.services.zygote_client`.
"""

import gc
import importlib
import os
import select
import signal
import socket
import ssl
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from talos.machined.platform.handover import is_container
from talos.machined.services import isolation
from talos.machined.services.zygote_request import (
    MAX_DESCRIPTORS,
    MAX_REQUEST,
    PID_FORMAT,
    ExecuteRequest,
    ForkRequest,
    IsolateRequest,
    Request,
    parse_request,
)
from talos.process.daemons import APID, DAEMONS, RUN
from talos.process.listener import LISTENER_FD
from talos.process.privileges import Privileges, drop_privileges, enter_sandbox
from talos.process.ready import READY_FD
from talos.startup.bundle import open_bundles
from talos.system import kernel
from talos.system.memory import keep_objects, number_versions

ZYGOTE_FD = 3
"""The file descriptor of the socket in a restarted zygote."""
WARM_UP_MODULE = "talos.startup.warm_up"
TLS_MODULE = APID.module
SOCKET_DIRECTORIES = (RUN, "/run")
"""Where the node's sockets are; daemons see no other files there."""
ARENAS = 2
"""malloc arenas of a daemon; by default each thread has one."""
NAMESPACES_GONE = "the namespaces of workloads have ended: sandboxd is started again, and then this process"
FAILED_TO_START = 70
"""Exit code of a daemon that failed before its main function; EX_SOFTWARE of sysexits.h."""


def fork_zygote(first: Sequence[str] = ()) -> tuple[socket.socket, int]:
    """Fork the zygote: the socket to it, and its pid. Only before event loops run.

    ``first`` are modules to load before all others; daemons of these are forked as soon as theirs is there.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            run_zygote(theirs, first)
        except BaseException:  # noqa: BLE001 - a fork never returns into its parent's code
            traceback.print_exc()
            os._exit(FAILED_TO_START)
    theirs.close()
    return ours, pid


def main() -> None:
    """A zygote in an interpreter of its own, after the first one was lost."""
    run_zygote(socket.socket(fileno=ZYGOTE_FD))


def run_zygote(requests: socket.socket, first: Sequence[str] = ()) -> NoReturn:
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
        module = request.module if isinstance(request, ForkRequest) else ""
        while steps and module not in first:
            steps.pop(0)()
        if module:
            import_module(module)
        pid = _fork_twice(request, fds, requests)
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
    """Run what all daemons run, and keep the results."""
    importlib.import_module(WARM_UP_MODULE).warm_up()
    keep_objects(shared=True)


def _fork_twice(request: Request, fds: list[int], requests: socket.socket) -> int:
    """The pid of a process that becomes what is requested; 0 when it could not be made.

    When the middle process has been waited for, PID 1 is the parent.
    """
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        requests.close()
        os.close(reading)
        _run_middle(request, fds, writing)
    os.close(writing)
    os.waitpid(middle, 0)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        answer = pipe.read()
    return struct.unpack(PID_FORMAT, answer)[0] if answer else 0


def _run_middle(request: Request, fds: list[int], writing: int) -> NoReturn:
    try:
        output, *rest = fds
        _connect(output)
        match request:
            case ForkRequest():
                pass
            case IsolateRequest():
                isolation.make_namespaces()
            case ExecuteRequest():
                isolation.enter_namespaces(rest[0])
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            _become(request, rest)
        os.write(writing, struct.pack(PID_FORMAT, pid))
    except ProcessLookupError:  # sandboxd has ended meanwhile, and is started again like this one
        sys.stderr.write(f"{NAMESPACES_GONE}\n")
    except BaseException:  # noqa: BLE001 - a fork never returns into its parent's code
        traceback.print_exc()
    finally:
        os._exit(0)


def _become(request: Request, fds: list[int]) -> NoReturn:
    code = FAILED_TO_START
    try:
        os.setsid()
        match request:
            case IsolateRequest():
                (ready,) = fds
                kernel.close_inherited((ready, *open_bundles()))
                isolation.run_first_process(request.title, ready)
            case ExecuteRequest():
                kernel.close_inherited(())
                isolation.execute(request.argv, request.environment)
            case ForkRequest():
                _become_daemon(request, fds)
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


def _become_daemon(request: ForkRequest, fds: list[int]) -> None:
    ready, *listener = fds
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
