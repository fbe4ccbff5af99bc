"""Keys that a real TPM in software seals, for the machine's volumes."""

import errno
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.system.tpm.software import SoftwareTpm, start
from trio.testing import MockClock, wait_all_tasks_blocked

from talos.machined.node.tpm_keys import KEY_NAME, MEASURED, SIGNATURES_NAME, TIMEOUT, KernelTpmKeys
from talos.pki.keys import public_key_to_pem
from talos.pki.signer import FileSigner
from talos.system.efi_variables import GLOBAL, LOADER, EfiVariables
from talos.system.errors import UserError
from talos.system.tpm.commands import Tpm, Transmit
from talos.system.tpm.sealing import Open
from talos.system.tpm.signed_policy import sign_values
from talos.system.tpm.uki import LAST_PHASE, PCR, extend, hash_text, measure_phases
from talos.system.tpm.wire import PCR_EXTEND

SECRET = bytes(range(32))


def set_variable(folder: Path, name: str, value: bytes) -> None:
    (folder / f"{name}-{GLOBAL}").write_bytes(bytes(4) + value)


def make_keys(folder: Path, open_tpm: Callable[[], Open]) -> KernelTpmKeys:
    """Of a machine whose firmware has its variables in a folder, and whose image is there, too."""
    return KernelTpmKeys(EfiVariables(folder), EfiVariables(folder, LOADER), open_tpm, folder / "extra")


def start_image(folder: Path, tpm: SoftwareTpm, name: str, key: rsa.RSAPrivateKey) -> KernelTpmKeys:
    """What the stub does with an image whose policy a key has signed."""
    value = measure_phases(extend(bytes(32), hash_text(name)))
    tpm.extend(7, b"usual")
    tpm.extend(PCR, name.encode())
    (folder / f"{MEASURED}-{LOADER}").write_bytes(bytes(4) + "11\0".encode("utf-16-le"))
    (folder / "extra").mkdir(exist_ok=True)
    (folder / "extra" / KEY_NAME).write_bytes(public_key_to_pem(key))
    (folder / "extra" / SIGNATURES_NAME).write_bytes(sign_values(FileSigner(key), [value]))
    return make_keys(folder, tpm.open)


async def test_an_image_with_a_signed_policy_binds_keys_to_it(tmp_path: Path) -> None:
    owner = rsa.generate_private_key(65537, 2048)
    with start(tmp_path) as tpm:
        keys = start_image(tmp_path, tpm, "one", owner)
        sealed = await keys.seal(SECRET, (), needs_secure_boot=False)
        assert await keys.begin(), "phases are measured once"
        assert await keys.unseal(sealed) == SECRET
    with start(tmp_path) as tpm:
        keys = start_image(tmp_path, tpm, "two", owner)
        assert await keys.begin()
        assert await keys.unseal(sealed) == SECRET
        literal = await keys.seal(SECRET, (11,), needs_secure_boot=False)
        await keys.lock()
        await keys.lock()
        for one in (sealed, literal):
            with pytest.raises(UserError, match="PCR 11 is locked until the next boot"):
                await keys.unseal(one)
        with pytest.raises(UserError, match="PCR 11 is locked until the next boot"):
            await keys.seal(SECRET, (11,), needs_secure_boot=False)
        later = await keys.seal(SECRET, (7,), needs_secure_boot=False)
    with start(tmp_path) as tpm:
        keys = start_image(tmp_path, tpm, "three", owner)
        assert await keys.unseal(later) == SECRET


async def test_what_was_requested_before_the_lock_is_answered(tmp_path: Path) -> None:
    with start(tmp_path) as tpm:
        keys = start_image(tmp_path, tpm, "one", rsa.generate_private_key(65537, 2048))
        sealed = await keys.seal(SECRET, (), needs_secure_boot=False)
        opened: list[bytes] = []

        async def open_one() -> None:
            opened.append(await keys.unseal(sealed))

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(open_one)
            await wait_all_tasks_blocked()
            await keys.lock()
    assert opened == [SECRET] * 2


async def test_an_image_whose_signatures_are_anothers_seals_nothing(tmp_path: Path) -> None:
    owner = rsa.generate_private_key(65537, 2048)
    with start(tmp_path) as tpm:
        keys = start_image(tmp_path, tpm, "one", owner)
        (tmp_path / "extra" / SIGNATURES_NAME).write_bytes(sign_values(FileSigner(owner), [bytes(32)]))
        with pytest.raises(UserError, match="PCR 11 has a value that the image's key has not signed"):
            await keys.seal(SECRET, (7,), needs_secure_boot=False)
        (tmp_path / "extra" / SIGNATURES_NAME).write_bytes(b"{")
        with pytest.raises(UserError, match="extra: the signed policy of PCR 11 can't be read"):
            await keys.seal(SECRET, (7,), needs_secure_boot=False)


