"""Whose certificates and logs count, while a rule demands keyless signatures."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import trio
from tests.unit.machined.controllers.running import mount_state, running
from trio.testing import MockClock

from talos.api.definitions.runtime_pb2 import EnvironmentSpec
from talos.api.definitions.security_pb2 import TUFTrustedRootSpec
from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.machined.controllers.security.trusted_root import (
    OF_SIGSTORE,
    REFRESH_INTERVAL,
    REFRESH_TIMEOUT,
    VERSION,
    TUFTrustedRootController,
)
from talos.machined.node.config_store import publish_config
from talos.machined.tuf.start import keep_trusted, load_trusted
from talos.machined.tuf.trusted import REFUSED, TrustedMetadata, format_trusted, parse_request
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.process import Finished

EXAMPLE = Path(__file__).parents[5] / "docs/examples/SigstoreTrustedRootConfig.yaml"
HEAD = "apiVersion: v1alpha1\nkind: ImageVerificationConfig\nrules: [{image: '*', "
RULE = f"{HEAD}keyless: {{issuer: a, subject: b}}}}]"
OTHER_RULE = f"{HEAD}skip: true}}]"
IMAGE = OF_SIGSTORE.read_text(encoding="utf-8")
DONE = TrustedMetadata(root="r", trusted_root="new", version=VERSION, refreshed=1_800_000_000)


DIGESTS = {14: "6494e21ea73fa7ee769f85f57d5a3e6a08725eae1e38c755fc3517c9e6bc0b66"}
"""SHA-256 of the trusted root, by the version of the repository's targets that list it."""


def test_the_version_is_that_of_the_images_trusted_root() -> None:
    assert hashlib.sha256(IMAGE.encode()).hexdigest() == DIGESTS[VERSION]


class Program:
    """What stands for the program: what it is given, when, and what it leaves at last; it may not end."""

    def __init__(self, *results: Finished | None) -> None:
        self.results = [*results]
        self.given: list[TrustedMetadata] = []
        self.environments: list[dict[str, str]] = []
        self.times: list[float] = []
        self.was_cancelled = False
        self._started = trio.Event()

    async def wait(self, count: int) -> None:
        """Until it was started so many times; without a deadline, to which the clock would jump."""
        while len(self.given) < count:
            await self._started.wait()

    async def run(self, _: Sequence[str], stdin: bytes) -> Finished:
        trusted, environment = parse_request(stdin)
        self.given.append(trusted)
        self.environments.append(dict(environment))
        self.times.append(trio.current_time())
        self._started.set()
        self._started = trio.Event()
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if result is None:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                self.was_cancelled = True
                raise
        await trio.lowlevel.checkpoint()
        return result


def finish(trusted: TrustedMetadata, reason: str = "") -> Finished:
    return Finished(code=REFUSED if reason else 0, stdout=format_trusted(trusted), stderr=reason.encode())


def make(program: Program, lines: list[str] | None = None) -> TUFTrustedRootController:
    return TUFTrustedRootController(program.run, Log(write=(list[str]() if lines is None else lines).append))


async def configure(state: MemoryState, text: str) -> None:
    await publish_config(state, ids.MACHINE_CONFIG, text.encode())


async def find(state: MemoryState, text: str) -> TUFTrustedRootSpec:
    """The resource, when it has this text."""
    resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda one: one.spec.json_data == text)
    return resource.spec


async def vanish(state: MemoryState) -> None:
    while await state.list(kinds.TUF_TRUSTED_ROOT):
        await trio.lowlevel.checkpoint()


async def test_it_is_there_for_keyless_rules() -> None:
    state, program = MemoryState(), Program(None)
    async with running(state, make(program)):
        await configure(state, RULE)
        assert not (await find(state, IMAGE)).HasField("last_refresh_time")
        await configure(state, OTHER_RULE)
        await vanish(state)
    assert not program.given, "what it fetches could not be kept yet"


