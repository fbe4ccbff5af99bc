"""Packet filters: nftables' tables, chains, sets and expressions as netlink messages.

The nft program would do it, too, but a daemon may not start programs, and its library is a parser of a
language that is not needed here. What the kernel needs are lists of a dozen kinds of expressions
(<linux/netfilter/nf_tables.h>); a table is replaced in one transaction.
"""

import errno
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import batched
from typing import Self

import trio

from talos.system.net.netlink import (
    NETLINK_NETFILTER,
    NLM_F_ACK,
    NLM_F_APPEND,
    NLM_F_CREATE,
    Netlink,
    make_attribute,
    make_nested,
    parse_attributes,
    receive,
    split_messages,
)
from talos.system.net.nft_expressions import (
    Expression,
    Members,
    make_lookup,
    make_number,
    make_value,
    queue,
)

NFPROTO_INET = 1
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _GETTABLE, _DELTABLE, _NEWCHAIN, _DELCHAIN, _NEWRULE, _DELRULE = 0, 1, 2, 3, 5, 6, 8
_NEWSET, _NEWSETELEM = 9, 12
_NFNLGRP_NFTABLES = 7
_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP = 270, 1
_LIST_ELEM = 1
_SET_ANONYMOUS, _SET_CONSTANT, _SET_OF_INTERVALS, _ELEM_INTERVAL_END = 1, 2, 4, 1
_HEADER = struct.Struct(">BBH")
_RECEIVE_BYTES = 1 << 16
_ELEMENTS = 1024
"""Of a set, in one message: an attribute has 64 KiB at most."""
_ABSENT = {errno.ENOENT, errno.EPROTONOSUPPORT, errno.EINVAL, errno.EOPNOTSUPP}
"""What the kernel answers when it has no such thing, or no nftables."""
_TRIAL = "trial"
"""The name of a table that is in no kernel: it goes in the transaction that brings it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A base chain and its rules; numbers of hook, priority and policy are the kernel's."""

    name: str
    type: str
    hook: int
    priority: int
    policy: int
    rules: tuple[tuple[Expression, ...], ...]


type _Message = tuple[int, int, bytes]


def _message(number: int, *attributes: bytes, flags: int = NLM_F_CREATE) -> _Message:
    body = _HEADER.pack(NFPROTO_INET, 0, 0) + b"".join(attributes)
    return _SUBSYSTEM << 8 | number, flags | NLM_F_ACK, body


def make_table(name: str, chains: Sequence[Chain]) -> list[_Message]:
    """The transaction that replaces a table; without chains it removes it."""
    table = make_attribute(1, name)
    messages = [_message(_NEWTABLE, table), _message(_DELTABLE, table, flags=0)]
    if chains:
        messages.append(_message(_NEWTABLE, table))
    number = 0
    for chain in chains:
        hook = make_nested(4, make_number(1, chain.hook), make_number(2, chain.priority))
        messages.append(
            _message(
                _NEWCHAIN,
                table,
                make_attribute(3, chain.name),
                hook,
                make_number(5, chain.policy),
                make_attribute(7, chain.type),
            )
        )
        for rule in chain.rules:
            expressions: list[bytes] = []
            for expression in rule:
                if isinstance(expression, bytes):
                    expressions.append(expression)
                    continue
                number += 1
                messages += _make_set(table, number, expression.members)
                expressions.append(make_lookup(_set_name(number), number, inverted=expression.inverted))
            body = make_nested(4, *expressions)
            chain_name = make_attribute(2, chain.name)
            messages.append(_message(_NEWRULE, table, chain_name, body, flags=NLM_F_CREATE | NLM_F_APPEND))
    return messages


def _set_name(number: int) -> str:
    # The kernel puts its own number in the place; the transaction's ties rule and set together.
    return "__set%d" if number else ""


