"""Whatever META has of an upgrade, a machine starts, shows it, and GRUB counts its starts anew."""

import itertools
import random
from collections.abc import Mapping
from pathlib import Path
from typing import override

import pytest
import trio
from tests.unit.upgrade.machine import FakeSlots, Machine

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.machined.node.meta_store import MetaStore
from talos.upgrade.state import (
    ANNOUNCE_TAG,
    IDLE,
    LABEL_TAG,
    MAX_COUNT,
    MAX_STATE,
    STATE_TAG,
    Phase,
    format_state,
    parse_state,
    stage,
)

from .trial import Parser, check_parser

STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0", checks=("apid", "network"))
GOOD = [format_state(IDLE), *(format_state(STAGED).replace(b"staged", p.value.encode()) for p in Phase)]
HOSTILE = [
    b"[" * 10_001,
    b'{"phase":' * 1000,
    b" " * (MAX_STATE + 1),
    b"9" * 5000,
    *(
        format_state(STAGED).replace(old, new)
        for old, new in (
            (b'"staged"', b'"stolen"'),
            (b'"staged"', b"{}"),
            (b'"A"', b'"B"'),
            (b'"A"', b"null"),
            (b"v1.15.0", rb"\ud800"),
            (b"v1.15.0", b"x" * 15_000),
            (b"apid", b"x"),
            (b"apid", rb"\u0000"),
            (b'["apid", "network"]', b"true"),
            (b'["apid", "network"]', b"[[[1e999]]]"),
        )
    ),
]


class MemoryMeta(MetaStore):
    """META in memory."""

    def __init__(self, content: dict[int, bytes]) -> None:
        super().__init__()
        self.content = content

    @property
    @override
    def values(self) -> Mapping[int, bytes]:
        return dict(self.content)

    @override
    async def load(self, device: str) -> None:
        await trio.lowlevel.checkpoint()

    @override
    async def get(self, key: int) -> bytes | None:
        await trio.lowlevel.checkpoint()
        return self.content.get(key)

    @override
    async def set(self, key: int, value: bytes, *, reserved: Mapping[int, int] | None = None) -> None:
        await trio.lowlevel.checkpoint()
        self.content[key] = value

    @override
    async def delete(self, key: int) -> bool:
        await trio.lowlevel.checkpoint()
        return self.content.pop(key, None) is not None


async def boot(data: bytes, dice: random.Random) -> None:
    """Start a machine whose META has this, let it come up, and start it once more."""
    content = {STATE_TAG: data, LABEL_TAG: data[:1], ANNOUNCE_TAG: b"1"}
    slots = FakeSlots(
        default=dice.choice("AB"), next=dice.choice(["", "A", "B"]), count=dice.randrange(MAX_COUNT)
    )
    machine = Machine(meta=Path(), slots=slots, make_store=lambda: MemoryMeta(content))
    for _ in range(2):
        upgrader = await machine.boot()
        if upgrader.current.phase is Phase.TRIAL:
            await (upgrader.bless() if dice.randrange(2) else upgrader.revert("no network"))
            upgrader = await machine.boot()
        assert upgrader.has_begun
        await upgrader.confirm()
        assert slots.count == 0, "the next starts would be those of the other slot"
        state = upgrader.current
        assert parse_state(content.get(STATE_TAG)) == state == parse_state(format_state(state))
        texts = (upgrader.fallback, state.reason, state.version)
        assert DiagnosticSpec(message="".join(texts), details=state.checks).SerializeToString() is not None


def test_a_machine_starts_whatever_meta_has() -> None:
    dice = random.Random(1)

    def start(data: bytes) -> None:
        trio.run(boot, data, dice)

    check_parser(Parser(parse=start, seeds=GOOD, refusals=(), examples=300))


@pytest.mark.parametrize("data", HOSTILE, ids=itertools.count())
async def test_a_machine_starts_with_hostile_meta(data: bytes) -> None:
    for seed in range(12):
        await boot(data, random.Random(seed))
