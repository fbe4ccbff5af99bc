"""The program that PID 1 starts for signatures of an image: it finds one that is right, confined and bounded.

It reads certificates, proofs and statements that anyone may push to a registry, with no right but to do that.
"""

import resource
import sys

from talos.machined.containerd.verify.request import MAX_REASON, REFUSED, Request, parse_requests
from talos.machined.containerd.verify.signature import verify_signature
from talos.process.confined import confine_program
from talos.system.errors import UserError

MAX_TIME = 10
"""Seconds of processor time; a pattern of a rule may take long with a subject that is made for it."""
MAX_OUTPUT = 256 * 1024
"""Bytes, which PID 1 reads."""


def main() -> None:
    """Verify the signatures on stdin, up to the first that is right: then the exit code is 0.

    On stderr is a line for each that is not.
    """
    confine_program("verify-image", {resource.RLIMIT_CPU: MAX_TIME, resource.RLIMIT_FSIZE: MAX_OUTPUT})
    code, reasons = verify(sys.stdin.buffer.read())
    sys.stderr.write("".join(f"{reason}\n" for reason in reasons))
    sys.exit(code)


def verify(data: bytes) -> tuple[int, list[str]]:
    """The exit code, and the reason of each signature before the one that is right."""
    try:
        requests = parse_requests(data)
    except UserError as error:
        return REFUSED, [str(error)]
    reasons: list[str] = []
    for request in requests:
        reason = _find_fault(request)
        if not reason:
            return 0, reasons
        reasons.append(" ".join(reason[:MAX_REASON].splitlines()))
    return REFUSED, reasons


def _find_fault(request: Request) -> str:
    """Why a signature is not right; empty when it is."""
    try:
        verify_signature(request)
    except UserError as error:
        return str(error)
    except MemoryError:
        return "it takes too much memory to verify"
    return ""
