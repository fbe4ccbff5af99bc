"""``talosctl pcap``."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import PacketCaptureRequest
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import raise_error, run_one
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.output import console
from talos.talosctl.output.packets import PacketLines

SNAP_LENGTH = 65536
"""Bytes kept of each packet: all of them."""
STDOUT = "-"


def run_pcap(invocation: Invocation) -> int:
    """Print packets, or write them in the pcap format, until interrupted or the time is over."""
    flags = invocation.flags
    request = _make_request(flags)
    output = flags.text("output")
    seconds = flags.seconds("duration") or None

    async def capture(session: Session, node: str, write: Callable[[bytes], object]) -> None:
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(seconds),
                session.stream(node, "/machine.MachineService/PacketCapture", request, Data) as chunks,
            ):
                async for chunk in chunks:
                    raise_error(chunk)
                    write(chunk.bytes)

    if not output:
        return run_one(invocation, "pcap", partial(capture, write=_make_printer()))
    if output == STDOUT:
        return run_one(invocation, "pcap", partial(capture, write=partial(_write, sys.stdout.buffer)))
    with Path(output).open("wb") as file:
        return run_one(invocation, "pcap", partial(capture, write=partial(_write, file)))


def _write(file: IO[bytes], piece: bytes) -> None:
    file.write(piece)
    file.flush()


def _make_printer() -> Callable[[bytes], None]:
    lines = PacketLines()

    def show(piece: bytes) -> None:
        for line in lines.feed(piece):
            console.write_line(line)
        console.flush()

    return show


def _make_request(flags: Flags) -> PacketCaptureRequest:
    if flags.text("bpf-filter"):
        hint = "filter while reading: talosctl pcap -o - | tcpdump -r - <filter>"
        raise UserError("this client can't compile filters", where="--bpf-filter", hint=hint)
    return PacketCaptureRequest(
        interface=flags.text("interface"), promiscuous=flags.is_set("promiscuous"), snap_len=SNAP_LENGTH
    )


COMMAND = Command(
    name="pcap",
    aliases=("tcpdump",),
    summary="Capture packets of a network interface",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="bpf-filter", help="only packets that this filter takes"),
        Flag(name="duration", type=Type.DURATION, help="how long to capture, by default until interrupted"),
        Flag(name="interface", short="i", default="eth0", help="the network interface"),
        Flag(
            name="output",
            short="o",
            help="the file to write, - is the output; without it packets are printed as lines",
        ),
        Flag(name="promiscuous", type=Type.BOOL, default="false", help="also packets meant for others"),
    ),
    run=run_pcap,
)
