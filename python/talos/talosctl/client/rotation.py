"""Rotation of the CA of the nodes' API, without a moment in which a node can't be reached.

The order is upstream's: every node accepts the new CA; every node issues with it and still accepts the old
one; no node accepts the old one any more. Between the steps each node is called through the endpoints and
directly, with fresh connections.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.secrets_pb2 import OSRootSpec
from talos.api.machine.machine_pb2 import Version, VersionResponse
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.client.endpoint import parse_endpoint
from talos.client.resources import get_resource
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.config.documents.certificate import PEMEncodedCertificate, PEMEncodedCertificateAndKey
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.generate.config import issue_client
from talos.config.model import Config
from talos.health.calls import ClusterNodes
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.system.errors import UserError
from talos.talosctl.client.change import change_config, replace_document
from talos.talosctl.client.command import parts

STEP_TIMEOUT = 30.0
"""Seconds for which a node may need to follow a step; a worker has to have its certificate signed."""

POLL_INTERVAL = 0.2  # seconds

type MachineChange = Callable[[MachineConfig, bool], MachineConfig]
"""Changes the machine's section of a node's config; the flag is whether it is a control plane node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOptions:
    """What is rotated, and how configs are written. ``save`` keeps a client's new CA, certificate and key."""

    target: Target
    nodes: ClusterNodes
    dry_run: bool
    docs: bool
    examples: bool
    report: Callable[[str], None]
    save: Callable[[Target], None]


def make_new_authority() -> PemPair:
    """A new CA, of the kind that new clusters have."""
    return CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem


async def rotate_authority(options: RotationOptions, new: PemPair) -> Target:
    """Make ``new`` the CA of every node; how they are called then. A dry run only shows the steps."""
    rotation = _Rotation(options, new)
    return await rotation.run()


class _Rotation:
    def __init__(self, options: RotationOptions, new: PemPair) -> None:
        self._options = options
        self._new = new
        self._report = options.report

    async def run(self) -> Target:
        """All steps in their order; how nodes are called afterwards."""
        options, new, nodes = self._options, self._new, self._options.nodes
        self._report(f"> Starting Talos API PKI rotation, dry-run mode {str(options.dry_run).lower()}...")
        self._report(f'> Using config context: "{options.target.context}"')
        self._report(
            f"> Using Talos API endpoints: {format_quoted([e.host for e in options.target.endpoints])}"
        )
        self._report("> Cluster topology:")
        self._report(f"  - control plane nodes: {format_quoted(nodes.control_plane)}")
        self._report(f"  - worker nodes: {format_quoted(nodes.workers)}")
        old = await self._fetch_current()
        client = issue_client(new)
        # Who trusts both CAs and has the new certificate can reach every node after the first step.
        both = replace(options.target, ca=old + b"\n" + new.crt, crt=client.crt, key=client.key)
        after = replace(both, ca=new.crt)
        await self._verify(options.target, "existing PKI")

        self._report("> Adding new Talos CA as accepted...")
        await self._patch(options.target, lambda machine, _: accept_authority(machine, new.crt))
        await self._verify(both, "new client cert, but old server CA")
        await self._verify_directly(both, "new client cert, but old server CA")
        # Whatever happens from here on, this file opens the cluster.
        if not options.dry_run:
            options.save(both)

        self._report("> Making new Talos CA the issuing CA, old Talos CA the accepted CA...")
        await self._patch(
            both, lambda machine, is_control: swap_authority(machine, old, new, with_key=is_control)
        )
        await self._verify(after, "new PKI")
        await self._verify_directly(after, "new PKI")

        self._report("> Removing old Talos CA from the accepted CAs...")
        await self._patch(after, lambda machine, _: refuse_authority(machine, old))
        await self._verify(after, "new PKI")
        if options.dry_run:
            return options.target
        options.save(after)
        return after

    async def _fetch_current(self) -> bytes:
        """The certificate of the CA that issues now."""
        node = self._options.nodes.control_plane[0]
        async with open_session(self._options.target) as session:
            resource = await get_resource(session, node, "secrets", "OSRootSecrets.secrets.talos.dev", "os")
        current = parse_spec(OSRootSpec, resource).issuing_ca.crt
        if not current:
            raise UserError("it has no CA that issues", where=node, hint="name a control plane node first")
        self._report("> Current Talos CA:")
        self._report(format_indented(current))
        self._report("> New Talos CA:")
        self._report(format_indented(self._new.crt))
        return current

    async def _verify(self, target: Target, label: str) -> None:
        """Call every node through the endpoints."""
        self._report(f"> Verifying connectivity with {label}:")
        for node in self._options.nodes.all:
            await self._check_version(target, node, node)

    async def _verify_directly(self, target: Target, label: str) -> None:
        """Call every node with itself as the endpoint."""
        self._report(f"> Verifying direct connectivity with {label}:")
        for node in self._options.nodes.all:
            await self._check_version(replace(target, endpoints=(parse_endpoint(node),)), node, "")

    async def _check_version(self, target: Target, node: str, routed: str) -> None:
        if self._options.dry_run:
            self._report(f"  - {node}: OK (dry-run)")
            return

        async def fetch(session: Session) -> str:
            path = "/machine.MachineService/Version"
            reply = await session.unary(routed, path, Empty(), VersionResponse, timeout=10)
            return next(part.version.tag for part in parts(reply, Version))

        tag = await _retry(target, fetch, f"node {node}: its version can't be read")
        self._report(f"  - {node}: OK (version {tag})")

    async def _patch(self, target: Target, change: MachineChange) -> None:
        """Change the config of every node, control plane first."""
        nodes = self._options.nodes
        for node in nodes.all:
            if self._options.dry_run:
                self._report(f"  - {node}: skipped (dry-run)")
                continue
            is_control = node in nodes.control_plane

            async def patch(session: Session, node: str = node, is_control: bool = is_control) -> None:
                await self._patch_node(session, node, is_control, change)

            await _retry(target, patch, f"node {node}: its config can't be changed")
            self._report(f"  - {node}: OK")

    async def _patch_node(self, session: Session, node: str, is_control: bool, change: MachineChange) -> None:
        def change_machine(config: Config) -> Config:
            main = config.main
            if main is None or main.machine is None:
                raise UserError("its config has no section `machine`", where=node)
            return replace_document(config, main, replace(main, machine=change(main.machine, is_control)))

        options = self._options
        await change_config(session, node, change_machine, docs=options.docs, examples=options.examples)


