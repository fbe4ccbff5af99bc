"""Authorization of reads over the node's public API, which is read-only."""

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.metadata import ADMIN, OPERATOR, READER, UPGRADE
from talos.api.rpc import Call, Code, RpcError
from talos.resource.kinds import NAMESPACE, RESOURCE_DEFINITION
from talos.resource.remote.service import Guard, ResourceAccess
from talos.resource.state import NotFoundError, State

READERS = frozenset({ADMIN, OPERATOR, READER, UPGRADE})


def make_reader_guard(state: State) -> Guard:
    """Reads by role and by the type's sensitivity, as its ResourceDefinition has it."""

    async def check(call: Call, access: ResourceAccess) -> None:
        if access.verb.is_write:
            if ADMIN not in call.roles:
                raise RpcError(Code.PERMISSION_DENIED, "not authorized")
            raise RpcError(Code.PERMISSION_DENIED, "write access is not allowed")
        try:
            definition = await state.get(RESOURCE_DEFINITION, access.type.lower())
        except NotFoundError:
            definition = None
        if definition is None or definition.spec.resource_type != access.type:
            raise RpcError(Code.PERMISSION_DENIED, f'resource type "{access.type}" is not supported')
        try:
            await state.get(NAMESPACE, access.namespace)
        except NotFoundError:
            text = f'namespace "{access.namespace}" is not supported'
            raise RpcError(Code.PERMISSION_DENIED, text) from None
        is_sensitive = definition.spec.sensitivity == ResourceDefinitionSpec.SENSITIVE
        if not call.roles & (frozenset({ADMIN}) if is_sensitive else READERS):
            raise RpcError(Code.PERMISSION_DENIED, "not authorized")

    return check
