"""Authorization of a call by its caller's roles.

apid checks before it reads a request or connects anywhere, so that a caller without the role
costs nothing; routerd checks every call again, whatever apid has let through.
"""

from collections.abc import Collection

from talos.api.metadata import ADMIN, READER
from talos.api.methods import methods
from talos.api.rpc import Code, RpcError

FALLBACK = frozenset({ADMIN})
"""Roles for a method that is not in the table."""


def check_roles(path: str, roles: Collection[str], *, maintenance: bool = False) -> None:
    """Refuse a caller none of whose roles may call the method.

    In ``maintenance`` - the machine has no configuration yet - a reader may also apply one,
    wipe disks and the like.
    """
    method = methods().get(path)
    allowed = FALLBACK if method is None else method.roles
    if maintenance and method is not None and method.maintenance_reader:
        allowed |= {READER}
    if allowed.isdisjoint(roles):
        raise RpcError(Code.PERMISSION_DENIED, "not authorized")
