"""The record of applied objects, in the form that upstream's tools read."""

import trio
from tests.unit.kubernetes.twin import Twin, make_map

from talos.kubernetes.apply import apply, create_missing, delete, find_place, order
from talos.kubernetes.inventory import (
    LABEL,
    NAME,
    OWNER,
    ObjectId,
    find_recorded,
    parse_key,
    read_inventory,
    write_inventory,
)

MAPS = "/api/v1/namespaces/default/configmaps"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:coredns"},
}


def test_keys_are_those_of_cli_utils() -> None:
    role = ObjectId(
        namespace="", name="system:coredns", group="rbac.authorization.k8s.io", kind="ClusterRole"
    )
    assert role.key == "_system__coredns_rbac.authorization.k8s.io_ClusterRole"
    assert parse_key(role.key) == role
    service = ObjectId(namespace="kube-system", name="kube-dns", group="", kind="Service")
    assert service.key == "kube-system_kube-dns__Service"
    assert parse_key(service.key) == service
    assert (role.subject, service.subject) == ("ClusterRole/system:coredns", "Service/kube-system/kube-dns")
    assert parse_key("none") is None


def test_what_is_there_stays_and_is_recorded() -> None:
    async def main() -> None:
        client = Twin()
        client.objects[f"{MAPS}/a"] = make_map("a", key="the user's")
        added = [await create_missing(client, make_map(name, key="ours")) for name in "ab"]
        assert client.objects[f"{MAPS}/a"]["data"] == {"key": "the user's"}
        made = client.objects[f"{MAPS}/b"]
        assert (made["data"], made["metadata"]["annotations"]) == ({"key": "ours"}, {OWNER: NAME})
        await write_inventory(client, added=added)
        kept = client.objects[f"/api/v1/namespaces/kube-system/configmaps/{NAME}"]
        assert kept["metadata"]["labels"] == {LABEL: NAME}
        assert kept["data"] == {"default_a__ConfigMap": "", "default_b__ConfigMap": ""}
        await write_inventory(client, removed=added[:1])
        assert await read_inventory(client) == {added[1]}

    trio.run(main)


def test_a_namespace_may_be_left_out_or_be_too_much() -> None:
    async def main() -> None:
        client = Twin()
        plain = make_map("a", namespace="")
        role = {**ROLE, "metadata": {"name": "system:coredns", "namespace": "kube-system"}}
        recorded = [await create_missing(client, one) for one in (plain, role)]
        assert [one.namespace for one in recorded] == ["default", ""]
        assert [find_recorded(one, recorded) for one in (plain, role)] == recorded
        assert find_recorded(make_map("a", namespace="other"), recorded) is None

    trio.run(main)


def test_a_dry_run_changes_nothing_and_what_is_gone_can_be_deleted() -> None:
    async def main() -> None:
        client = Twin()
        place = await find_place(client, make_map("a"))
        assert place.path == f"{MAPS}/a"
        assert (await apply(client, place, make_map("a", key="b"), dry_run=True))["data"] == {"key": "b"}
        assert client.objects == {}
        await delete(client, place.path)

    trio.run(main)


def test_namespaces_and_kinds_come_first() -> None:
    kinds = ["ConfigMap", "CustomResourceDefinition", "Deployment", "Namespace"]
    found = [one["kind"] for one in order([{"kind": kind} for kind in kinds])]
    assert found == ["CustomResourceDefinition", "Namespace", "ConfigMap", "Deployment"]
