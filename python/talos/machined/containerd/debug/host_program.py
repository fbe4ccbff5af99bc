"""A program in the node's own mount namespace, with another root: a container's first process becomes it.

The container gives it all else: control group, terminal, an end with all of its processes. A runtime can't
run a container without a mount namespace soundly: runc would mount in the node's, and leave that there.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

NAMESPACE = "/proc/1/ns/mnt"
"""That of PID 1, in whose pid namespace the container is."""
FAILURE = 1
"""The exit code when the program can't be run, as upstream."""


def make_argv(root: str, argv: Sequence[str]) -> tuple[str, ...]:
    """What the container runs, with the node's own files as its root."""
    path = [entry for entry in sys.path if entry]
    program = (
        f"import sys; sys.path[:] = {path!r}; from talos.startup.bundle import BUNDLES, install; "
        f"install(BUNDLES); from {__name__} import main; main()"
    )
    return (sys.executable, "-I", "-S", "-c", program, root, *argv)


def main() -> None:
    """Enter the namespace and the root of the first argument, and become the program of the others."""
    root, *argv = sys.argv[1:]
    for number in signal.valid_signals():
        with suppress(OSError):  # SIGKILL and SIGSTOP have no other
            signal.signal(number, signal.SIG_DFL)
    try:
        namespace = os.open(NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        os.setns(namespace, os.CLONE_NEWNS)
        os.chroot(root)
        os.chdir("/")
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - without a shell, by intent
    except OSError as error:
        sys.stderr.write(f"{argv[0]} can't be run: {error.strerror}\n")
        sys.exit(FAILURE)
