"""Programs that PID 1 or containerd start for what anyone may have written: confined and bounded."""

import resource
from collections.abc import Collection, Mapping

from talos.process.privileges import READABLE, Privileges, drop_privileges
from talos.system import sandbox

MAX_MEMORY = 512 * 1024 * 1024
"""Bytes of addresses; a stream of zstd may request 128 MiB."""
_UNPRIVILEGED = Privileges(uid=65534, gid=65534)


def confine_program(
    title: str, limits: Mapping[int, int] | None = None, families: Collection[int] = ()
) -> None:
    """Give up for good what this process does not need: it reads the image, and what it has open already.

    ``limits`` are the kernel's, by number, beside those of memory and core files. It opens sockets of these
    address families only.
    """
    all_limits = {resource.RLIMIT_AS: MAX_MEMORY, **(limits or {}), resource.RLIMIT_CORE: 0}
    for number, value in all_limits.items():
        resource.setrlimit(number, (value, value))
    drop_privileges(title, _UNPRIVILEGED)
    sandbox.confine_files(sandbox.Paths(readable=READABLE))
    sandbox.filter_system_calls(families)
