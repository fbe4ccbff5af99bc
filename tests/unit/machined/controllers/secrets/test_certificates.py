"""From a machine config and the node's addresses to certificates."""

import base64
import ipaddress
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing
from cryptography import x509

from talos.api.definitions import network_pb2 as network
from talos.api.definitions import secrets_pb2 as secrets
from talos.api.definitions import time_pb2 as time
from talos.api.resource import config_pb2
from talos.machined.controllers.secrets.api_certificates import (
    ApiCertificatesController,
    SigningRequest,
)
from talos.machined.controllers.secrets.cert_sans import CertSANsController
from talos.machined.controllers.secrets.certificates import check_clocks, is_current
from talos.machined.controllers.secrets.os_root import OSRootController
from talos.machined.controllers.secrets.trustd_certificates import TrustdCertificatesController
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType
from talos.pki.names import organizations_of
from talos.process.addresses import CONFIG_VERSION
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.controller.runtime import check_controllers, run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError

CA = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
OTHER = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])


def _b64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def config(
    *, worker: bool = False, ca: CertificateAuthority = CA, accepted: CertificateAuthority = OTHER
) -> bytes:
    key = "" if worker else _b64(ca.pem.key)
    return f"""\
version: v1alpha1
machine:
  type: {"worker" if worker else "controlplane"}
  token: abcdef.0123456789abcdef
  ca:
    crt: {_b64(ca.crt)}
    key: "{key}"
  acceptedCAs:
    - crt: {_b64(accepted.crt)}
  certSANs:
    - api.example.org
    - 192.0.2.9
cluster:
  controlPlane:
    endpoint: https://10.5.0.2:6443
""".encode()


@dataclass
class Machine:
    """A State with the controllers running on it, and a control plane that signs."""

    state: MemoryState = field(default_factory=MemoryState)
    requests: list[SigningRequest] = field(default_factory=list[SigningRequest])
    authority: CertificateAuthority = CA
    signed: bytes | None = None
    """What is answered instead of a new certificate."""

    async def sign(self, request: SigningRequest) -> bytes:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        return self.signed or self.authority.sign(request.csr, usages=Usage.SERVER, organizations=())

    async def configure(self, text: bytes) -> None:
        def change(spec: config_pb2.MachineConfigSpec) -> None:
            spec.yaml_marshalled = text

        await modify(self.state, *ids.MACHINE_CONFIG, change)
        for addresses in await self.state.list(kinds.NODE_ADDRESS):
            await self.note_version(addresses.id)

    async def note_version(self, id: str) -> None:
        """As networkd does once the config has taken effect."""
        version = (await self.state.get(*ids.MACHINE_CONFIG)).metadata.version
        notes = {CONFIG_VERSION: str(version)}
        await modify(self.state, kinds.NODE_ADDRESS, id, lambda _: None, annotations=notes)

    async def name(self, hostname: str, domain: str = "") -> None:
        def change(spec: network.HostnameStatusSpec) -> None:
            spec.hostname, spec.domainname = hostname, domain

        await modify(self.state, *ids.HOSTNAME_STATUS, change)

    async def address(self, *addresses: str, id: str = "accumulative-no-k8s") -> None:
        def change(spec: network.NodeAddressSpec) -> None:
            del spec.addresses[:]
            for address in addresses:
                spec.addresses.add(ip=ipaddress.ip_address(address).packed, prefix_length=24)

        await modify(self.state, kinds.NODE_ADDRESS, id, change)
        await self.note_version(id)

    async def api(self) -> secrets.APICertsSpec | None:
        await settle()
        found = await self.state.list(kinds.API_CERTIFICATE)
        return found[0].spec if found else None

    async def trustd(self) -> secrets.TrustdCertsSpec | None:
        await settle()
        found = await self.state.list(kinds.TRUSTD_CERTIFICATE)
        return found[0].spec if found else None


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def running() -> AsyncGenerator[Machine]:
    machine = Machine()
    controllers = [
        OSRootController(),
        CertSANsController(),
        ApiCertificatesController(machine.sign),
        TrustdCertificatesController(),
    ]
    check_controllers(controllers)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, machine.state, controllers)
        yield machine
        nursery.cancel_scope.cancel()


def names_of(pem: bytes) -> tuple[set[str], set[str]]:
    extension = parse_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    names = extension.value
    return set(names.get_values_for_type(x509.DNSName)), {
        str(ip) for ip in names.get_values_for_type(x509.IPAddress)
    }


