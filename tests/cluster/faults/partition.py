"""Partitions: the cluster's bridge drops packets between nodes. Clients reach all nodes meanwhile."""

import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import product
from typing import Any

from pyroute2.nftables import expressions
from pyroute2.nftables.main import NFTables

NFPROTO_BRIDGE = 7
NF_DROP, NF_ACCEPT = 0, 1
TABLE, CHAIN = "faults", "partition"
# pyroute2's functions have no types.
_EXPRESSIONS: Any = expressions


def run_in_network(pid: int, work: Callable[[], None]) -> None:
    """Run something in the network namespace of a process, in a thread that ends with it."""
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.setns(descriptor, os.CLONE_NEWNET)
            finally:
                os.close(descriptor)
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again by the caller's thread
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure


@contextmanager
def partition(
    launcher: int, sources: Iterable[str], targets: Iterable[str], *, both_ways: bool = True
) -> Generator[None]:
    """Drop what nodes of ``sources`` send to those of ``targets``, and with ``both_ways`` the replies."""
    pairs = list(product(sources, targets))
    pairs += [(target, source) for source, target in pairs] if both_ways else []

    def cut() -> None:
        nft: Any = NFTables(nfgen_family=NFPROTO_BRIDGE)
        with nft:
            nft.begin()
            nft.table("add", name=TABLE)
            nft.chain("add", table=TABLE, name=CHAIN, hook="forward", type="filter", policy=NF_ACCEPT)
            for source, target in pairs:
                match = _EXPRESSIONS.ipv4addr(src=f"{source}/32", dst=f"{target}/32")
                rule = (match, _EXPRESSIONS.verdict(code=NF_DROP))
                nft.rule("add", table=TABLE, chain=CHAIN, expressions=rule)
            nft.commit()

    def heal() -> None:
        nft: Any = NFTables(nfgen_family=NFPROTO_BRIDGE)
        with nft:
            nft.begin()
            nft.table("del", name=TABLE)
            nft.commit()

    run_in_network(launcher, cut)
    try:
        yield
    finally:
        run_in_network(launcher, heal)
