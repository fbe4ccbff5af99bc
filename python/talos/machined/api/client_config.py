"""GenerateClientConfiguration: a talosconfig for another user, with its own roles and lifetime."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.api.timestamps import read_duration
from talos.config.effective.cluster import cluster_name
from talos.config.model import Config
from talos.config.read.loader import load
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.text import format_talosconfig
from talos.machined.api.pump import in_thread
from talos.machined.node.config_store import get_config
from talos.machined.node.ports.node import Node
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.resource import ids
from talos.resource.state import NotFoundError, State

_ROLE_PREFIX = "os:"
_API = "client configuration"


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def generate(
        request: pb.GenerateClientConfigurationRequest, _call: Call
    ) -> pb.GenerateClientConfigurationResponse:
        ttl = _read_ttl(request)
        config = await _get_control_plane_config(node.state)
        authority = await _get_authority(node.state)
        message = await in_thread(make_client_config, authority, config, tuple(request.roles), ttl)
        return pb.GenerateClientConfigurationResponse(messages=[message])

    return {"GenerateClientConfiguration": generate}


def _read_ttl(request: pb.GenerateClientConfigurationRequest) -> timedelta:
    seconds = read_duration(request.crt_ttl)
    if seconds <= 0:
        raise RpcError(Code.INVALID_ARGUMENT, "crt_ttl should be positive")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise RpcError(Code.INVALID_ARGUMENT, f"crt_ttl of {seconds:.0f} s is too long") from None


async def _get_control_plane_config(state: State) -> Config:
    """The config in force; UNIMPLEMENTED on other nodes, which don't have the authority's key."""
    text = await get_config(state, ids.MACHINE_CONFIG)
    if text is None:
        raise RpcError(Code.UNIMPLEMENTED, f"machine type is not set, cannot use {_API} API")
    config = await in_thread(load, text)
    if not config.machine_type.is_control_plane:
        raise RpcError(Code.UNIMPLEMENTED, f"{_API} is only available on control plane nodes")
    return config


async def _get_authority(state: State) -> PemPair:
    try:
        found = (await state.get(*ids.OS_ROOT_SECRET)).spec.issuing_ca
    except NotFoundError:
        raise RpcError(Code.UNAVAILABLE, "the OS CA is not known yet, try again") from None
    return PemPair(found.crt, found.key)


def make_client_config(
    authority: PemPair, config: Config, roles: Sequence[str], ttl: timedelta
) -> pb.GenerateClientConfiguration:
    """A key, its certificate with the roles, and the client's file that holds both.

    RpcError: INVALID_ARGUMENT when the expiry exceeds the range of dates.
    """
    issuer = CertificateAuthority.from_pem(authority.crt, authority.key, where="OS CA")
    try:
        pair = issuer.issue(
            organizations=sorted(set(roles)), ttl=ttl, usages=Usage.CLIENT, key_type=KeyType.ED25519
        )
    except (OverflowError, ValueError):
        raise RpcError(Code.INVALID_ARGUMENT, f"crt_ttl of {ttl.days} days is too long") from None
    name = make_context_name(cluster_name(config), roles)
    context = Context(ca=authority.crt, crt=pair.crt, key=pair.key)
    file = TalosConfig(context=name, contexts={name: context})
    return pb.GenerateClientConfiguration(
        ca=authority.crt, crt=pair.crt, key=pair.key, talosconfig=format_talosconfig(file).encode()
    )


def make_context_name(cluster: str, roles: Sequence[str]) -> str:
    """The cluster's name, with the role before it when there is just one: ``reader@demo``."""
    if len(set(roles)) == 1:
        return f"{roles[0].removeprefix(_ROLE_PREFIX)}@{cluster}"
    return cluster
