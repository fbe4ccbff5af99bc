"""A reader finds no secret of the cluster in what a node shows of itself."""

import asyncio

from tests.harness.cluster import Cluster
from tests.harness.credentials import authority_of, client_of, secrets_of
from tests.harness.disclosure import find_disclosed, find_secrets
from tests.harness.reading import list_everything, read_logs, target_of


def test_a_reader_finds_no_secret(cluster: Cluster) -> None:
    authority, secrets = authority_of(cluster), find_secrets(secrets_of(cluster))
    assert len(secrets) == 9
    target = target_of(cluster.addresses[0], authority.crt, client_of(authority, "os:reader"))
    shown, logs = asyncio.run(list_everything(target)), asyncio.run(read_logs(target))
    assert len(shown) > 60
    assert {"log of machined", "log of apid", "log of the kernel", "events", "processes"} <= logs.keys()
    assert b"init" in logs["processes"]
    disclosed = {name: find_disclosed(content, secrets) for name, content in shown.items()}
    disclosed |= {name: find_disclosed(content, secrets, depth=1) for name, content in logs.items()}
    assert {name: which for name, which in disclosed.items() if which} == {}
