"""``talosctl netstat``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from talos.api.machine.machine_pb2 import (
    ConnectRecord,
    Container,
    ContainersRequest,
    ContainersResponse,
    Netstat,
    NetstatRequest,
    NetstatResponse,
)
from talos.client.namespaces import container_place
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import Row, need_nodes, parts, print_table, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT_WITHOUT_SHORT
from talos.talosctl.client.select import find_target

type Pods = dict[str, str]
"""Namespaces of the network, and whose they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSockets:
    """The sockets of a node; ``pods`` is empty where none was looked for, or the named one is not there."""

    records: Sequence[ConnectRecord]
    pods: Pods


PROTOCOLS = ("tcp", "udp", "udplite", "raw")


def run_netstat(invocation: Invocation) -> int:
    """One row for each socket: of the host, of all pods, or of one."""
    flags = invocation.flags
    pod = invocation.args[0].lower() if invocation.args else ""
    if pod and flags.is_set("pods"):
        raise UserError("can't be used with the name of a pod", where="--pods", hint="leave one of them out")
    request = make_request(flags)

    async def call(session: Session, node: str) -> NodeSockets:
        pods = await _fetch_pods(session, node) if pod or flags.is_set("pods") else {}
        own = request
        if pod:
            spaces = [space for space, name in pods.items() if name == pod]
            if not spaces:
                return NodeSockets(records=(), pods={})
            own = NetstatRequest()
            own.CopyFrom(request)
            own.netns.CopyFrom(NetstatRequest.NetNS(netns=spaces))
        reply = await session.unary(node, "/machine.MachineService/Netstat", own, NetstatResponse)
        records = [record for part in parts(reply, Netstat) for record in part.connectrecord]
        return NodeSockets(records=records, pods=pods)

    def rows(node: str, answer: NodeSockets) -> Iterable[Row]:
        return (_row(node, record, flags, answer.pods) for record in answer.records)

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
            code = report_failures(session, outcomes)
            if pod and not code and not any(outcome.value and outcome.value.pods for outcome in outcomes):
                hint = "namespace/name, of a pod with a network of its own"
                raise UserError("is on none of the nodes", where=f"pod {pod}", hint=hint)
            print_table(outcomes, _header(flags), rows, flags.text("output"))
            return code

    return run_async(main())


def make_request(flags: Flags) -> NetstatRequest:
    """The request that the flags describe; tcp and udp when they name no protocol."""
    is_all = flags.is_set("verbose")
    named = {name for name in PROTOCOLS if flags.is_set(name)}
    chosen = set(PROTOCOLS) if is_all else named or {"tcp", "udp"}
    has_family = flags.is_set("ipv4") or flags.is_set("ipv6")
    v4 = flags.is_set("ipv4") or not has_family
    v6 = flags.is_set("ipv6") or not has_family
    wanted = {name: v4 and name in chosen for name in PROTOCOLS}
    wanted |= {f"{name}6": v6 and name in chosen for name in PROTOCOLS}
    mode = NetstatRequest.CONNECTED
    if flags.is_set("all"):
        mode = NetstatRequest.ALL
    elif flags.is_set("listening"):
        mode = NetstatRequest.LISTENING
    return NetstatRequest(
        filter=mode,
        feature=NetstatRequest.Feature(pid=flags.is_set("programs")),
        l4proto=NetstatRequest.L4proto(**wanted),
        netns=NetstatRequest.NetNS(hostnetwork=True, allnetns=flags.is_set("pods")),
    )


async def _fetch_pods(session: Session, node: str) -> Pods:
    namespace, driver = container_place(is_kubernetes=True)
    request = ContainersRequest(namespace=namespace, driver=driver)
    reply = await session.unary(node, "/machine.MachineService/Containers", request, ContainersResponse)
    containers = (row for part in parts(reply, Container) for row in part.containers)
    sandboxes = (row for row in containers if row.network_namespace and row.pid and row.id == row.pod_id)
    return {row.network_namespace: row.pod_id for row in sandboxes}


def _header(flags: Flags) -> Row:
    header = ["NODE", "Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "State"]
    if flags.is_set("extend"):
        header += ["Uid", "Inode"]
    if flags.is_set("programs"):
        header.append("PID/Program name")
    if flags.is_set("pods"):
        header.append("Pod")
    if flags.is_set("timers"):
        header.append("Timer")
    return header


def _row(node: str, record: ConnectRecord, flags: Flags, pods: Pods) -> Row:
    is_connectionless = record.state == ConnectRecord.CLOSE and not record.l4proto.startswith("tcp")
    row = [
        node,
        record.l4proto,
        str(record.rxqueue),
        str(record.txqueue),
        f"{record.localip}:{record.localport}",
        f"{record.remoteip}:{record.remoteport or '*'}",
        "" if is_connectionless else ConnectRecord.State.Name(record.state),
    ]
    if flags.is_set("extend"):
        row += [str(record.uid), str(record.inode)]
    if flags.is_set("programs"):
        process = record.process
        row.append(f"{process.pid}/{process.name}" if process.pid else "-")
    if flags.is_set("pods"):
        row.append(pods.get(record.netns, record.netns) or "-")
    if flags.is_set("timers"):
        name = ConnectRecord.TimerActive.Name(record.tr).lower()
        row.append(f"{name} ({record.timerwhen / 100:.2f}/{record.retrnsmt}/{record.timeout})")
    return row


def _switch(name: str, short: str, text: str) -> Flag:
    return Flag(name=name, short=short, type=Type.BOOL, default="false", help=text)


COMMAND = Command(
    name="netstat",
    aliases=("ss",),
    usage="[namespace/pod]",
    maximum=1,
    summary="List network connections and sockets",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT_WITHOUT_SHORT,
        _switch("all", "a", "connected and listening sockets"),
        _switch("extend", "x", "also the owner and the inode"),
        _switch("ipv4", "4", "only IPv4"),
        _switch("ipv6", "6", "only IPv6"),
        _switch("listening", "l", "only listening sockets"),
        _switch("pods", "k", "also the sockets of Kubernetes' pods"),
        _switch("programs", "p", "also the process that holds the socket"),
        _switch("raw", "w", "raw sockets"),
        _switch("tcp", "t", "TCP sockets"),
        _switch("timers", "o", "also the timers"),
        _switch("udp", "u", "UDP sockets"),
        _switch("udplite", "U", "UDP-Lite sockets"),
        _switch("verbose", "v", "sockets of every protocol"),
    ),
    run=run_netstat,
)
