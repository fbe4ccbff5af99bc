"""The sandbox, tried from inside by processes of its own."""

import json
import sys

import pytest

from talos.system import sandbox
from talos.system.process import run_command

PROLOGUE = """
import ctypes, errno, json, os, signal, socket, sys
from talos.system import kernel, sandbox
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *arguments)
    return ctypes.get_errno()

def attempt(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

kernel.set_no_new_privileges()
"""


def run(program: str) -> dict[str, int]:
    result = run_command([sys.executable, "-c", PROLOGUE + program])
    return json.loads(result.stdout)


def test_denied_calls_are_refused_and_others_are_not() -> None:
    program = """
sandbox.filter_system_calls([socket.AF_UNIX, socket.AF_INET])
import threading
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
result = {str(number): call(number, 0, 0, 0, 0, 0, 0) for number in sandbox.DENIED}
result["fork"] = 0 if os.waitpid(os.fork() or os._exit(0), 0)[1] == 0 else 1
result["clone"] = call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
result["unix"] = attempt(lambda: socket.socketpair(socket.AF_UNIX))
result["inet"] = attempt(lambda: socket.socket(socket.AF_INET))
result["inet6"] = attempt(lambda: socket.socket(socket.AF_INET6))
result["netlink"] = attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
result["vsock"] = attempt(lambda: socket.socket(40, socket.SOCK_STREAM))
print(json.dumps(result))
"""
    result = run(program)
    refused, unsupported = 1, 97
    for number in sandbox.DENIED:
        assert result.pop(str(number)) == refused, number
    assert result == {
        "fork": 0,
        "clone": refused,
        "unix": 0,
        "inet": 0,
        "inet6": unsupported,
        "netlink": unsupported,
        "vsock": unsupported,
    }


def test_names_are_resolved_without_netlink() -> None:
    program = """
sandbox.filter_system_calls([socket.AF_UNIX, *sandbox.INTERNET])
found = socket.getaddrinfo("127.0.0.1", 123, type=socket.SOCK_DGRAM, flags=socket.AI_ADDRCONFIG)
print(json.dumps({"found": len(found)}))
"""
    assert run(program)["found"] > 0


def test_another_architectures_numbers_end_the_process() -> None:
    program = "sandbox.filter_system_calls([1])\ncall(0x40000000 | 39)\n"
    result = run_command([sys.executable, "-c", PROLOGUE + program], check=False)
    assert result.returncode == -31  # SIGSYS


def test_files_outside_are_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    own, other = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("other")
    (other / "secret").write_text("secret")
    (own / "here").write_text("here")
    program = f"""
os.chdir("/")
parent = os.getppid()
available = sandbox.confine_files(sandbox.Paths(readable=("/proc",), writable=({str(own)!r}, "/dev/null")))
fd = os.memfd_create("key")
result = {{
    "available": available,
    "own": attempt(lambda: open("{own}/here").read()),
    "made": attempt(lambda: open("{own}/new", "w").close()),
    "socket": attempt(lambda: socket.socket(socket.AF_UNIX).bind("{own}/s")),
    "read": attempt(lambda: open("{other}/secret").read()),
    "write": attempt(lambda: open("{other}/new", "w").close()),
    "list": attempt(lambda: os.listdir("{other}")),
    "proc": attempt(lambda: open("/proc/self/stat").read()),
    "proc write": attempt(lambda: open("/proc/self/comm", "w").close()),
    "null": attempt(lambda: open("/dev/null", "w").close()),
    "memory": attempt(lambda: open(f"/proc/self/fd/{{fd}}").close()),
    "signal": attempt(lambda: os.kill(parent, 0)),
}}
print(json.dumps(result))
"""
    result = run(program)
    if not result.pop("available"):
        pytest.skip("this kernel has no Landlock")
    denied = {"read": 13, "write": 13, "list": 13, "proc write": 13, "signal": result["signal"]}
    assert result == dict.fromkeys(result, 0) | denied
    assert result["signal"] in (0, 1)  # refused from version 6 on


def test_inherited_descriptors_are_closed() -> None:
    program = """
first, second = os.pipe(), os.pipe()
kernel.close_inherited((second[0],))
open_now = [fd for fd in range(3, 64) if attempt(lambda: os.fstat(fd)) == 0]
print(json.dumps({"open": open_now == [second[0]]}))
"""
    assert run(program)["open"]
