"""The program that PID 1 starts for each signature of an image: it verifies it, confined and bounded.

It reads certificates, proofs and statements that anyone may push to a registry, with no right but to do that.
"""

import resource
import sys

from talos.machined.containerd.verify.request import REFUSED, parse_request
from talos.machined.containerd.verify.signature import verify_signature
from talos.process.privileges import READABLE, Privileges, drop_privileges
from talos.system import sandbox
from talos.system.errors import UserError

UNPRIVILEGED = Privileges(uid=65534, gid=65534)
MAX_MEMORY = 512 * 1024 * 1024
"""Bytes of addresses."""
MAX_TIME = 10
"""Seconds of processor time; a pattern of a rule may take long with a subject that is made for it."""


def main() -> None:
    """Verify the request on stdin; the exit code is 0 when the signature is right."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_TIME, MAX_TIME))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    drop_privileges("verify-image", UNPRIVILEGED)
    sandbox.confine_files(sandbox.Paths(readable=READABLE))
    sandbox.filter_system_calls(())
    fault = find_fault(sys.stdin.buffer.read())
    if fault:
        sys.stderr.write(fault)
        sys.exit(REFUSED)


def find_fault(data: bytes) -> str:
    """Why the signature of a request is not right; empty when it is."""
    try:
        verify_signature(parse_request(data))
    except UserError as error:
        return str(error)
    except MemoryError:
        return "it takes too much memory to verify"
    return ""
