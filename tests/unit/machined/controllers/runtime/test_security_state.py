"""How a machine was started, read from what the firmware and the kernel show."""

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import SecurityStateSpec
from talos.machined.controllers.runtime.security_state import read_security_state
from talos.testing.files import MemoryFiles

GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
VARIABLES = "/sys/firmware/efi/efivars"


def make_variable(value: bytes) -> str:
    return (b"\6\0\0\0" + value).decode("latin-1")


def test_a_machine_without_anything() -> None:
    assert read_security_state(MemoryFiles({"/x": ""})) == SecurityStateSpec()


@pytest.mark.parametrize(("setup_mode", "is_secure"), [(b"\0", True), (b"\1", False)])
def test_a_machine_with_firmware(setup_mode: bytes, *, is_secure: bool) -> None:
    files = MemoryFiles(
        {
            f"{VARIABLES}/SecureBoot-{GLOBAL}": make_variable(b"\1"),
            f"{VARIABLES}/SetupMode-{GLOBAL}": make_variable(setup_mode),
            f"{VARIABLES}/LoaderEntryDefault-{LOADER}": make_variable("Talos-1.efi\0".encode("utf-16-le")),
            "/sys/fs/selinux/enforce": "0",
            "/sys/module/module/parameters/sig_enforce": "Y\n",
        }
    )
    state = read_security_state(files)
    assert state.secure_boot is is_secure
    assert state.booted_with_uki
    assert state.se_linux_state == enums.SE_LINUX_STATE_PERMISSIVE
    assert state.module_signature_enforced
