"""Kernel arguments that a machine requires to boot."""

from talos.machined.boot.machine import Machine
from talos.machined.boot.sequence import Phase, Task
from talos.system.errors import UserError
from talos.system.proc.cmdline import Cmdline

REQUIRED = (("slab_nomerge", ""), ("pti", "on"))
"""Arguments of the kernel, with the value each has to have (as upstream, after KSPP)."""


def make_requirement_phases(machine: Machine) -> tuple[Phase, ...]:
    """None in a container, whose kernel is its host's."""
    if not machine.platform.has_kernel:
        return ()

    async def enforce() -> None:
        check_arguments(machine.platform.arguments)

    return (Phase("systemRequirements", (Task("enforceKSPPRequirements", enforce),)),)


def check_arguments(arguments: Cmdline) -> None:
    """Refuse a kernel that was started without its hardening.

    UserError: naming everything that is missing.
    """
    missing = [f"{name}={value}" for name, value in REQUIRED if value not in arguments.all(name)[-1:]]
    if missing:
        raise UserError(
            f"this machine does not run without {' and '.join(missing)}",
            where="kernel arguments",
            hint="add them to the boot loader's entry",
        )
