"""Upgrades of many nodes in memory: the order, the bounds, what stops them, what is reported at the end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.fleet.cluster import IMAGE, NEW, OLD, TICK, Cluster, Steps, make_cluster
from tests.unit.fleet.jumping import JumpingLoop

from talos.api.machine import machine_pb2
from talos.fleet.engine import Fleet, UpgradeOptions
from talos.fleet.plan import FleetLimits, make_plan, parse_unavailable
from talos.fleet.progress import FleetProgress, NodeProgress, NodeStep
from talos.system.errors import UserError
from talos.upgrade.state import BUSY, IDLE, stage, start


def upgrade(
    cluster: Cluster, nodes: Sequence[str] = (), *, limits: FleetLimits | None = None, **options: Any
) -> FleetProgress:
    """Upgrade nodes, all unless some are named."""

    async def main() -> FleetProgress:
        settings: dict[str, Any] = {"image": IMAGE, "version": NEW, **options}
        chosen = UpgradeOptions(**settings)
        plan = await make_plan(
            cluster,
            list(nodes or cluster.nodes),
            version=chosen.version,
            force=chosen.old is not None and chosen.old.force,
        )
        fleet = Fleet(
            calls=cluster, plan=plan, options=chosen, limits=limits or FleetLimits(), watcher=Steps()
        )
        return await fleet.run()

    return asyncio.run(main(), loop_factory=JumpingLoop)


def results(progress: FleetProgress) -> list[NodeStep]:
    return [row.step for row in progress.rows]


def test_control_plane_nodes_come_first_and_one_at_a_time() -> None:
    cluster = make_cluster()
    names = list(cluster.nodes)
    progress = upgrade(cluster, [*names[3:], *names[:3]])
    assert progress.has_succeeded
    assert cluster.done("reboot") == names
    assert (cluster.max_unavailable, cluster.max_installing) == (1, 1)
    assert [row.after for row in progress.rows] == [NEW] * 5
    assert all(row.seconds > row.downtime > 0 for row in progress.rows)
    # The next node is not even installed while one is down.
    assert [what for what, _ in cluster.log] == ["pull", "install", "reboot"] * 5


@pytest.mark.parametrize(("parallel", "unavailable"), [(2, 2), (5, 2), (3, 1), (8, 8)])
def test_workers_are_bounded_twice(parallel: int, unavailable: int) -> None:
    cluster = make_cluster(1, 8)
    progress = upgrade(cluster, limits=FleetLimits(parallel=parallel, unavailable=unavailable))
    assert progress.has_succeeded, progress.reason
    assert cluster.max_unavailable == unavailable
    assert cluster.max_installing == parallel


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("install", "exit code 2: refused: the release is not signed"),
        ("trial", "v1.15.1 was reverted, v1.15.0 runs: self-check: the network is not ready"),
        ("health", "not done after 150 s: recovering, service kubelet is Preparing"),
        ("away", "not done after 150 s: rebooting, does not answer"),
    ],
)
def test_the_first_failure_ends_it(fails: str, reason: str) -> None:
    cluster = make_cluster()
    cluster.nodes["10.0.0.2"].fails = fails
    progress = upgrade(cluster, timeout=150)
    assert not progress.has_succeeded
    assert progress.reason.startswith("10.0.0.2 (node-2): ")
    assert reason in progress.reason
    assert results(progress) == [NodeStep.DONE, NodeStep.FAILED, *[NodeStep.NOT_STARTED] * 3]
    assert cluster.done("pull") == ["10.0.0.1", "10.0.0.2"]


def test_a_tag_that_brings_another_release_is_no_success() -> None:
    """An older node looks at the signature only, and a mirror may serve what it likes."""
    progress = upgrade(make_cluster(), version="v1.15.2")
    assert not progress.has_succeeded
    assert results(progress)[:2] == [NodeStep.FAILED, NodeStep.NOT_STARTED]
    assert f"it runs {NEW}, not v1.15.2 which is the image's tag" in progress.reason


def test_a_release_of_the_version_that_runs_may_be_reverted() -> None:
    cluster = make_cluster()
    for node in cluster.nodes.values():
        node.version = NEW
    cluster.nodes["10.0.0.2"].fails = "trial"
    progress = upgrade(cluster, version="")
    assert results(progress) == [NodeStep.DONE, NodeStep.FAILED, *[NodeStep.NOT_STARTED] * 3]
    assert f"{NEW} was reverted, {NEW} runs: self-check" in progress.reason


@pytest.mark.parametrize("received", [False, True])
@pytest.mark.parametrize("method", ["Pull", "Upgrade", "Reboot"])
def test_a_call_without_an_answer_is_repeated(method: str, *, received: bool) -> None:
    cluster = make_cluster()
    cluster.lost = [("10.0.0.2", method, received)] * (1 if received else 2)
    progress = upgrade(cluster)
    assert progress.has_succeeded, progress.reason
    assert cluster.done("reboot") == list(cluster.nodes), "no node reboots twice"


OLD_CALL = machine_pb2.UpgradeRequest(image=IMAGE)


@pytest.mark.parametrize(("received", "checks"), [(False, 0), (True, 0), (False, 3)])
def test_the_call_of_older_nodes_is_repeated_until_the_node_has_received_it(
    *, received: bool, checks: int
) -> None:
    cluster = make_cluster()
    cluster.lost = [("10.0.0.2", "Upgrade", received)] * (1 if received else 2)
    cluster.nodes["10.0.0.2"].checks = checks  # the call that was lost ends later on the node
    progress = upgrade(cluster, old=OLD_CALL)
    assert progress.has_succeeded, progress.reason
    assert cluster.lost == []
    assert cluster.done("upgrade") == list(cluster.nodes), "no node is upgraded twice"
    assert cluster.done("reboot") == list(cluster.nodes)


def test_a_first_call_of_older_nodes_that_is_refused_ends_it() -> None:
    cluster = make_cluster()
    cluster.nodes["10.0.0.2"].checks = 1
    progress = upgrade(cluster, old=OLD_CALL)
    assert progress.reason == f"10.0.0.2 (node-2): {BUSY}"
    assert cluster.done("upgrade") == ["10.0.0.1"]


def test_a_lost_status_refuses_nothing() -> None:
    cluster = make_cluster()
    cluster.lost = [("10.0.0.4", "Version", False), ("10.0.0.1", "EtcdMemberList", False)] * 3
    assert upgrade(cluster).has_succeeded
    assert cluster.lost == []


def test_a_node_that_gives_no_answer_is_given_up() -> None:
    cluster = make_cluster()
    cluster.lost = [("10.0.0.2", "Pull", False)] * 10_000
    progress = upgrade(cluster)
    assert progress.reason == "10.0.0.2 (node-2): 10.0.0.2: the connection was closed"
    assert progress.rows[1].is_untouched


def test_a_node_that_stays_away_says_why_until_it_is_back() -> None:
    cluster = make_cluster(0, 1)
    node = cluster.nodes["10.0.0.1"]
    node.fails = "away"
    seen: list[str] = []

    class Rescue(Steps):
        """Brings the node back on request."""

        def changed(self, row: NodeProgress) -> None:
            if row.detail.startswith("does not answer"):
                seen.append(row.detail)
                node.is_up, node.boots, node.version, node.state = True, 2, NEW, IDLE

    async def main() -> FleetProgress:
        chosen = await make_plan(cluster, list(cluster.nodes), version=NEW)
        options = UpgradeOptions(image=IMAGE, version=NEW)
        return await Fleet(
            calls=cluster, plan=chosen, options=options, limits=FleetLimits(), watcher=Rescue()
        ).run()

    assert asyncio.run(main(), loop_factory=JumpingLoop).has_succeeded
    assert seen[0] == "does not answer: 10.0.0.1 does not answer"


def test_what_is_under_way_is_seen_through() -> None:
    cluster = make_cluster(1, 6)
    cluster.nodes["10.0.0.3"].fails = "install"
    progress = upgrade(cluster, limits=FleetLimits(parallel=3, unavailable=1))
    by_node = {row.node: row.step for row in progress.rows}
    assert by_node["10.0.0.3"] is NodeStep.FAILED
    assert {by_node[f"10.0.0.{number}"] for number in (2, 4)} <= {NodeStep.DONE, NodeStep.STAGED}
    assert [by_node[f"10.0.0.{number}"] for number in (5, 6, 7)] == [NodeStep.NOT_STARTED] * 3
    assert not any(step.is_active for step in by_node.values())
    document = progress.document()
    assert document["succeeded"] is False
    assert "node-3" in str(document["reason"])


@pytest.mark.parametrize(("unavailable", "reboots"), [(1, 1), (2, 4)])
def test_nodes_that_are_away_for_reasons_of_their_own_count(unavailable: int, reboots: int) -> None:
    cluster = make_cluster(0, 4)
    names = list(cluster.nodes)

    def gate() -> str:
        # Once the first is done, another worker loses its way.
        cluster.nodes[names[3]].is_booting = len(cluster.done("reboot")) == 1
        return ""

    progress = upgrade(cluster, gate=gate, limits=FleetLimits(parallel=1, unavailable=unavailable))
    assert len(cluster.done("reboot")) == reboots
    if unavailable == 1:
        assert (
            "(node-2) would be one unavailable node too many: node-4: the machine is booting"
            in progress.reason
        )
        assert results(progress) == [
            NodeStep.DONE,
            NodeStep.STAGED,
            NodeStep.NOT_STARTED,
            NodeStep.NOT_STARTED,
        ]
    else:
        assert progress.has_succeeded, progress.reason


def test_a_node_that_is_well_again_in_time_is_waited_for() -> None:
    cluster = make_cluster(0, 2)
    first = cluster.nodes["10.0.0.1"]

    def gate() -> str:
        if cluster.done("reboot"):
            first.is_booting = True
            asyncio.get_running_loop().call_later(8 * TICK, lambda: setattr(first, "is_booting", False))
        return ""

    assert upgrade(cluster, gate=gate).has_succeeded


def test_it_continues_where_it_stopped() -> None:
    cluster = make_cluster()
    cluster.nodes["10.0.0.2"].fails = "trial"
    upgrade(cluster)
    cluster.nodes["10.0.0.2"].fails = ""
    cluster.log.clear()
    progress = upgrade(cluster)
    assert progress.has_succeeded
    assert results(progress) == [NodeStep.CURRENT, *[NodeStep.DONE] * 4]
    assert cluster.done("reboot") == list(cluster.nodes)[1:]


def test_what_was_not_well_before_is_not_waited_for() -> None:
    cluster = make_cluster()
    cluster.nodes["10.0.0.1"].unhealthy = "kubelet"
    assert upgrade(cluster).has_succeeded


def test_the_gate_closes_between_two_nodes() -> None:
    cluster = make_cluster()
    progress = upgrade(cluster, gate=lambda: "the window is closed" if cluster.done("reboot") else "")
    assert progress.reason == "the window is closed"
    assert results(progress) == [NodeStep.DONE, *[NodeStep.NOT_STARTED] * 4]


def test_what_is_installed_is_booted_though_the_gate_has_closed() -> None:
    cluster = make_cluster(0, 4)
    limits = FleetLimits(parallel=2, unavailable=1)
    progress = upgrade(
        cluster, limits=limits, gate=lambda: "the window is closed" if cluster.done("install") else ""
    )
    assert progress.reason == "the window is closed"
    assert results(progress) == [NodeStep.DONE, NodeStep.DONE, NodeStep.NOT_STARTED, NodeStep.NOT_STARTED]


def test_older_calls_carry_force() -> None:
    cluster = make_cluster(1, 1)
    for node in cluster.nodes.values():
        node.version = "v1.17.0"
    progress = upgrade(cluster, old=machine_pb2.UpgradeRequest(image=IMAGE, force=True))
    assert progress.has_succeeded
    assert cluster.done("upgrade") == list(cluster.nodes)
    assert not cluster.done("install")


def refuse(cluster: Cluster, *nodes: str) -> str:
    with pytest.raises(UserError) as caught:
        upgrade(cluster, nodes)
    assert cluster.log == []
    return str(caught.value)


def test_nothing_is_touched_when_a_node_is_away() -> None:
    cluster = make_cluster()
    cluster.nodes["10.0.0.5"].is_up = False
    assert "10.0.0.5: 10.0.0.5 does not answer (nothing has been changed)" in refuse(cluster)


def test_every_reason_is_named() -> None:
    cluster = make_cluster()
    staged = stage(IDLE, running="A", version="v1.15.1", previous_version=OLD)
    cluster.nodes["10.0.0.1"].state = start(staged, running="B", cause="")
    cluster.nodes["10.0.0.4"].version = "v1.16.0"
    cluster.nodes["10.0.0.5"].version = "v1.13.0"
    text = refuse(cluster)
    assert "10.0.0.1: v1.15.1 is on trial" in text
    assert "10.0.0.4: the release v1.15.1 is older than the running v1.16.0" in text
    assert "10.0.0.5: from v1.13.0 to v1.15.1 minor versions are skipped" in text


def test_two_members_and_two_names_of_a_node_are_refused() -> None:
    cluster = make_cluster()
    cluster.members = 2
    assert "etcd has 2 members, both of which have to be up" in refuse(cluster)
    assert "10.0.0.1 is named twice" in refuse(cluster, "10.0.0.1", "10.0.0.1")


def test_an_interrupted_upgrade_says_what_it_left() -> None:
    cluster = make_cluster()

    async def main() -> FleetProgress:
        plan = await make_plan(cluster, list(cluster.nodes), version=NEW)
        fleet = Fleet(
            calls=cluster,
            plan=plan,
            options=UpgradeOptions(image=IMAGE, version=NEW),
            limits=FleetLimits(),
            watcher=Steps(),
        )
        running = asyncio.create_task(fleet.run())
        while not cluster.done("reboot"):  # noqa: ASYNC110 - the nodes in memory have no events
            await asyncio.sleep(TICK)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return fleet.progress

    progress = asyncio.run(main(), loop_factory=JumpingLoop)
    assert progress.reason == "interrupted"
    assert results(progress) == [NodeStep.FAILED, *[NodeStep.NOT_STARTED] * 4]
    assert "its end was not waited for" in progress.rows[0].detail


@pytest.mark.parametrize(("text", "count"), [("3", 3), ("25%", 2), ("1%", 1), ("100%", 9)])
def test_numbers_and_shares_of_nodes(text: str, count: int) -> None:
    assert parse_unavailable(text, 9) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "0%", "101%", "half", "1e3", "٣x"])
def test_other_texts_are_no_number_of_nodes(text: str) -> None:
    with pytest.raises(UserError, match="is no number of nodes"):
        parse_unavailable(text, 9)
