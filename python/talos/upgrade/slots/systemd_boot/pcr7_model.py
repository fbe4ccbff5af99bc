"""The value that PCR 7 will have at a later start, computed from what was measured for this one.

Firmware measures its databases into PCR 7, and, of these, each certificate by which it has started a program,
once (TCG "PC Client Platform Firmware Profile Specification", section 3.3.4.8; EDK II's Tcg2Dxe and
DxeImageVerificationLib). The present events are taken from the log, with other contents of databases and
other certificates at their end.

There is a forecast only where the present events are explained to the last one: by the databases, and by the
certificates that systemd-boot and the UKI which run were verified by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from talos.pki.authenticode import is_issued
from talos.system.efi_signatures import X509, add_update, parse_signatures
from talos.system.efi_variables import IMAGE_SECURITY, EfiVariables
from talos.system.tpm.event_log import (
    AUTHORITY,
    DRIVER_CONFIG,
    Event,
    MeasuredVariable,
    make_variable_event,
    parse_variable,
    replay,
)
from talos.upgrade.slots.systemd_boot.databases import DB, DBX, Updates, find_changed

PCR = 7
_VENDOR = UUID(IMAGE_SECURITY).bytes_le

type Chain = Sequence[Sequence[x509.Certificate]]
"""The programs of a start in their order, each by the certificates in its signatures."""
type Contents = Mapping[str, bytes]
"""Databases by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pcr7Model:
    """The databases as they were measured, and all events but those of the programs that run.

    There are several such ``prefixes`` where the certificate of one may have verified a card's program, too.
    """

    contents: Contents
    prefixes: Sequence[Sequence[Event]]

    def find_values(self, contents: Contents, chain: Chain) -> Sequence[bytes]:
        """The values that PCR 7 may have with these databases and programs. ValueError where unknown."""
        authorities = _list_authorities(chain, contents[DB])
        found = (replay(_measure(_replace(prefix, contents), authorities)) for prefix in self.prefixes)
        return list(dict.fromkeys(found))


def make_model(events: Sequence[Event], running: Chain) -> Pcr7Model:
    """The model by the events of this start. ValueError where these can't be explained.

    ``running`` are systemd-boot and the UKI that run.
    """
    contents = {name: _find_content(events, name) for name in (DB, DBX)}
    authorities = _list_authorities(running, contents[DB])
    prefixes = [
        events[:end] for end in range(len(events) + 1) if _measure(events[:end], authorities) == events
    ]
    if not prefixes:
        raise ValueError("the log has other certificates than those of the systemd-boot and the UKI that run")
    return Pcr7Model(contents=contents, prefixes=prefixes)


def read_contents(databases: EfiVariables, updates: Updates) -> Contents:
    """The databases as they will be with these updates. ValueError for damaged ones, OSError."""
    contents = {name: databases.read(name) or b"" for name in (DB, DBX)}
    return contents | {
        name: add_update(contents[name], updates[name]) for name in find_changed(databases, updates)
    }


def _find_content(events: Sequence[Event], name: str) -> bytes:
    """What a database had when it was measured."""
    found = [event for event in events if _is_database(event, name)]
    if len(found) != 1:
        raise ValueError(f"the log has {len(found)} events of {name}")
    variable = parse_variable(found[0].data)
    if make_variable_event(PCR, DRIVER_CONFIG, variable) != found[0]:
        raise ValueError(f"the log's event of {name} has another digest than its data")
    return variable.content


def _is_database(event: Event, name: str) -> bool:
    """Whether an event is that of a database, by the letters that it has in firmware."""
    if event.kind != DRIVER_CONFIG:
        return False
    try:
        variable = parse_variable(event.data)
    except ValueError:
        return False
    return (variable.vendor, variable.name) == (_VENDOR, name)


def _replace(events: Sequence[Event], contents: Contents) -> Sequence[Event]:
    """The events with these databases."""
    changed = {name: _make_event(DRIVER_CONFIG, name, content) for name, content in contents.items()}
    return [
        next((new for name, new in changed.items() if _is_database(event, name)), event) for event in events
    ]


def _measure(events: Sequence[Event], authorities: Sequence[Event]) -> Sequence[Event]:
    """The events, and then each of the certificates that is not among them yet."""
    found = list(events)
    for event in authorities:
        if event not in found:
            found.append(event)
    return found


def _list_authorities(chain: Chain, database: bytes) -> Sequence[Event]:
    return [_make_event(AUTHORITY, DB, _find_authority(program, database)) for program in chain]


def _find_authority(certificates: Sequence[x509.Certificate], database: bytes) -> bytes:
    """The entry of db by which firmware verifies a program with these certificates.

    ValueError unless it is the only one that could be: which one firmware takes of several is its own matter.
    """
    found = {
        entry.owner + entry.data
        for entry in parse_signatures(database)
        if entry.kind == X509 and _has_issued(entry.data, certificates)
    }
    if len(found) != 1:
        raise ValueError(f"db has {len(found)} certificates by which a program may be verified")
    return found.pop()


def _has_issued(data: bytes, certificates: Sequence[x509.Certificate]) -> bool:
    try:
        authority = x509.load_der_x509_certificate(data)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return any(is_issued(certificate, authority) for certificate in certificates)


def _make_event(kind: int, name: str, content: bytes) -> Event:
    variable = MeasuredVariable(vendor=_VENDOR, name=name, content=content)
    return make_variable_event(PCR, kind, variable)
