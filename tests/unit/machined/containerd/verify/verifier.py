"""The program that verifies signatures, in the process of a test."""

from collections.abc import Sequence

from talos.machined.containerd.verify.program import find_fault
from talos.machined.containerd.verify.request import PROGRAM, REFUSED
from talos.machined.containerd.verify.search import Verifier
from talos.resource.memory.state import MemoryState
from talos.system.process import Finished


async def run_verifier(argv: Sequence[str], stdin: bytes) -> Finished:
    """What the program does with its input, without the confinement."""
    assert argv == (PROGRAM,)
    fault = find_fault(stdin)
    return Finished(code=REFUSED if fault else 0, stderr=fault.encode())


def make_verifier() -> Verifier:
    """One without a root of trust."""
    return Verifier(run=run_verifier, state=MemoryState())
