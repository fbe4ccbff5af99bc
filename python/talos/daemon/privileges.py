"""What a daemon gives up before it does anything."""

import os
from dataclasses import dataclass

from talos.system import kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """Who a daemon runs as. ``capabilities`` are those it keeps (linux/capability.h)."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    capabilities: frozenset[int] = frozenset()


def drop_privileges(title: str, privileges: Privileges) -> None:
    """Become an unprivileged process of this title, for good.

    The title comes first (see :func:`talos.system.kernel.set_process_title`), then what
    needs privileges, at last what forbids gaining any.
    """
    kernel.set_process_title(title)
    kernel.drop_bounding_set(privileges.capabilities)
    kernel.set_keep_capabilities()
    os.setgroups(privileges.groups)
    os.setresgid(privileges.gid, privileges.gid, privileges.gid)
    os.setresuid(privileges.uid, privileges.uid, privileges.uid)
    kernel.set_capabilities(privileges.capabilities)
    kernel.set_no_new_privileges()
    os.umask(0o077)
