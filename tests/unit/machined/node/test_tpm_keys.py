"""Keys that a real TPM in software seals, for the machine's volumes."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from tests.unit.system.tpm.software import start
from trio.testing import MockClock

from talos.machined.node.tpm_keys import TIMEOUT, KernelTpmKeys
from talos.system.efi_variables import GLOBAL, EfiVariables
from talos.system.errors import UserError
from talos.system.tpm.commands import Transmit

SECRET = bytes(range(32))


def set_variable(folder: Path, name: str, value: bytes) -> None:
    (folder / f"{name}-{GLOBAL}").write_bytes(bytes(4) + value)


async def test_keys_are_sealed_and_opened_one_after_the_other(tmp_path: Path) -> None:
    with start(tmp_path) as tpm:
        tpm.extend(7, b"usual")
        keys = KernelTpmKeys(EfiVariables(tmp_path), tpm.open)
        sealed = await keys.seal(SECRET, (7,), needs_secure_boot=False)
        opened: list[bytes] = []

        async def open_one() -> None:
            opened.append(await keys.unseal(sealed))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(open_one)
    assert opened == [SECRET] * 4


async def test_a_tpm_that_hangs_is_not_waited_for(tmp_path: Path, autojump_clock: MockClock) -> None:
    goes_on = threading.Event()

    @contextmanager
    def hang() -> Generator[Transmit]:
        goes_on.wait()
        yield lambda command: command

    keys = KernelTpmKeys(EfiVariables(tmp_path), hang)
    with pytest.raises(UserError, match="the TPM: no answer in 60 s"):
        await keys.seal(SECRET, (7,), needs_secure_boot=False)
    assert autojump_clock.current_time() == TIMEOUT
    goes_on.set()


async def test_a_key_is_sealed_under_secure_boot_where_that_is_asked_for(tmp_path: Path) -> None:
    variables = tmp_path / "efivars"
    variables.mkdir()
    with start(tmp_path) as tpm:
        tpm.extend(7, b"usual")
        keys = KernelTpmKeys(EfiVariables(variables), tpm.open)
        with pytest.raises(UserError, match="Secure Boot is off"):
            await keys.seal(SECRET, (7,), needs_secure_boot=True)
        set_variable(variables, "SecureBoot", b"\1")
        set_variable(variables, "SetupMode", b"\1")
        with pytest.raises(UserError, match="Secure Boot is in setup mode"):
            await keys.seal(SECRET, (7,), needs_secure_boot=True)
        set_variable(variables, "SetupMode", b"\0")
        sealed = await keys.seal(SECRET, (7,), needs_secure_boot=True)
        assert await keys.unseal(sealed) == SECRET
