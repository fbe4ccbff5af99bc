"""META's values in memory, and on the disk as soon as it is known where."""

import os
from collections.abc import Callable, Mapping

import trio

from talos.system.block.meta import COPY, MetaFullError, make_meta, parse_meta
from talos.system.errors import UserError

PARTITION = 1 << 20
"""Bytes of the partition."""
STATE_ENCRYPTION = 9
"""The key with the encryption of STATE, which is needed before the config is known."""


class MetaStore:
    """Reads and writes META. Nothing is kept before :meth:`load`."""

    def __init__(self) -> None:
        self._device = ""
        self._values: dict[int, bytes] = {}
        self._writing = trio.Lock()
        self._listener: Callable[[], None] = _ignore
        self._located = trio.Event()

    def listen(self, listener: Callable[[], None]) -> None:
        """The callback after every change; one only."""
        self._listener = listener

    @property
    def device(self) -> str:
        """The partition, empty while none is known."""
        return self._device

    @property
    def values(self) -> Mapping[int, bytes]:
        """All values by their keys."""
        return dict(self._values)

    async def wait_until_located(self) -> None:
        """Wait until a partition is known; during an installation that is a moment after it is made."""
        await self._located.wait()

    async def load(self, device: str) -> None:
        """Take the values of a partition.

        OSError; ValueError when neither copy is whole: it counts as empty, and is written anew.
        """
        async with self._writing:
            data = await trio.to_thread.run_sync(_read, device)
            self._device = device
            self._located.set()
            self._values = {}
            try:
                self._values = parse_meta(data)
            except ValueError:
                await trio.to_thread.run_sync(_write, device, make_meta({}))
                raise

    async def get(self, key: int) -> bytes | None:
        """A value, None when there is none."""
        return self._values.get(key)

    async def set(self, key: int, value: bytes, *, reserved: Mapping[int, int] | None = None) -> None:
        """Write a value; it is on the disk when this returns.

        ``reserved`` are bytes by key for which there has to be room beside it. UserError when there is no
        META, MetaFullError, OSError.
        """

        def change(values: dict[int, bytes]) -> dict[int, bytes]:
            room = {other: bytes(size) for other, size in (reserved or {}).items()}
            make_meta(values | room | {key: value})
            return values | {key: value}

        await self._change(change)

    async def delete(self, key: int) -> bool:
        """Remove a value; False when there is none. As :meth:`set`."""
        if key not in self._values:
            self._check()
            return False
        await self._change(lambda values: {other: value for other, value in values.items() if other != key})
        return True

    async def _change(self, change: Callable[[dict[int, bytes]], dict[int, bytes]]) -> None:
        """Write what a function makes of the values; its ValueError is that they don't fit."""
        self._check()
        with trio.CancelScope(shield=True):
            async with self._writing:
                try:
                    values = change(self._values)
                    data = make_meta(values)
                except ValueError as error:
                    raise MetaFullError(str(error)) from None
                await trio.to_thread.run_sync(_write, self._device, data)
                self._values = values
        self._listener()

    def _check(self) -> None:
        if not self._device:
            raise UserError("there is no META yet", hint="installation creates it on the disk")


async def forget_state_keys(meta: MetaStore) -> None:
    """Remove the keys of STATE, when it is erased."""
    if meta.device:
        await meta.delete(STATE_ENCRYPTION)


def _read(device: str) -> bytes:
    with open(device, "rb") as file:  # noqa: PTH123 - a device
        return file.read(PARTITION)


def _write(device: str, data: bytes) -> None:
    """One copy after the other: a power cut spares one of them."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for place in range(0, len(data), COPY):
            os.pwrite(descriptor, data[place : place + COPY], place)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ignore() -> None:
    return
