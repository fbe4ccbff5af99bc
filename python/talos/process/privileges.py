"""The privileges that a daemon drops before it does anything."""

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from talos.system import kernel, sandbox
from talos.system.sandbox import Paths

READABLE = ("/usr", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev/random", "/dev/urandom", "/dev/zero")
"""What every daemon may read, as far as its uid lets it: the image, and the kernel's views of itself."""
_COMMON = Paths(readable=READABLE, writable=("/dev/null",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """The user that a daemon runs as. ``capabilities`` are those it keeps (linux/capability.h)."""

    uid: int
    gid: int
    capabilities: frozenset[int] = frozenset()


def drop_privileges(title: str, privileges: Privileges) -> None:
    """Become an unprivileged process of this title, for good.

    The title comes first (see :func:`talos.system.kernel.set_process_title`), then what
    needs privileges, at last what forbids gaining any.
    """
    kernel.set_process_title(title)
    kernel.drop_bounding_set(privileges.capabilities)
    kernel.set_keep_capabilities()
    os.setgroups(())
    os.setresgid(privileges.gid, privileges.gid, privileges.gid)
    os.setresuid(privileges.uid, privileges.uid, privileges.uid)
    kernel.set_capabilities(privileges.capabilities)
    kernel.set_no_new_privileges()
    os.umask(0o077)


def enter_sandbox(families: Iterable[int], paths: Paths) -> None:
    """Forbid this process for good what no daemon does; after :func:`drop_privileges`.

    It opens sockets of these address families and of unix sockets, and no files but the image's, the
    kernel's, and those of ``paths``. A kernel without Landlock leaves files to uid and mounts.
    """
    sandbox.confine_files(_COMMON | paths)
    sandbox.filter_system_calls({int(socket.AF_UNIX), *families})
