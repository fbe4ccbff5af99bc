"""The sequence ``install``: a configured machine without a system on its disk gets one and boots it."""

from talos.machined.machine import Machine
from talos.machined.sequence import Phase


async def make_install(machine: Machine) -> tuple[Phase, ...]:
    """Nothing to do where there is nothing to install to."""
    del machine
    return ()