async def test_a_control_plane_node_issues_for_itself() -> None:
    async with running() as machine:
        await machine.configure(config())
        assert await machine.api() is None
        await machine.name("cp-1", "example.org")
        assert await machine.api() is None
        await machine.address("10.5.0.2", "fd00::2")
        api = await machine.api()
        assert api is not None
        server, client = parse_certificate(api.server.crt), parse_certificate(api.client.crt)
        for certificate in (server, client):
            certificate.verify_directly_issued_by(CA.certificate)
            assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=24)
        assert server.subject.rfc4514_string() == "CN=cp-1.example.org"
        assert names_of(api.server.crt) == (
            {"cp-1", "cp-1.example.org", "api.example.org"},
            {"10.5.0.2", "fd00::2", "192.0.2.9"},
        )
        assert organizations_of(client.subject) == ["os:impersonator"]
        assert [ca.crt for ca in api.accepted_c_as] == [OTHER.crt, CA.crt]
        assert not api.skip_verifying_client_cert
        trustd = await machine.trustd()
        assert trustd is not None
        assert names_of(trustd.server.crt) == names_of(api.server.crt)
        assert machine.requests == []


async def test_a_worker_calls_the_control_plane() -> None:
    async with running() as machine:
        await machine.configure(config(worker=True))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        api = await machine.api()
        assert api is not None
        (request,) = machine.requests
        assert request.endpoints == ("10.5.0.2",)
        assert request.token == "abcdef.0123456789abcdef"
        assert request.authorities == (OTHER.crt, CA.crt)
        assert not api.client.crt
        assert names_of(api.server.crt) == ({"worker-1", "api.example.org"}, {"10.5.0.3", "192.0.2.9"})
        assert [ca.crt for ca in api.accepted_c_as] == [OTHER.crt, CA.crt]
        assert await machine.trustd() is None
        root = (await machine.state.get(*ids.OS_ROOT_SECRET)).spec
        assert not root.HasField("issuing_ca")


async def test_what_another_authority_has_signed_is_not_served() -> None:
    async with running() as machine:
        machine.authority = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
        await machine.configure(config(worker=True))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        assert await machine.api() is None
        assert machine.requests


async def test_a_certificate_for_another_key_is_not_served() -> None:
    async with running() as machine:
        machine.signed = CA.issue(dns_names=["worker-1"], usages=Usage.SERVER).crt
        await machine.configure(config(worker=True))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        assert await machine.api() is None
        assert machine.requests


async def test_a_change_of_names_makes_a_new_server_certificate_only() -> None:
    async with running() as machine:
        await machine.configure(config())
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        before = await machine.api()
        await machine.address("10.5.0.2", "10.5.0.9")
        after = await machine.api()
        assert before is not None
        assert after is not None
        assert before.server.crt != after.server.crt
        assert before.client.crt == after.client.crt
        assert "10.5.0.9" in names_of(after.server.crt)[1]


async def test_the_addresses_of_pods_are_in_no_certificate() -> None:
    async with running() as machine:
        await machine.configure(config())
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        before = await machine.api()
        for name in ("accumulative", "current"):
            await machine.address("10.5.0.2", "10.244.0.1", id=name)
        after = await machine.api()
        assert before is not None
        assert after is not None
        assert before.server.crt == after.server.crt


async def test_another_ca_makes_all_of_it_new() -> None:
    async with running() as machine:
        await machine.configure(config())
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        before = await machine.api()
        await machine.configure(config(ca=OTHER))
        after = await machine.api()
        assert before is not None
        assert after is not None
        parse_certificate(after.server.crt).verify_directly_issued_by(OTHER.certificate)
        assert before.client.crt != after.client.crt
        assert [ca.crt for ca in after.accepted_c_as] == [OTHER.crt]


async def test_without_config_there_are_no_secrets() -> None:
    async with running() as machine:
        await machine.configure(config())
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        assert await machine.api() is not None
        await machine.state.teardown(*ids.MACHINE_CONFIG)
        await machine.state.destroy(*ids.MACHINE_CONFIG)
        assert await machine.api() is None
        assert await machine.trustd() is None


