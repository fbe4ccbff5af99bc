"""The one door to other programs.

:func:`run_command` is for the workstation: commands, tests, provisioning. :func:`spawn` is
what PID 1 uses, because there everything is reaped in one place and nothing may fork once
gRPC runs.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError

_LOADER, _LIBRARIES = "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. The exit code is negative for a signal."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a program ended that PID 1 or :func:`run_filter` ran. The exit code is negative for a signal."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""


def find_line(done: Finished, index: int) -> str:
    """A line of a program's output about its failure, 0 the first, -1 the last."""
    lines = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").splitlines()
    return lines[index] if lines else "no reason given"


def format_command(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """A command as one may paste it into a shell."""
    line = shlex.join(argv)
    return line if cwd is None else f"cd {shlex.quote(str(cwd))} && {line}"


def make_pinned_argv(root: str, program: str) -> tuple[str, ...]:
    """The start of the argv of a program of a root of pinned packages, whose own loader runs it on any host.

    ``program`` is its path within the root.
    """
    return (f"{root}/{_LOADER}", "--library-path", f"{root}/{_LIBRARIES}", f"{root}/{program}")


def run_command(
    argv: Sequence[str],
    *,
    input: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout: float | None = None,
    pass_fds: Sequence[int] = (),
    log: Callable[[str], None] = lambda _: None,
) -> CommandResult:
    """Run a command to its end and give back what it wrote.

    ``log`` gets the command in a form that can be pasted. With ``check`` a failure is a
    UserError that shows the command and the end of its output. ``timeout`` in seconds.
    """
    line = format_command(argv, cwd=cwd)
    log(line)
    try:
        done = subprocess.run(  # noqa: S603 - this is the door
            list(argv),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=env,
            cwd=cwd,
            timeout=timeout,
            pass_fds=tuple(pass_fds),
            check=False,
        )
    except FileNotFoundError as error:
        raise UserError(f"{argv[0]} is not installed", where=line, hint=str(error)) from None
    except subprocess.TimeoutExpired:
        raise UserError(f"no end after {timeout} s", where=line) from None
    if check and done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise UserError(f"failed with {describe_exit(done.returncode)}: {output}", where=line)
    return CommandResult(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)


def run_filter(
    argv: Sequence[str], data: bytes, *, env: Mapping[str, str], timeout: float | None = None
) -> Finished:
    """Give a program on the workstation bytes on its standard input; how it ended, and what it wrote.

    UserError for one that can't be started, or has no end after ``timeout`` seconds.
    """
    try:
        done = subprocess.run(  # noqa: S603 - this is the door
            list(argv), input=data, capture_output=True, env=env, timeout=timeout, check=False
        )
    except OSError as error:
        raise UserError(f"{argv[0]} can't be started: {error.strerror}", hint="is it installed?") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"no end after {timeout:g} s", where=argv[0]) from None
    return Finished(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def start_command(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    new_session: bool = False,
    log: Callable[[str], None] = lambda _: None,
) -> "subprocess.Popen[bytes]":
    """Start a command on the workstation and leave it running; a missing stream is /dev/null."""
    line = format_command(argv, cwd=cwd)
    log(line)
    try:
        return subprocess.Popen(  # noqa: S603 - this is the door
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.DEVNULL if stdout is None else stdout,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            env=env,
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            start_new_session=new_session,
        )
    except FileNotFoundError as error:
        raise UserError(f"{argv[0]} is not installed", where=line, hint=str(error)) from None


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> int:
    """Start a program without forking Python; its pid. The caller's reaper gets its exit code.

    The program gets default signal handling, a session of its own, and /dev/null where no stdin is given.
    """
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
        if stdin is None
        else (os.POSIX_SPAWN_DUP2, stdin, 0)
    ]
    if stdout is not None:
        actions.append((os.POSIX_SPAWN_DUP2, stdout, 1))
    if stderr is not None:
        actions.append((os.POSIX_SPAWN_DUP2, stderr, 2))
    return os.posix_spawn(
        argv[0],
        list(argv),
        dict(env),
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=[
            number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)
        ],
    )


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds that a thread ran, and that it was ready and had no processor."""

    ran: float
    waited: float


def read_processor_times(pid: int) -> dict[str, ProcessorTime]:
    """Those of each thread of a process; none of a process that has ended.

    ``/proc/<pid>/task/<tid>/schedstat`` is nanoseconds on a processor, nanoseconds waiting for one, turns.
    """
    times: dict[str, ProcessorTime] = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            ran, waited, _ = (thread / "schedstat").read_text(encoding="ascii").split()
            times[thread.name] = ProcessorTime(int(ran) / 1e9, int(waited) / 1e9)
    return times


def set_oom_score(pid: int, score: int) -> None:
    """Set how likely the kernel kills a process when memory is short.

    The process may have ended already, and a kernel refuses scores below its launcher's.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score), encoding="ascii")


def describe_exit(code: int) -> str:
    """An exit code as text: ``exit code 1``, ``signal SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
