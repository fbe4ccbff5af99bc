"""The bill of materials as resources."""

import pytest
from tests.unit.machined.controllers.running import running

from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.machined.controllers.runtime.sbom import DIRECTORY, SBOMItemController, parse_document, read_items
from talos.resource import kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.testing.files import MemoryFiles

DOCUMENT = """{"packages": [
  {"name": "Talos", "versionInfo": "v1", "licenseDeclared": "NOASSERTION"},
  {"name": "runc", "versionInfo": "1.1", "licenseDeclared": "NOASSERTION", "licenseConcluded": "Apache-2.0",
   "externalRefs": [
    {"referenceType": "purl", "referenceLocator": "pkg:deb/debian/runc@1.1"},
    {"referenceType": "cpe23Type", "referenceLocator": "cpe:2.3:a:oci:runc"}]}
]}"""


def test_items() -> None:
    files = MemoryFiles({f"{DIRECTORY}/talos.spdx.json": DOCUMENT, f"{DIRECTORY}/README": "x"})
    talos, runc = read_items(files)
    assert (talos.name, talos.version, talos.license) == ("Talos", "v1", "")
    assert (runc.license, list(runc.pur_ls)) == ("Apache-2.0", ["pkg:deb/debian/runc@1.1"])
    assert list(runc.cp_es) == ["cpe:2.3:a:oci:runc"]
    assert not read_items(MemoryFiles({"/x": ""}))
    with pytest.raises(UserError, match="no SPDX document"):
        parse_document("{}", "bad.spdx.json")


async def test_some_have_the_ids_of_upstream() -> None:
    state = MemoryState()
    await put(state, kinds.SERVICE, "apid", ServiceSpec(healthy=True))
    files = MemoryFiles({f"{DIRECTORY}/talos.spdx.json": DOCUMENT})
    async with running(state, SBOMItemController(files)):
        await wait_for(state, kinds.SBOM_ITEM, "runc", lambda _: True)
        found = await wait_for(state, kinds.SBOM_ITEM, "talos", lambda _: True)
    assert found.spec.name == "Talos"
