"""The program that verifies signatures, in the process of a test."""

from collections.abc import Sequence

from talos.machined.containerd.verify.program import verify
from talos.machined.containerd.verify.request import PROGRAM
from talos.machined.containerd.verify.search import Verifier
from talos.resource.memory.state import MemoryState
from talos.system.process import Finished


async def run_verifier(argv: Sequence[str], stdin: bytes) -> Finished:
    """What the program does with its input, without the confinement."""
    assert argv == (PROGRAM,)
    code, reasons = verify(stdin)
    return Finished(code=code, stderr="\n".join(reasons).encode())


def make_verifier() -> Verifier:
    """One without a root of trust."""
    return Verifier(run=run_verifier, state=MemoryState())
