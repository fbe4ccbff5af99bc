"""Errors of calls as one line."""

from talos.api.rpc import Code, RpcError
from talos.client.channel import UnreachableError
from talos.client.target import Target
from talos.system.errors import UserError


def code_name(code: Code) -> str:
    """A status code as gRPC's own tools write it: ``PermissionDenied``."""
    return "OK" if code is Code.OK else "".join(part.capitalize() for part in code.name.split("_"))


def describe(error: RpcError | UserError, target: Target) -> str:
    """What went wrong, and the remedy where there is one."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, UnreachableError):
        return error.message
    # As grpc-go writes it: what scripts search the client's errors for.
    text = f"rpc error: code = {code_name(error.code)}" + (
        f" desc = {error.message}" if error.message else ""
    )
    hint = _hint(error, target)
    return f"{text}: {hint}" if hint else text


def _hint(error: RpcError, target: Target) -> str:
    if error.code is Code.PERMISSION_DENIED and target.crt:
        roles = ", ".join(roles_of(target)) or "no roles"
        return f"your certificate has {roles}"
    if error.code is Code.PERMISSION_DENIED and target.insecure:
        return "without a client certificate a node in maintenance mode allows only this much"
    return ""


def roles_of(target: Target) -> list[str]:
    """The roles the client certificate carries, empty when it can't be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(target.crt)
    except ValueError:
        return []
    names = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return [str(name.value) for name in names if name.value]