async def test_what_was_not_started_by_the_stub_measures_nothing(tmp_path: Path) -> None:
    with start(tmp_path) as tpm:
        keys = make_keys(tmp_path, tpm.open)
        assert not await keys.begin()
        await keys.lock()
        assert Tpm(tpm.transmit).read_pcrs([PCR])[PCR] == bytes(32)
        with pytest.raises(UserError, match="this image has no signed policy of PCR 11"):
            await keys.seal(SECRET, (), needs_secure_boot=False)


async def test_keys_are_sealed_and_opened_one_after_the_other(tmp_path: Path) -> None:
    with start(tmp_path) as tpm:
        tpm.extend(7, b"usual")
        keys = make_keys(tmp_path, tpm.open)
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

    keys = make_keys(tmp_path, hang)
    with pytest.raises(UserError, match="the TPM: no answer in 60 s"):
        await keys.seal(SECRET, (7,), needs_secure_boot=False)
    assert autojump_clock.current_time() == TIMEOUT
    goes_on.set()


@pytest.mark.parametrize("number", range(4))
async def test_a_phase_whose_answer_is_lost_is_measured_once(tmp_path: Path, number: int) -> None:
    with start(tmp_path) as tpm:
        extensions = list[bytes]()

        def transmit(command: bytes) -> bytes:
            answer = tpm.transmit(command)
            if command[6:10] == PCR_EXTEND.to_bytes(4):
                extensions.append(command)
                if len(extensions) == number + 1:
                    raise TimeoutError(errno.ETIME, "Timer expired")
            return answer

        @contextmanager
        def open_tpm() -> Generator[Transmit]:
            yield transmit

        start_image(tmp_path, tpm, "one", rsa.generate_private_key(65537, 2048))
        keys = make_keys(tmp_path, open_tpm)
        with pytest.raises(TimeoutError):
            await keys.lock()
        await keys.lock()
        value = measure_phases(extend(bytes(32), hash_text("one")))
        assert Tpm(tpm.transmit).read_pcrs([PCR])[PCR] == extend(value, hash_text(LAST_PHASE))


async def test_nothing_is_measured_while_a_late_request_is_at_work(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = inf
    with start(tmp_path) as tpm:
        goes_on = threading.Event()

        @contextmanager
        def open_late() -> Generator[Transmit]:
            goes_on.wait()
            with tpm.open() as transmit:
                yield transmit

        start_image(tmp_path, tpm, "one", rsa.generate_private_key(65537, 2048))
        keys = make_keys(tmp_path, open_late)
        async with trio.open_nursery() as nursery:

            async def begin() -> None:
                with pytest.raises(UserError, match="the TPM: no answer in 60 s"):
                    await keys.begin()

            nursery.start_soon(begin)
            await wait_all_tasks_blocked()
            autojump_clock.jump(TIMEOUT)
        for _ in range(2):
            with pytest.raises(UserError, match="an earlier request has had no answer for more than 60 s"):
                await keys.begin()
        goes_on.set()
        is_done = False
        while not is_done:
            with suppress(UserError):
                is_done = await keys.begin()
        assert Tpm(tpm.transmit).read_pcrs([PCR])[PCR] == measure_phases(extend(bytes(32), hash_text("one")))


async def test_a_key_is_sealed_under_secure_boot_where_that_is_configured(tmp_path: Path) -> None:
    variables = tmp_path / "efivars"
    variables.mkdir()
    with start(tmp_path) as tpm:
        tpm.extend(7, b"usual")
        keys = make_keys(variables, tpm.open)
        with pytest.raises(UserError, match="Secure Boot is off"):
            await keys.seal(SECRET, (7,), needs_secure_boot=True)
        set_variable(variables, "SecureBoot", b"\1")
        set_variable(variables, "SetupMode", b"\1")
        with pytest.raises(UserError, match="Secure Boot is in setup mode"):
            await keys.seal(SECRET, (7,), needs_secure_boot=True)
        set_variable(variables, "SetupMode", b"\0")
        sealed = await keys.seal(SECRET, (7,), needs_secure_boot=True)
        assert await keys.unseal(sealed) == SECRET
