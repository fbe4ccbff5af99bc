"""The names of initiators follow the machine's id."""

from tests.unit.machined.controllers.running import running

from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.machined.controllers.files.initiator_names import InitiatorNamesController
from talos.machined.node.identity import make_identity
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState

ISCSI, HOST, NQN = "iscsi/initiatorname.iscsi", "nvme/hostid", "nvme/hostnqn"


async def wait_until(state: MemoryState, name: str, contents: bytes) -> None:
    await wait_for(state, kinds.ETC_FILE_SPEC, name, lambda found: found.spec.contents == contents)


async def test_names_follow_the_id() -> None:
    state = MemoryState()
    async with running(state, InitiatorNamesController()):
        for identity in (make_identity(), make_identity()):
            await put(state, *ids.IDENTITY, IdentitySpec(node_id=identity.node_id))
            machine_id = identity.machine_id
            text = f"InitiatorName=iqn.2017-11.dev.talos:{machine_id}\n"
            await wait_until(state, ISCSI, text.encode())
            digits = machine_id[:16].encode().hex()
            host = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            await wait_until(state, HOST, host.encode())
            await wait_until(state, NQN, f"nqn.2017-11.dev.talos:uuid:{host}".encode())
    assert {one.spec.mode for one in await state.list(kinds.ETC_FILE_SPEC)} == {0o600}