def accept_authority(machine: MachineConfig, *authorities: bytes) -> MachineConfig:
    """With further CAs accepted, each once."""
    known = [ca for ca in machine.accepted_cas or () if ca.crt not in authorities]
    return replace(machine, accepted_cas=(*known, *(PEMEncodedCertificate(crt=crt) for crt in authorities)))


def refuse_authority(machine: MachineConfig, authority: bytes) -> MachineConfig:
    """With a CA accepted no more."""
    left = tuple(ca for ca in machine.accepted_cas or () if (ca.crt or b"").strip() != authority.strip())
    return replace(machine, accepted_cas=left or None)


def swap_authority(machine: MachineConfig, old: bytes, new: PemPair, *, with_key: bool) -> MachineConfig:
    """With the new CA issuing, and the old one accepted."""
    issuing = PEMEncodedCertificateAndKey(crt=new.crt, key=new.key if with_key else b"")
    return replace(refuse_authority(accept_authority(machine, old), new.crt), ca=issuing)


async def _retry[T](target: Target, fetch: Callable[[Session], Awaitable[T]], what: str) -> T:
    """Try over fresh connections until it succeeds; UserError with the last reason after ``STEP_TIMEOUT``."""
    end = time.monotonic() + STEP_TIMEOUT
    while True:
        try:
            async with open_session(target) as session:
                return await fetch(session)
        except RpcError as error:
            is_passing = error.code in {Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED}
            if not is_passing or time.monotonic() > end:
                raise UserError(f"{what}: {error.reason}") from error
        await asyncio.sleep(POLL_INTERVAL)


def format_quoted(names: Sequence[str]) -> str:
    """A list as upstream shows it."""
    return "[" + " ".join(f'"{name}"' for name in names) + "]"


def format_indented(pem: bytes) -> str:
    """A certificate below its title."""
    return "\n".join(f"  {line}" for line in pem.decode("ascii", "replace").strip().splitlines())
