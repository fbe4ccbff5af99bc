"""etcd's command line from settings and addresses."""

from ipaddress import ip_address

import pytest

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import ArgValues, ConfigSpec, SpecSpec
from talos.clusterd.controllers.etcd_config import make_config, make_spec
from talos.clusterd.etcd.arguments import make_argv, make_initial_cluster, make_restore_argv, peer_urls
from talos.config.contract import ETCD_IMAGE
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.system.errors import UserError

ADDRESSES = [ip_address("10.0.0.2"), ip_address("172.16.0.2"), ip_address("10.0.0.100")]


def pack(*texts: str) -> list[NetIP]:
    return [NetIP(ip=ip_address(text).packed) for text in texts]


def spec(**extra: str) -> SpecSpec:
    found = SpecSpec(
        name="cp-1",
        image=ETCD_IMAGE,
        advertised_addresses=pack("10.0.0.2", "fd00::2"),
        listen_peer_addresses=pack("0.0.0.0"),
        listen_client_addresses=pack("127.0.0.1", "10.0.0.2"),
    )
    for name, value in extra.items():
        found.extra_args[name.replace("_", "-")].CopyFrom(ArgValues(values=[value]))
    return found


def test_the_system_decides_names_and_files() -> None:
    own = make_initial_cluster("cp-1", peer_urls(spec()))
    argv = make_argv(spec(quota_backend_bytes="1"), is_new=True, initial_cluster=own)
    assert argv[0] == "etcd"
    arguments = dict(argument.removeprefix("--").split("=", 1) for argument in argv[1:])
    assert list(arguments) == sorted(arguments)
    assert arguments["initial-cluster"] == "cp-1=https://10.0.0.2:2380,cp-1=https://[fd00::2]:2380"
    assert arguments["initial-cluster-state"] == "new"
    assert arguments["initial-advertise-peer-urls"] == "https://10.0.0.2:2380,https://[fd00::2]:2380"
    assert arguments["listen-peer-urls"] == "https://0.0.0.0:2380"
    assert arguments["listen-client-urls"] == "https://127.0.0.1:2379,https://10.0.0.2:2379"
    assert arguments["listen-client-http-urls"] == "https://127.0.0.1:2383,https://10.0.0.2:2383"
    assert arguments["quota-backend-bytes"] == "1"
    assert (arguments["data-dir"], arguments["tls-min-version"]) == ("/var/lib/etcd", "TLS1.3")


@pytest.mark.parametrize("name", ["data_dir", "client_cert_auth", "initial_cluster"])
def test_what_the_system_decides_is_not_replaced(name: str) -> None:
    key = name.replace("_", "-")
    with pytest.raises(UserError, match=f"cluster.etcd.extraArgs.{key}: is decided by the system"):
        make_argv(spec(**{name: "x"}), is_new=False, initial_cluster="")


def test_a_snapshot_is_restored_as_a_cluster_of_one() -> None:
    argv = make_restore_argv(spec(), "/s", "/d", skip_hash_check=True)
    assert argv[:4] == ["etcdutl", "snapshot", "restore", "/s"]
    assert {"--data-dir=/d", "--name=cp-1", "--skip-hash-check=true"} <= set(argv)


@pytest.mark.parametrize(
    ("etcd", "advertised", "peers", "clients"),
    [
        (EtcdConfig(), ["10.0.0.2"], ["0.0.0.0"], ["0.0.0.0"]),
        (EtcdConfig(subnet="172.16.0.0/12"), ["172.16.0.2"], ["172.16.0.2"], ["127.0.0.1", "172.16.0.2"]),
        (
            EtcdConfig(advertised_subnets=("!172.16.0.0/12",)),
            ["10.0.0.2"],
            ["10.0.0.2"],
            ["127.0.0.1", "10.0.0.2"],
        ),
        (
            EtcdConfig(advertised_subnets=("172.16.0.0/12",), listen_subnets=("10.0.0.0/8",)),
            ["172.16.0.2"],
            ["10.0.0.2"],
            ["127.0.0.1", "10.0.0.2"],
        ),
    ],
)
def test_addresses_follow_the_subnets(
    etcd: EtcdConfig, advertised: list[str], peers: list[str], clients: list[str]
) -> None:
    config = make_config(etcd, ["10.0.0.100"])
    assert config.image == ETCD_IMAGE
    found = make_spec(config, "cp-1", ADDRESSES, ADDRESSES)
    assert found is not None
    assert list(found.advertised_addresses) == pack(*advertised)
    assert list(found.listen_peer_addresses) == pack(*peers)
    assert list(found.listen_client_addresses) == pack(*clients)


def test_there_is_nothing_to_start_without_an_address() -> None:
    assert make_spec(ConfigSpec(advertise_valid_subnets=["192.0.2.0/24"]), "a", ADDRESSES, ADDRESSES) is None
    found = make_spec(ConfigSpec(), "a", [ip_address("fd00::2")], [ip_address("fd00::2")])
    assert found is not None
    assert list(found.listen_client_addresses) == pack("::")
