"""/etc/hosts and /etc/resolv.conf."""

from talos.machined.controllers.network.etc_file import make_hosts, make_resolv_conf


def test_hosts_and_resolv_conf() -> None:
    hosts = make_hosts("node", "example.org", bytes([10, 0, 0, 1]))
    assert "10.0.0.1 node.example.org node\n" in hosts
    assert hosts.startswith("127.0.0.1 localhost\n")
    servers = [bytes([10, 0, 0, n]) for n in range(5)]
    assert make_resolv_conf(servers, ["a", "b"]).splitlines() == [
        "nameserver 10.0.0.0",
        "nameserver 10.0.0.1",
        "nameserver 10.0.0.2",
        "search a b",
    ]
