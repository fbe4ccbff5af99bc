"""Debug containers that are refused before anything runs, and what one may do."""

from collections.abc import AsyncGenerator
from math import inf
from typing import Any

import pytest
from google.protobuf.message import Message

from talos.api.machine.debug_pb2 import DebugContainerRunRequest, DebugContainerRunRequestSpec
from talos.api.rpc import Call, Code, RpcError
from talos.images.manifest import ImageConfig
from talos.machined.api.debug import MAX_ARGUMENTS, SWITCH
from talos.machined.containerd.debug.spec import HOST_SHELL, make_host_spec, make_spec
from talos.machined.containerd.spec import make_oci_spec
from talos.machined.platform.platform import MetalPlatform
from talos.system.proc.cmdline import parse_cmdline

SERVICE = "machine.DebugService"
METHOD = "ContainerRun"
PRIVILEGED = DebugContainerRunRequestSpec.PROFILE_PRIVILEGED
HOST_NS = DebugContainerRunRequestSpec.PROFILE_HOST_NS


async def run(caller: Any, *requests: DebugContainerRunRequest) -> None:
    async def stream() -> AsyncGenerator[DebugContainerRunRequest]:
        for request in requests:
            yield request

    async def send(reply: Message) -> None:
        raise AssertionError(reply)

    call = Call(method=f"/{SERVICE}/{METHOD}", metadata={}, deadline=inf, peer="unix:")
    await caller.handler(METHOD, SERVICE)(stream(), call, send)


def begin(**fields: Any) -> DebugContainerRunRequest:
    return DebugContainerRunRequest(spec=DebugContainerRunRequestSpec(**fields))


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ((), "failed to receive spec: the stream has ended"),
        ((DebugContainerRunRequest(stdin_data=b"x"),), "expected debug container spec"),
        ((begin(),), "unsupported debug container profile: PROFILE_UNSPECIFIED"),
        ((begin(profile=9),), "unsupported debug container profile: 9"),
        ((begin(profile=PRIVILEGED, args=["x" * MAX_ARGUMENTS, "y"]),), "arguments and variables of 131073"),
        ((begin(profile=HOST_NS, args=["x" * MAX_ARGUMENTS, "y"]),), "arguments and variables of 131073"),
    ],
)
async def test_a_wrong_beginning_is_the_callers(
    caller: Any, requests: tuple[DebugContainerRunRequest, ...], text: str
) -> None:
    with pytest.raises(RpcError, match=text) as caught:
        await run(caller, *requests)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("profile", [PRIVILEGED, HOST_NS])
async def test_a_kernel_argument_refuses_all(caller: Any, profile: int) -> None:
    platform = MetalPlatform(arguments=parse_cmdline(f"quiet {SWITCH}=1"))
    with pytest.raises(RpcError, match=SWITCH) as caught:
        await run(caller.with_node(platform=platform), begin(profile=profile, image_name="a"))
    assert caught.value.code is Code.PERMISSION_DENIED


def test_it_is_root_whatever_its_image_says() -> None:
    image = ImageConfig(diff_ids=(), user="app", entrypoint=("sh",), command=("-l",))
    request = begin(profile=PRIVILEGED, tty=True, env={"TERM": "xterm"}).spec
    document = make_oci_spec(make_spec(request, "a", ("CAP_SYS_ADMIN",)), image, "debug/debug-1")
    process, linux = document["process"], document["linux"]
    assert (process["user"]["uid"], process["args"], process["terminal"]) == (0, ["sh", "-l"], True)
    assert "TERM=xterm" in process["env"]
    assert process["capabilities"]["bounding"] == ["CAP_SYS_ADMIN"]
    assert [one["type"] for one in linux["namespaces"]] == ["uts", "mount"]
    assert "seccomp" not in linux
    [host] = [mount for mount in document["mounts"] if mount["destination"] == "/host"]
    assert (host["source"], host["options"]) == ("/", ["rbind", "rw"])


def test_in_the_nodes_namespaces_it_has_another_root_and_the_images_variables_do_not_count() -> None:
    request = begin(profile=HOST_NS, tty=True, env={"TERM": "vt100"}, args=["ip", "link"]).spec
    spec = make_host_spec(request, "a", ("CAP_SYS_ADMIN",), "/run/debug/debug-1/root")
    document = make_oci_spec(spec, ImageConfig(diff_ids=()), "debug/debug-1")
    process = document["process"]
    assert spec.rootfs == "/"
    assert process["args"][-3:] == ["/run/debug/debug-1/root", "ip", "link"]
    assert "TERM=vt100" in process["env"]
    assert "HOME=/root" in process["env"]
    [path] = [one for one in process["env"] if one.startswith("PATH=")]
    assert "/nix/var/nix/profiles/default/bin" in path
    assert (process["terminal"], process["user"]["uid"]) == (True, 0)
    # Its first process leaves this one for PID 1's, and its mounts end with it.
    assert [one["type"] for one in document["linux"]["namespaces"]] == ["mount"]


def test_in_the_nodes_namespaces_its_command_is_a_shell_whatever_the_image_names() -> None:
    spec = make_host_spec(begin(profile=HOST_NS).spec, "a", (), "/root")
    image = ImageConfig(diff_ids=(), entrypoint=("sh",), command=("-l",))
    assert make_oci_spec(spec, image, "debug/debug-1")["process"]["args"][-2:] == ["/root", HOST_SHELL]
