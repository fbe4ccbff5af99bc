"""Whose certificates and logs count, while a rule demands keyless signatures."""

from pathlib import Path

import trio
from tests.unit.machined.controllers.running import running

from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.machined.controllers.security.trusted_root import OF_SIGSTORE, TUFTrustedRootController
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.memory.state import MemoryState

EXAMPLE = Path(__file__).parents[5] / "docs/examples/SigstoreTrustedRootConfig.yaml"
HEAD = "apiVersion: v1alpha1\nkind: ImageVerificationConfig\nrules: [{image: '*', "


async def test_it_is_there_for_keyless_rules() -> None:
    state = MemoryState()
    async with running(state, TUFTrustedRootController()):
        text = f"{HEAD}keyless: {{issuer: a, subject: b}}}}]"
        await publish_config(state, ids.MACHINE_CONFIG, text.encode())
        resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)
        assert resource.spec.json_data == OF_SIGSTORE.read_text(encoding="utf-8")
        await publish_config(state, ids.MACHINE_CONFIG, f"{HEAD}skip: true}}]".encode())
        while await state.list(kinds.TUF_TRUSTED_ROOT):
            await trio.lowlevel.checkpoint()


async def test_that_of_the_config_takes_its_place() -> None:
    state = MemoryState()
    async with running(state, TUFTrustedRootController()):
        rules, own = f"{HEAD}keyless: {{issuer: a, subject: b}}}}]", EXAMPLE.read_text(encoding="utf-8")
        await publish_config(state, ids.MACHINE_CONFIG, f"{rules}\n---\n{own}".encode())
        resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)
    root = parse_trusted_root(resource.spec.json_data)
    assert [len(one.chain) for one in root.authorities] == [1]
    assert not root.signature_logs.keys() & parse_trusted_root(OF_SIGSTORE.read_text()).signature_logs.keys()


def test_that_of_sigstore() -> None:
    root = parse_trusted_root(OF_SIGSTORE.read_text(encoding="utf-8"))
    assert [len(one.chain) for one in root.authorities] == [1, 2]
    assert (len(root.signature_logs), len(root.certificate_logs)) == (2, 2)