def _make_set(table: bytes, number: int, members: Members) -> list[_Message]:
    flags = _SET_ANONYMOUS | _SET_CONSTANT | _SET_OF_INTERVALS
    name = make_attribute(2, _set_name(number))
    new = _message(
        _NEWSET,
        table,
        name,
        make_number(3, flags),
        make_number(4, members.type),
        make_number(5, members.size),
        make_number(10, number),
    )
    elements: list[bytes] = []
    last = (1 << 8 * members.size) - 1
    for low, high in members.ranges:
        elements.append(_make_element(low.to_bytes(members.size), 0))
        if high < last:
            # The end of an interval is the first that is not in it any more.
            elements.append(_make_element((high + 1).to_bytes(members.size), _ELEM_INTERVAL_END))
    return [
        new,
        *(
            _message(_NEWSETELEM, table, name, make_number(4, number), make_nested(3, *part))
            for part in batched(elements, _ELEMENTS, strict=False)
        ),
    ]


def _make_element(key: bytes, flags: int) -> bytes:
    parts = [make_value(1, key)]
    if flags:
        parts.append(make_number(3, flags))
    return make_nested(_LIST_ELEM, *parts)


def replace_table(name: str, chains: Sequence[Chain]) -> None:
    """Put the chains in the place of the table's, all at once, or remove the table; OSError."""
    _send(make_table(name, chains))


def _send(messages: Sequence[_Message]) -> None:
    begin = struct.pack(">BBH", 0, 0, _SUBSYSTEM)
    with Netlink(NETLINK_NETFILTER) as netlink:
        netlink.send_batch([(_BATCH_BEGIN, 0, begin), *messages, (_BATCH_END, 0, begin)])


def can_queue() -> bool:
    """Whether a rule may hand packets to a program (NFT_QUEUE); OSError.

    One is made, in a chain that no packet reaches, and removed again by the same transaction.
    """
    table, chain = make_attribute(1, _TRIAL), make_attribute(3, _TRIAL)
    rule = (make_attribute(2, _TRIAL), make_nested(4, queue(0)))
    try:
        _send(
            [
                _message(_NEWTABLE, table),
                _message(_NEWCHAIN, table, chain),
                _message(_NEWRULE, table, *rule, flags=NLM_F_CREATE | NLM_F_APPEND),
                _message(_DELTABLE, table, flags=0),
            ]
        )
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True


def has_table(name: str) -> bool:
    """Whether a table is there; so it is not where the kernel has no nftables."""
    number, _, body = _message(_GETTABLE, make_attribute(1, name))
    try:
        with Netlink(NETLINK_NETFILTER) as netlink:
            return bool(netlink.request(number, body))
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise


class RemovalWatch:
    """Yields when something is removed from a table; no generator, which would have to be closed."""

    def __init__(self, raw: socket.socket, table: str) -> None:
        self._raw = raw
        self._table = table

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        while True:
            try:
                data = receive(self._raw, _RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._raw)
                continue
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                return
            for number, body in split_messages(data):
                if number in _REMOVALS and _table_of(body) == self._table:
                    return

    def forget(self) -> None:
        """Forget what was removed so far, such as by a transaction of this process."""
        with suppress(BlockingIOError):
            while True:
                try:
                    self._raw.recv(_RECEIVE_BYTES)
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise


_REMOVALS = frozenset(_SUBSYSTEM << 8 | number for number in (_DELTABLE, _DELCHAIN, _DELRULE))


def _table_of(body: bytes) -> str:
    return parse_attributes(body[_HEADER.size :]).get(1, b"").rstrip(b"\0").decode(errors="replace")


@asynccontextmanager
async def watch_removals(table: str) -> AsyncGenerator[RemovalWatch]:
    """Notice removals from a table, by whomever, from when the context is entered."""
    raw = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    raw.bind((0, 0))
    raw.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, _NFNLGRP_NFTABLES)
    raw.setblocking(False)
    with raw:
        yield RemovalWatch(raw, table)