@pytest.mark.parametrize(
    ("begin", "is_issued"),
    [(timedelta(days=365), False), (timedelta(minutes=10), True), (timedelta(days=-3650), False)],
    ids=["years behind", "minutes behind", "years ahead"],
)
async def test_an_unsynchronized_clock_counts_within_the_years_of_the_authority(
    begin: timedelta, *, is_issued: bool
) -> None:
    ca = CertificateAuthority.generate(
        KeyType.ED25519, organizations=["talos"], not_before=datetime.now(UTC) + begin
    )

    def status(*, synced: bool) -> Callable[[time.StatusSpec], None]:
        def change(spec: time.StatusSpec) -> None:
            spec.synced = synced

        return change

    async with running() as machine:
        await modify(machine.state, *ids.TIME_STATUS, status(synced=False))
        await machine.configure(config(ca=ca))
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        assert (await machine.api() is not None) is is_issued
        await modify(machine.state, *ids.TIME_STATUS, status(synced=True))
        assert await machine.api() is not None


def _is_current(age: timedelta, now: datetime) -> bool:
    pair = CA.issue(dns_names=["a"], not_before=now - age)
    pem = secrets.APICertsSpec()
    pem.server.crt, pem.server.key = pair.crt, pair.key
    return is_current(pem.server, secrets.CertSANSpec(dns_names=["a"]), [OTHER.crt, CA.crt], now=now)


@pytest.mark.parametrize(
    ("age", "current"),
    [
        (timedelta(0), True),
        (timedelta(hours=11, minutes=59), True),
        (timedelta(hours=12, seconds=1), False),
        (timedelta(hours=30), False),
        (timedelta(hours=-1), False),
    ],
)
def test_certificates_are_renewed_at_half_their_life(age: timedelta, *, current: bool) -> None:
    assert _is_current(age, datetime.now(UTC).replace(microsecond=0)) is current


async def test_an_old_certificate_is_renewed_as_time_goes_by(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as machine:
        await machine.configure(config())
        await machine.name("cp-1")
        await machine.address("10.5.0.2")
        before = await machine.api()
        monkeypatch.setattr("talos.process.renewal.RENEWAL", 0.0)
        await trio.sleep(601)
        after = await machine.api()
        assert before is not None
        assert after is not None
        assert before.server.crt != after.server.crt


@pytest.mark.parametrize(
    ("begin", "text"),
    [
        (timedelta(seconds=50), ""),
        (timedelta(hours=-23), ""),
        (timedelta(hours=3, minutes=5, seconds=30), "is 3 h 5 min ahead of this node's"),
        (timedelta(days=400, hours=1), "is 400 days ahead of this node's"),
        (timedelta(days=-2), "is 2 days behind this node's"),
    ],
)
def test_clocks_that_differ_are_named(begin: timedelta, text: str) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    certificate = parse_certificate(CA.issue(dns_names=["a"], not_before=now + begin).crt)
    if not text:
        check_clocks(certificate, now=now)
        return
    with pytest.raises(UserError, match=text):
        check_clocks(certificate, now=now)


async def test_a_worker_follows_the_rotation_of_its_authority(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as machine:
        await machine.configure(config(worker=True))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        before = await machine.api()
        assert before is not None
        assert len(machine.requests) == 1
        # The control plane still signs with the CA before: its certificate stays until the new one's comes.
        await machine.configure(config(worker=True, ca=OTHER, accepted=CA))
        during = await machine.api()
        assert during is not None
        assert during.server == before.server
        assert len(machine.requests) == 2
        await machine.configure(config(worker=True, ca=OTHER, accepted=CA) + b"# the same\n")
        await settle()
        assert len(machine.requests) == 2
        machine.authority = OTHER
        await trio.sleep(2)
        after = await machine.api()
        assert after is not None
        assert is_current(after.server, None, [OTHER.crt])
        await trio.sleep(2000)
        assert len(machine.requests) == 3


async def test_a_worker_whose_control_plane_signs_with_another_authority_requests_ever_more_rarely(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as machine:
        await machine.configure(config(worker=True, ca=OTHER, accepted=CA))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        before = await machine.api()
        assert before is not None
        await trio.sleep(510)  # 1 + 2 + 4 + ... + 256 s
        assert len(machine.requests) == 9
        await trio.sleep(520)  # the check of the age in between begins no interval anew
        assert len(machine.requests) == 11
        await trio.sleep(5480)
        assert len(machine.requests) <= 20  # one in ten minutes
        after = await machine.api()
        assert after is not None
        assert after.server == before.server


async def test_a_worker_accepts_authorities_without_another_certificate() -> None:
    async with running() as machine:
        await machine.configure(config(worker=True))
        await machine.name("worker-1")
        await machine.address("10.5.0.3")
        before = await machine.api()
        third = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
        await machine.configure(config(worker=True, accepted=third))
        after = await machine.api()
        assert before is not None
        assert after is not None
        assert after.server == before.server
        assert [ca.crt for ca in after.accepted_c_as] == [third.crt, CA.crt]