async def test_a_refresh_takes_its_place_and_is_kept(tmp_path: Path, autojump_clock: MockClock) -> None:
    state, program = MemoryState(), Program(finish(DONE))
    await put(state, *ids.ENVIRONMENT, EnvironmentSpec(variables=["https_proxy=http://proxy.example:3128"]))
    async with running(state, make(program)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        spec = await find(state, "new")
        await program.wait(3)
    assert spec.last_refresh_time.seconds == DONE.refreshed
    assert load_trusted(tmp_path) == DONE
    assert program.given == [TrustedMetadata(), DONE, DONE]
    assert program.environments[0] == {"https_proxy": "http://proxy.example:3128"}
    assert [time - program.times[0] for time in program.times] == [0, REFRESH_INTERVAL, 2 * REFRESH_INTERVAL]


async def test_a_failure_is_logged_once_and_the_old_one_stays(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    keep_trusted(tmp_path, DONE)
    failed = finish(DONE, "https://x/timestamp.json: no route to host")
    state, program, lines = MemoryState(), Program(*[failed] * 12, finish(DONE), failed), list[str]()
    async with running(state, make(program, lines)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await find(state, "new")
        await trio.sleep(REFRESH_INTERVAL / 2)
        assert len(lines) == 1
        assert json.loads(lines[0])["msg"] == (
            "the trusted root of Sigstore stays as it is: https://x/timestamp.json: no route to host"
        )
        await find(state, "new")
        await trio.sleep(2 * REFRESH_INTERVAL)
    waits = [after - before for before, after in zip(program.times, program.times[1:], strict=False)]
    assert waits[:12] == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
    assert waits[12:15] == [REFRESH_INTERVAL, 10, 20]
    assert len(lines) == 2


async def test_a_program_that_does_not_end_or_breaks(tmp_path: Path, autojump_clock: MockClock) -> None:
    state, lines = MemoryState(), list[str]()
    program = Program(None, Finished(code=-9), Finished(code=0, stdout=b"x"), finish(DONE))
    async with running(state, make(program, lines)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await find(state, IMAGE)
        await find(state, "new")
    assert program.was_cancelled
    assert [json.loads(line)["msg"].rpartition("stays as it is: ")[2] for line in lines] == [
        f"no end after {REFRESH_TIMEOUT:.0f} s",
        "/usr/sbin/refresh-trusted-root: failed with signal SIGKILL",
        "/usr/sbin/refresh-trusted-root: has no trusted files of a repository",
    ]
    assert program.given[-1] == TrustedMetadata()


async def test_half_a_refresh_is_kept(tmp_path: Path, autojump_clock: MockClock) -> None:
    half = TrustedMetadata(root="r", timestamp="t")
    state, program = MemoryState(), Program(finish(half, "no"), finish(DONE))
    async with running(state, make(program)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await find(state, IMAGE)
        await find(state, "new")
    assert program.given == [TrustedMetadata(), half]


async def test_a_restart_goes_on_with_what_was_refreshed(tmp_path: Path, autojump_clock: MockClock) -> None:
    keep_trusted(tmp_path, DONE)
    state, program = MemoryState(), Program(None)
    await mount_state(state, tmp_path)
    await configure(state, RULE)
    async with running(state, make(program)):
        resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)
        assert resource.spec.json_data == "new"
        await program.wait(1)
    assert program.given == [DONE]


async def test_an_image_may_bring_a_newer_one(tmp_path: Path) -> None:
    keep_trusted(tmp_path, replace(DONE, version=VERSION - 1))
    state = MemoryState()
    await mount_state(state, tmp_path)
    await configure(state, RULE)
    async with running(state, make(Program(None))):
        resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)
        assert resource.spec.json_data == IMAGE


async def test_a_damaged_file_is_replaced(tmp_path: Path, autojump_clock: MockClock) -> None:
    (tmp_path / "sigstore.json").write_text("{", encoding="ascii")
    state, lines = MemoryState(), list[str]()
    async with running(state, make(Program(finish(DONE)), lines)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await find(state, "new")
        while len(await trio.to_thread.run_sync((tmp_path / "sigstore.json").read_bytes)) < 9:
            await trio.lowlevel.checkpoint()
    assert load_trusted(tmp_path) == DONE
    assert "stays unused" in cast("str", json.loads(lines[0])["msg"])


async def test_without_the_last_rule_it_is_removed_and_nothing_is_fetched(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    state, program = MemoryState(), Program(finish(DONE))
    async with running(state, make(program)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await find(state, "new")
        await configure(state, OTHER_RULE)
        await vanish(state)
        await trio.sleep(3 * REFRESH_INTERVAL)
        assert len(program.given) == 1
        await configure(state, RULE)
        await find(state, "new")
        await program.wait(2)
    assert program.given == [TrustedMetadata(), DONE]


async def test_that_of_the_config_takes_its_place(tmp_path: Path, autojump_clock: MockClock) -> None:
    state, own, program = MemoryState(), EXAMPLE.read_text(encoding="utf-8"), Program(None)
    async with running(state, make(program)):
        await mount_state(state, tmp_path)
        await configure(state, RULE)
        await program.wait(1)
        await configure(state, f"{RULE}\n---\n{own}")
        resource = await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda one: one.spec.json_data != IMAGE)
        await trio.sleep(3 * REFRESH_INTERVAL)
        assert program.was_cancelled
    assert len(program.given) == 1
    root = parse_trusted_root(resource.spec.json_data)
    assert [len(one.chain) for one in root.authorities] == [1]
    assert not root.signature_logs.keys() & parse_trusted_root(OF_SIGSTORE.read_text()).signature_logs.keys()


async def test_with_one_of_the_config_nothing_is_fetched(tmp_path: Path, autojump_clock: MockClock) -> None:
    state, own, program = MemoryState(), EXAMPLE.read_text(encoding="utf-8"), Program(None)
    await mount_state(state, tmp_path)
    await configure(state, f"{RULE}\n---\n{own}")
    async with running(state, make(program)):
        await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)
        await trio.sleep(3 * REFRESH_INTERVAL)
    assert not program.given
    assert load_trusted(tmp_path) == TrustedMetadata()


def test_that_of_sigstore() -> None:
    root = parse_trusted_root(OF_SIGSTORE.read_text(encoding="utf-8"))
    assert [len(one.chain) for one in root.authorities] == [1, 2]
    assert (len(root.signature_logs), len(root.certificate_logs)) == (2, 2)
